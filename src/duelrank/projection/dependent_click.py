"""Examination by the dependent click model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from duelrank.kernels import click_models as kernel
from duelrank.projection.click_model import POSITIONS, ClickModel, Table
from duelrank.registry import Between, register
from duelrank.types import Clicks, Features, Ranking

__all__ = ["DependentClick"]


@register
@dataclass(frozen=True, repr=False)
class DependentClick(ClickModel):
    """Users go from the top down and after a click go on with a probability that depends on the position.

    Parameters
    ----------
    after_click
        P(go on | clicked) at every position, or before anything is learned; one per position is learned.
    after_skip
        P(go on | seen and not clicked), the same at every position. The paper's users never stop there: 1, which learning leaves as
        it is. Less lets it be learned too.

    References
    ----------
    Guo, Liu and Wang, "Efficient multiple-click models in web search" (WSDM 2009).
    """

    after_click: Annotated[float, Between(0.0, 1.0)] = 0.5
    after_skip: Annotated[float, Between(0.0, 1.0)] = 1.0

    def chances(self) -> list[float]:
        """P(go on | clicked) per position, then P(go on | not clicked)."""
        return [*[self.after_click] * POSITIONS, self.after_skip]

    @staticmethod
    def step(
        features: Features, ranking: Ranking, clicks: Clicks, documents: Table, users: Table, forgetting: float
    ) -> tuple[Table, Table, Table]:
        """From the top down, by position."""
        tables: tuple[Table, Table, Table] = kernel.dependent_click(
            features, ranking, clicks, documents, users, forgetting
        )
        return tables
