"""Infers examination by the dynamic Bayesian network click model."""

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
    """Users scan from the top; they stop after a click that satisfies them, else they continue with a fixed probability.

    Parameters
    ----------
    perseverance
        P(continue | not satisfied), the paper's γ.
    satisfaction
        P(satisfied | clicked). The paper has one per document; here all documents share one number, so that memory is bounded.

    References
    ----------
    Chapelle and Zhang, "A dynamic Bayesian network click model for web search ranking" (WWW 2009).

    Examples
    --------
    Nothing was clicked: users may have lost patience anywhere, so each position is less likely to have been seen.

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query
    >>> from duelrank.projection import DynamicBayesian
    >>> shown = Impression(Query("shoes", np.ones((5, 1))), np.arange(5))
    >>> DynamicBayesian(perseverance=0.7).weights({}, shown, Feedback([0, 0, 0, 0, 0])).round(2).tolist()
    [1.0, 0.51, 0.27, 0.15, 0.09]
    """

    perseverance: Annotated[float, Between(0.0, 1.0, tuned=(0.1, 1.0))] = 0.9
    satisfaction: Annotated[float, Between(0.0, 1.0, tuned=(0.0, 1.0))] = 0.5

    def chances(self) -> list[float]:
        """Return perseverance and satisfaction."""
        return [self.perseverance, self.satisfaction]

    @staticmethod
    def step(
        features: Features, ranking: Ranking, clicks: Clicks, documents: Table, users: Table, forgetting: float
    ) -> tuple[Table, Table, Table]:
        """Call the kernel of the dynamic Bayesian network."""
        tables: tuple[Table, Table, Table] = kernel.dynamic_bayesian(
            features, ranking, clicks, documents, users, forgetting
        )
        return tables
