"""Implements document space projection, the paper's contribution."""

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
        None: each such document counts fully. A number: each counts by its weight, g = Xᵀ(XXᵀ + ridge · I)⁻¹Xu where the rows of X
        are the documents times √weight; remembered documents keep their weight. The smaller the ridge, the closer to the
        full projection.
    centred
        Subtract the mean of the examined documents of an impression first: a ranking depends only on differences. Remembered
        documents stay centred as in their own impression.

    References
    ----------
    Wang et al., "Variance reduction in gradient exploration for online learning to rank" (SIGIR 2019).

    Examples
    --------
    The direction that won also has a third feature, which no examined document has. That part is dropped:

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query
    >>> from duelrank.projection import DocumentSpace
    >>> shown = Impression(Query("shoes", [[0.2, 0.9, 0.0], [0.7, 0.3, 0.0]]), np.array([1, 0]))
    >>> winner = np.array([0.6, 0.0, 0.8])
    >>> DocumentSpace(rescale="none").project(winner, {}, shown, Feedback([False, True]))[0].round(6).tolist()
    [0.6, 0.0, 0.0]
    """

    # Weights of 0 and 1, as with the default examination, are the same for every threshold; and with a ridge no direction is
    # dropped. Tests show where each of them matters.
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
        """Return which shown positions count, to an impression with clicks."""
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
