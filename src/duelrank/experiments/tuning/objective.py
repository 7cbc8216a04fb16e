"""Makes one number of what a recipe achieves: reward and validation quality, relative to the recipe the search begins with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidValue, UnknownName

__all__ = ["Cell", "Measured", "Objective", "Scores"]

#: A data set and a user, as texts.
Cell = tuple[str, str]

#: For each cell the runs as rows: reward (discounted sum over the shown lists), and quality on the validation queries.
Measured = Mapping[Cell, NDArray[np.float64]]


@dataclass(frozen=True)
class Scores:
    """What a recipe achieves, each relative to the reference; 1 is as good as that.

    Parameters
    ----------
    value
        The objective.
    reward, validation
        Means over cells of the mean over runs.
    worst_reward, worst_validation
        Means over cells of the worst run.
    """

    value: float
    reward: float
    validation: float
    worst_reward: float
    worst_validation: float


@dataclass(frozen=True)
class Objective:
    """The weighted mean of relative reward and relative validation quality; larger is better.

    In each cell (a data set and a user) both are divided by the mean of the reference, the recipe that the search begins with, over
    the same runs. So cells and measures count alike, whatever their scales, and 1.05 is five percent better than the reference.

    Parameters
    ----------
    reward, validation
        The weights of the two measures.
    worst
        How much the worst run of each cell counts, where the mean of its runs counts 1: a penalty for unsteady recipes.

    Examples
    --------
    >>> Objective.parse("reward=2, validation=1, worst=0.5")
    Objective(reward=2.0, validation=1.0, worst=0.5)
    >>> Objective.parse("validation")
    Objective(reward=0.0, validation=1.0, worst=0.0)
    """

    reward: float = 1.0
    validation: float = 1.0
    worst: float = 0.0

    def __post_init__(self) -> None:
        weights = asdict(self)
        if any(not 0.0 <= weight < float("inf") for weight in weights.values()) or not self.reward + self.validation:
            raise InvalidValue(
                f"the weights of an objective are numbers from 0 up, and reward or validation counts; got "
                f"{str(self) or 'none'}"
            )

    def __str__(self) -> str:
        return ", ".join(f"{name}={weight:g}" for name, weight in asdict(self).items() if weight)

    @classmethod
    def parse(cls, text: str) -> Objective:
        """Read ``reward``, ``validation`` or weights such as ``reward=2,validation=1,worst=0.5``; what is not named counts 0."""
        weights = dict.fromkeys(("reward", "validation", "worst"), 0.0)
        for item in filter(None, (piece.strip() for piece in text.split(","))):
            name, _, number = item.partition("=")
            if name.strip() not in weights:
                raise UnknownName.among("measure of an objective", name.strip(), weights)
            try:
                weights[name.strip()] = float(number) if number else 1.0
            except ValueError:
                raise InvalidValue(f"the weight of {name.strip()} must be a number, got {number!r}") from None
        return cls(**weights)

    def scores(self, measured: Measured, reference: Measured) -> Scores:
        """Return how a recipe compares with the reference over the same runs."""
        means = np.array([measured[cell].mean(axis=0) / _level(reference, cell) for cell in reference]).mean(axis=0)
        worst = np.array([measured[cell].min(axis=0) / _level(reference, cell) for cell in reference]).mean(axis=0)
        weights = np.array([self.reward, self.validation])
        value = weights @ (means + self.worst * worst) / (weights.sum() * (1.0 + self.worst))
        return Scores(float(value), *map(float, (*means, *worst)))


def _level(reference: Measured, cell: Cell) -> NDArray[np.float64]:
    level: NDArray[np.float64] = reference[cell].mean(axis=0)
    if not (level > 0.0).all():
        raise InvalidValue(
            f"the recipe that the search begins with earns nothing on {' with the user '.join(cell)}, so nothing can be "
            "relative to it: begin with a better one, or show more lists"
        )
    return level
