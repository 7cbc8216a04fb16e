"""Normalised discounted cumulative gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from duelrank.kernels import metrics as kernel
from duelrank.metrics.base import Metric
from duelrank.registry import register
from duelrank.types import Labels

__all__ = ["nDCG"]


@register
@dataclass(frozen=True, repr=False)
class nDCG(Metric):
    """DCG over the DCG of the best order, discount 1/log2(position + 1), position from 1; 0 if no document is relevant.

    Parameters
    ----------
    gain
        "exponential": 2^grade − 1, as in the learning-to-rank literature (``nDCG(dcg='exp-log2')`` in ir-measures).
        "linear": the grade itself, as in trec_eval and scikit-learn. The two differ: always state the gain with a result.

    References
    ----------
    Järvelin and Kekäläinen (TOIS 2002), with the gain of Burges et al. (ICML 2005).

    Examples
    --------
    The best of three documents is second. The list is worth two thirds of the best order, its first position nothing:

    >>> import numpy as np
    >>> from duelrank.metrics import nDCG
    >>> shown = np.array([0, 2, 1], np.int8)
    >>> round(nDCG().of(shown, labels=shown), 3), round((nDCG @ 1).of(shown, labels=shown), 3)
    (0.659, 0.0)
    """

    gain: Literal["exponential", "linear"] = "exponential"

    def of(self, shown: Labels, labels: Labels) -> float:
        """Return the nDCG of one list."""
        return float(kernel.ndcg(shown, labels, self.depth, self.gain == "exponential"))
