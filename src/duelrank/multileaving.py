"""Stage 3: merges the rankings of several rankers into one list, and assigns credit for clicks to the rankers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidRecipe, InvalidValue, MissingExtra
from duelrank.core.registry import Between, Part, classes, register
from duelrank.core.types import Credit, Gains, Impression, Ranking, Rankings, Stream, Trace
from duelrank.kernels import multileaving as kernel
from duelrank.kernels.elementary import logs
from duelrank.kernels.multileaving import MISSING, draw_lists, returned, shown_ranks
from duelrank.kernels.random import uniform

Floats: TypeAlias = NDArray[np.float64]
Preferences: TypeAlias = Floats  # (n_rankers, n_rankers), antisymmetric; positive if the row is preferred to the column
Scoring: TypeAlias = Literal["linear", "inverse"]

_LONGEST = 12  # positions of `OptimizedInterleaving`: the number of lists doubles with each position
_SLACK = 1e-9  # slack on the minimum bias in the second linear programme: below the tolerance of the solver


@dataclass(frozen=True, repr=False)
class Multileaver(Part, ABC):
    """Merge the rankings of several rankers into one list, and convert its clicks into credit for each of them.

    A ranker may have returned only some of the documents; its row of the rankings is then padded with −1. It adds no other
    documents to the list, and never gets credit for clicks on other documents.
    """

    kind: ClassVar[str] = "multileaver"
    #: Maximum number of rankers that it can compare at once; None for no limit.
    most_rankers: ClassVar[int | None] = None

    @abstractmethod
    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return a list of the given length without duplicates, and the evidence that `assign_credit` needs.

        The length is at most the number of documents (the columns of the rankings), each of which some ranker returned.
        """

    @property
    def judges_any_list(self) -> bool:
        """Whether it can assign credit for a list made elsewhere: whether it defines `evidence`."""
        return type(self).evidence is not Multileaver.evidence

    def evidence(self, rankings: Rankings, ranking: Ranking) -> Trace:
        """Return the evidence that `assign_credit` needs for a list made elsewhere; raise `InvalidRecipe` if that is impossible."""
        raise InvalidRecipe(f"{self!r} can assign credit only for lists that it has made itself")

    @abstractmethod
    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return the credit of each ranker; a ranker that beats the current ranker has more than entry 0.

        The gain of a position is the weight of its click (1, or more for a more valuable action), or 0 without a click. The stream
        is for methods that estimate credit from samples; most methods do not use it.
        """

    def preferences(self, impression: Impression, gains: Gains, stream: Stream) -> Preferences:
        """Return the preference of each ranker (row) over each other (column): by default, their difference in credit."""
        credit = self.assign_credit(impression, gains, stream)
        return credit[:, np.newaxis] - credit[np.newaxis, :]

    def has_fair_wins(self, n_rankers: int) -> bool:
        """Whether each of two equally good rankers wins equally often, whatever the other rankers are."""
        return False

    def check_rankers(self, n_rankers: int) -> None:
        """Raise `InvalidRecipe` if there are more rankers than it can compare at once."""
        if self.most_rankers is not None and n_rankers > self.most_rankers:
            others = [name for name, cls in classes(Multileaver).items() if getattr(cls, "most_rankers", None) is None]
            raise InvalidRecipe(
                f"{self!r} compares {self.most_rankers} rankers (one candidate with the current one), got {n_rankers}; "
                f"for more use {', '.join(others[:-1])} or {others[-1]}"
            )


@register
@dataclass(frozen=True, repr=False)
class TeamDraft(Multileaver):
    """In each round, the rankers take turns in random order to add their best document that is not yet in the list.

    A ranker owns the documents that it added, and gets one point per click on them, or the weight of the click. If all rankers
    agree on the first documents, no ranker owns these.

    References
    ----------
    Radlinski, Kurup and Joachims, "How does clickthrough data reflect retrieval quality?" (CIKM 2008); Schuth et al.,
    "Multileaved comparisons for fast online evaluation" (CIKM 2014).

    Examples
    --------
    Two rankers have four documents in opposite orders. The list, and which ranker gets the click at each position:

    >>> import numpy as np
    >>> from duelrank.multileaving import TeamDraft
    >>> from duelrank.core.randomness import stream
    >>> ranking, trace = TeamDraft().leave(np.array([[0, 1, 2, 3], [3, 2, 1, 0]]), 4, stream(1, "list"))
    >>> ranking.tolist(), trace["teams"].tolist()
    ([3, 0, 2, 1], [1, 0, 1, 0])
    """

    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return the list, and the ranker that owns each position."""
        ranking, teams = kernel.team_draft_leave(rankings, length, stream)
        return ranking, {"teams": teams, "n_rankers": np.array(rankings.shape[0])}

    def has_fair_wins(self, n_rankers: int) -> bool:
        """Whether no third ranker may share the clicks of one of two."""
        return n_rankers == 2

    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return the gains of the documents of each ranker."""
        sums: Credit = kernel.team_draft_credit(impression.trace["teams"], gains, int(impression.trace["n_rankers"]))
        return sums


@register
@dataclass(frozen=True, repr=False)
class PairDraft(TeamDraft):
    """Draw two rankers for each list, and compare only these, by `TeamDraft`; with two rankers it is the same.

    The pairs of the others tie. A pair of equal rankers is won by either equally often, whatever the other rankers are. That is not
    so if all take turns in each list: there, two rankers that return the same documents share the clicks on them.

    If the two have returned fewer documents than are shown, the others fill the list, and get nothing for that.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.multileaving import PairDraft
    >>> from duelrank.core.randomness import stream
    >>> rankings = np.array([[0, 1, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1]])
    >>> ranking, trace = PairDraft().leave(rankings, 4, stream(1, "list"))
    >>> trace["pair"].tolist(), ranking.tolist(), trace["teams"].tolist()
    ([1, 2], [2, 3, 0, 1], [2, 1, 2, 1])
    """

    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return the list, the ranker that owns each position, and the two that are compared."""
        ranking, teams, pair = kernel.pair_draft_leave(rankings, length, stream)
        return ranking, {"teams": teams, "pair": pair, "n_rankers": np.array(rankings.shape[0])}

    def has_fair_wins(self, n_rankers: int) -> bool:
        """Whether wins are fair: always."""
        return True

    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return the lead of each ranker over the current one, 0 if the list does not compare the two."""
        credit: Credit = self.preferences(impression, gains, stream)[:, 0]
        return credit

    def preferences(self, impression: Impression, gains: Gains, stream: Stream) -> Preferences:
        """Return the preference of each of the two rankers over the other one, 0 for all other pairs."""
        sums = super().assign_credit(impression, gains, stream)
        one, other = impression.trace["pair"]
        preferences = np.zeros((len(sums), len(sums)))
        preferences[one, other] = sums[one] - sums[other]
        preferences[other, one] = -preferences[one, other]
        return preferences


@register
@dataclass(frozen=True, repr=False)
class Balanced(Multileaver):
    """Alternate between two rankings, in random order, so that every prefix of the list contains about equal prefixes of both.

    Let k be the better of the two ranks of the lowest clicked document: each ranker gets the gains of the clicked documents of its
    own top k.

    It is biased: against (a, b, c), the ranking (b, c, a) wins two of three random clicks. It is not monotone either: a clicked
    document that moves up may be the lowest click, and then shortens the top in which all others count.

    References
    ----------
    Joachims, "Evaluating retrieval performance using clickthrough data" (Text Mining 2003); Radlinski, Kurup and Joachims, "How
    does clickthrough data reflect retrieval quality?" (CIKM 2008).

    Examples
    --------
    Users click on each document equally often, so neither ranking is better; but the method is biased.

    >>> from duelrank import Comparison
    >>> from duelrank.multileaving import Balanced
    >>> comparison = Comparison(["one", "two"], Balanced(), length=3)
    >>> for clicked in ["a", "b", "c"] * 100:
    ...     shown = comparison.show({"one": ["a", "b", "c"], "two": ["b", "c", "a"]})
    ...     counted = comparison.record(shown, clicks=[clicked])
    >>> comparison.result().wins.tolist()
    [[0, 100], [200, 0]]
    """

    most_rankers: ClassVar[int | None] = 2

    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return the list, and the rank of each shown document in both rankings."""
        self.check_rankers(rankings.shape[0])
        ranking = kernel.balanced_leave(rankings, length, stream)
        return ranking, {"ranks": shown_ranks(rankings, ranking)}

    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return the gains in the top k of each ranker."""
        sums: Credit = kernel.balanced_credit(impression.trace["ranks"], gains)
        return sums


@register
@dataclass(frozen=True, repr=False)
class Probabilistic(Multileaver):
    """Draw each position from a randomly chosen ranker's softmax over its ranks, P(rank r) ∝ 1/r^τ.

    Which ranker placed a document is unknown afterwards; the credit of a candidate is its expected preference over the
    current ranker, E[sign(clicks of i − clicks of current)], over all possible assignments of the list to rankers. If clicks have
    weights, their sums are compared; weights without a small common measure are rounded to thousandths of the total gain of the
    list.

    Parameters
    ----------
    tau
        Steepness of the softmax (the papers' τ).
    credit
        "exact" computes the expectation, by convolution over the clicks, so a candidate with the same ranking as the current ranker
        gets exactly 0. "sampled" averages over random assignments of the clicks, as the published code of the papers does: a
        candidate with an expected preference of 0 then wins almost half of the time, and one that is slightly worse may win too.
        This noise is part of published results.
    samples
        Number of assignments that "sampled" draws (10,000 in the published code).

    References
    ----------
    Hofmann, Whiteson and de Rijke, "A probabilistic method for inferring preferences from clicks" (CIKM 2011); Schuth et al.,
    "Probabilistic multileave for online retrieval evaluation" (SIGIR 2015).

    Examples
    --------
    Both rankers have document 0 first. The number of lists, of 1,000, that begin with it, for a flat and a steep softmax:

    >>> import numpy as np
    >>> from duelrank.multileaving import Probabilistic
    >>> from duelrank.core.randomness import stream
    >>> rankings = np.array([[0, 1, 2], [0, 2, 1]])
    >>> for tau in (0.5, 3.0):
    ...     lists = [Probabilistic(tau).leave(rankings, 3, stream(1, "list", n))[0] for n in range(1000)]
    ...     print(tau, sum(int(ranking[0] == 0) for ranking in lists))
    0.5 433
    3.0 844
    """

    # Exact credit draws no samples.
    inert_fields: ClassVar[frozenset[str]] = frozenset({"samples"})
    added_fields: ClassVar[Mapping[str, Any]] = {"credit": "exact", "samples": 10_000}

    tau: Annotated[float, Between(0.0, 20.0, tuned=(0.3, 10.0), log=True)] = 3.0
    credit: Literal["exact", "sampled"] = "exact"
    samples: Annotated[int, Between(1, 1_000_000)] = 10_000

    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return the list, the rank of each shown document in each ranking, and the number of documents of each ranker."""
        ranking, ranks, sizes = kernel.probabilistic_leave(rankings, length, self.tau, stream)
        return ranking, {"ranks": ranks, "sizes": sizes}

    def evidence(self, rankings: Rankings, ranking: Ranking) -> Trace:
        """Return the ranks of the shown documents and the sizes of the rankings: the credit depends only on these."""
        return {"ranks": shown_ranks(rankings, ranking), "sizes": returned(rankings)}

    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return each candidate's expected preference over the current ranker."""
        ranks, sizes = impression.trace["ranks"], impression.trace["sizes"]
        values: Credit
        if self.credit == "exact":
            values = kernel.probabilistic_credit(ranks, gains, sizes, self.tau)
        else:
            drawn = kernel.assignments(kernel.placements(ranks, gains, sizes, self.tau), self.samples, stream)
            values = kernel.sampled_preference(*drawn, kernel.whole_gains(gains), len(ranks), 0)
        return values

    def preferences(self, impression: Impression, gains: Gains, stream: Stream) -> Preferences:
        """Return each ranker's expected preference over each other one; the preference over the current ranker is the credit."""
        ranks = impression.trace["ranks"]
        n, placed = len(ranks), kernel.placements(ranks, gains, impression.trace["sizes"], self.tau)
        steps = kernel.whole_gains(gains)
        if self.credit == "sampled":
            drawn = kernel.assignments(placed, self.samples, stream)
            return np.stack([kernel.sampled_preference(*drawn, steps, n, rival) for rival in range(n)], axis=1)
        table = np.zeros((n, n))
        for row, column in np.argwhere(~np.eye(n, dtype=bool)):
            table[row, column] = kernel.preference(placed[:, row], placed[:, column], steps)
        return table


@dataclass(frozen=True, repr=False)
class RanksOfShown(Multileaver):
    """Make team-draft lists; the credit depends only on how each ranker orders the shown documents."""

    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return a team-draft list, and the rank of each shown document in each ranking."""
        ranking, _ = kernel.team_draft_leave(rankings, length, stream)
        return ranking, {"ranks": shown_ranks(rankings, ranking)}

    def evidence(self, rankings: Rankings, ranking: Ranking) -> Trace:
        """Return the rank of each shown document in each ranking."""
        return {"ranks": shown_ranks(rankings, ranking)}


@register
@dataclass(frozen=True, repr=False)
class SampleOnlyScored(RanksOfShown):
    """Make a team-draft list, and score each ranker by its own order of the documents in that list (SOSM).

    Credit = Σ gain/r^τ over the clicks, r the rank of the clicked document among the shown ones. It does not matter which ranker
    added a document, so similar rankers share their clicks instead of splitting them.

    All rankers that returned all shown documents have the same total score, so clicks that are uniform over positions favour none
    of them, on any list. Clicks that prefer the upper positions, independently of the documents, favour rankers that agree with the
    others.

    Parameters
    ----------
    tau
        How steeply the points decrease with the rank (the paper's softmax has the same τ; its normalisation is equal for all
        rankers, and left out).

    References
    ----------
    Brost, Cox, Seldin and Lioma, "An improved multileaving algorithm for online ranker evaluation" (SIGIR 2016).

    Examples
    --------
    A click on document 0: the two rankers that have it first get full credit, the third ranker half:

    >>> import numpy as np
    >>> from duelrank import Impression, Query
    >>> from duelrank.multileaving import SampleOnlyScored
    >>> from duelrank.core.randomness import stream
    >>> ranking = np.array([1, 0])
    >>> trace = SampleOnlyScored(tau=1.0).evidence(np.array([[0, 1], [0, 1], [1, 0]]), ranking)
    >>> shown = Impression(Query("shoes", [[0.9], [0.1]]), ranking, trace)
    >>> SampleOnlyScored(tau=1.0).assign_credit(shown, np.array([0.0, 1.0]), stream(1, "credit")).tolist()
    [1.0, 1.0, 0.5]
    """

    tau: Annotated[float, Between(0.0, 20.0, tuned=(0.3, 10.0), log=True)] = 3.0

    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return each ranker's points for the clicked documents."""
        points: Credit = kernel.sample_only_scored_credit(impression.trace["ranks"], gains, self.tau)
        return points


@register
@dataclass(frozen=True, repr=False)
class PairwisePreference(Multileaver):
    """Infer preferences between shown documents from clicks, and score each ranker by the pairs that it orders so (PPM).

    Position p is drawn uniformly from the documents that some ranker has in its top p, so two documents that could both be chosen
    are equally likely in either order. A clicked document is preferred to each unclicked one above the lowest click, and to the one
    right below it. Only pairs count in which both came after both could be chosen, each divided by the probability of that. The
    credit of a ranker is the sum over those pairs, positive if it agrees, negative if it does not.

    The pairs are those of the authors' code (HarrieO/OnlineLearningToRank). In another public implementation (mpkato/interleaving)
    a clicked document is preferred to the documents not clicked above that same click and the one right below it, instead of those
    around the lowest click: with several clicks it has fewer pairs.

    If clicks have weights, a preference counts by the difference of the two, so a purchase is preferred to a click as well.

    The paper averages over the pairs of an impression in its code and sums in its text; the winners are the same, and here it is
    the sum. For given pairs, a ranker that moves a clicked document up never loses credit. But the set of pairs depends on the tops
    of all rankers, so a change of the documents in a top may remove a pair.

    References
    ----------
    Oosterhuis and de Rijke, "Sensitive and scalable online evaluation with theoretical guarantees" (CIKM 2017).

    Examples
    --------
    All users click on document a, which is first for one ranker and last for the other. Some lists have no such pair:

    >>> from duelrank import Comparison
    >>> from duelrank.multileaving import PairwisePreference
    >>> comparison = Comparison(["good", "bad"], PairwisePreference(), length=3)
    >>> for _ in range(100):
    ...     shown = comparison.show({"good": ["a", "b", "c"], "bad": ["c", "b", "a"]})
    ...     counted = comparison.record(shown, clicks=["a"])
    >>> comparison.result().wins.tolist()
    [[0, 82], [0, 0]]
    """

    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return the list, each document's ranks and earliest possible position, and the number of choices at each position."""
        ranking, earliest, choices = kernel.pairwise_preference_leave(rankings, length, stream)
        return ranking, {"ranks": shown_ranks(rankings, ranking), "earliest": earliest, "choices": choices}

    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return the weight of the preferences that each ranker agrees with, minus those that it contradicts."""
        trace = impression.trace
        sums: Credit = kernel.pairwise_preference_credit(trace["ranks"], trace["earliest"], trace["choices"], gains)
        return sums


@register
@dataclass(frozen=True, repr=False)
class ContestedPairs(RanksOfShown):
    """Make a team-draft list, and score each ranker by the preferences of the user that it shares, above all the contested ones.

    A clicked document is preferred to each one above the last click that was not clicked, and to the one right below it. A ranker
    that has such a pair in the user's order gets ρ: the share of rankers that have the pair in the order opposite to the list.

    Users click at the top, independently of the documents there, so a click mostly confirms the order that was shown. If each order
    of a pair is shown in proportion to the rankers that have it, ρ compensates this: the more frequent order counts less, and
    clicks that do not depend on the documents favour neither. If all rankers agree on a pair, it does not count. A team draft does
    not have these probabilities exactly: a document that half of the rankers have first and half last is mostly shown far above the
    middle. The remaining bias is against such documents: if skipped, they lose to every click below.

    If clicks have weights, a preference counts by the difference of the two.

    References
    ----------
    Oosterhuis and de Rijke, "Differentiable unbiased online learning to rank" (CIKM 2018), for ρ, of the lists of one ranker.

    Examples
    --------
    Document 1 of the list 0, 1, 2 was clicked, so it is preferred to both others. Rankers that agree get credit:

    >>> import numpy as np
    >>> from duelrank import Impression, Query
    >>> from duelrank.multileaving import ContestedPairs
    >>> from duelrank.core.randomness import stream
    >>> ranking = np.array([0, 1, 2])
    >>> trace = ContestedPairs().evidence(np.array([[0, 1, 2], [0, 2, 1], [1, 0, 2]]), ranking)
    >>> shown = Impression(Query("shoes", [[0.9], [0.5], [0.1]]), ranking, trace)
    >>> ContestedPairs().assign_credit(shown, np.array([0.0, 1.0, 0.0]), stream(1, "credit")).round(2).tolist()
    [0.33, 0.0, 0.67]
    """

    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return the sum of ρ over the preferences that each ranker shares with the user."""
        points: Credit = kernel.contested_pairs_credit(impression.trace["ranks"], gains)
        return points


@register
@dataclass(frozen=True, repr=False)
class OptimizedInterleaving(Multileaver):
    """Draw from all lists that two rankings allow, with probabilities that are unbiased and, among those, most sensitive.

    A list is allowed if each of its prefixes is the union of a prefix of one ranking and a prefix of the other. Unbiased means that
    a user who clicks at random in the top k gives both rankers equal credit, for every k. The sensitivity of a list is the
    probability that one click decides, times the entropy of the winner, with click probabilities proportional to 1/position.

    If no probabilities are unbiased, those with the smallest sum of violations are used. A document below the first ``length`` of a
    ranking counts as the next one after them, as in the paper, where rankings are as long as the list; a document that a ranker did
    not return gives it no credit. The linear programme needs SciPy (extra ``scipy``).

    Parameters
    ----------
    scoring
        The credit of a click for a ranker: "linear" in the rank of the clicked document (the paper's linear rank difference), or
        "inverse" to it.

    References
    ----------
    Radlinski and Craswell, "Optimized interleaving for online retrieval evaluation" (WSDM 2013).

    Examples
    --------
    Two rankings of three documents allow three lists of the possible six:

    >>> import numpy as np
    >>> from duelrank.multileaving import OptimizedInterleaving
    >>> from duelrank.core.randomness import stream
    >>> rankings = np.array([[0, 1, 2], [1, 2, 0]])
    >>> lists = [OptimizedInterleaving().leave(rankings, 3, stream(1, "list", n))[0] for n in range(100)]
    >>> sorted({tuple(each.tolist()) for each in lists})
    [(0, 1, 2), (1, 0, 2), (1, 2, 0)]
    """

    most_rankers: ClassVar[int | None] = 2

    scoring: Scoring = "inverse"

    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return the list, and the rank of each shown document in both rankings, or ``length`` if it is not in the top."""
        self.check_rankers(rankings.shape[0])
        if length > _LONGEST:
            raise InvalidValue(
                f"OptimizedInterleaving enumerates all possible lists, which are too many for {length} positions "
                f"(at most {_LONGEST}); use OptimizedMultileaving, which draws some"
            )
        tops = rankings[:, :length].ravel()
        documents = np.array(list(dict.fromkeys(tops[tops >= 0].tolist())))
        first, second = _top_ranks(rankings, documents, length).tolist()
        lists, ranks, bounds = _lists(tuple(first), tuple(second), length, self.scoring)
        chosen = min(int(np.searchsorted(bounds, uniform(stream), side="right")), len(lists) - 1)
        return documents[lists[chosen]], {"ranks": ranks[chosen]}

    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return the sum of the credit of all clicks for each ranker."""
        return _earned(_worth(impression.trace["ranks"], self.scoring), gains)


@lru_cache(maxsize=512)
def _lists(
    first: tuple[int, ...], second: tuple[int, ...], length: int, scoring: Scoring
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Return all lists that two rankings allow, the ranks of their documents in both, and the cumulative probabilities.

    ``first`` and ``second`` contain the ranks of document 0, 1, 2, …. Only the relative order of two rankings matters, so solutions
    are cached.
    """
    table = np.array([first, second])
    tops = [[int(document) for document in np.argsort(row, kind="stable") if row[document] < length] for row in table]
    lists = np.array(_allowed(tops, length, ()), np.int64)
    ranks = np.stack([row[lists] for row in table], axis=1)
    credits = _worth(ranks, scoring)
    chances = _list_chances(_prefix_bias(credits), _sensitivity(credits))
    return lists, ranks, chances.cumsum()


def _allowed(tops: list[list[int]], length: int, shown: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return all extensions of a prefix: with the best remaining document of either ranking."""
    if len(shown) == length:
        return [shown]
    left = ([document for document in top if document not in shown] for top in tops)
    following = {documents[0] for documents in left if documents}
    return [found for document in sorted(following) for found in _allowed(tops, length, (*shown, document))]


def _sensitivity(worth: Floats) -> Floats:
    """Return P(a click decides) · entropy of the winner, for each list."""
    lead = worth[:, 0] - worth[:, 1]
    clicks = _click_chances(lead.shape[1])
    wins = np.stack([((lead > 0) * clicks).sum(axis=1), ((lead < 0) * clicks).sum(axis=1)])
    decided = wins.sum(axis=0)
    shares = np.divide(wins, decided, out=np.zeros_like(wins), where=decided > 0)
    values: Floats = decided * -(shares * logs(np.where(shares > 0, shares, 1.0))).sum(axis=0)
    return values


@register
@dataclass(frozen=True, repr=False)
class OptimizedMultileaving(Multileaver):
    """Draw some lists, then choose among them with probabilities that are least biased and, among those, most sensitive.

    A click on a document gives each ranker a credit of 1/rank, 1/(length + 1) if the document is below its top, and 0 if the ranker
    did not return it. Unbiased means that a user who clicks at random in the top k gives all rankers equal credit, for every k. A
    list is sensitive if the credit of the rankers varies little for clicks with probabilities proportional to 1/position: then
    differences are due to the documents.

    A few lists rarely allow probabilities without any bias. This implementation minimises the sum of all violations, and then
    maximises sensitivity. The linear programme needs SciPy (extra ``scipy``).

    Parameters
    ----------
    n_lists
        Number of lists to draw, each position from a ranker chosen at random. More lists give less bias, but take longer.

    References
    ----------
    Schuth et al., "Multileaved comparisons for fast online evaluation" (CIKM 2014).

    Examples
    --------
    Document 1 is clicked. It is second for the first ranker, first for the second, and second for the third:

    >>> import numpy as np
    >>> from duelrank import Impression, Query
    >>> from duelrank.multileaving import OptimizedMultileaving
    >>> from duelrank.core.randomness import stream
    >>> rankings = np.array([[0, 1, 2], [1, 2, 0], [2, 1, 0]])
    >>> ranking, trace = OptimizedMultileaving().leave(rankings, 3, stream(1, "list"))
    >>> shown = Impression(Query("shoes", [[0.9], [0.5], [0.1]]), ranking, trace)
    >>> OptimizedMultileaving().assign_credit(shown, (ranking == 1).astype(float), stream(1, "credit")).tolist()
    [0.5, 1.0, 0.5]
    """

    n_lists: Annotated[int, Between(1, 1000)] = 10

    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return the list, and the rank of each shown document in each ranking, or ``length`` if it is not in the top."""
        lists = np.unique(draw_lists(rankings, length, self.n_lists, stream), axis=0)
        ranks = np.stack([_top_ranks(rankings, each, length) for each in lists])
        credits = _worth(ranks)
        chances = _list_chances(_prefix_bias(credits), -(credits * _click_chances(length)).sum(axis=2).var(axis=1))
        chosen = min(int(np.searchsorted(chances.cumsum(), uniform(stream), side="right")), len(lists) - 1)
        return lists[chosen], {"ranks": ranks[chosen]}

    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return the sum of gain/rank over the clicks."""
        return _earned(_worth(impression.trace["ranks"]), gains)


# Helpers of both optimized methods.


def _click_chances(length: int) -> Floats:
    """Return the probability of a click at each position, independent of the documents: ∝ 1/position, as in both papers."""
    chances = 1.0 / np.arange(1.0, length + 1.0)
    return _normalised(chances)


def _top_ranks(rankings: Rankings, ranking: Ranking, length: int) -> NDArray[np.int64]:
    """Return the rank of each document in each ranking: ``length`` if it is below the top, MISSING if it was not returned."""
    ranks = shown_ranks(rankings, ranking)
    clipped: NDArray[np.int64] = np.where(ranks < MISSING, np.minimum(ranks, length), MISSING)
    return clipped


def _worth(ranks: NDArray[np.int64], scoring: Scoring = "inverse") -> Floats:
    """Return the credit of a click on documents of these ranks (from 0), or 0 if not returned; the last axis is the list."""
    places = 1.0 + ranks
    values = ranks.shape[-1] + 1.0 - places if scoring == "linear" else 1.0 / places
    given: Floats = np.where(ranks < MISSING, values, 0.0)
    return given


def _earned(worth: Floats, gains: Gains) -> Credit:
    """Return the sum over the clicks of the gain times the worth of the click to each ranker."""
    clicked = gains > 0.0
    sums: Credit = (worth[:, clicked] * gains[clicked]).sum(axis=1)
    return sums


def _prefix_bias(credits: Floats) -> Floats:
    """Return the credit of each ranker minus that of the one before, for clicks anywhere in the top k, for each k and list.

    The input is the credit (n_lists, n_rankers, length) of a click at each position; the shape of the result is
    ((n_rankers − 1) · length, n_lists).
    """
    leads: Floats = np.diff(credits.cumsum(axis=2), axis=1)
    return leads.reshape(leads.shape[0], -1).T


def _list_chances(bias: Floats, gain: Floats) -> Floats:
    """Return the probabilities p that minimise Σ|bias · p| (to 0 if possible) and, among those, maximise gain · p."""
    n_constraints, n_lists = bias.shape
    if n_lists == 1:
        return np.ones(1)
    # The variables: p, then the two sides of each violation, bias · p = over − under.
    slack = np.eye(n_constraints)
    balance = np.hstack([bias, -slack, slack])
    certain = np.concatenate([np.ones(n_lists), np.zeros(2 * n_constraints)])
    violation = 1.0 - certain
    least = float((violation * _solve(violation, np.vstack([balance, certain]))).sum())
    wanted = np.concatenate([-gain, np.zeros(2 * n_constraints)])
    chances = _solve(wanted, np.vstack([balance, certain]), violation, least + _SLACK)[:n_lists]
    return _normalised(np.maximum(chances, 0.0))


def _normalised(chances: Floats) -> Floats:
    shares: Floats = chances / chances.sum()
    return shares


def _solve(cost: Floats, equal: Floats, bounded: Floats | None = None, bound: float = 0.0) -> Floats:
    """Minimise the cost; all rows of ``equal`` are 0 except the last, which is 1, and ``bounded`` is at most its bound."""
    try:
        from scipy.optimize import linprog
    except ImportError:
        raise MissingExtra(
            "optimized interleaving and multileaving need SciPy: pip install 'duelrank[scipy]'"
        ) from None

    right = np.append(np.zeros(equal.shape[0] - 1), 1.0)
    rows, limits = (None, None) if bounded is None else (bounded[np.newaxis], [bound])
    result = linprog(cost, A_ub=rows, b_ub=limits, A_eq=equal, b_eq=right, method="highs")
    if result.x is None:
        raise InvalidValue(f"the probabilities of the lists could not be found: {result.message}")
    solution: Floats = result.x
    return solution
