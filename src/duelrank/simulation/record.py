"""Defines `Record`, the result of one run."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms import Projected
from duelrank.errors import MissingExtra
from duelrank.kernels.elementary import exps, log
from duelrank.kernels.ranking import linear_scores
from duelrank.kernels.span import norm
from duelrank.learner import Learner
from duelrank.metrics import DISCOUNT, online_performance
from duelrank.registry import spell
from duelrank.simulation.guarded import NO_GUARD, GuardHistory
from duelrank.simulation.spec import RunSpec
from duelrank.types import Weights

if TYPE_CHECKING:
    import pandas

__all__ = ["FIRST", "Record", "data_frame"]

#: The lists of ``online_first``, the mean metric of what the first users see.
FIRST = 1_000


@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """The result of one run.

    Parameters
    ----------
    spec
        The run.
    online
        (impressions,) the metric of every shown list.
    checkpoints, offline
        The numbers of impressions after which the weights were evaluated, and the metric at each.
    update_norms
        (impressions,) the norm of the change of the weights after each impression; 0 if they did not change.
    trajectory
        (checkpoints, n_features) the weights at each checkpoint.
    seconds
        Time of the learning loop, including the simulated user.
    evaluation_seconds
        Time of evaluating the weights at the checkpoints, not part of ``seconds``.
    learner
        The learner after the last impression; None in records of experiments, which keep numbers only.
    guard
        What the guard has seen and done; None without a guard.
    device
        What it was made on: "cpu", or the accelerator on which it ran with others in lockstep.

    Examples
    --------
    >>> from duelrank import simulate
    >>> record = simulate("mgd-dsp", "synthetic(n_queries=20)", "navigational", impressions=100)
    >>> record.checkpoints.tolist()[-3:], record.offline[-3:].round(2).tolist()
    ([56, 75, 100], [0.78, 0.75, 0.75])
    >>> round(record.online_performance, 1)
    42.8
    """

    spec: RunSpec
    online: NDArray[np.float64]
    checkpoints: NDArray[np.int64]
    offline: NDArray[np.float64]
    update_norms: NDArray[np.float64]
    trajectory: NDArray[np.float64]
    seconds: float
    evaluation_seconds: float
    learner: Learner | None = None
    guard: GuardHistory | None = None
    device: str = "cpu"

    @property
    def weights(self) -> Weights:
        """The final weights."""
        final: Weights = self.trajectory[-1]
        return final

    @property
    def online_performance(self) -> float:
        """Discounted sum of the metric over all shown lists, as in the paper's first table."""
        return online_performance(self.online)

    @property
    def offline_performance(self) -> float:
        """Mean metric of the final weights over the held-out queries, as in the paper's second table."""
        return float(self.offline[-1])

    def cosines(self, reference: Weights) -> NDArray[np.float64]:
        """Return the cosine between the weights at each checkpoint and a reference; 0 if the weights are zero."""
        lengths = np.linalg.norm(self.trajectory, axis=1) * norm(reference)
        along: NDArray[np.float64] = linear_scores(reference, self.trajectory)
        return np.asarray(np.divide(along, lengths, out=np.zeros(len(along)), where=lengths > 0.0))

    def row(self, reference: Weights | None = None, data: str = "") -> dict[str, Any]:
        """Return the run as one flat row of plain values, for JSON, stores and frames; curves have a value per checkpoint.

        Parameters
        ----------
        reference
            Weights to compare the learned ones with; without them ``cosine_curve`` is empty.
        data
            A fingerprint of the data of the fold.
        """
        spec, algorithm = self.spec, self.spec.algorithm
        return {
            "id": spec.id,
            "digest": spec.digest,
            "algorithm": spell(algorithm),
            "base": spell(algorithm.base) if isinstance(algorithm, Projected) else "",
            "recipe": repr(algorithm),
            "dataset": spell(spec.dataset),
            "user": spell(spec.user),
            "fold": spec.fold,
            "seed": spec.seed,
            "streams": spec.streams,
            "impressions": spec.impressions,
            "length": spec.length,
            "metric": repr(spec.metric),
            "split": spec.split,
            "data": data,
            "online_performance": self.online_performance,
            "offline_performance": self.offline_performance,
            "updates": int(np.count_nonzero(self.update_norms)),
            "seconds": self.seconds,
            "evaluation_seconds": self.evaluation_seconds,
            "checkpoints": self.checkpoints.tolist(),
            "offline_curve": self.offline.tolist(),
            "online_curve": self._online_curve().tolist(),
            "cosine_curve": [] if reference is None else self.cosines(reference).tolist(),
            "online_mean": float(self.online.mean()),
            "online_first": float(self.online[:FIRST].mean()),
            "log": "" if spec.log is None else spell(spec.log),
            "device": self.device,
            **self._guard_columns(),
        }

    def _guard_columns(self) -> dict[str, Any]:
        if self.guard is None or self.spec.guard is None:
            return dict(NO_GUARD)
        return {"guard": spell(self.spec.guard), **self.guard.columns(self.spec.guard.harm_after, self.online)}

    def _online_curve(self) -> NDArray[np.float64]:
        """Return the online performance up to each checkpoint."""
        discounts: NDArray[np.float64] = exps(log(DISCOUNT) * np.arange(self.online.size, dtype=np.float64))
        sums = np.cumsum(self.online * discounts)
        return np.asarray(sums[self.checkpoints - 1])

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame with one line per checkpoint."""
        columns = {"impressions": self.checkpoints, "offline": self.offline, "online": self._online_curve()}
        return data_frame(columns)

    def __repr__(self) -> str:
        online, offline = f"{self.online_performance:.2f}", f"{self.offline_performance:.4f}"
        return f"Record({self.spec.id}: online {online}, offline {offline}, {self.spec.metric!r})"

    def _repr_html_(self) -> str:
        shown = {
            "run": self.spec.id,
            "metric": repr(self.spec.metric),
            "impressions": f"{self.spec.impressions:,}",
            "online performance": f"{self.online_performance:.2f}",
            "offline performance": f"{self.offline_performance:.4f}",
            "seconds": f"{self.seconds:.2f}",
        }
        rows = (f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in shown.items())
        return f"<table>{''.join(rows)}</table>"


def data_frame(content: Any) -> pandas.DataFrame:
    """Return a pandas data frame of columns or of records; pandas is imported only here."""
    try:
        import pandas
    except ImportError:
        raise MissingExtra("to_pandas needs pandas: pip install pandas") from None
    return pandas.DataFrame(content)
