"""Infers examination by the position-based model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from duelrank.kernels import click_models as kernel
from duelrank.kernels.elementary import power
from duelrank.projection.click_model import POSITIONS, ClickModel, Table
from duelrank.registry import Between, register
from duelrank.types import Clicks, Features, Ranking

__all__ = ["PositionBased"]


@register
@dataclass(frozen=True, repr=False)
class PositionBased(ClickModel):
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
    ) -> tuple[Table, Table, Table]:
        """Call the kernel of the position-based model."""
        tables: tuple[Table, Table, Table] = kernel.position_based(
            features, ranking, clicks, documents, users, forgetting
        )
        return tables
