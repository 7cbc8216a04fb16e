"""BatchRank: batches of documents are split when clicks separate them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms.click_bandit import ClickBandit, Model
from duelrank.core.registry import Between, alias, register
from duelrank.core.types import Clicks, Impression, Ranking, Stream, Trace
from duelrank.kernels import bandits as kernel
from duelrank.kernels.bandits import kl_budget, kl_upper


@register
@dataclass(frozen=True, repr=False)
class BatchRank(ClickBandit):
    """Show documents at random within batches of positions; split a batch once clicks separate its documents.

    It makes only the assumptions about users that the cascade model and the position-based model share. All documents start in one
    batch. In stage ℓ of a batch each of its documents is counted ⌈16 · 4^ℓ · log T⌉ times; then, by KL-UCB bounds with
    log T + 3 log log T, the batch splits at the lowest position where all documents above are certainly better than all below. If
    there is none, documents that certainly belong below its positions are eliminated, and the next stage begins. The first stage at
    T = 10,000 counts each document 148 times: in thousands of impressions of hundreds of queries hardly any batch splits.

    A batch with as many documents as positions that cannot be split yet also continues with its next stage; otherwise its order
    would never be learned. Feedback counts only if its batch is still in the stage for which the list was made, and only for
    documents that are still the least counted ones. The model of a query has the length of the first list from which it learns: a
    shorter list shows the top of the model, a longer one is filled with other documents at random, and clicks on those are ignored.

    Parameters
    ----------
    horizon
        Expected number of impressions of one query (the paper's T).

    References
    ----------
    Zoghi et al., "Online learning to rank in stochastic click models" (ICML 2017).

    Examples
    --------
    Documents are shuffled until clicks separate them. The number of the first and last 50 lists that begin with the best:

    >>> from duelrank import Feedback, Learner, Query
    >>> learner, query, first = Learner("BatchRank(horizon=10)", n_features=1), Query("shoes", [[1.0]] * 4), []
    >>> for _ in range(400):
    ...     shown = learner.rank(query)
    ...     learner.learn(shown, Feedback(shown.ranking == 2))
    ...     first.append(int(shown.ranking[0] == 2))
    >>> sum(first[:50]), sum(first[-50:])
    (27, 50)
    """

    rows: ClassVar[int] = 7

    horizon: Annotated[int, Between(1, 1_000_000_000)] = 10_000

    def fresh(self, n_documents: int, length: int) -> Model:
        """Return a model with one batch of all documents."""
        model = np.zeros((self.rows, n_documents), np.int64)
        model[kernel.POSITIONS, 0] = length
        return model

    def show(self, model: Model, rounds: int, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Fill each batch's positions with its least counted documents."""
        ranking, batches = kernel.display(model, length, stream)
        return ranking, {"batches": batches}

    def count(self, model: Model, impression: Impression, clicks: Clicks) -> Model:
        """Count the clicks, and end the stages that are complete."""
        after: Model = kernel.collect(model, impression.ranking, clicks, impression.trace["batches"])
        while (first := kernel.complete(after, self.horizon)) >= 0:
            _end_stage(after, first, kl_budget(self.horizon))
        return after

    def attraction(self, model: Model) -> NDArray[np.float64]:
        """Sort by batch, then by the click rate over all stages; eliminated documents come last."""
        batch, seen, clicked = model[kernel.BATCH], model[kernel.ALL_SEEN], model[kernel.ALL_CLICKED]
        rates = clicked / np.maximum(seen, 1)
        values: NDArray[np.float64] = 0.5 * rates - np.where(batch < 0, model.shape[1], batch)
        return values


def _end_stage(model: Model, first: int, budget: float) -> None:
    """Split a batch or, if no split is certain, eliminate documents and begin the next stage; in place."""
    documents = np.flatnonzero(model[kernel.BATCH] == first)
    # All were counted equally often, so both bounds are in the order of the clicks.
    documents = documents[np.argsort(-model[kernel.CLICKED, documents], kind="stable")]
    positions, seen = int(model[kernel.POSITIONS, first]), int(model[kernel.SEEN, documents[0]])
    rates = model[kernel.CLICKED, documents] / seen
    upper = np.array([kl_upper(rate, budget / seen) for rate in rates])
    # By rounding, the lower bound may be above the rate.
    lower = np.array([min(rate, 1.0 - kl_upper(1.0 - rate, budget / seen)) for rate in rates])
    splits = [k for k in range(1, positions) if lower[k - 1] > upper[k]]
    if splits:
        lowest = splits[-1]
        model[kernel.BATCH, documents[lowest:]] = first + lowest
        model[kernel.POSITIONS, [first, first + lowest]] = lowest, positions - lowest
        model[kernel.STAGE, first] = 0
    else:
        model[kernel.BATCH, documents[upper < lower[positions - 1]]] = -1
        model[kernel.STAGE, first] += 1
    model[kernel.SEEN, documents] = model[kernel.CLICKED, documents] = 0


alias("batchrank", BatchRank())
