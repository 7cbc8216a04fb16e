"""What is kept of a run: one flat row of plain values, small enough that ten thousand of them are no matter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms import Projected
from duelrank.metrics import DISCOUNT
from duelrank.registry import spell
from duelrank.simulation import Record
from duelrank.types import Weights

__all__ = ["cosines", "row"]


def row(record: Record, reference: Weights | None = None, data: str = "") -> dict[str, Any]:
    """Return the columns of one run; curves are lists with a value per checkpoint.

    Parameters
    ----------
    reference
        Weights to compare the learned ones with; without them ``cosine_curve`` is empty.
    data
        The `fingerprint` of the fold that was run on.
    """
    spec = record.spec
    algorithm = spec.algorithm
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
        "impressions": spec.impressions,
        "length": spec.length,
        "metric": repr(spec.metric),
        "split": spec.split,
        "data": data,
        "online": record.online_ndcg,
        "offline": record.offline_ndcg,
        "updates": int(np.count_nonzero(record.update_norms)),
        "seconds": record.seconds,
        "evaluation_seconds": record.evaluation_seconds,
        "checkpoints": record.checkpoints.tolist(),
        "offline_curve": record.offline.tolist(),
        "online_curve": _running_reward(record).tolist(),
        "cosine_curve": [] if reference is None else cosines(record.trajectory, reference).tolist(),
    }


def cosines(trajectory: NDArray[np.float64], reference: Weights) -> NDArray[np.float64]:
    """Return the cosine of the angle between each row and the reference; 0 where a row is zero."""
    lengths = np.linalg.norm(trajectory, axis=1) * np.linalg.norm(reference)
    along: NDArray[np.float64] = trajectory @ reference
    return np.asarray(np.divide(along, lengths, out=np.zeros(len(along)), where=lengths > 0.0))


def _running_reward(record: Record) -> NDArray[np.float64]:
    """Discounted sum of the shown lists' metric up to each checkpoint."""
    rewards = np.cumsum(record.online * DISCOUNT ** np.arange(record.online.size))
    return np.asarray(rewards[record.checkpoints - 1])
