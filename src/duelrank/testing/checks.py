"""Checks the conventions that every algorithm must follow, with short runs on a tiny data set."""

from __future__ import annotations

import pickle  # only to check that a recipe reaches a worker process unchanged
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from functools import lru_cache
from inspect import getdoc
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms import Algorithm
from duelrank.core.errors import DuelrankError, InvalidRecipe
from duelrank.core.grammar import as_part, parse
from duelrank.core.memory import flatten, for_ranking
from duelrank.core.randomness import stream
from duelrank.core.registry import Between, P, Part, classes, replaced_at, spell, walk
from duelrank.core.snapshot import Snapshot
from duelrank.core.types import Feedback, Impression, Query, State, same_arrays
from duelrank.datasets import Split
from duelrank.kernels.random import derive, normals
from duelrank.learner import Learner
from duelrank.metrics import nDCG
from duelrank.users import Cascade

T = TypeVar("T")
Check = Callable[[Algorithm], None]

# A user who clicks relevant documents, sometimes irrelevant ones, and rarely stops.
_CLICKER = Cascade(click_probability=(0.1, 0.5, 0.9), stop_probability=(0.05, 0.1, 0.2))


def check_algorithm(algorithm: Algorithm | str) -> None:
    """Run all checks on an algorithm or its text.

    A failed check raises an AssertionError that says what is wrong and what to do, or the error of the algorithm; a note names the
    check. An algorithm that moves its weights without a click declares ``moves_without_clicks``.

    Examples
    --------
    >>> from duelrank.testing import check_algorithm
    >>> print(check_algorithm("mgd(n_candidates=2)"))  # it passes
    None
    """
    recipe = as_part(algorithm, Algorithm)
    run_checks(CHECKS, recipe, spell(recipe))


def require(condition: object, problem: str, remedy: str) -> None:
    """Raise an AssertionError with two sentences unless the condition holds; unlike `assert`, also under ``python -O``."""
    if not condition:
        raise AssertionError(f"{problem}. {remedy}.")


def run_checks(checks: Iterable[Callable[[T], None]], checked: T, name: str) -> None:
    """Run checks one by one; an error of any kind gets a note that names the check and the expectation."""
    for check in checks:
        try:
            check(checked)
        except Exception as error:
            label = getattr(check, "__name__", repr(check))
            error.add_note(f"{label} of {name}: {getdoc(check) or ''}".rstrip(": "))
            raise


@lru_cache(maxsize=32)
def tiny_split(n_queries: int = 12, n_documents: int = 8, n_features: int = 20, seed: int = 0) -> Split:
    """Make queries whose grades, 0 to 2, follow hidden weights 1, −1, 1, … without noise.

    Examples
    --------
    >>> from duelrank.testing import tiny_split
    >>> split = tiny_split()
    >>> split.features.shape, len(split.offsets) - 1
    ((96, 20), 12)
    """
    fresh = stream(seed, "tiny")
    n = n_queries * n_documents
    features = normals(fresh, n, n_features)
    features = (features - features.min()) / (features.max() - features.min())
    scores = features @ np.resize([1.0, -1.0], n_features)
    labels = np.digitize(scores, np.quantile(scores, (0.6, 0.85))).astype(np.int8)
    ids = np.array([f"q{i}".encode() for i in range(n_queries)])
    return Split(features, labels, np.arange(0, n + 1, n_documents), ids)


def play(algorithm: Algorithm, n_impressions: int, seed: int = 0, learner: Learner | None = None) -> Learner:
    """Run a learner, by default a new one, on the tiny queries for some impressions.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank import parse
    >>> from duelrank.testing import play
    >>> learner = play(parse("mgd"), n_impressions=30)
    >>> float(np.linalg.norm(learner.weights).round(2))
    0.03
    """
    split = tiny_split()
    learner = learner or Learner(algorithm, split.n_features, seed, length=5)
    for _ in range(n_impressions):
        index = learner.ranked % len(split)
        impression = learner.rank(split.query(index))
        shown = split.judgements(index)[impression.ranking]
        learner.learn(impression, _CLICKER.click(shown, derive(seed, learner.ranked)))
    return learner


