"""Defines `Learner`, a ranker that learns online with the methods rank, learn and observe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank.adapters.backfill import LogLearner
from duelrank.algorithms import Algorithm
from duelrank.algorithms.remembered import RememberedDocument, memory_of
from duelrank.algorithms.remembered import counted as counted_list
from duelrank.algorithms.represented import Represented
from duelrank.core.errors import DuelrankError, InvalidRecipe, InvalidValue, MissingExtra, ShapeMismatch, UnknownName
from duelrank.core.grammar import as_part
from duelrank.core.randomness import stream, stream_key
from duelrank.core.registry import counted, spell
from duelrank.core.snapshot import Snapshot
from duelrank.core.types import Feedback, Impression, Memory, Query, Ranking, State, Weights, frozen
from duelrank.core.validation import explained, whole_number
from duelrank.kernels.random import derive
from duelrank.representation import Raw, Representation
from duelrank.representation.curves import ShownCurve, shown_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from duelrank.adapters.pyterrier import Reranker

_SHOWN = 10  # features in the table of a notebook


@explained
class Learner:
    """A ranker that learns online: `rank` returns a list to show, `learn` updates the ranker from the clicks on it.

    Each impression has its own random stream, derived from the seed and the number of the impression, so random draws for one
    impression never affect another.

    Parameters
    ----------
    algorithm
        A recipe, or its text, such as ``"mgd-dsp"``.
    n_features
        Number of features of every document; optional if ``weights`` or ``feature_names`` are given.
    seed
        Random seed; the same seed and the same calls give identical results, to the bit.
    length
        Default number of documents in a list.
    weights
        Initial weights, such as those of the ranker in production; by default those of the algorithm, usually zeros. One finite
        number per feature, or a mapping from feature names to numbers, in which missing features start at 0. Weights that the
        update rule cannot lead to, such as those below 0 with `NonNegative`, raise an error.
    feature_names
        One name per feature; shown with the weights and saved in snapshots.

    Examples
    --------
    >>> from duelrank import Feedback, Learner, Query
    >>> learner = Learner("mgd-dsp", n_features=3, seed=7)
    >>> impression = learner.rank(Query("shoes", [[0.1, 0.9, 0.0], [0.8, 0.2, 0.5], [0.3, 0.3, 1.0]]))
    >>> sorted(impression.ranking.tolist())
    [0, 1, 2]
    >>> learner.learn(impression, Feedback([False, True, False]))
    >>> learner.state.step
    1

    Start from the weights of an existing ranker:

    >>> Learner("pdgd", feature_names=["bm25", "clicks", "age"], weights={"bm25": 1.0, "age": -0.5})
    <Learner pdgd: 3 features, learned from 0 lists; bm25 1, age -0.5, clicks 0>
    """

    def __init__(
        self,
        algorithm: Algorithm | str,
        n_features: int | None = None,
        seed: int = 0,
        length: int = 10,
        *,
        weights: ArrayLike | Mapping[str, float] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        self.algorithm: Algorithm = as_part(algorithm, Algorithm)
        if feature_names is None and isinstance(weights, Mapping):
            feature_names = list(weights)
        self.feature_names = None if feature_names is None else _checked_names(feature_names)
        given = None if weights is None else _checked_weights(weights, self.feature_names)
        self.n_features = _checked_number(n_features, given, self.feature_names)
        self.length = whole_number("length", length)
        self.ranked = 0  # number of lists made so far, which is the number of the next impression
        self._plant(seed)
        self.state: State = self.algorithm.start(self.n_features, stream(seed, "start"))
        if given is not None:
            if self.algorithm.per_query:
                raise InvalidRecipe(f"{spell(self.algorithm)} has a model for each query; it does not use weights")
            self.algorithm.check_linear("it cannot start with given weights, only from a snapshot")
            self.algorithm.check_allowed(given, self.feature_names)
            self.state = replace(self.state, weights=given)

    def _plant(self, seed: int) -> None:
        self._rank_key, self._learn_key = stream_key(seed, "rank"), stream_key(seed, "learn")
        self.seed = seed

    def __repr__(self) -> str:
        known = f"{counted(self.n_features, 'feature')}, learned from {counted(self.state.step, 'list')}"
        if not self.algorithm.linear:
            return f"<Learner {spell(self.algorithm)}: {known}; {len(self.weights):,} weights, not linear>"
        top = ", ".join(f"{name} {number}" for name, number in self._strongest(3, 3)) if self.feature_names else ""
        shown = "; " if self._has_weight_per_feature else "; ranges of curves: "
        return f"<Learner {spell(self.algorithm)}: {known}{shown if top else ''}{top}>"

    def _repr_html_(self) -> str:
        """Show the strongest features as a small table, in notebooks."""
        if not self.algorithm.linear:
            return f"<p>{escape(repr(self))}</p>"
        rows = (
            f"<tr><td>{escape(name)}</td><td style='text-align: right'>{number}</td></tr>"
            for name, number in self._strongest(_SHOWN, 4)
        )
        left = self.n_features - _SHOWN
        more = f"<tr><td colspan=2>… and {left:,} more</td></tr>" if left > 0 else ""
        head = f"<caption>{escape(spell(self.algorithm))}, learned from {counted(self.state.step, 'list')}</caption>"
        shown = "weight" if self._has_weight_per_feature else "range of its curve"
        return f"<table>{head}<tr><th>feature</th><th>{shown}</th></tr>{''.join(rows)}{more}</table>"

    def _strongest(self, n: int, digits: int) -> list[tuple[str, str]]:
        """Return the features that change scores most, with their weights and deviations, or with the ranges of their curves."""
        numbers, belief = self.weights, self.deviations if self._has_weight_per_feature else None
        if not self._has_weight_per_feature:
            numbers = np.array([np.ptp(curve.heights) for curve in self.representation.curves(numbers, self._seen)])
        order = np.argsort(-np.abs(numbers), kind="stable")[:n].tolist()
        ends = [""] * n if belief is None else [f" ± {number:.2g}" for number in belief[order]]
        return [
            (self._names[index], f"{numbers[index]:.{digits}g}{end}") for index, end in zip(order, ends, strict=False)
        ]

    @property
    def _names(self) -> tuple[str, ...]:
        return self.feature_names or tuple(f"feature {number}" for number in range(self.n_features))

    @property
    def _has_weight_per_feature(self) -> bool:
        return len(self.weights) == self.n_features

    @property
    def _seen(self) -> Memory:
        """The memory of the representation."""
        return self.state.of("representation").memory

    @property
    def representation(self) -> Representation:
        """The representation of the recipe; `Raw` if it has none."""
        return self.algorithm.representation if isinstance(self.algorithm, Represented) else Raw()

    @property
    def weights(self) -> Weights:
        """The current weights, read-only: one per feature; with a representation, one per column; all weights of a network."""
        return self.state.weights

    @property
    def deviations(self) -> NDArray[np.float64] | None:
        """The standard deviation of each weight, by the belief of the algorithm; None if it has no belief.

        Examples
        --------
        Thompson sampling is less certain of the weight of the rating, in which these documents hardly differ:

        >>> learner = Learner("thompson-pairs(prior=1)", feature_names=["price", "rating"])
        >>> for _ in range(64):
        ...     shown = learner.rank([[0.9, 0.5], [0.1, 0.6], [0.5, 0.5]])
        ...     learner.learn(shown, shown.ranking == 1)
        >>> learner
        <Learner ThompsonPairs(prior=1.0): 2 features, learned from 64 lists; price -0.616 ± 0.9, rating 0.105 ± 1>
        >>> dict(zip(learner.feature_names, learner.deviations.round(2).tolist()))
        {'price': 0.9, 'rating': 1.0}
        """
        return self.algorithm.deviations(self.state)

    def rank(self, query: Query | ArrayLike, length: int | None = None) -> Impression:
        """Return the list to show, with exploration. Keep the impression until the feedback arrives, then call `learn`.

        Parameters
        ----------
        query
            A query, here and in the other methods; or its features alone, one row per document: an array, lists, or a data frame.
            A learner with feature names selects the columns of these names from a data frame.
        length
            Number of documents to show; by default that of the learner.
        """
        fresh = derive(self._rank_key, self.ranked)
        asked = query if isinstance(query, Query) else self._query(query)
        impression = self.algorithm.rank(self.state, asked, self.length if length is None else length, fresh)
        self.ranked += 1
        return impression

    def learn(self, impression: Impression, feedback: Feedback | ArrayLike) -> None:
        """Learn from the feedback on a list; feedback may arrive in any order, late, or never.

        Parameters
        ----------
        impression
            The impression that `rank` or `observe` returned.
        feedback
            The feedback; or the clicks alone, True or False (1 or 0) for each shown position.
        """
        fresh = derive(self._learn_key, self.state.step)
        if not isinstance(impression, Impression):
            raise InvalidValue(
                f"expected the impression that rank() or observe() returned, got {type(impression).__name__}"
            )
        if not isinstance(feedback, Feedback):
            feedback = _as_feedback(feedback, len(impression.ranking))
        self.state = self.algorithm.learn(self.state, impression, feedback, fresh)

    def observe(self, query: Query | ArrayLike, ranking: ArrayLike) -> Impression:
        """Return the impression of a list that another system made and showed, such as one from a click log, for `learn`.

        Algorithms that learn only from their own lists raise `InvalidRecipe`. If possible, serve the lists of `rank`: they
        explore, so their clicks carry more information.

        Parameters
        ----------
        query
            The query with its candidate documents, at least those that were shown.
        ranking
            The indices in the query of the documents that were shown, best first.

        Examples
        --------
        >>> learner = Learner("pdgd", n_features=2)
        >>> query = Query("shoes", [[0.1, 0.9], [0.8, 0.2], [0.3, 0.3]])
        >>> shown = learner.observe(query, ranking=[2, 0, 1])
        >>> learner.learn(shown, Feedback([False, True, False]))
        >>> learner.best(query).tolist()
        [0, 2, 1]
        """
        query = self._checked_query(query)
        shown = _checked_ranking(ranking, query)
        fresh = derive(self._rank_key, self.ranked)
        impression = self.algorithm.observe_list(self.state, query, shown, fresh)
        self.ranked += 1
        return impression

    def backfill(self, log: Iterable[tuple[Query | ArrayLike, ArrayLike, Feedback | ArrayLike]]) -> None:
        """Learn from a log before the first list: from lists that another system ranked, with their clicks, in one pass.

        This is more than `observe` and `learn` for each list: a separate algorithm for lists of other systems learns from the log,
        so it works for every algorithm with weights (see `duelrank.adapters.backfill.LogLearner`), and the weights are scaled to a
        length that suits the exploration of this learner. A memory of queries counts the clicks of the log. Do it once, before the
        learner goes live.

        Parameters
        ----------
        log
            For each list the query, the indices of the documents that were shown, best first, and the feedback.

        Examples
        --------
        >>> query = Query("shoes", [[0.1, 0.9], [0.8, 0.2], [0.3, 0.3]])
        >>> learner = Learner("mgd-dsp", n_features=2)
        >>> learner.backfill([(query, [2, 0, 1], Feedback([False, True, False]))])
        >>> learner.best(query).tolist()
        [0, 2, 1]
        """
        learns, key, state = LogLearner(self.algorithm), stream_key(self.seed, "log"), self.state
        logged = learns.start(state)
        for entry in log:
            query, ranking, feedback = _log_entry(entry)
            query = self._checked_query(query)
            shown = _checked_ranking(ranking, query)
            if not isinstance(feedback, Feedback):
                feedback = _as_feedback(feedback, len(shown))
            logged = learns.learn(logged, query, shown, feedback, derive(key, logged.step))
            state = counted_list(self.algorithm, state, query, shown, feedback)
        self.state = learns.handed_over(state, logged)

    def sample(self, query: Query | ArrayLike, n: int = 31) -> NDArray[np.int64]:
        """Return lists that might be shown for a query now, each drawn independently: (n, length) rows, −1 behind the end.

        They show how likely each document is at each position, for `duelrank.evaluate`. Nothing that is shown or learned depends on
        them.

        Examples
        --------
        >>> learner = Learner("pdgd", n_features=1, length=2, weights=[3.0])
        >>> drawn = learner.sample(Query("shoes", [[0.1], [0.9], [0.3]]), 1_000)
        >>> drawn.shape, bool((drawn[:, 0] == 1).mean() > 0.6)
        ((1000, 2), True)
        """
        query = self._checked_query(query)
        key = stream_key(self.seed, f"sample/{self.ranked}")
        drawn = np.full((whole_number("n", n), min(self.length, query.n_documents)), -1, np.int64)
        for number, row in enumerate(drawn):
            ranking = self.algorithm.rank(self.state, query, self.length, derive(key, number)).ranking
            row[: len(ranking)] = ranking
        return drawn

    def best(self, query: Query | ArrayLike) -> Ranking:
        """Rank all documents by the current weights, best first, without exploration."""
        return self.algorithm.best(self.state, self._query(query), derive(self._rank_key, self.ranked))

    def boosts(self, query: Query) -> NDArray[np.float64]:
        """Return what the memory of a recipe such as ``remember >> mgd-dsp`` adds to the scores of a query's documents."""
        recalled = self.algorithm.recalled(self.state, self._checked_query(query)).boosts
        return recalled if recalled.size else np.zeros(query.n_documents)

    def remembered(self, query: Query | str) -> list[RememberedDocument]:
        """Return the documents that are remembered for a query, or for its id, those with the largest boosts first.

        Clicks and views are fractions if older ones fade, or if an examination model says how likely a document was seen.

        Examples
        --------
        >>> learner = Learner("remember >> mgd-dsp", n_features=2)
        >>> query = Query("red shoes", [[0.5, 0.5], [0.5, 0.5]], documents=["runner", "hiker"])
        >>> for _ in range(3):
        ...     shown = learner.rank(query)
        ...     learner.learn(shown, shown.ranking == 1)
        >>> for each in learner.remembered("red shoes"):
        ...     print(each.document, each.clicks, round(each.views, 2), round(each.boost, 2))
        hiker 3.0 3.0 0.57
        runner 0.0 0.7 -1.05
        """
        remember = memory_of(self.algorithm)
        if remember is None:
            raise InvalidRecipe(
                f"{spell(self.algorithm)} remembers no queries; remember >> {spell(self.algorithm)} does"
            )
        return remember.remembered(self.state.of("remember").memory, query.id if isinstance(query, Query) else query)

    def snapshot(self) -> Snapshot:
        """Return a snapshot from which `restore` continues exactly."""
        counts = (self.n_features, self.seed, self.length, self.ranked)
        return Snapshot(repr(self.algorithm), *counts, self.state, self.feature_names)

    def restore(self, snapshot: Snapshot) -> None:
        """Return to the state in a snapshot of the same recipe and continue from there."""
        snapshot.check()
        own = (repr(self.algorithm), self.n_features)
        if own != (snapshot.algorithm, snapshot.n_features):
            taken = f"{snapshot.algorithm} with {counted(snapshot.n_features, 'feature')}"
            raise InvalidValue(f"the snapshot is of {taken}, but this learner is {own[0]} with {own[1]}")
        if self.feature_names and snapshot.feature_names and self.feature_names != snapshot.feature_names:
            raise InvalidValue("the snapshot has other feature names than this learner")
        self._plant(snapshot.seed)
        self.feature_names = snapshot.feature_names or self.feature_names
        self.length, self.ranked, self.state = snapshot.length, snapshot.ranked, snapshot.state

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot) -> Learner:
        """Create a learner from a snapshot."""
        learner = cls(snapshot.algorithm, snapshot.n_features)
        learner.restore(snapshot)
        return learner

    def score(self, query: Query | ArrayLike) -> NDArray[np.float64]:
        """Return the scores of a query's documents by the current weights; those of two queries cannot be compared."""
        self._check_weights("scores")
        query = self._checked_query(query)
        return self.algorithm.scores(self.state, query.features, np.array([0, query.n_documents]))

    def curves(self) -> list[ShownCurve]:
        """Return the contribution of each feature to the score, the features with the largest effect on rankings first.

        A ranker that is not linear, such as a neural network, has no such curves: `InvalidRecipe` is raised.
        """
        self._check_weights("curves")
        self.algorithm.check_linear(
            "features do not add to the score one by one, so there are no curves; score() works"
        )
        return shown_curves(self.representation, self.weights, self._seen, self._names, self.deviations)

    def plot(self, features: int = 12) -> Figure:
        """Draw the contribution of the values of each feature to the score; needs the extra ``plot``.

        Features with the largest effect on rankings come first; light bars show the distribution of the documents seen.

        Parameters
        ----------
        features
            Maximum number of features to draw; the title has the number of the others.
        """
        from duelrank.drawing import feature_curves

        curves = self.curves()
        title = f"{spell(self.algorithm)}, learned from {counted(self.state.step, 'list')}"
        return feature_curves(curves, title, whole_number("features", features))

    def _query(self, given: Query | ArrayLike) -> Query:
        """Return the query; a table of features is converted."""
        if isinstance(given, Query):
            return given
        if self.algorithm.per_query:
            raise InvalidRecipe(
                f"{spell(self.algorithm)} has a model for each query: give Query(id, features), not features alone"
            )
        try:
            return Query("", _in_order(given, self.feature_names), missing=self.algorithm.fills)
        except DuelrankError as error:
            raise type(error)(
                f"expected a Query, or its features as a table with a row for each document: {error}"
            ) from None

    def _checked_query(self, given: Query | ArrayLike) -> Query:
        query = self._query(given)
        if (found := query.features.shape[1]) != self.n_features:
            raise ShapeMismatch(f"the ranker has {counted(self.n_features, 'feature')}, query {query.id!r} has {found}")
        self.algorithm.check_features(self.state, query)
        return query

    def _check_weights(self, what: str) -> None:
        if self.algorithm.per_query:
            raise InvalidRecipe(
                f"{spell(self.algorithm)} has a model for each query and no weights, so it has no {what}"
            )

    def to_pyterrier(self, scale: Literal["none", "query"] = "none") -> Reranker:
        """Return a PyTerrier transformer that re-ranks by the current weights: ``pipeline >> learner.to_pyterrier()``.

        It scores the arrays in the column ``features``, one per document, and always uses the latest weights of the learner. A
        representation in the recipe, such as ``query-scaled >> mgd-dsp``, is applied first.

        Parameters
        ----------
        scale
            For a recipe without a representation. "query": first scale every feature to [0, 1] within each query, as in prepared
            data sets; "none": do not scale.
        """
        if self.algorithm.per_query:
            raise InvalidRecipe(
                f"{spell(self.algorithm)} has a model for each query and no weights, so it cannot rank other queries"
            )
        try:
            from duelrank.adapters.pyterrier import Reranker
        except ImportError:
            raise MissingExtra("to_pyterrier() needs PyTerrier: pip install 'duelrank[pyterrier]'") from None
        return Reranker(self, scale)


