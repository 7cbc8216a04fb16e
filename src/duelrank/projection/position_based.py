"""Examination by the position-based model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from duelrank.kernels import click_models as kernel
from duelrank.projection.click_model import POSITIONS, ClickModel, Table
from duelrank.registry import Between, register
from duelrank.types import Clicks, Features, Ranking

__all__ = ["PositionBased"]


@register
@dataclass(frozen=True, repr=False)
class PositionBased(ClickModel):
    """Each position is seen with its own probability, whatever happens at the others; a seen document is clicked if it attracts.

    P(seen | no click) = p(1 − a) / (1 − pa). The first position is always seen: only the products p · a can be learned, so one of
    the factors has to be given.

    Most of it is hidden, so the estimate moves slowly away from the first guess. With a ``forgetting`` of 1 earlier lists still
    fade: t lists count as t^0.6. If all counted alike, the first guess would hold the estimate back for ever.

    Parameters
    ----------
    bias
        P(position i is seen) = i^−bias, or before anything is learned; 0 is a user who always sees the whole list.

    References
    ----------
    Craswell et al., "An experimental comparison of click position-bias models" (WSDM 2008).
    """

    bias: Annotated[float, Between(0.0, 10.0)] = 1.0

    def chances(self) -> list[float]:
        """P(seen), per position."""
        return [position**-self.bias for position in range(1, POSITIONS + 1)]

    @staticmethod
    def step(
        features: Features, ranking: Ranking, clicks: Clicks, documents: Table, users: Table, forgetting: float
    ) -> tuple[Table, Table, Table]:
        """Independent positions."""
        tables: tuple[Table, Table, Table] = kernel.position_based(
            features, ranking, clicks, documents, users, forgetting
        )
        return tables