def _query(index: int = 0) -> Query:
    return tiny_split().query(index)


def _one_click(impression: Impression) -> Feedback:
    """Return a click on the second position of a list, or on the first if there is no second."""
    clicks = np.zeros(impression.ranking.shape[0], np.bool_)
    clicks[min(1, clicks.size - 1)] = True
    return Feedback(clicks, examined=clicks.size)


def _require_finite(learner: Learner) -> None:
    require(
        np.isfinite(learner.weights).all(),
        "learning has made weights that are NaN or infinite",
        "Look for a division by zero, a logarithm of zero or steps that grow in gradient() and update()",
    )


def _require_steps(learner: Learner, expected: int) -> None:
    require(
        learner.state.step == expected,
        f"State.step is {learner.state.step} after learning from {expected} impressions",
        "Return State(weights, state.step + 1, ...) from learn(), or leave learn() as Algorithm has it",
    )


def check_recipe_is_a_value(algorithm: Algorithm) -> None:
    """A recipe is equal to what its repr parses to and to its pickled copy, and can be hashed."""
    advice = (
        "Make every class of it a frozen dataclass (repr=False) of parts, numbers, strings and tuples, with @register"
    )
    again = parse(repr(algorithm))
    require(again == algorithm, f"{algorithm!r} is not equal to what its text parses to, {again!r}", advice)
    copy = pickle.loads(pickle.dumps(algorithm))  # noqa: S301  # our own bytes
    require(copy == algorithm, f"{algorithm!r} is not equal to its pickled copy, {copy!r}", advice)
    require(hash(again) == hash(algorithm), f"{algorithm!r} and an equal recipe have different hashes", advice)


def check_ranking_does_not_change_the_state(algorithm: Algorithm) -> None:
    """Exploring does not change the state."""
    learner = play(algorithm, 30)
    before = learner.snapshot().state
    learner.rank(_query())
    require(
        learner.state is before,
        "rank() has changed the state of the learner",
        "Put everything about a list that learning needs into Impression.trace",
    )


def check_ranking_has_no_duplicates(algorithm: Algorithm) -> None:
    """A list contains distinct documents of the query, as many as requested."""
    learner = play(algorithm, 30)
    for length in (1, 3, 8):
        ranking = learner.rank(_query(), length).ranking
        require(
            ranking.shape == (length,) and set(ranking.tolist()) <= set(range(8)) and np.unique(ranking).size == length,
            f"a list of {length} of the documents 0 to 7 was requested, explore() returned {ranking.tolist()}",
            f"Return {length} distinct document indices, best first, as a one-dimensional array",
        )


def check_list_longer_than_the_documents(algorithm: Algorithm) -> None:
    """If the list is longer than the number of documents, all are shown, and learning works."""
    learner = play(algorithm, 30)
    impression = learner.rank(_query(), 50)
    require(
        sorted(impression.ranking.tolist()) == list(range(8)),
        f"a list of 50 was requested for a query with 8 documents, explore() returned {impression.ranking.tolist()}",
        "Return each document once",
    )
    learner.learn(impression, _one_click(impression))


def check_one_document(algorithm: Algorithm) -> None:
    """A query with a single document can be shown and learned from; the weights stay finite."""
    learner = play(algorithm, 30)
    impression = learner.rank(Query("single", tiny_split().features[:1]))
    require(
        impression.ranking.tolist() == [0],
        f"a query has one document, explore() returned {impression.ranking.tolist()}",
        "Return document 0",
    )
    learner.learn(impression, _one_click(impression))
    _require_finite(learner)


def check_all_ties(algorithm: Algorithm) -> None:
    """Equal documents are shown in more than one order, and weights stay finite."""
    learner = play(algorithm, 30)
    query = Query("alike", np.ones((6, learner.n_features)))
    orders = set()
    for _ in range(40):
        impression = learner.rank(query)
        orders.add(tuple(impression.ranking.tolist()))
        learner.learn(impression, _one_click(impression))
    require(
        len(orders) > 1,
        f"six equal documents were shown 40 times in the same order, {min(orders)}",
        "Order documents of equal score at random, such as with duelrank.kernels.ranking.rankings",
    )
    _require_finite(learner)


