"""What a comparison has found, and the tests behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import InvalidValue
from duelrank.interleave.checks import checked_count, place

__all__ = ["Result", "Tally"]

Counts: TypeAlias = NDArray[np.int64]  # (n_rankers, n_rankers)

_MARGIN = 1e-12  # a preference within rounding of zero is none


@dataclass(frozen=True, eq=False)
class Result:
    """Who was preferred to whom, how often, and whether that is more than chance.

    Parameters
    ----------
    rankers
        Their names, in the order of rows and columns.
    impressions, clicked
        How many lists were recorded, and how many of them had a click.
    wins
        In how many impressions the row was preferred to the column.
    credit
        By how much the row was preferred to the column, on average, in the multileaver's own measure.
    p_values
        Two-sided, corrected for the number of pairs (Holm); NaN on the diagonal.
    test
        What was tested: "sign" for wins against losses, "credit" for the mean difference in credit.
    """

    rankers: tuple[str, ...]
    impressions: int
    clicked: int
    wins: Counts
    credit: NDArray[np.float64]
    p_values: NDArray[np.float64]
    test: Literal["sign", "credit"] = "sign"

    @property
    def losses(self) -> Counts:
        """In how many impressions the column was preferred to the row."""
        return self.wins.T

    @property
    def ties(self) -> Counts:
        """In how many impressions neither was; 0 on the diagonal."""
        ties: Counts = self.impressions - self.wins - self.wins.T
        np.fill_diagonal(ties, 0)
        return ties

    @property
    def shares(self) -> NDArray[np.float64]:
        """In which share of the impressions the row was preferred to the column."""
        shares: NDArray[np.float64] = self.wins / max(self.impressions, 1)
        return shares

    def beats(self, one: str, other: str, level: float = 0.05) -> bool:
        """Whether one ranker is ahead of the other in what was tested, and significantly so."""
        row, column = (place(name, self.rankers) for name in (one, other))
        lead = self.credit[row, column] if self.test == "credit" else self.wins[row, column] - self.wins[column, row]
        return bool(lead > 0 and self.p_values[row, column] < level)

    def __str__(self) -> str:
        heads = [name.replace("|", "\\|") for name in self.rankers]
        lines = [["row : column", *heads], ["---", *("---:" for _ in heads)]]
        for row, head in enumerate(heads):
            lines.append([head, *(self._cell(row, column) for column in range(len(heads)))])
        note = (
            f"{self.impressions:,} impressions, {self.clicked:,} with a click. A cell has the share of them that the row won, the "
            "share that the column won, and the p-value, corrected for all pairs; bold where it is below 0.05."
        )
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + f"\n\n{note}"

    def _cell(self, row: int, column: int) -> str:
        if row == column:
            return ""
        p = self.p_values[row, column]
        text = f"{self.shares[row, column]:.1%} : {self.shares[column, row]:.1%} (p {p:.2g})"
        return f"**{text}**" if p < 0.05 else text


@dataclass
class Tally:
    """All that is kept of the lists that were recorded: counts and sums over them, for each pair."""

    wins: Counts
    leads: NDArray[np.float64]
    squares: NDArray[np.float64]
    impressions: int = 0
    clicked: int = 0

    @classmethod
    def empty(cls, n: int) -> Tally:
        """Return that of n rankers before the first list."""
        return cls(np.zeros((n, n), np.int64), np.zeros((n, n)), np.zeros((n, n)))

    def add(self, preferences: NDArray[np.float64], clicked: bool) -> None:
        """Count one list."""
        self.wins += preferences > _MARGIN
        self.leads += preferences
        self.squares += np.square(preferences)
        self.impressions += 1
        self.clicked += clicked

    def merge(self, other: Tally) -> None:
        """Add all that another has counted."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], n: int) -> Tally:
        """Make what `to_dict` was called on, of n rankers."""
        tally = cls.empty(n)
        for name, zero in vars(tally).items():
            if isinstance(zero, np.ndarray):
                table = np.array(data[name])
                if table.shape != (n, n) or table.dtype.kind not in "iuf" or not np.isfinite(table).all():
                    raise InvalidValue(f"a stored comparison of {n} rankers has an {n} × {n} table of {name}")
                setattr(tally, name, table.astype(zero.dtype))
            else:
                setattr(tally, name, checked_count(data[name], f"the number of {name}", 0))
        return tally
