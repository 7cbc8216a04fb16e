"""Document space projection, the paper's contribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels import span as kernel
from duelrank.kernels.inference import last_click
from duelrank.kernels.updates import is_zero
from duelrank.memory import replaced
from duelrank.projection.base import Examination, Projection
from duelrank.projection.last_click import LastClick
from duelrank.registry import Between, register
from duelrank.types import Features, Feedback, Gradient, Impression, Memory

__all__ = ["DocumentSpace"]

_RESCALE = {"none": 0, "unit": 1, "preserve": 2}


@register
@dataclass(frozen=True, repr=False)
class DocumentSpace(Projection):
    """Project the gradient onto the span of the examined documents: a click test says nothing about anything outside of it.

    With an orthonormal basis V of that span, g = V(Vᵀu); then gradient ← λ · rescale(g) + (1 − λ) · u. The scores of the examined
    documents are the same under w + u and w + g, and E|g|² is at most rank(V)/d instead of 1.

    Parameters
    ----------
    examination
        Which of the shown documents were seen.
    remembered
        How many examined documents of earlier impressions join the span (the paper's r); first in, first out.
    rescale
        What becomes of the length of g: "unit" scales it to 1, as the published tables were made; "none" leaves it, as in the
        paper's text; "preserve" restores the length that u had.
    strength
        The paper's λ: 1 is the full projection, 0 the algorithm without it.
    basis
        How V is computed, "qr" (fast) or "svd" (the paper's choice); both span the same space. The published code drops nothing:
        where documents are linearly dependent, its V also has directions that are rounding and not in their span.
    tolerance
        Directions under this share of the largest one are dropped; None is the usual max(rows, columns) · eps.
    threshold
        Documents take part whose weight, the probability of having been seen, is above; a click model leaves no weight at 0.
    ridge
        None: each such document counts fully. A number: it counts by its weight, g = Xᵀ(XXᵀ + ridge · I)⁻¹Xu where the rows of X
        are the documents times √weight; remembered ones keep the weight that they had. The smaller the ridge, the nearer to the
        full projection.
    centred
        Subtract the mean of the examined documents of an impression first: a ranking depends on differences only. Remembered ones
        stay as their own impression centred them.

    References
    ----------
    Wang et al., "Variance reduction in gradient exploration for online learning to rank" (SIGIR 2019).
    """

    # Weights of 0 and 1, as of the default examination, are on the same sides of every threshold; and with a ridge no direction is
    # dropped. Where each does matter, a test shows.
    inert_fields: ClassVar[frozenset[str]] = frozenset({"basis", "threshold", "tolerance"})

    examination: Examination = LastClick()
    remembered: Annotated[int, Between(0, 10_000)] = 10
    rescale: Literal["none", "unit", "preserve"] = "unit"
    strength: Annotated[float, Between(0.0, 1.0)] = 1.0
    basis: Literal["qr", "svd"] = "qr"
    tolerance: Annotated[float, Between(0.0, 1.0)] | None = None
    threshold: Annotated[float, Between(0.0, 1.0)] = 0.0
    ridge: Annotated[float, Between(1e-12, 1e6)] | None = None
    centred: bool = False

    def project(
        self, gradient: Gradient, memory: Memory, impression: Impression, feedback: Feedback
    ) -> tuple[Gradient, Memory]:
        """Return the projected gradient; documents of clicked impressions are remembered after use."""
        known = memory
        seen = self.examination.observe(memory.get("examination", {}), impression, feedback)
        memory = replaced(memory, "examination", seen)
        clicked = last_click(feedback.clicks) > 0
        won = not is_zero(gradient)
        if not (clicked or won):
            return gradient, memory
        documents = self._documents(known, impression, feedback)
        if won:
            shadow = self._shadow(gradient, documents)
            gradient = kernel.rescaled_mix(gradient, shadow, self.strength, _RESCALE[self.rescale])
        if clicked and self.remembered:
            memory = {**memory, "examined": documents[-self.remembered :].copy()}
        return gradient, memory

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

    def _shadow(self, gradient: Gradient, documents: Features) -> Gradient:
        """The projection of the gradient, before any rescaling."""
        shadow: Gradient
        if self.ridge is not None:
            shadow = kernel.ridge_project(gradient, documents, self.ridge)
        else:
            find = kernel.qr_basis if self.basis == "qr" else kernel.svd_basis
            shadow = kernel.project(gradient, find(documents, -1.0 if self.tolerance is None else self.tolerance))
        return shadow


def _centre(rows: Features, weights: NDArray[np.float64] | None) -> None:
    """Subtract the (weighted) mean, in place; without weights only the span of the rows matters.

    The first row goes first, so that documents which are all alike leave zeros and not rounding. Centred rows sum to zero: the
    first adds nothing to the span of the others, and is left out of it lest rounding make it a direction of its own.
    """
    rows -= rows[0].copy()
    rows -= np.average(rows, axis=0, weights=weights)
    if weights is None:
        rows[0] = 0.0