def check_no_click_moves_nothing(algorithm: Algorithm) -> None:
    """Without a click the weights do not change, unless the algorithm declares that, and the impression is counted."""
    learner = play(algorithm, 30)
    before, step = learner.weights, learner.state.step
    impression = learner.rank(_query())
    learner.learn(impression, Feedback(np.zeros(impression.ranking.size, np.bool_), examined=impression.ranking.size))
    require(
        learner.weights is before or algorithm.moves_without_clicks,
        "a list without a click has changed the weights",
        "Return a gradient of zeros for a list without a click; if the algorithm is meant to learn from such lists, "
        "declare moves_without_clicks: ClassVar[bool] = True in its class",
    )
    _require_finite(learner)
    _require_steps(learner, step + 1)


def check_late_and_reversed_feedback(algorithm: Algorithm) -> None:
    """Impressions that are open at the same time can be learned from in any order."""
    learner = play(algorithm, 30)
    open_impressions = [learner.rank(_query(index)) for index in range(5)]
    for impression in reversed(open_impressions):
        learner.learn(impression, _one_click(impression))
    _require_steps(learner, 35)
    _require_finite(learner)


def check_repeated_feedback_counts_twice(algorithm: Algorithm) -> None:
    """Repeated feedback counts as another user, and everything stays finite."""
    learner = play(algorithm, 30)
    impression = learner.rank(_query())
    for _ in range(3):
        learner.learn(impression, _one_click(impression))
    _require_steps(learner, 33)
    _require_finite(learner)


def check_missing_feedback_leaves_no_trace(algorithm: Algorithm) -> None:
    """Impressions without feedback do not affect the state."""
    one, other = play(algorithm, 30), play(algorithm, 30)
    impression = one.rank(_query())
    one.rank(_query(1))
    one.rank(_query(2))
    one.learn(impression, _one_click(impression))
    same = other.rank(_query())
    other.learn(same, _one_click(same))
    require(
        one.state == other.state,
        "two lists that were ranked and never learned from have changed what is learned from another list",
        "Keep nothing of a list outside Impression.trace, and draw random numbers only from the given stream",
    )


def check_learning_is_deterministic(algorithm: Algorithm) -> None:
    """Equal seeds give equal states, to the bit; different seeds give different states."""
    require(
        play(algorithm, 60).state == play(algorithm, 60).state,
        "two learners with the same seed, queries and clicks have learned different states",
        "Draw random numbers only from the given stream, and iterate over no sets",
    )
    require(
        play(algorithm, 60, seed=1).state != play(algorithm, 60, seed=2).state,
        "the seeds 1 and 2 have led to the same state",
        "Use the given stream for exploration and ties; check that anything is learned at all",
    )


def check_learning_is_pure(algorithm: Algorithm) -> None:
    """Learning twice from one state gives the same result, and does not change that state."""
    learner = play(algorithm, 30)
    state = learner.state
    copy = Snapshot.from_bytes(learner.snapshot().to_bytes()).state
    impression = learner.rank(_query())
    results = [algorithm.learn(state, impression, _one_click(impression), derive(1, 1)) for _ in range(2)]
    require(
        results[0] == results[1],
        "learn() has returned two states for the same state, impression, feedback and stream",
        "Keep nothing between calls: what is learned belongs in the State",
    )
    require(
        state == copy,
        "learn() has changed the state that it was given",
        "Copy arrays of the state before changing them",
    )


