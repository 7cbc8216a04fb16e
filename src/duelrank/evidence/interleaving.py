"""Comparisons of finished rankers on live clicks, without learning: merged lists, and counts of which ranker users prefer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import DuelrankError, InvalidRecipe, InvalidValue, UnknownName
from duelrank.core.grammar import parse
from duelrank.core.randomness import stream
from duelrank.core.registry import counted
from duelrank.core.statistics import holm, mean_test, sign_test
from duelrank.core.types import Impression, Query, Rankings, Stream
from duelrank.core.validation import explained, whole_number
from duelrank.drawing import WinRate
from duelrank.evidence.sequential import ConfidenceSequence, InOrder, anytime_test, check_level
from duelrank.multileaving import Multileaver

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A document id of the search engine.
Document: TypeAlias = str | int
D = TypeVar("D", bound=Document)
#: Counts of each pair of rankers, with shape (n_rankers, n_rankers).
Counts: TypeAlias = NDArray[np.int64]
SignificanceTest: TypeAlias = Literal["anytime", "sign", "credit"]

#: Version of the stored form of a comparison. Format 3 counted lists in the order of recording, so it has no `order`.
FORMAT = 4

_List: TypeAlias = tuple[int, int]  # seed and number
_Counted: TypeAlias = tuple[NDArray[np.float64], bool]  # preferences, and whether there was a click

_BLOCK = 1024  # lists per block of flags
_LEVEL = 0.05
_NOTE = (
    "Each cell: the share of impressions that the row won, the share that the column won, and the p-value, corrected for all "
    "pairs. Bold: p below 0.05."
)
_ANYTIME_NOTE = (
    "Each cell: the row's share of the impressions with a winner, the confidence band of this win rate, and the p-value; band and "
    "p-value are corrected for all pairs and valid at any time. Bold: p below 0.05."
)
#: Smaller preferences are rounding errors.
ROUNDING = 1e-12
_STEPS = 14  # the step between two points of a history is a 14th of its length, at least 1: 33 points per power of ten


@dataclass(frozen=True)
class Shown:
    """One merged list, with all that `Comparison.record` needs: store it, or its `to_dict`, until the clicks are known.

    Parameters
    ----------
    documents
        The documents to show, best first.
    rankings
        The ranking of each ranker.
    seed, number
        The random stream that made the list. `record` makes the list again from it, so that a manipulated list is detected.

    Examples
    --------
    >>> from duelrank import Comparison
    >>> comparison = Comparison(["old", "new"], seed=1)
    >>> shown = comparison.show({"old": ["a", "b", "c"], "new": ["c", "a", "b"]})
    >>> shown.documents
    ('a', 'c', 'b')
    """

    documents: tuple[Document, ...]
    rankings: dict[str, tuple[Document, ...]]
    seed: int
    number: int

    def to_dict(self) -> dict[str, Any]:
        """Return the list as JSON-compatible values, such as for a user's session."""
        rankings = {name: list(ranking) for name, ranking in self.rankings.items()}
        return {"documents": list(self.documents), "rankings": rankings, "seed": self.seed, "number": self.number}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Shown:
        """Restore a list from the values of `to_dict`; `Comparison.record` checks them."""
        try:
            rankings = {name: tuple(ranking) for name, ranking in data["rankings"].items()}
            return cls(tuple(data["documents"]), rankings, data["seed"], data["number"])
        except (LookupError, TypeError, AttributeError) as error:
            raise InvalidValue(f"this is not a stored list: {error!r}") from None


