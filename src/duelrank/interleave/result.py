"""Computes the result of a comparison and its significance tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import InvalidValue
from duelrank.interleave.checks import place
from duelrank.validation import whole_number

__all__ = ["Result", "Tally"]

Counts: TypeAlias = NDArray[np.int64]  # (n_rankers, n_rankers)

_MARGIN = 1e-12  # smaller preferences are rounding errors


@dataclass(frozen=True, eq=False)
class Result:
    """The preferences between rankers: counts and significance.

    Parameters
    ----------
    rankers
        Their names, in the order of rows and columns.
    impressions, clicked
        Number of recorded lists, and number of lists with a click.
    wins
        Number of impressions in which the row was preferred to the column.
    credit
        Mean preference of the row over the column, in the unit of the multileaver.
    p_values
        Two-sided, corrected for the number of pairs (Holm); NaN on the diagonal.
    test
        The test: "sign" for wins against losses, "credit" for the mean difference in credit.
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
        """Number of impressions in which the column was preferred to the row."""
        return self.wins.T

    @property
    def ties(self) -> Counts:
        """Number of impressions without a preference; 0 on the diagonal."""
        ties: Counts = self.impressions - self.wins - self.wins.T
        np.fill_diagonal(ties, 0)
        return ties

    @property
    def shares(self) -> NDArray[np.float64]:
        """Share of the impressions in which the row was preferred to the column."""
        shares: NDArray[np.float64] = self.wins / max(self.impressions, 1)
        return shares

    def beats(self, one: str, other: str, level: float = 0.05) -> bool:
        """Whether one ranker is significantly better than the other in the test."""
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
    """Counts and sums over the recorded lists, for each pair of rankers."""

    wins: Counts
    leads: NDArray[np.float64]
    squares: NDArray[np.float64]
    impressions: int = 0
    clicked: int = 0

    @classmethod
    def empty(cls, n: int) -> Tally:
        """Return an empty tally for n rankers."""
        return cls(np.zeros((n, n), np.int64), np.zeros((n, n)), np.zeros((n, n)))

    def add(self, preferences: NDArray[np.float64], clicked: bool) -> None:
        """Count one list."""
        self.wins += preferences > _MARGIN
        self.leads += preferences
        self.squares += np.square(preferences)
        self.impressions += 1
        self.clicked += clicked

    def merge(self, other: Tally) -> None:
        """Add the counts of another tally."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_dict(self) -> dict[str, Any]:
        """Return the tally as JSON-compatible values."""
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], n: int) -> Tally:
        """Restore a tally of n rankers from the values of `to_dict`."""
        tally = cls.empty(n)
        for name, zero in vars(tally).items():
            if isinstance(zero, np.ndarray):
                table = np.array(data[name])
                if table.shape != (n, n) or table.dtype.kind not in "iuf" or not np.isfinite(table).all():
                    raise InvalidValue(f"a stored comparison of {n} rankers must have an {n} × {n} table of {name}")
                setattr(tally, name, table.astype(zero.dtype))
            else:
                setattr(tally, name, whole_number(f"the number of {name}", data[name], 0))
        return tally
