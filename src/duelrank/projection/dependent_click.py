"""Infers examination by the dependent click model."""

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
    """Users scan from the top; after a click they continue with a probability that depends on the position.

    What is learned of P(continue | clicked) may stay near the initial value. If no click follows a click, the user left, or saw
    nothing attractive: these can be told apart only as far as the documents below attract. In logs of a ranking that is upside
    down, with users who seldom click on bad documents, hardly any click follows another: where 0.30 was true, it stayed at 0.59
    to 0.88 from 0.9, and at 0.32 to 0.58 from 0.5 (``studies/learned_users.py``). Where it is known how far users looked, use
    `Observed`.

    Parameters
    ----------
    after_click
        P(continue | clicked) at every position; if it is learned, the initial value, with one parameter per position.
    after_skip
        P(continue | seen and not clicked), equal at every position. The paper's users never stop there: a value of 1 stays fixed.
        A smaller value is the initial value of a learned parameter.

    References
    ----------
    Guo, Liu and Wang, "Efficient multiple-click models in web search" (WSDM 2009).

    Examples
    --------
    Users read on to a click, after which half of them leave. That nothing was clicked below makes this more likely:

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query
    >>> from duelrank.projection import DependentClick
    >>> shown = Impression(Query("shoes", np.ones((5, 1))), np.arange(5))
    >>> DependentClick(after_click=0.5).weights({}, shown, Feedback([0, 1, 0, 0, 0])).round(2).tolist()
    [1.0, 1.0, 0.26, 0.26, 0.26]
    """

    after_click: Annotated[float, Between(0.0, 1.0, tuned=(0.0, 1.0))] = 0.5
    after_skip: Annotated[float, Between(0.0, 1.0)] = 1.0

    def chances(self) -> list[float]:
        """Return P(continue | clicked) per position, then P(continue | not clicked)."""
        return [*[self.after_click] * POSITIONS, self.after_skip]

    @staticmethod
    def step(
        features: Features, ranking: Ranking, clicks: Clicks, documents: Table, users: Table, forgetting: float
    ) -> tuple[Table, Table, Table]:
        """Call the kernel of the dependent click model."""
        tables: tuple[Table, Table, Table] = kernel.dependent_click(
            features, ranking, clicks, documents, users, forgetting
        )
        return tables