def check_explained_step_is_the_step(algorithm: Algorithm) -> None:
    """Explaining a step does not change the stream; the step ends where learning ends, and has no direction without clicks."""
    learner = play(algorithm, 30)
    impression, stream = learner.rank(_query()), derive(1, 1)
    step = algorithm.explain_step(learner.state, impression, _one_click(impression), stream)
    require(
        np.array_equal(stream, derive(1, 1)),
        "explain_step() has drawn from the stream that it was given",
        "Give stream.copy() to the functions that draw",
    )
    after = algorithm.learn(learner.state, impression, _one_click(impression), stream)
    require(
        np.array_equal(step.before, learner.state.weights) and np.array_equal(step.after, after.weights),
        "explain_step() starts or ends at other weights than learn()",
        "Return the weights of the given state as before, those of learn() with the same arguments as after",
    )
    require(
        step.followed.any() == (after.updates > learner.state.updates),
        "StepExplanation.followed is zero although learn() has counted an update, or is not zero although it has counted none",
        "Return the direction that learn() follows, after any projection",
    )
    nothing = Feedback(np.zeros(impression.ranking.shape[0], np.bool_))
    require(
        algorithm.moves_without_clicks
        or not algorithm.explain_step(learner.state, impression, nothing, derive(1, 1)).direction.any(),
        "explain_step() returns a direction for a list without a click",
        "Return zeros; an algorithm that learns from such lists declares moves_without_clicks: ClassVar[bool] = True",
    )


def check_a_click_weighs_one(algorithm: Algorithm) -> None:
    """Clicks of weight 1 lead to the same state as clicks without weights, to the bit, including memory."""
    plain, weighted = play(algorithm, 0), play(algorithm, 0)
    for number in range(60):
        query, clicks = _query(number % 12), np.arange(5) % (2 + number % 3) == 1
        plain.learn(plain.rank(query), Feedback(clicks, examined=5))
        weighted.learn(weighted.rank(query), Feedback(clicks, examined=5, weights=clicks))
    require(
        weighted.state == plain.state,
        "clicks of weight 1 have led to another state than the same clicks without weights",
        "Use Feedback.gains, which is 1 for a click without a weight",
    )


def check_snapshot_continues_identically(algorithm: Algorithm) -> None:
    """A learner that is saved as bytes and restored continues identically."""
    original = play(algorithm, 45)
    restored = Learner.from_snapshot(Snapshot.from_bytes(original.snapshot().to_bytes()))
    advice = "Keep all that was learned in State.weights and State.memory, as arrays by name"
    require(
        restored.state == original.state,
        "a state that was converted to bytes and back is not equal to the original",
        advice,
    )
    require(
        play(algorithm, 45, learner=restored).state == play(algorithm, 45, learner=original).state,
        "a learner that was restored from a snapshot has continued differently from the original",
        advice,
    )


def check_ranking_does_not_need_the_memory_of_learning(algorithm: Algorithm) -> None:
    """A state without the entries of memory that are declared as `learning_only` makes the same lists and scores.

    The query has its boosts already: a service stores the memory of queries beside the states that it ranks with, and looks the
    boosts up itself.
    """
    learner = play(algorithm, 60)
    state = learner.state
    query = algorithm.recalled(state, _query())
    lean = replace(state, memory=for_ranking(state.memory, algorithm))
    for number in range(3):
        made = [algorithm.rank(each, query, 5, stream(number, "rank")) for each in (state, lean)]
        best = [algorithm.best(each, query, stream(number, "best")) for each in (state, lean)]
        require(
            same_arrays(made[0].trace, made[1].trace)
            and np.array_equal(made[0].ranking, made[1].ranking)
            and np.array_equal(best[0], best[1]),
            "without the memory that is declared as needed for learning only, another list was made",
            "Remove what rank, explore or best read from learning_only",
        )


def check_state_shares_nothing_with_its_input(algorithm: Algorithm) -> None:
    """Changing an array after it was passed in does not change any state."""
    learner = play(algorithm, 30)
    features = tiny_split().features[:8].copy()
    impression = learner.rank(Query("mine", features))
    learner.learn(impression, _one_click(impression))
    before = learner.snapshot().to_bytes()
    features[:] = 0.5
    require(
        Snapshot.from_bytes(before).state == learner.state,
        "the state has changed with an array of features that was given to rank() before",
        "Copy what the state keeps of an impression",
    )
    require(
        not learner.weights.flags.writeable,
        "the weights of the state can be written to",
        "Set weights.flags.writeable = False in start() and learn()",
    )