@dataclass
class WinHistory:
    """Wins at growing numbers of impressions; the number of points grows with the logarithm of the impressions.

    Parameters
    ----------
    impressions
        Number of recorded lists at each point, rising.
    wins
        Number of impressions up to each point in which the row was preferred to the column.
    """

    impressions: list[int] = field(default_factory=list)
    wins: list[Counts] = field(default_factory=list)

    @property
    def next(self) -> int:
        """Number of impressions at which the next point is due."""
        last = self.impressions[-1] if self.impressions else 0
        return last + max(1, last // _STEPS)

    def add(self, impressions: int, wins: Counts) -> None:
        """Add the present counts, if a point is due."""
        if impressions >= self.next:
            self.impressions.append(impressions)
            self.wins.append(wins.copy())

    def until(self, impressions: int, wins: Counts) -> WinHistory:
        """Return a copy that ends with the present counts."""
        if impressions in (0, *self.impressions[-1:]):
            return WinHistory(self.impressions.copy(), self.wins.copy())
        return WinHistory([*self.impressions, impressions], [*self.wins, wins.copy()])

    @staticmethod
    def joined(one: WinHistory, other: WinHistory) -> WinHistory:
        """Return the sum of two histories, as if they had begun and ended at the same time.

        Each point of one history is added to the latest point of the other that is not later, relative to their lengths.
        """
        both = [each for each in (one, other) if each.impressions]
        times = [np.array(each.impressions) / each.impressions[-1] for each in both]
        found = WinHistory()
        for time in np.unique(np.concatenate([[1.0], *times])):
            places = [int(np.searchsorted(each, time, side="right")) - 1 for each in times]
            reached = [(each, place) for each, place in zip(both, places, strict=True) if place >= 0]
            if reached:
                found.add(
                    sum(each.impressions[place] for each, place in reached),
                    np.sum([each.wins[place] for each, place in reached], axis=0),
                )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the history as JSON-compatible values."""
        return {"impressions": list(self.impressions), "wins": [table.tolist() for table in self.wins]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], n: int) -> WinHistory:
        """Restore a history of n rankers from the values of `to_dict`."""
        impressions = [whole_number("the impressions of a history", each, 1) for each in data["impressions"]]
        wins = np.array(data["wins"]) if impressions else np.empty((0, n, n), np.int64)
        if wins.shape != (len(impressions), n, n) or wins.dtype.kind not in "iu" or (wins < 0).any():
            raise InvalidValue(f"a stored history of {n} rankers must have an {n} × {n} table of wins for each point")
        if any(a >= b for a, b in pairwise(impressions)):
            raise InvalidValue("the impressions of a stored history must rise")
        return cls(impressions, list(wins.astype(np.int64)))

    def check_end(self, impressions: int, wins: Counts) -> None:
        """Raise an error if the last point has more impressions or wins than there are."""
        if self.impressions and (self.impressions[-1] > impressions or (self.wins[-1] > wins).any()):
            raise InvalidValue("the history of a stored comparison has more impressions or wins than the comparison")


@dataclass(frozen=True, eq=False)
class Result:
    """The preferences between rankers: counts and significance.

    Parameters
    ----------
    rankers
        Names of the rankers, in the order of rows and columns.
    impressions, clicked
        Number of recorded lists, and number of lists with a click.
    wins
        Number of impressions in which the row was preferred to the column.
    credit
        Mean preference of the row over the column, in the unit of the multileaver.
    p_values
        Two-sided p-values, corrected for the number of pairs (Holm); NaN on the diagonal.
    test
        Name of the test: "anytime" tests wins against losses and is valid at any time; "sign" tests the same at a number of
        impressions that was fixed in advance; "credit" tests the mean difference in credit.
    history
        Wins at earlier times and now.
    waiting
        Number of recorded lists that are not counted yet, because a list that was shown earlier is not recorded.

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
    test: SignificanceTest = "sign"
    history: WinHistory = field(default_factory=WinHistory)
    waiting: int = 0

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
        """Win rate of the row: its share of the decisive impressions, those with a winner; NaN on the diagonal."""
        return self._of_pairs(lambda row, column: self._band(row, column, _LEVEL).rate)

    @property
    def low(self) -> NDArray[np.float64]:
        """Lower ends of the bands of `rates`; see `interval`."""
        return self._of_pairs(lambda row, column: self._band(row, column, _LEVEL).interval[0])

    @property
    def high(self) -> NDArray[np.float64]:
        """Upper ends of the bands of `rates`; see `interval`."""
        return self._of_pairs(lambda row, column: self._band(row, column, _LEVEL).interval[1])

    def interval(self, one: str, other: str, level: float = 0.05) -> tuple[float, float]:
        """Return the confidence band of the chance that the first ranker wins a decisive impression; it is valid at any time.

        With probability at least 1 − ``level``, no band of any pair is wrong at any time.
        """
        row, column = self._places(one, other)
        return self._band(row, column, level).interval

    def beats(self, one: str, other: str, level: float = 0.05) -> bool:
        """Whether one ranker is significantly better than the other in the test."""
        row, column = self._places(one, other)
        lead = self.credit[row, column] if self.test == "credit" else self.wins[row, column] - self.wins[column, row]
        return bool(lead > 0 and self.p_values[row, column] < level)

    def verdict(self, level: float = 0.05) -> str:
        """Return in one sentence which rankers are proved to be better than which; with the test "anytime", read it at any time.

        Parameters
        ----------
        level
            Probability that the sentence ever says that a ranker is better than an equal one.
        """
        check_level(level)
        beaten = {
            one: [other for other in self.rankers if other != one and self.beats(one, other, level)]
            for one in self.rankers
        }
        best = sorted((one for one in self.rankers if beaten[one]), key=lambda one: -len(beaten[one]))
        if not self.wins.any():
            return "undecided: no list has a winner yet"
        if len(self.rankers) == 2:
            one, other = self.rankers if self.wins[0, 1] >= self.wins[1, 0] else self.rankers[::-1]
            found = f"{one!r} is better than {other!r}" if best else f"undecided between {one!r} and {other!r}"
            return f"{found}: {self._lead(one, other, level)}"
        if not best:
            return (
                f"undecided: after {counted(self.impressions, 'list')}, no one is proved to be better than another one"
            )
        n_pairs = len(self.rankers) * (len(self.rankers) - 1) // 2
        undecided = n_pairs - sum(map(len, beaten.values()))
        said = [f"{one!r} is better than {self._listed(beaten[one])}" for one in best]
        return "; ".join([*said, f"{undecided} of {n_pairs} pairs undecided"] if undecided else said)

    def _lead(self, one: str, other: str, level: float) -> str:
        """Return how often one ranker wins against another, as a part of a sentence."""
        band = self._band(*self._places(one, other), level)
        lists = f"{counted(band.decisive, 'list')} with a winner"
        return f"{one!r} won {band.rate:.1%} of {lists} (band {band.interval[0]:.1%} to {band.interval[1]:.1%})"

    def _listed(self, names: list[str]) -> str:
        if len(names) == len(self.rankers) - 1:
            return "all others"
        *first, last = map(repr, names)
        return f"{', '.join(first)} and {last}" if first else last

    def plot(self, one: str | None = None, other: str | None = None, level: float = 0.05) -> Figure:
        """Draw the win rate over time, with a band that is valid at all times at once; needs the extra ``plot``.

        Parameters
        ----------
        one, other
            Names of two rankers: draw the win rate of the first against the second. By default, draw a panel for each pair.
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
        return win_rates([self.over_time(*pair, level) for pair in pairs], level)

    def over_time(self, row: int, column: int, level: float) -> WinRate:
        """Return the win rate of a row against a column at each point of the history at which they have a winner."""
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
        row, column = (_index_of(name, self.rankers) for name in (one, other))
        return row, column

    def __str__(self) -> str:
        heads = [name.replace("|", "\\|") for name in self.rankers]
        lines = [["row : column", *heads], ["---", *("---:" for _ in heads)]]
        for row, head in enumerate(heads):
            lines.append([head, *(self._cell(row, column) for column in range(len(heads)))])
        note = _ANYTIME_NOTE if self.test == "anytime" else _NOTE
        waiting = f" {self.waiting:,} more wait for lists that were shown earlier." if self.waiting else ""
        note = f"{counted(self.impressions, 'impression')}, {self.clicked:,} with a click.{waiting} {note}"
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


@explained
class Comparison:
    """An online comparison of rankers: `show` merges their rankings for a query, `record` counts the clicks on the list.

    Lists may be recorded late, in any order or never; each list counts once, even if its clicks arrive several times. Lists are
    counted in the order in which they were shown, each when all before it are recorded: otherwise, a ranker whose wins are recorded
    sooner than its losses would seem to be better. A list for which no clicks will come can be given up with `expire`.

    It stores counts, a history of the wins, one bit per list, and what is not counted yet.

    Rankers may return different documents and different numbers of them. A ranker contributes only its own documents; when it has
    none left, the others fill the list. A ranker never gets credit for a click on a document that it did not return.

    Parameters
    ----------
    rankers
        Names of two or more rankers.
    multileaver
        The method that merges rankings and assigns credit: a part or its text, such as ``"PairwisePreference()"``. The default
        compares two of the rankers in each list.
    seed
        Random seed; the same seed and the same calls give the same lists. Parallel processes must use different seeds.
    length
        Maximum number of documents to show.
    max_open
        Maximum number of lists that are not counted yet; beyond it, the earliest is given up.

    Examples
    --------
    >>> from duelrank import Comparison
    >>> comparison = Comparison(["bm25", "neural"], seed=7, length=3)
    >>> shown = comparison.show({"bm25": ["a", "b", "c"], "neural": ["c", "d"]})
    >>> comparison.record(shown, clicks=shown.documents[:1])
    True
    >>> comparison.result().impressions
    1
    """

    def __init__(
        self,
        rankers: Sequence[str],
        multileaver: Multileaver | str = "PairDraft()",
        seed: int = 0,
        length: int = 10,
        max_open: int = 10_000,
    ) -> None:
        self.rankers = _checked_names(rankers)
        part = parse(multileaver, Multileaver) if isinstance(multileaver, str) else multileaver
        if not isinstance(part, Multileaver):
            raise InvalidRecipe(f"a comparison needs a multileaver or its text, such as 'PairDraft()', got {part!r}")
        part.check_rankers(len(self.rankers))
        self.multileaver: Multileaver = part
        stream(seed, "show")  # raises an error for an invalid seed
        self.seed = seed
        self.length = whole_number("the length of a list", length)
        self.max_open = whole_number("max_open", max_open)
        self.shown = 0  # number of lists made so far, which is the number of the next list
        self._tally = Tally.empty(len(self.rankers))
        self._history = WinHistory()
        self._recorded = _RecordedLists()
        self._order = InOrder[_List, _Counted]()

    def __repr__(self) -> str:
        return f"Comparison({list(self.rankers)}, {repr(self.multileaver)!r}, seed={self.seed}, length={self.length})"

    def show(self, rankings: Mapping[str, Sequence[Document]]) -> Shown:
        """Merge the rankings, each best first, into the list to show."""
        given = self._checked_rankings(rankings)
        impression, documents = self._make(given, self.seed, self.shown)
        shown = Shown(tuple(documents[i] for i in impression.ranking), given, self.seed, self.shown)
        if (key := (self.seed, self.shown)) not in self._recorded:  # it is if this was restored from an earlier copy
            self._order.show(key)
        self.shown += 1
        self._count()
        return shown

    def record(self, shown: Shown, clicks: Iterable[Document]) -> bool:
        """Note the clicks on a shown list; ``clicks`` are the clicked documents, in any order.

        Returns whether the list counts, now or when all lists before it are recorded. A list counts once, with the clicks that
        arrive first: record it when the user has left. A message that the network delivers twice therefore does no harm. A list
        that was given up does not count. Record a list in the comparison that showed it: another one counts it at once.
        """
        clicked = set(_checked_documents(clicks, "clicks"))
        number = whole_number("the number of a shown list", shown.number, 0)
        impression, documents = self._make(self._checked_rankings(shown.rankings), shown.seed, number)
        if tuple(documents[i] for i in impression.ranking) != shown.documents:
            raise InvalidValue(f"this list was not made by {self!r}, or it was made by another version of duelrank")
        if missing := sorted(map(repr, clicked.difference(shown.documents))):
            listed = ", ".join(map(repr, shown.documents))
            raise InvalidValue(f"{', '.join(missing)} cannot have been clicked: this list has {listed}")
        gains = np.array([document in clicked for document in shown.documents], np.float64)
        key, own = (shown.seed, number), shown.seed == self.seed and number < self.shown
        if (own and key not in self._order) or not self._recorded.add(*key):  # given up, or recorded
            return False
        draws = stream(shown.seed, "record", number)
        self._order.close(key, (self.multileaver.preferences(impression, gains, draws), bool(clicked)))
        self._count()
        return True

    def expire(self, before: int | None = None) -> None:
        """Give up lists whose clicks will not come, so that no list waits for them.

        Parameters
        ----------
        before
            Give up the unrecorded lists before this number, such as the value that `shown` had half an hour ago; by default all.
        """
        end = self.shown if before is None else whole_number("before", before, 0, self.shown)
        for key, waiting in self._order.lists.items():
            if waiting is None and (before is None or (key[0] == self.seed and key[1] < end)):
                self._order.drop(key)
        self._count()

    def _count(self) -> None:
        """Count the lists whose turn has come; give up the earliest if too many are open."""
        while True:
            for preferences, clicked in self._order.ready():
                self._tally.add(preferences, clicked)
                self._history.add(self._tally.impressions, self._tally.wins)
            if len(self._order) <= self.max_open or (first := self._order.first) is None:
                return
            self._order.drop(first)

    def result(self, test: SignificanceTest = "sign") -> Result:
        """Return the preferences between the rankers so far.

        Parameters
        ----------
        test
            "anytime" tests wins against losses and is valid at any time, however often one looks. "sign" is the exact sign test of
            wins against losses, for a number of impressions that was fixed before the first. "credit", also for a fixed number,
            tests whether the mean difference in credit is zero: it also uses the size of the differences, and needs some hundred
            impressions. Wins are fair with ``PairDraft()``, and with ``TeamDraft()`` of two rankers; otherwise use "credit".
        """
        if test not in get_args(SignificanceTest):
            raise InvalidValue(f"test must be 'anytime', 'sign' or 'credit', got {test!r}")
        return self._tally.result(self.rankers, self._history, test, self._order.waiting)

    def merge(self, other: Comparison) -> None:
        """Add the counts of another comparison with the same settings, such as that of another process.

        The histories are joined as if both comparisons had begun and ended at the same time; the other's lists that are not counted
        yet come after the own ones.
        """
        mine, theirs = ((each.rankers, each.multileaver, each.length) for each in (self, other))
        if mine != theirs:
            raise InvalidValue(f"only comparisons with the same settings can be merged, not {self!r} and {other!r}")
        self._recorded.merge(other._recorded)
        self._history = WinHistory.joined(
            *(each._history.until(each._tally.impressions, each._tally.wins) for each in (self, other))
        )
        self._tally.merge(other._tally)
        lists = {**self._order.lists, **other._order.lists}
        self._order = InOrder({key: each for key, each in lists.items() if each or key not in self._recorded})
        self._count()

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON-compatible values, from which `from_dict` continues exactly."""
        head = {"format": FORMAT, "rankers": list(self.rankers), "multileaver": repr(self.multileaver)}
        counters = {"seed": self.seed, "length": self.length, "shown": self.shown, "max_open": self.max_open}
        counts = {"tally": self._tally.to_dict(), "history": self._history.to_dict()}
        order = [[*key, each and [each[0].tolist(), each[1]]] for key, each in self._order.lists.items()]
        return {**head, **counters, **counts, "recorded": self._recorded.to_list(), "order": order}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Comparison:
        """Restore a comparison from the values of `to_dict`."""
        try:
            if data["format"] not in (3, FORMAT):
                raise InvalidValue("this comparison was stored by another version of duelrank")
            rest = (data["max_open"],) if "max_open" in data else ()
            comparison = cls(data["rankers"], data["multileaver"], data["seed"], data["length"], *rest)
            n = len(comparison.rankers)
            comparison.shown = whole_number("the number of lists", data["shown"], 0)
            comparison._tally = Tally.from_dict(data["tally"], n)
            comparison._history = WinHistory.from_dict(data["history"], n)
            comparison._recorded = _RecordedLists.from_list(data["recorded"])
            comparison._order = InOrder(comparison._read_order(data.get("order")))
        except DuelrankError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InvalidValue(f"this is not a stored comparison: {error!r}") from None
        comparison._history.check_end(comparison._tally.impressions, comparison._tally.wins)
        return comparison

    def _read_order(self, stored: list[list[Any]] | None) -> dict[_List, _Counted | None]:
        """Return the lists that are not counted yet; without them, as in format 3, those that were shown and not recorded."""
        if stored is None:
            shown = ((self.seed, number) for number in range(max(0, self.shown - self.max_open), self.shown))
            return {key: None for key in shown if key not in self._recorded}
        n, found = len(self.rankers), dict[_List, _Counted | None]()
        for seed, number, each in stored:
            key = whole_number("a seed", seed, 0), whole_number("the number of a list", number, 0)
            found[key] = None if each is None else (_table(each[0], n, "preferences").astype(np.float64), bool(each[1]))
            if (each is None) == (key in self._recorded):
                raise InvalidValue(
                    "a list of a stored comparison must be recorded if it has preferences, and only then"
                )
        return found

    def _checked_rankings(self, rankings: Mapping[str, Sequence[Document]]) -> dict[str, tuple[Document, ...]]:
        for name in rankings:
            _index_of(name, self.rankers)
        given = {name: checked_ranking(name, rankings) for name in self.rankers}
        if not any(given.values()):
            raise InvalidValue("no ranker returned any document")
        return given

    def _make(
        self, given: Mapping[str, Sequence[Document]], seed: int, number: int
    ) -> tuple[Impression, list[Document]]:
        """Make a list from its random draws; return the impression, and the documents that its indices refer to."""
        lists = [given[name] for name in self.rankers]
        return merged_list(self.multileaver, lists, self.length, stream(seed, "show", number))


def merged_list(
    multileaver: Multileaver, given: Sequence[Sequence[D]], length: int, draws: Stream
) -> tuple[Impression, list[D]]:
    """Merge the lists of several rankers; return the impression, and the documents that its indices refer to."""
    documents = list(dict.fromkeys(document for each in given for document in each))
    rankings = _as_indices(given, documents)
    ranking, trace = multileaver.leave(rankings, min(length, len(documents)), draws)
    return Impression(Query.trusted("", np.ones((len(documents), 1))), ranking, trace), documents


def _index_of(name: str, rankers: tuple[str, ...]) -> int:
    if name not in rankers:
        raise UnknownName.among("ranker of this comparison", str(name), rankers)
    return rankers.index(name)


def _checked_names(rankers: Sequence[str]) -> tuple[str, ...]:
    names = () if isinstance(rankers, str) else tuple(rankers)
    if len(names) < 2 or not all(isinstance(name, str) and name.strip() for name in names):
        raise InvalidValue(f"a comparison needs the names of two or more rankers, got {rankers!r}")
    if len(set(names)) < len(names):
        raise InvalidValue(f"the names of rankers must be unique, got {', '.join(names)}")
    return names


def checked_ranking(name: str, rankings: Mapping[str, Sequence[Document]]) -> tuple[Document, ...]:
    """Return the documents of one ranker, which must be unique."""
    if name not in rankings:
        raise InvalidValue(f"the ranking of {name!r} is missing; if it returned nothing, give an empty list")
    ranking = _checked_documents(rankings[name], f"the ranking of {name!r}")
    seen: set[Document] = set()
    for document in ranking:
        if document in seen:
            raise InvalidValue(f"the ranking of {name!r} contains {document!r} twice")
        seen.add(document)
    return ranking


def _checked_documents(documents: Iterable[Document], what: str) -> tuple[Document, ...]:
    """Return the documents, each of which must be a string or a whole number; a single string is not a list."""
    if isinstance(documents, str):
        raise InvalidValue(f"{what} must be a list of documents, got a string; for one document give [{documents!r}]")
    listed = tuple(each.item() if isinstance(each, np.generic) else each for each in documents)
    for document in listed:
        if type(document) not in (str, int):
            raise InvalidValue(f"{what} must have a string or a whole number for each document, got {document!r}")
    return listed


def _as_indices(given: Sequence[Sequence[D]], documents: list[D]) -> Rankings:
    """Return the documents of each ranker as a row of indices, padded with −1 if the ranker did not return all documents."""
    index = {document: i for i, document in enumerate(documents)}
    rankings = np.full((len(given), len(documents)), -1, np.int64)
    for row, ranking in zip(rankings, given, strict=True):
        row[: len(ranking)] = [index[document] for document in ranking]
    return rankings


@dataclass
class Tally:
    """Counts and sums over the recorded lists, for each pair of rankers.

    Parameters
    ----------
    wins
        Number of impressions in which the row was preferred to the column.
    leads, squares
        Sums of the preferences of the row over the column, and of their squares.
    impressions, clicked
        Number of recorded lists, and number of lists with a click.
    """

    wins: Counts
    leads: NDArray[np.float64]
    squares: NDArray[np.float64]
    impressions: int = 0
    clicked: int = 0

    @classmethod
    def empty(cls, n: int) -> Tally:
        """Return the counts of n rankers before the first list."""
        return cls(np.zeros((n, n), np.int64), np.zeros((n, n)), np.zeros((n, n)))

    def add(self, preferences: NDArray[np.float64], clicked: bool) -> None:
        """Count one list."""
        self.wins += preferences > ROUNDING
        self.leads += preferences
        self.squares += np.square(preferences)
        self.impressions += 1
        self.clicked += clicked

    def result(self, rankers: tuple[str, ...], history: WinHistory, test: SignificanceTest, waiting: int = 0) -> Result:
        """Return the preferences between these rankers so far; ``waiting`` lists are recorded, and not counted yet."""
        pairs = [(i, j) for i in range(len(rankers)) for j in range(i + 1, len(rankers))]
        if test == "credit":
            found = [mean_test(self.impressions, self.leads[pair], self.squares[pair]) for pair in pairs]
        else:
            test_wins = sign_test if test == "sign" else anytime_test
            found = [test_wins(int(self.wins[pair]), int(self.wins.T[pair])) for pair in pairs]
        p_values = np.full((len(rankers), len(rankers)), np.nan)
        for (i, j), p in zip(pairs, holm(found), strict=True):
            p_values[i, j] = p_values[j, i] = p
        credit, counts = self.leads / max(self.impressions, 1), (self.impressions, self.clicked, self.wins.copy())
        past = history.until(self.impressions, self.wins)
        return Result(rankers, *counts, credit, p_values, test, past, waiting)

    def merge(self, other: Tally) -> None:
        """Add the counts of other lists."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as JSON-compatible values."""
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], n: int) -> Tally:
        """Restore the counts of n rankers from the values of `to_dict`."""
        tally = cls.empty(n)
        for name, zero in vars(tally).items():
            if isinstance(zero, np.ndarray):
                setattr(tally, name, _table(data[name], n, name).astype(zero.dtype))
            else:
                setattr(tally, name, whole_number(f"the number of {name}", data[name], 0))
        return tally


