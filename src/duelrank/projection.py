"""Stage 6: estimates which shown documents were examined, and projects the gradient onto their span."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidValue
from duelrank.core.memory import replaced
from duelrank.core.registry import Between, Part, register
from duelrank.core.types import Clicks, Features, Feedback, Gradient, Impression, Memory, Ranking
from duelrank.kernels import projection as kernel
from duelrank.kernels.elementary import log, power
from duelrank.kernels.inference import last_click
from duelrank.kernels.updates import is_zero

Table: TypeAlias = NDArray[np.float64]
Tables: TypeAlias = tuple[
    Table, Table, Table
]  # P(seen | clicks) per position, the table of documents, the table of users

POSITIONS = 20  # number of positions with their own parameters; lower positions share the last ones
BELIEF = 10.0  # weight of the initial parameters, in observations
_GAPS = 30  # number of distances with their own column; longer distances share the last column
_RESCALE = {"none": 0, "unit": 1, "preserve": 2}


@dataclass(frozen=True, repr=False)
class Examination(Part, ABC):
    """Estimate which shown positions the user has examined."""

    kind: ClassVar[str] = "examination"
    learning_only: ClassVar[tuple[str, ...]] = ("*",)

    @abstractmethod
    def weights(self, memory: Memory, impression: Impression, feedback: Feedback) -> NDArray[np.float64]:
        """Return a weight in [0, 1] per shown position: the probability that it was examined."""

    def observe(self, memory: Memory, impression: Impression, feedback: Feedback) -> Memory:
        """Return the memory after an impression, with or without clicks; by default it does not change."""
        return memory


@register
@dataclass(frozen=True, repr=False)
class LastClick(Examination):
    """All positions down to the lowest click were examined, and a few beyond; none if there was no click.

    Parameters
    ----------
    beyond
        Number of positions after the lowest click (the paper's k). The published code ends one earlier than the paper's text:
        ``beyond=2`` reproduces it.

    References
    ----------
    Joachims et al., "Accurately interpreting clickthrough data as implicit feedback" (SIGIR 2005).

    Examples
    --------
    The second of seven documents was clicked: the user has seen it, the one above, and probably three more.

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query
    >>> from duelrank.projection import LastClick
    >>> shown = Impression(Query("shoes", np.ones((7, 1))), np.arange(7))
    >>> LastClick(beyond=3).weights({}, shown, Feedback([0, 1, 0, 0, 0, 0, 0])).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    """

    beyond: Annotated[int, Between(0, 10_000, tuned=(0, 9))] = 3

    def weights(self, memory: Memory, impression: Impression, feedback: Feedback) -> NDArray[np.float64]:
        """Return 1 down to the last click + beyond."""
        last = last_click(feedback.clicks)
        return _top(last + self.beyond if last else 0, feedback.clicks.shape[0])


@register
@dataclass(frozen=True, repr=False)
class AdaptiveLastClick(Examination):
    """`LastClick` with a learned k: positions beyond the lowest click count if the probability that they were seen is high enough.

    Users who continue after a click sometimes click again; those who stop do not. The click rate at each distance below a click,
    relative to the click rate where no click came before (those users are assumed to examine everything), gives the probability
    that a position at that distance was seen although it was not clicked. The model ignores features and assumes that all documents
    are equally attractive: in a well sorted list lower documents attract less, so k tends to be too small.

    Parameters
    ----------
    level
        The minimum probability of having been seen.
    beyond
        The initial k; it counts as much as a few observed clicks.
    forgetting
        Factor on the weight of earlier observations after each new one: 0.999 remembers about the last thousand, 1 all of them.

    Examples
    --------
    Number of positions that count as seen after a click on the first: at the start, and after 300 users who clicked nothing else.

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query
    >>> from duelrank.projection import AdaptiveLastClick
    >>> shown, clicks = Impression(Query("shoes", np.ones((8, 1))), np.arange(8)), Feedback(np.arange(8) == 0)
    >>> examination, memory, counts = AdaptiveLastClick(), {}, []
    >>> for _ in range(300):
    ...     counts.append(int(examination.weights(memory, shown, clicks).sum()))
    ...     memory = examination.observe(memory, shown, clicks)
    >>> counts[0], counts[-1]
    (4, 1)
    """

    level: Annotated[float, Between(0.0, 1.0, tuned=(0.0, 1.0))] = 0.25
    beyond: Annotated[int, Between(0, 10_000, tuned=(0, 9))] = 3
    forgetting: Annotated[float, Between(0.0, 1.0)] = 0.999

    def weights(self, memory: Memory, impression: Impression, feedback: Feedback) -> NDArray[np.float64]:
        """Return 1 down to the last click and the learned number of positions beyond it."""
        last, shown = last_click(feedback.clicks), feedback.clicks.shape[0]
        gaps = memory.get("examination_gaps", self._prior)
        return _top(last + kernel.reach(gaps, shown - last, self.level) if last else 0, shown)

    def observe(self, memory: Memory, impression: Impression, feedback: Feedback) -> Memory:
        """Count the distances between clicks."""
        gaps = kernel.count_gaps(feedback.clicks, memory.get("examination_gaps", self._prior), self.forgetting)
        return {**memory, "examination_gaps": gaps}

    @cached_property
    def _prior(self) -> NDArray[np.float64]:
        """Return the prior: half of all seen documents are clicked, and all are seen down to the initial k."""
        gaps = np.full((2, _GAPS + 1), BELIEF)
        gaps[0] = np.where(np.arange(_GAPS + 1) <= self.beyond, 0.5 * BELIEF, 0.0)
        return gaps


@register
@dataclass(frozen=True, repr=False)
class WholeList(Examination):
    """Every shown position was examined.

    Examples
    --------
    For short lists that fit on a screen:

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query
    >>> from duelrank.projection import WholeList
    >>> shown = Impression(Query("shoes", np.ones((5, 1))), np.arange(5))
    >>> WholeList().weights({}, shown, Feedback([1, 0, 0, 0, 0])).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """

    def weights(self, memory: Memory, impression: Impression, feedback: Feedback) -> NDArray[np.float64]:
        """Return 1 for every position."""
        return np.ones(feedback.clicks.shape[0])


@register
@dataclass(frozen=True, repr=False)
class Observed(Examination):
    """The first ``examined`` positions of the feedback were examined.

    In a simulation this is the oracle (the paper's DSP-GT); in production it needs viewport tracking.

    Examples
    --------
    The page reports that three results were on the screen:

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query
    >>> from duelrank.projection import Observed
    >>> shown = Impression(Query("shoes", np.ones((5, 1))), np.arange(5))
    >>> Observed().weights({}, shown, Feedback([1, 0, 0, 0, 0], examined=3)).tolist()
    [1.0, 1.0, 1.0, 0.0, 0.0]
    """

    def weights(self, memory: Memory, impression: Impression, feedback: Feedback) -> NDArray[np.float64]:
        """Return 1 for each position that was examined."""
        if feedback.examined is None:
            raise InvalidValue("Observed() needs the number of examined positions: give Feedback(clicks, examined=...)")
        return _top(feedback.examined, feedback.clicks.shape[0])


def _top(depth: int, length: int) -> NDArray[np.float64]:
    """Return the weights of a user who examined only the first positions."""
    weights = np.zeros(length)
    weights[:depth] = 1.0
    return weights


@dataclass(frozen=True, repr=False)
class ModelledExamination(Examination):
    """Examination by a click model: a seen document is clicked if it attracts; P(seen | all clicks) is exact.

    Parameters
    ----------
    attraction
        P(click | seen) of every document; the initial value if it is learned.
    forgetting
        None: the parameters stay as given. A number: online EM learns them from every impression, clicked or not, and each new
        observation multiplies the weight of earlier ones by it: 0.999 remembers about the last thousand, 1 all of them.
        Attraction is then a logistic regression on the features (a parameter per document would need unbounded memory); it can
        be separated from the effect of position because exploration shows documents at different positions.

    References
    ----------
    Wang et al., "Position bias estimation for unbiased learning to rank in personal search" (WSDM 2018), for regression EM; Cappé
    and Moulines, "On-line expectation-maximization algorithm for latent data models" (JRSS B 2009).
    """

    attraction: Annotated[float, Between(1e-6, 0.999999, tuned=(0.05, 0.95))] = 0.3
    forgetting: Annotated[float, Between(0.0, 1.0)] | None = None

    def weights(self, memory: Memory, impression: Impression, feedback: Feedback) -> NDArray[np.float64]:
        """Return P(seen | clicks) of each position, with the parameters from before this list."""
        return self._apply(memory, impression, feedback, -1.0)[0]

    def observe(self, memory: Memory, impression: Impression, feedback: Feedback) -> Memory:
        """Take one step of online EM; the memory does not change if the parameters are fixed."""
        if self.forgetting is None or not feedback.clicks.shape[0]:
            return memory
        _, documents, users = self._apply(memory, impression, feedback, self.forgetting)
        return {**memory, "examination_documents": documents, "examination_users": users}

    def _apply(self, memory: Memory, impression: Impression, feedback: Feedback, forgetting: float) -> Tables:
        features = impression.query.features
        documents = memory.get("examination_documents")
        if documents is None:
            documents = np.zeros((2, features.shape[1] + 1))
            documents[0, -1] = log(self.attraction / (1.0 - self.attraction))
        users = memory.get("examination_users", self._prior)
        return self.step(features, impression.ranking, feedback.clicks, documents, users, forgetting)

    @cached_property
    def _prior(self) -> Table:
        """Return successes and trials that represent the initial probabilities."""
        chances = np.array(self.chances())
        return BELIEF * np.array([chances, np.ones_like(chances)])

    @abstractmethod
    def chances(self) -> list[float]:
        """Return the initial probabilities of the model: one per column of the table of users."""

    @staticmethod
    @abstractmethod
    def step(
        features: Features, ranking: Ranking, clicks: Clicks, documents: Table, users: Table, forgetting: float
    ) -> Tables:
        """Call the kernel of the model: return P(seen | clicks) per position, and both tables after the list."""


@register
@dataclass(frozen=True, repr=False)
class PositionBased(ModelledExamination):
    """Each position is seen with its own probability, independently of the others; a seen document is clicked if it attracts.

    P(seen | no click) = p(1 − a) / (1 − pa). The first position is always seen: only the products p · a can be learned, so one of
    the factors has to be given.

    Most variables are hidden, so the estimate moves slowly away from the initial value. With a ``forgetting`` of 1 earlier lists
    still lose weight: t lists count as t^0.6. With equal weights the estimate would never leave the initial value.

    Parameters
    ----------
    bias
        P(position i is seen) = i^−bias; the initial value if it is learned. 0 is a user who always sees the whole list.

    References
    ----------
    Craswell et al., "An experimental comparison of click position-bias models" (WSDM 2008).

    Examples
    --------
    The fourth document was clicked, so it was seen; the others are judged by their positions alone:

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query
    >>> from duelrank.projection import PositionBased
    >>> shown = Impression(Query("shoes", np.ones((5, 1))), np.arange(5))
    >>> PositionBased(bias=1.0).weights({}, shown, Feedback([0, 0, 0, 1, 0])).round(2).tolist()
    [1.0, 0.41, 0.26, 1.0, 0.15]
    """

    bias: Annotated[float, Between(0.0, 10.0, tuned=(0.0, 3.0))] = 1.0

    def chances(self) -> list[float]:
        """Return P(seen) per position."""
        return [power(float(position), -self.bias) for position in range(1, POSITIONS + 1)]

    @staticmethod
    def step(
        features: Features, ranking: Ranking, clicks: Clicks, documents: Table, users: Table, forgetting: float
    ) -> Tables:
        """Call the kernel of the position-based model."""
        tables: Tables = kernel.position_based(features, ranking, clicks, documents, users, forgetting)
        return tables


@register
@dataclass(frozen=True, repr=False)
class DependentClick(ModelledExamination):
    """Users scan from the top; after a click they continue with a probability that depends on the position.

    The estimate of P(continue | clicked) may stay near the initial value. If no click follows a click, the user left or saw nothing
    attractive: these cases can be distinguished only as far as the documents below attract. In logs of a reversed ranking, with
    users who rarely click on bad documents, hardly any click follows another: with a true value of 0.30, the estimate stayed at
    0.59 to 0.88 from an initial 0.9, and at 0.32 to 0.58 from 0.5 (``studies/learned_users.py``). If it is known how far users
    looked, use `Observed`.

    Parameters
    ----------
    after_click
        P(continue | clicked) at every position; if it is learned, the initial value, with one parameter per position.
    after_skip
        P(continue | seen and not clicked), equal at every position. The paper's users never stop there: a value of 1 stays fixed.
        A smaller value is the initial value of a learned parameter.

    References
    ----------
    Guo, Liu and Wang, "Efficient multiple-click models in web search" (WSDM 2009).

    Examples
    --------
    Users read down to a click, after which half of them leave. No click below makes it more likely that they left:

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query
    >>> from duelrank.projection import DependentClick
    >>> shown = Impression(Query("shoes", np.ones((5, 1))), np.arange(5))
    >>> DependentClick(after_click=0.5).weights({}, shown, Feedback([0, 1, 0, 0, 0])).round(2).tolist()
    [1.0, 1.0, 0.26, 0.26, 0.26]
    """

    after_click: Annotated[float, Between(0.0, 1.0, tuned=(0.0, 1.0))] = 0.5
    after_skip: Annotated[float, Between(0.0, 1.0)] = 1.0

    def chances(self) -> list[float]:
        """Return P(continue | clicked) per position, then P(continue | not clicked)."""
        return [*[self.after_click] * POSITIONS, self.after_skip]

    @staticmethod
    def step(
        features: Features, ranking: Ranking, clicks: Clicks, documents: Table, users: Table, forgetting: float
    ) -> Tables:
        """Call the kernel of the dependent click model."""
        tables: Tables = kernel.dependent_click(features, ranking, clicks, documents, users, forgetting)
        return tables


@register
@dataclass(frozen=True, repr=False)
class DynamicBayesian(ModelledExamination):
    """Users scan from the top; they stop after a click that satisfies them, else they continue with a fixed probability.

    Parameters
    ----------
    perseverance
        P(continue | not satisfied), the paper's γ.
    satisfaction
        P(satisfied | clicked). The paper has one per document; here all documents share one number, so that memory is bounded.

    References
    ----------
    Chapelle and Zhang, "A dynamic Bayesian network click model for web search ranking" (WWW 2009).

    Examples
    --------
    Nothing was clicked: users may have lost patience anywhere, so each position is less likely to have been seen.

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query
    >>> from duelrank.projection import DynamicBayesian
    >>> shown = Impression(Query("shoes", np.ones((5, 1))), np.arange(5))
    >>> DynamicBayesian(perseverance=0.7).weights({}, shown, Feedback([0, 0, 0, 0, 0])).round(2).tolist()
    [1.0, 0.51, 0.27, 0.15, 0.09]
    """

    perseverance: Annotated[float, Between(0.0, 1.0, tuned=(0.1, 1.0))] = 0.9
    satisfaction: Annotated[float, Between(0.0, 1.0, tuned=(0.0, 1.0))] = 0.5

    def chances(self) -> list[float]:
        """Return perseverance and satisfaction."""
        return [self.perseverance, self.satisfaction]

    @staticmethod
    def step(
        features: Features, ranking: Ranking, clicks: Clicks, documents: Table, users: Table, forgetting: float
    ) -> Tables:
        """Call the kernel of the dynamic Bayesian network."""
        tables: Tables = kernel.dynamic_bayesian(features, ranking, clicks, documents, users, forgetting)
        return tables


@dataclass(frozen=True, repr=False)
class Projection(Part, ABC):
    """Project a gradient onto the directions that an impression has tested."""

    kind: ClassVar[str] = "projection"
    learning_only: ClassVar[tuple[str, ...]] = ("*",)

    @abstractmethod
    def project(
        self, gradient: Gradient, memory: Memory, impression: Impression, feedback: Feedback
    ) -> tuple[Gradient, Memory]:
        """Return the projected gradient and the new memory."""

    def examined(self, memory: Memory, impression: Impression, feedback: Feedback) -> NDArray[np.bool_] | None:
        """Return which shown positions count as examined; None if the projection does not use examination."""
        return None


@register
@dataclass(frozen=True, repr=False)
class DocumentSpace(Projection):
    """Project the gradient onto the span of the examined documents: clicks carry no information about other directions.

    With an orthonormal basis V of that span, g = V(Vᵀu); then gradient ← λ · rescale(g) + (1 − λ) · u. The scores of the examined
    documents are the same under w + u and w + g, and E|g|² is at most rank(V)/d instead of 1.

    Parameters
    ----------
    examination
        The model of which shown documents were examined.
    remembered
        Number of examined documents of earlier impressions that are added to the span (the paper's r); first in, first out.
    rescale
        The length of g: "unit" scales it to 1, as for the published tables; "none" does not change it, as in the paper's text;
        "preserve" scales it to the length of u.
    strength
        The paper's λ: 1 is the full projection, 0 the algorithm without it.
    basis
        The method to compute V: "qr" (fast) or "svd" (the paper's choice); both span the same space. The published code drops no
        directions: if documents are linearly dependent, its V also contains directions of rounding errors, outside their span.
    tolerance
        Directions below this share of the largest one are dropped; None is the usual max(rows, columns) · eps.
    threshold
        Documents count if their weight, the probability of having been examined, is above it; a click model gives no weight of 0.
    ridge
        None: each such document counts fully. A number: each counts by its weight, g = Xᵀ(XXᵀ + ridge · I)⁻¹Xu, where the rows of X
        are the documents times √weight; remembered documents keep their weight. The smaller the ridge, the closer to the full
        projection.
    centred
        Subtract the mean of the examined documents of an impression first: a ranking depends only on differences. Remembered
        documents stay centred as in their own impression.

    References
    ----------
    Wang et al., "Variance reduction in gradient exploration for online learning to rank" (SIGIR 2019).

    Examples
    --------
    The winning direction also has a component of the third feature, which no examined document has; it is removed:

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query
    >>> from duelrank.projection import DocumentSpace
    >>> shown = Impression(Query("shoes", [[0.2, 0.9, 0.0], [0.7, 0.3, 0.0]]), np.array([1, 0]))
    >>> winner = np.array([0.6, 0.0, 0.8])
    >>> DocumentSpace(rescale="none").project(winner, {}, shown, Feedback([False, True]))[0].round(6).tolist()
    [0.6, 0.0, 0.0]
    """

    # Weights of 0 and 1, as of the default examination, are the same for every threshold; with a ridge no direction is dropped.
    # Tests show where each of these fields has an effect.
    inert_fields: ClassVar[frozenset[str]] = frozenset({"basis", "threshold", "tolerance"})

    examination: Examination = LastClick()
    remembered: Annotated[int, Between(0, 10_000, tuned=(0, 10))] = 10
    rescale: Literal["none", "unit", "preserve"] = "unit"
    strength: Annotated[float, Between(0.0, 1.0, tuned=(0.0, 1.0))] = 1.0
    basis: Literal["qr", "svd"] = "qr"
    tolerance: Annotated[float, Between(0.0, 1.0)] | None = None
    threshold: Annotated[float, Between(0.0, 1.0)] = 0.0
    ridge: Annotated[float, Between(1e-12, 1e6, tuned=(1e-4, 10.0), log=True, none="low")] | None = None
    centred: bool = False

    def project(
        self, gradient: Gradient, memory: Memory, impression: Impression, feedback: Feedback
    ) -> tuple[Gradient, Memory]:
        """Return the projected gradient; documents of clicked impressions are then remembered."""
        known = memory
        seen = self.examination.observe(memory.get("examination", {}), impression, feedback)
        memory = replaced(memory, "examination", seen)
        clicked = last_click(feedback.clicks) > 0
        won = not is_zero(gradient)
        if not (clicked or won):
            return gradient, memory
        documents = self._documents(known, impression, feedback)
        if won:
            projected = self._projection_of(gradient, documents)
            gradient = kernel.rescaled_mix(gradient, projected, self.strength, _RESCALE[self.rescale])
        if clicked and self.remembered:
            memory = {**memory, "examined": documents[-self.remembered :].copy()}
        return gradient, memory

    def examined(self, memory: Memory, impression: Impression, feedback: Feedback) -> NDArray[np.bool_]:
        """Return which shown positions count as examined, for an impression with clicks."""
        weights = self.examination.weights(memory.get("examination", {}), impression, feedback)
        return weights > self.threshold

    def _documents(self, memory: Memory, impression: Impression, feedback: Feedback) -> Features:
        """Stack the remembered and the examined documents."""
        features = impression.query.features
        weights = self.examination.weights(memory.get("examination", {}), impression, feedback)
        seen = weights > self.threshold
        remembered = memory.get("examined")
        if remembered is None:
            remembered = np.empty((0, features.shape[1]))
        rows: Features = kernel.examined_rows(features, impression.ranking, seen, remembered)
        fresh = rows[remembered.shape[0] :]
        if self.centred and len(fresh):
            _centre(fresh, None if self.ridge is None else weights[seen])
        if self.ridge is not None:
            fresh *= np.sqrt(weights[seen])[:, np.newaxis]
        return rows

    def _projection_of(self, gradient: Gradient, documents: Features) -> Gradient:
        """Return the projection of the gradient, before rescaling."""
        projected: Gradient
        if self.ridge is not None:
            projected = kernel.ridge_project(gradient, documents, self.ridge)
        else:
            find = kernel.qr_basis if self.basis == "qr" else kernel.svd_basis
            projected = kernel.project(gradient, find(documents, -1.0 if self.tolerance is None else self.tolerance))
        return projected


def _centre(rows: Features, weights: NDArray[np.float64] | None) -> None:
    """Subtract the (weighted) mean, in place; without weights only the span of the rows matters.

    The first row is subtracted first, so that equal documents become exact zeros. Centred rows sum to zero: the first row adds
    nothing to the span of the others, and is left out so that rounding cannot make it an additional direction.
    """
    rows -= rows[0].copy()
    rows -= np.average(rows, axis=0, weights=weights)
    if weights is None:
        rows[0] = 0.0