def check_bad_input_changes_nothing(algorithm: Algorithm) -> None:
    """Wrong shapes raise a `DuelrankError`, before anything has changed."""
    learner = play(algorithm, 30)
    before = learner.state
    impression = learner.rank(_query())
    n = impression.ranking.size
    attempts: list[Callable[[], object]] = [
        lambda: learner.rank(Query("narrow", np.ones((3, 5)))),
        lambda: learner.rank(_query(), 0),
        lambda: learner.learn(impression, Feedback(np.ones(n + 1, np.bool_))),
        lambda: learner.learn(impression, Feedback(np.ones(n - 1, np.bool_))),
    ]
    for attempt in attempts:
        accepted, advice = True, "Do not override rank(), and begin learn() with the checks of Algorithm.learn"
        try:
            attempt()
        except DuelrankError:
            accepted = False
        require(not accepted, "a query or feedback of a wrong shape was accepted", advice)
        require(learner.state is before, "a query or feedback that was refused has changed the state", advice)


def check_memory_is_bounded(algorithm: Algorithm) -> None:
    """The memory stops growing: it may vary a little, but twice the impressions do not need twice the bytes."""
    learner = play(algorithm, 400)
    early = _memory_bytes(learner.state)
    late = _memory_bytes(play(algorithm, 400, learner=learner).state)
    require(
        late <= 1.2 * early,
        f"the memory grows: {early:,} bytes after 400 impressions, {late:,} after 800",
        "Keep only the newest or best entries, up to a number that is a parameter",
    )


def check_best_does_not_explore(algorithm: Algorithm) -> None:
    """`best` sorts all documents by their scores; or by the query's own model, with the only clicked document first."""
    learner = play(algorithm, 100)
    query = Query("own", _query().features)
    if not algorithm.per_query:
        scores = algorithm.scores(learner.state, query.features, np.array([0, query.n_documents]))
        require(
            np.all(np.diff(scores[learner.best(query)]) <= 1e-12),
            "best() does not sort the documents by scores()",
            "Leave best() as Algorithm has it, or as Scored has it if scores are not linear; an algorithm with a model for each "
            "query declares per_query",
        )
        return
    for _ in range(40):
        impression = learner.rank(query)
        learner.learn(impression, Feedback(impression.ranking == 3, examined=impression.ranking.size))
    for number in range(20):
        ranking = algorithm.best(learner.state, query, derive(number, 0))
        require(
            ranking[0] == 3 and sorted(ranking.tolist()) == list(range(query.n_documents)),
            f"only document 3 was clicked in 40 lists of a query, best() returns {ranking.tolist()}",
            "Return each document once, sorted by the query's own model, without exploration",
        )


def check_learns_from_easy_clicks(algorithm: Algorithm) -> None:
    """After some hundred impressions, queries are ranked better than at the start, for most seeds.

    These are unseen queries, with ids of their own, so that nothing is remembered of them; or, if each query has its own model,
    the queries that were shown.
    """
    split = tiny_split() if algorithm.per_query else _renamed(tiny_split(n_queries=60, seed=99))
    gains = [
        _quality(play(algorithm, 800, seed), split) - _quality(play(algorithm, 0, seed), split) for seed in range(5)
    ]
    require(
        np.median(gains) > 0.05,
        f"800 impressions of an easy task have raised nDCG@5 by {np.median(gains):.3f} (median of 5 seeds); expected: above 0.05",
        "Check the sign of the gradient, the learning rate, and that State.weights are those that were learned",
    )


def _renamed(split: Split) -> Split:
    ids = np.array([b"unseen " + id for id in split.ids.tolist()])
    return Split.trusted(split.features, split.labels, split.offsets, ids)