def _table(data: Any, n: int, name: str) -> NDArray[Any]:
    """Return a stored table of numbers for pairs of rankers."""
    table = np.array(data)
    if table.shape != (n, n) or table.dtype.kind not in "iuf" or not np.isfinite(table).all():
        raise InvalidValue(f"a stored comparison of {n} rankers must have an {n} × {n} table of {name}")
    return table


@dataclass
class _RecordedLists:
    """The set of recorded lists by seed and number, with one bit per list in sparse blocks."""

    blocks: dict[tuple[int, int], int] = field(default_factory=dict)

    def __contains__(self, key: _List) -> bool:
        seed, number = key
        return bool(self.blocks.get((seed, number // _BLOCK), 0) >> number % _BLOCK & 1)

    def add(self, seed: int, number: int) -> bool:
        """Add a list; return whether it is new."""
        block, bit = (seed, number // _BLOCK), 1 << number % _BLOCK
        before = self.blocks.get(block, 0)
        self.blocks[block] = before | bit
        return not before & bit

    def merge(self, other: _RecordedLists) -> None:
        """Add all lists of another set; the two sets must be disjoint."""
        if any(flags & self.blocks.get(block, 0) for block, flags in other.blocks.items()):
            raise InvalidValue("both comparisons have recorded some of the same lists, which would count twice")
        for block, flags in other.blocks.items():
            self.blocks[block] = self.blocks.get(block, 0) | flags

    def to_list(self) -> list[list[Any]]:
        """Return JSON-compatible values: seed, block, and its flags in hexadecimal digits."""
        return [[seed, block, f"{flags:x}"] for (seed, block), flags in self.blocks.items()]

    @classmethod
    def from_list(cls, data: list[list[Any]]) -> _RecordedLists:
        blocks = {}
        for seed, block, digits in data:
            flags = int(digits, 16)
            if not 0 < flags < 1 << _BLOCK:
                raise InvalidValue(
                    f"a block of recorded lists in a stored comparison must have {_BLOCK} flags, got {digits!r}"
                )
            blocks[whole_number("a seed", seed, 0), whole_number("the number of a block", block, 0)] = flags
        return cls(blocks)
