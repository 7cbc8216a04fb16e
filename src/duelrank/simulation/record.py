"""What a run leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.metrics import online_performance
from duelrank.registry import spell
from duelrank.simulation.spec import RunSpec
from duelrank.types import Weights

__all__ = ["Record"]


@dataclass(frozen=True, eq=False)
class Record:
    """The result of one run.

    Parameters
    ----------
    spec
        What was run.
    online
        (impressions,) the metric of every list that was shown.
    checkpoints, offline
        After how many impressions the weights were measured, and the metric there.
    update_norms
        (impressions,) how far each impression moved the weights; 0 where it did not.
    trajectory
        (checkpoints, n_features) the weights at each checkpoint.
    seconds
        Of the learning loop, users included.
    evaluation_seconds
        Of measuring the weights at the checkpoints, not part of ``seconds``.
    """

    spec: RunSpec
    online: NDArray[np.float64]
    checkpoints: NDArray[np.int64]
    offline: NDArray[np.float64]
    update_norms: NDArray[np.float64]
    trajectory: NDArray[np.float64]
    seconds: float
    evaluation_seconds: float

    @property
    def weights(self) -> Weights:
        """The final weights."""
        final: Weights = self.trajectory[-1]
        return final

    @property
    def online_ndcg(self) -> float:
        """Discounted sum of the metric over all shown lists, as in the paper's first table."""
        return online_performance(self.online)

    @property
    def offline_ndcg(self) -> float:
        """Mean metric of the final weights over the test queries, as in the paper's second table."""
        return float(self.offline[-1])

    def summary(self) -> dict[str, Any]:
        """Return the run in a few plain values, for JSON and tables."""
        spec = self.spec
        return {
            "algorithm": spell(spec.algorithm),
            "recipe": repr(spec.algorithm),
            "dataset": spell(spec.dataset),
            "fold": spec.fold,
            "user": spell(spec.user),
            "seed": spec.seed,
            "impressions": spec.impressions,
            "length": spec.length,
            "metric": repr(spec.metric),
            "split": spec.split,
            "online_ndcg": self.online_ndcg,
            "offline_ndcg": self.offline_ndcg,
            "mean_online_ndcg": float(self.online.mean()),
            "updates": int(np.count_nonzero(self.update_norms)),
            "seconds": self.seconds,
            "evaluation_seconds": self.evaluation_seconds,
            "impressions_per_second": spec.impressions / self.seconds,
        }