def _quality(learner: Learner, split: Split) -> float:
    judged = ((split.query(index), split.judgements(index)) for index in range(len(split)))
    return float(np.mean([(nDCG @ 5).of(labels[learner.best(query)], labels) for query, labels in judged]))


def check_every_parameter_matters(algorithm: Algorithm) -> None:
    """No parameter is silently ignored: for each that is not listed as inert, some other value changes what is learned."""
    # Most parameters matter after a few impressions; only the others get more impressions.
    base = {n: _learned(play(algorithm, n)) for n in (40, 400)}
    for path, others in variations(algorithm):
        require(
            any(_learns_otherwise(other, n, base[n]) for n in base for other in others),
            f"{path} of {algorithm!r} has no effect: other values lead to the same result",
            f"Use it or remove it; a parameter that is meant to change no result is listed in inert_fields, as {path!r}",
        )


def variations(recipe: P) -> Iterator[tuple[str, list[P]]]:
    """Yield each parameter's path, with recipes that differ from the given one in that parameter only."""
    inert = [(*path, *name.split(".")) for path, owner in walk(recipe) for name in owner.inert_fields]
    for path, owner in walk(recipe):
        hints = get_type_hints(type(owner), include_extras=True)
        for item in fields(owner):
            whole = (*path, item.name)
            if any(whole[: len(prefix)] == prefix for prefix in inert):
                continue
            values = _other_values(getattr(owner, item.name), hints[item.name])
            others = list(_made(recipe, path, item.name, values))
            if others or not isinstance(getattr(owner, item.name), Part):  # there may be no other part of this kind
                yield ".".join((*path, item.name)), others


def _made(recipe: P, path: tuple[str, ...], name: str, values: list[Any]) -> Iterator[P]:
    for value in values:
        try:
            yield replaced_at(recipe, {(*path, name): value})
        except DuelrankError:  # skip values that this recipe does not allow
            continue


def _other_values(value: Any, hint: Any) -> list[Any]:
    """Return a few values of the hinted type that differ from the given one."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return [other for option in get_args(hint) for other in _other_values(value, option)]
    if origin is Annotated:
        bounds: Between = get_args(hint)[1]
        return [other for other in _other_values(value, get_args(hint)[0]) if other in bounds]
    if origin is Literal:
        choices: list[Any] = [choice for choice in get_args(hint) if choice != value]
    elif isinstance(hint, type) and issubclass(hint, Part):
        choices = _other_parts(value, hint)
    elif hint is bool:
        choices = [not value]
    elif hint is int:
        choices = [0, 1, (value or 0) // 2, (value or 0) + 1]
    elif hint is float:
        choices = [0.5 * (value or 1.0), 0.25, 2.0 * (value or 1.0)]
    else:
        choices = []
    return [choice for choice in choices if choice != value]


def _other_parts(value: Part, kind: type[Part]) -> list[Any]:
    others = [cls for cls in classes(kind).values() if cls is not type(value)]
    made = []
    for cls in others:
        try:
            made.append(cls())
        except (TypeError, DuelrankError):  # it has parameters without defaults
            continue
    return made


def _learns_otherwise(algorithm: Algorithm, n_impressions: int, base: NDArray[Any]) -> bool:
    """Whether a recipe learns something different; one that raises an error, as for too many rankers, does not."""
    try:
        learned = _learned(play(algorithm, n_impressions))
        return learned.shape != base.shape or not np.allclose(learned, base, rtol=1e-6, atol=1e-9)
    except InvalidRecipe:
        return False


def _learned(learner: Learner) -> NDArray[Any]:
    """Return the weights; or, if each query has its own model, the rankings of the tiny queries."""
    if not learner.algorithm.per_query:
        return learner.weights
    split = tiny_split()
    return np.array([learner.best(split.query(index)) for index in range(len(split))])


def _memory_bytes(state: State) -> int:
    return sum(array.nbytes for array in flatten(state.memory).values())


CHECKS: tuple[Check, ...] = tuple(
    value for name, value in list(globals().items()) if name.startswith("check_") and value is not check_algorithm
)
