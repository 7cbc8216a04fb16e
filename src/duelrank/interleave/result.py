"""Computes the result of a comparison and its significance tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidValue
from duelrank.core.validation import whole_number
from duelrank.drawing import WinRate
from duelrank.guard import ConfidenceSequence
from duelrank.guard.confidence import check_level
from duelrank.interleave.checks import place
from duelrank.interleave.history import Counts, History

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Result", "Tally", "Test"]

Test: TypeAlias = Literal["anytime", "sign", "credit"]

_MARGIN = 1e-12  # smaller preferences are rounding errors
_LEVEL = 0.05
_NOTES = {
    False: (
        "A cell has the share of them that the row won, the share that the column won, and the p-value, corrected for all "
        "pairs; bold where it is below 0.05."
    ),
    True: (
        "A cell has how many of those with a winner the row won, the band of its chance to win, and the p-value; both are "
        "corrected for all pairs and valid whenever one looks; bold where p is below 0.05."
    ),
}


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
        The test: "anytime" for wins against losses, valid whenever one looks; "sign" for the same at a number of impressions that
        was fixed in advance; "credit" for the mean difference in credit.
    history
        The wins at earlier times, up to now.

    Examples
    --------
    >>> from duelrank import Comparison
    >>> comparison = Comparison(["old", "new"], seed=1)
    >>> for _ in range(20):
    ...     shown = comparison.show({"old": ["a", "b", "c"], "new": ["c", "a", "b"]})
    ...     _ = comparison.record(shown, clicks=["c"])
    >>> result = comparison.result()
    >>> result.impressions, result.wins.tolist()
    (20, [[0, 0], [20, 0]])
    """

    rankers: tuple[str, ...]
    impressions: int
    clicked: int
    wins: Counts
    credit: NDArray[np.float64]
    p_values: NDArray[np.float64]
    test: Test = "sign"
    history: History = field(default_factory=History)

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

    @property
    def rates(self) -> NDArray[np.float64]:
        """Share of the decisive impressions of a pair, those with a winner, that the row won; NaN on the diagonal."""
        return self._of_pairs(lambda row, column: self._band(row, column, _LEVEL).rate)

    @property
    def low(self) -> NDArray[np.float64]:
        """Lower ends of the bands of all `rates`; see `interval`."""
        return self._of_pairs(lambda row, column: self._band(row, column, _LEVEL).interval[0])

    @property
    def high(self) -> NDArray[np.float64]:
        """Upper ends of the bands of all `rates`; see `interval`."""
        return self._of_pairs(lambda row, column: self._band(row, column, _LEVEL).interval[1])

    def interval(self, one: str, other: str, level: float = 0.05) -> tuple[float, float]:
        """Return the band of the chance that the first ranker wins a decisive impression, valid whenever one looks.

        With probability at least 1 − ``level``, no band of any pair is wrong at any time.
        """
        row, column = self._places(one, other)
        return self._band(row, column, level).interval

    def beats(self, one: str, other: str, level: float = 0.05) -> bool:
        """Whether one ranker is significantly better than the other in the test."""
        row, column = self._places(one, other)
        lead = self.credit[row, column] if self.test == "credit" else self.wins[row, column] - self.wins[column, row]
        return bool(lead > 0 and self.p_values[row, column] < level)

    def plot(self, one: str | None = None, other: str | None = None, level: float = 0.05) -> Figure:
        """Draw the win rate over time with its band, which is valid at all times at once; needs the extra ``plot``.

        Parameters
        ----------
        one, other
            Draw how often the first wins against the second; by default, a panel for each pair.
        level
            Probability that any band of any pair is ever wrong.
        """
        from duelrank.drawing import win_rates

        if (one is None) != (other is None):
            raise InvalidValue("give the names of two rankers, or none for all pairs")
        if one is not None and other is not None:
            pairs = [self._places(one, other)]
        else:
            pairs = [(i, j) for j in range(len(self.rankers)) for i in range(j + 1, len(self.rankers))]
        return win_rates([self._over_time(*pair, level) for pair in pairs], level)

    def _over_time(self, row: int, column: int, level: float) -> WinRate:
        past = zip(self.history.impressions, self.history.wins, strict=True)
        found = [(n, self._band(row, column, level, wins)) for n, wins in past if wins[row, column] + wins[column, row]]
        ends = [(each.rate, *each.interval) for _, each in found]
        title = f"{self.rankers[row]} against {self.rankers[column]}"
        return WinRate(title, np.array([n for n, _ in found]), *np.array(ends).reshape(-1, 3).T)

    def _band(self, row: int, column: int, level: float, wins: Counts | None = None) -> ConfidenceSequence:
        """Return the band of one pair, wide enough that all pairs together keep the level."""
        wins, n = self.wins if wins is None else wins, len(self.rankers)
        check_level(level)
        return ConfidenceSequence(int(wins[row, column]), int(wins[column, row]), level / (n * (n - 1) // 2))

    def _of_pairs(self, value: Callable[[int, int], float]) -> NDArray[np.float64]:
        n = range(len(self.rankers))
        return np.array([[value(row, column) if row != column else np.nan for column in n] for row in n])

    def _places(self, one: str, other: str) -> tuple[int, int]:
        row, column = (place(name, self.rankers) for name in (one, other))
        return row, column

    def __str__(self) -> str:
        heads = [name.replace("|", "\\|") for name in self.rankers]
        lines = [["row : column", *heads], ["---", *("---:" for _ in heads)]]
        for row, head in enumerate(heads):
            lines.append([head, *(self._cell(row, column) for column in range(len(heads)))])
        note = f"{self.impressions:,} impressions, {self.clicked:,} with a click. {_NOTES[self.test == 'anytime']}"
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + f"\n\n{note}"

    def _cell(self, row: int, column: int) -> str:
        if row == column:
            return ""
        p = self.p_values[row, column]
        if self.test == "anytime":
            band = self._band(row, column, _LEVEL)
            text = f"{band.rate:.1%}, {band.interval[0]:.1%} to {band.interval[1]:.1%} (p {p:.2g})"
        else:
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