def _checked_names(given: Sequence[str]) -> tuple[str, ...]:
    names = () if isinstance(given, str) else tuple(given)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidValue(f"feature_names must be a list of non-empty strings, one per feature, got {given!r}")
    if twice := [name for name in names if names.count(name) > 1]:
        raise InvalidValue(f"feature_names must be unique, {twice[0]!r} occurs twice")
    return names


def _checked_weights(given: ArrayLike | Mapping[str, float], names: tuple[str, ...] | None) -> Weights:
    if isinstance(given, Mapping):
        known = names or ()
        if unknown := [name for name in given if name not in known]:
            raise UnknownName.among("feature", str(unknown[0]), known)
        given = [given.get(name, 0.0) for name in known]
    try:
        weights = np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"weights must be one number per feature: {error}") from None
    if weights.ndim != 1 or not weights.size:
        raise ShapeMismatch(f"weights must be one number per feature, got shape {weights.shape}")
    if not np.isfinite(weights).all():
        raise InvalidValue(f"weights must be finite, found {weights[~np.isfinite(weights)][0]}")
    return frozen(np.ascontiguousarray(weights))


def _checked_number(n_features: int | None, weights: Weights | None, names: tuple[str, ...] | None) -> int:
    """Return the number of features from the arguments that determine it, which must agree."""
    numbers: dict[str, int] = {}
    if n_features is not None:
        numbers["n_features"] = whole_number("n_features", n_features)
    if weights is not None:
        numbers["weights"] = weights.shape[0]
    if names is not None:
        numbers["feature_names"] = len(names)
    if not numbers:
        raise InvalidValue("n_features must be a whole number from 1 up, unless feature_names or weights are given")
    if len(set(numbers.values())) > 1:
        found = ", ".join(f"{name} {number}" for name, number in numbers.items())
        raise ShapeMismatch(f"the arguments disagree on the number of features: {found}")
    return next(iter(numbers.values()))


