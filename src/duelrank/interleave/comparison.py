"""Defines `Comparison`, which merges rankings into one list, records clicks, and reports which ranker users prefer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, get_args

import numpy as np

from duelrank.core.errors import DuelrankError, InvalidRecipe, InvalidValue
from duelrank.core.grammar import parse
from duelrank.core.randomness import stream
from duelrank.core.statistics import anytime_test, holm, mean_test, sign_test
from duelrank.core.types import Impression, Query, Rankings
from duelrank.core.validation import explained, whole_number
from duelrank.interleave.checks import Document, checked_documents, checked_names, checked_ranking, place
from duelrank.interleave.history import History
from duelrank.interleave.recorded import Recorded
from duelrank.interleave.result import Result, Tally, Test
from duelrank.interleave.shown import Shown
from duelrank.multileaving import Multileaver

__all__ = ["Comparison"]

Given: TypeAlias = Mapping[str, Sequence[Document]]

FORMAT = 3
_WITHOUT_HISTORY = 2  # a format that is still read


@explained
class Comparison:
    """An online comparison of rankers: `show` merges their rankings for a query, `record` counts the clicks on the list.

    It stores only counts, those of some earlier times too, and one bit per list. Lists may be recorded late, in any order or
    never; each list counts once, even if its clicks arrive several times.

    Rankers may return different documents and different numbers of them. A ranker contributes only its own documents; when it has
    none left, the others fill the list. A ranker never gets credit for a click on a document that it did not return.

    Parameters
    ----------
    rankers
        Their names, two or more.
    multileaver
        The method that merges rankings and assigns credit: a part or its text, such as ``"PairwisePreference()"``.
    seed
        Random seed; the same seed and the same calls give the same lists. Parallel processes must use different seeds.
    length
        Maximum number of documents to show.

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
        multileaver: Multileaver | str = "TeamDraft()",
        seed: int = 0,
        length: int = 10,
    ) -> None:
        self.rankers = checked_names(rankers)
        part = parse(multileaver, Multileaver) if isinstance(multileaver, str) else multileaver
        if not isinstance(part, Multileaver):
            raise InvalidRecipe(f"a comparison needs a multileaver or its text, such as 'TeamDraft()', got {part!r}")
        part.check_rankers(len(self.rankers))
        self.multileaver: Multileaver = part
        stream(seed, "show")  # raises an error for an invalid seed
        self.seed = seed
        self.length = whole_number("the length of a list", length)
        self.shown = 0  # number of lists made so far, which is the number of the next list
        self._tally = Tally.empty(len(self.rankers))
        self._history = History()
        self._recorded = Recorded()

    def __repr__(self) -> str:
        return f"Comparison({list(self.rankers)}, {repr(self.multileaver)!r}, seed={self.seed}, length={self.length})"

    def show(self, rankings: Given) -> Shown:
        """Merge the rankings, each best first, into the list to show."""
        given = self._checked_rankings(rankings)
        impression, documents = self._make(given, self.seed, self.shown)
        shown = Shown(tuple(documents[i] for i in impression.ranking), given, self.seed, self.shown)
        self.shown += 1
        return shown

    def record(self, shown: Shown, clicks: Iterable[Document]) -> bool:
        """Count the clicks on a shown list; ``clicks`` are the clicked documents, in any order.

        Returns whether the list was counted. A list counts once, with the clicks that arrive first: record it when the user has
        left. A message that the network delivers twice therefore does no harm.
        """
        clicked = set(checked_documents(clicks, "clicks"))
        number = whole_number("the number of a shown list", shown.number, 0)
        impression, documents = self._make(self._checked_rankings(shown.rankings), shown.seed, number)
        if tuple(documents[i] for i in impression.ranking) != shown.documents:
            raise InvalidValue(f"this list was not made by {self!r}, or it was made by another version of duelrank")
        if strangers := sorted(map(repr, clicked.difference(shown.documents))):
            listed = ", ".join(map(repr, shown.documents))
            raise InvalidValue(f"{', '.join(strangers)} cannot have been clicked: this list has {listed}")
        gains = np.array([document in clicked for document in shown.documents], np.float64)
        if not self._recorded.add(shown.seed, number):
            return False
        draws = stream(shown.seed, "record", number)
        self._tally.add(self.multileaver.preferences(impression, gains, draws), bool(clicked))
        self._history.add(self._tally.impressions, self._tally.wins)
        return True

    def result(self, test: Test = "sign") -> Result:
        """Return the preferences between the rankers so far.

        Parameters
        ----------
        test
            "anytime" tests wins against losses and is valid whenever one looks, however often. "sign" is the exact sign test of
            wins against losses, for a number of impressions that was fixed before the first. "credit", for such a number too,
            tests whether the mean difference in credit is zero: it also uses the size of the differences, and needs some hundred
            impressions. Wins are fair with ``TeamDraft()`` only; with other multileavers use "credit".
        """
        if test not in get_args(Test):
            raise InvalidValue(f"test must be 'anytime', 'sign' or 'credit', got {test!r}")
        tally, n = self._tally, len(self.rankers)
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
        if test == "credit":
            found = [mean_test(tally.impressions, tally.leads[pair], tally.squares[pair]) for pair in pairs]
        else:
            of_wins = sign_test if test == "sign" else anytime_test
            found = [of_wins(int(tally.wins[pair]), int(tally.wins.T[pair])) for pair in pairs]
        p_values = np.full((n, n), np.nan)
        for (i, j), p in zip(pairs, holm(found), strict=True):
            p_values[i, j] = p_values[j, i] = p
        credit = tally.leads / max(tally.impressions, 1)
        history = self._history.until(tally.impressions, tally.wins)
        return Result(
            self.rankers, tally.impressions, tally.clicked, tally.wins.copy(), credit, p_values, test, history
        )

    def merge(self, other: Comparison) -> None:
        """Add the counts of another comparison with the same settings, such as that of another process.

        The history of the two is joined as if they had begun and ended at the same time.
        """
        mine, theirs = ((each.rankers, each.multileaver, each.length) for each in (self, other))
        if mine != theirs:
            raise InvalidValue(f"only comparisons with the same settings can be merged, not {self!r} and {other!r}")
        self._recorded.merge(other._recorded)
        self._history = History.side_by_side(
            *(each._history.until(each._tally.impressions, each._tally.wins) for each in (self, other))
        )
        self._tally.merge(other._tally)

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON-compatible values, from which `from_dict` continues exactly."""
        head = {"format": FORMAT, "rankers": list(self.rankers), "multileaver": repr(self.multileaver)}
        counters = {"seed": self.seed, "length": self.length, "shown": self.shown}
        counts = {"tally": self._tally.to_dict(), "history": self._history.to_dict()}
        return {**head, **counters, **counts, "recorded": self._recorded.to_list()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Comparison:
        """Restore a comparison from the values of `to_dict`; the history of one that was stored without begins here."""
        try:
            if data["format"] not in (FORMAT, _WITHOUT_HISTORY):
                raise InvalidValue("this comparison was stored by another version of duelrank")
            comparison = cls(data["rankers"], data["multileaver"], data["seed"], data["length"])
            comparison.shown = whole_number("the number of lists", data["shown"], 0)
            comparison._tally = Tally.from_dict(data["tally"], len(comparison.rankers))
            comparison._history = comparison._stored_history(data)
            comparison._recorded = Recorded.from_list(data["recorded"])
        except DuelrankError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InvalidValue(f"this is not a stored comparison: {error!r}") from None
        return comparison

    def _stored_history(self, data: Mapping[str, Any]) -> History:
        n, tally = len(self.rankers), self._tally
        if data["format"] == _WITHOUT_HISTORY:
            return History().until(tally.impressions, tally.wins)
        history = History.from_dict(data["history"], n)
        if history.impressions and (
            history.impressions[-1] > tally.impressions or (history.wins[-1] > tally.wins).any()
        ):
            raise InvalidValue("the history of a stored comparison has more impressions or wins than the comparison")
        return history

    def _checked_rankings(self, rankings: Given) -> dict[str, tuple[Document, ...]]:
        for name in rankings:
            place(name, self.rankers)
        given = {name: checked_ranking(name, rankings) for name in self.rankers}
        if not any(given.values()):
            raise InvalidValue("no ranker returned any document")
        return given

    def _make(self, given: Given, seed: int, number: int) -> tuple[Impression, list[Document]]:
        """Make a list from its random draws; return the impression, and the documents that its indices refer to."""
        draws = stream(seed, "show", number)
        documents = list(dict.fromkeys(document for name in self.rankers for document in given[name]))
        rankings = _indexed([given[name] for name in self.rankers], documents)
        ranking, trace = self.multileaver.leave(rankings, min(self.length, len(documents)), draws)
        return Impression(Query.trusted("", np.ones((len(documents), 1))), ranking, trace), documents


def _indexed(given: list[Sequence[Document]], documents: list[Document]) -> Rankings:
    """Return the documents of each ranker as a row of indices, padded with −1 if the ranker did not return all documents."""
    index = {document: i for i, document in enumerate(documents)}
    rankings = np.full((len(given), len(documents)), -1, np.int64)
    for row, ranking in zip(rankings, given, strict=True):
        row[: len(ranking)] = [index[document] for document in ranking]
    return rankings
