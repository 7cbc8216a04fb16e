"""Examination by the dynamic Bayesian network click model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from duelrank.kernels import click_models as kernel
from duelrank.projection.click_model import ClickModel, Table
from duelrank.registry import Between, register
from duelrank.types import Clicks, Features, Ranking

__all__ = ["DynamicBayesian"]


@register
@dataclass(frozen=True, repr=False)
class DynamicBayesian(ClickModel):
    """Users go from the top down; a clicked document may satisfy, then they stop, else they persevere, clicked or not.

    Parameters
    ----------
    perseverance
        P(go on | not satisfied), the paper's γ.
    satisfaction
        P(satisfied | clicked). The paper has one per document; here it is one number for all, so that memory stays bounded.

    References
    ----------
    Chapelle and Zhang, "A dynamic Bayesian network click model for web search ranking" (WWW 2009).
    """

    perseverance: Annotated[float, Between(0.0, 1.0)] = 0.9
    satisfaction: Annotated[float, Between(0.0, 1.0)] = 0.5

    def chances(self) -> list[float]:
        """Perseverance and satisfaction."""
        return [self.perseverance, self.satisfaction]

    @staticmethod
    def step(
        features: Features, ranking: Ranking, clicks: Clicks, documents: Table, users: Table, forgetting: float
    ) -> tuple[Table, Table, Table]:
        """From the top down, until satisfied or out of patience."""
        tables: tuple[Table, Table, Table] = kernel.dynamic_bayesian(
            features, ranking, clicks, documents, users, forgetting
        )
        return tables