def _in_order(given: Any, names: tuple[str, ...] | None) -> Any:
    """Return a table of features; the columns of a data frame in the order of the names, if there are any."""
    columns = getattr(given, "columns", None)
    if columns is None or names is None:
        return given
    if missing := [name for name in names if name not in set(columns)]:
        raise UnknownName.among("column", missing[0], map(str, columns))
    return given[list(names)]


def _log_entry(entry: Any) -> tuple[Any, Any, Any]:
    if not isinstance(entry, (tuple, list)) or len(entry) != 3:
        raise InvalidValue(f"each entry of a log must be (query, ranking, feedback), got {entry!r}")
    return entry[0], entry[1], entry[2]


def _as_feedback(given: ArrayLike, shown: int) -> Feedback:
    """Return feedback from the clicks alone, if these are one flag for each shown position."""
    try:
        feedback = Feedback(given)
    except DuelrankError:
        feedback = None
    if feedback is None or len(feedback.clicks) != shown:
        raise InvalidValue(
            f"expected Feedback, or True or False (1 or 0) for each of the {shown} shown positions, got {given!r}; "
            f"from clicked positions, counted from 0, make Feedback(np.isin(np.arange({shown}), positions))"
        )
    return feedback


def _checked_ranking(given: ArrayLike, query: Query) -> Ranking:
    allowed = f"a ranking must be distinct document indices from 0 to {query.n_documents - 1}"
    try:
        ranking = np.asarray(given)
    except ValueError:
        raise InvalidValue(f"{allowed}, got {given!r}") from None
    if ranking.ndim != 1 or not ranking.size or ranking.dtype.kind not in "iu":
        raise InvalidValue(f"{allowed}, got {given!r}")
    if ranking.min() < 0 or ranking.max() >= query.n_documents or np.unique(ranking).size < ranking.size:
        raise InvalidValue(f"{allowed}, got {ranking.tolist()}")
    return frozen(np.ascontiguousarray(ranking, np.int64))
