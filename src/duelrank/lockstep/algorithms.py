"""Twins of algorithms: dueling bandits, wrappers of algorithms, log pairs, Thompson pairs, PDGD and PairRank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import ndtr
from numpy.typing import NDArray

from duelrank.algorithms import (
    DBGD,
    DPDBGD,
    MGD,
    NSGD,
    PDGD,
    WMGD,
    Algorithm,
    LogPairs,
    PairRank,
    Projected,
    Remembered,
    Represented,
    ThompsonPairs,
    pairrank,
    thompson_pairs,
)
from duelrank.algorithms.dueling_bandit import DuelingBandit
from duelrank.core.registry import Part
from duelrank.kernels.pairrank import LOOSE, NEAR, SWEEPS
from duelrank.lockstep.draws import Draws, Purpose
from duelrank.lockstep.exploration import ExplorationTwin, unit_rows
from duelrank.lockstep.inference import InferenceTwin
from duelrank.lockstep.multileaving import MultileaverTwin
from duelrank.lockstep.projection import DocumentSpaceTwin, ExaminationTwin, solve
from duelrank.lockstep.ranking import Scores, best_first, linear_scores, ranks_of, scores_of
from duelrank.lockstep.remembered import Recent, RememberTwin
from duelrank.lockstep.representation import ChainTwin, Count, KnottedTwin, RepresentationTwin, carried, is_due
from duelrank.lockstep.twin import (
    RUNS,
    Array,
    Clicked,
    DType,
    Memory,
    Numbers,
    Query,
    Shape,
    Shown,
    Sizes,
    State,
    Twin,
    twin,
)
from duelrank.lockstep.updates import StepTwin
from duelrank.representation import Chain, Raw, Representation

_AT_ONCE = 4  # rounds of the solver between two checks whether all runs are done


class AlgorithmTwin(Twin):
    """The twin of an algorithm: the interface of `Algorithm`, with the numbers of the recipe as an argument."""

    codes: ClassVar[dict[str, dict[str, float]]] = {"initial": {"zero": 0.0, "random": 1.0}}

    @property
    def scores(self) -> Scores:
        """The function that scores documents, from the result of `scored`; twins that share it share a program."""
        return linear_scores

    def columns(self, features: NDArray[np.bool_], impressions: int) -> NDArray[np.bool_]:
        """Return flags of the columns that a run with these features may have."""
        return features

    def start(self, numbers: Numbers, columns: Array, length: int, draws: Draws) -> State:
        """Return the state before the first impression."""
        drawn = unit_rows(draws.normal(Purpose.START, (1, columns.shape[0])) * columns)[0]
        weights = jnp.where(numbers.get("initial", 0.0) > 0.0, drawn, 0.0).astype(draws.real)
        return State(weights, jnp.int32(0), jnp.int32(0), self.memory(numbers, columns.shape[0], length, draws.real))

    def memory(self, numbers: Numbers, n_features: int, length: int, real: DType) -> Memory:
        """Return the memory before the first impression."""
        raise NotImplementedError

    def documents(self, rows: int, real: DType) -> Memory:
        """Return what is remembered of each training document before the first impression."""
        return ()

    def explore(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Shown:
        """Make the list."""
        raise NotImplementedError

    def gradient(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> tuple[Array, Memory]:
        """Return the gradient and the memory; both must be right also without a click."""
        raise NotImplementedError

    def update(self, numbers: Numbers, state: State, gradient: Array) -> tuple[Array, Memory]:
        """Return weights and memory after a step along a gradient that is not zero."""
        raise NotImplementedError

    def learn(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> State:
        """Return the state after the feedback on a list: gradient, then update, then memory."""
        gradient, memory = self.gradient(numbers, state, query, shown, clicked, draws)
        won = jnp.any(gradient != 0.0)
        weights, after = self.update(numbers, state._replace(memory=memory), gradient)

        def keep(new: Array, old: Array) -> Array:
            return jnp.where(won, new, old)

        memory = jax.tree.map(keep, after, memory)
        return State(keep(weights, state.weights), state.step + 1, state.updates + won, memory, state.documents)

    def carried(self, memory: Memory, fresh: Memory, carry: Callable[[Array], Array]) -> Memory:
        """Return the memory for other columns; by default a fresh one, because the memory is of the old columns.

        Parameters
        ----------
        fresh
            The memory before the first impression, for the new columns.
        carry
            Converts weights of the old columns.
        """
        return fresh

    def distance(self, before: State, after: State, draws: Draws) -> Array:
        """Return the length of a move."""
        return jnp.sqrt(jnp.sum((after.weights - before.weights) ** 2))

    def kept(self, state: State) -> Any:
        """Return the data that a checkpoint keeps."""
        return state.weights

    def scored(self, numbers: Numbers, kept: Any) -> Any:
        """Return the input of `scores` for all checkpoints of all runs, (checkpoints, runs, …)."""
        return kept

    def trajectory(self, kept: Any) -> Array:
        """Return the weights at all checkpoints of all runs."""
        return kept


class BanditMemory(NamedTuple):
    """The memories of the parts."""

    exploration: Memory
    inference: Memory
    step: Memory


class Duel(NamedTuple):
    """The trace of a list."""

    directions: Array
    evidence: Any


@twin(DuelingBandit, DBGD, MGD, NSGD, WMGD, DPDBGD)
class DuelingBanditTwin(AlgorithmTwin):
    """Scores all documents with all rankers in one product."""

    shaping: ClassVar[tuple[str, ...]] = ("ties",)
    exploration: ExplorationTwin
    multileaver: MultileaverTwin
    inference: InferenceTwin
    step: StepTwin

    @property
    def shape(self) -> Shape:
        """The shape of a dueling bandit, without the name of its class."""
        return ("DuelingBandit", *super().shape[1:])

    def memory(self, numbers: Numbers, n_features: int, length: int, real: DType) -> BanditMemory:
        """Return the memories of the parts."""
        explored, stepped = self.exploration.start(n_features, real), self.step.start(n_features, real)
        return BanditMemory(explored, self.inference.start(length), stepped)

    def explore(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Shown:
        """Draw directions, rank with each candidate, and merge."""
        own = state._replace(memory=state.memory.exploration)
        directions = self.exploration.directions(numbers["exploration"], own, query, draws)
        delta = numbers["delta"].astype(draws.real)
        rankers = jnp.concatenate((state.weights[None], state.weights + delta * directions))
        scores = scores_of(rankers, query)
        shape = scores.shape if self.shaped("ties") == "separate" else scores.shape[1:]
        order = draws.order(Purpose.TIES, shape)
        ranking, evidence = self.multileaver.leave(numbers["multileaver"], scores, order, query, draws)
        if query.boosts is not None:  # candidates are compared without boosts, as on a list of another system
            alone = scores_of(rankers, query._replace(boosts=None))
            elsewhere = self.multileaver.evidence(alone, order, query, ranking)
            evidence = evidence if elsewhere is None else elsewhere
        return Shown(ranking, Duel(directions, evidence))

    def gradient(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> tuple[Array, Memory]:
        """Return the direction towards the winners; without clicks there is no winner, and the memory does not change."""
        memory, directions = state.memory, shown.trace.directions
        credit = self.multileaver.assign_credit(numbers["multileaver"], shown.trace.evidence, query, clicked)
        explored = self.exploration.observe(
            numbers["exploration"], state._replace(memory=memory.exploration), shown, directions, credit, clicked
        )
        own = state._replace(memory=memory.inference)
        gradient, inferred = self.inference.infer(
            numbers["inference"], numbers["delta"], own, query, shown, directions, credit, clicked, draws
        )
        return gradient, memory._replace(exploration=explored, inference=inferred)

    def update(self, numbers: Numbers, state: State, gradient: Array) -> tuple[Array, Memory]:
        """Move by the step."""
        own = state._replace(memory=state.memory.step)
        weights, stepped = self.step.move(numbers["step"], own, gradient)
        return weights, state.memory._replace(step=stepped)


class ProjectedMemory(NamedTuple):
    """The memories of the base and of the projection."""

    base: Memory
    projection: Memory


@twin(Projected)
class ProjectedTwin(AlgorithmTwin):
    """Projects the gradients of the twin of the base."""

    base: AlgorithmTwin
    projection: DocumentSpaceTwin

    @classmethod
    def refuses(cls, part: Part) -> str | None:
        """Refuse a base with a memory, or with a representation, whose columns would change within the projection."""
        assert isinstance(part, Projected)
        if isinstance(part.base, Remembered):
            return "a memory within Projected has no lockstep twin"
        return "a representation within Projected has no lockstep twin" if isinstance(part.base, Represented) else None

    def start(self, numbers: Numbers, columns: Array, length: int, draws: Draws) -> State:
        """Start as the base does."""
        begun = self.base.start(numbers["base"], columns, length, draws)
        projected = self.projection.start(numbers["projection"], columns.shape[0])
        return begun._replace(memory=ProjectedMemory(begun.memory, projected))

    def explore(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Shown:
        """Explore as the base does."""
        return self.base.explore(numbers["base"], _base(state), query, draws)

    def gradient(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> tuple[Array, Memory]:
        """Return the projected gradient of the base."""
        gradient, learned = self.base.gradient(numbers["base"], _base(state), query, shown, clicked, draws)
        own = state.memory.projection
        gradient, projected = self.projection.project(numbers["projection"], gradient, own, query, shown, clicked)
        return gradient, ProjectedMemory(learned, projected)

    def update(self, numbers: Numbers, state: State, gradient: Array) -> tuple[Array, Memory]:
        """Move as the base does."""
        weights, memory = self.base.update(numbers["base"], _base(state), gradient)
        return weights, state.memory._replace(base=memory)


def _base(state: State) -> State:
    return state._replace(memory=state.memory.base)


def prepared(algorithm: Algorithm) -> Representation:
    """Return the part of a recipe's representation that does not learn: it is applied to the table of documents."""
    if not isinstance(algorithm, Represented):
        return Raw()
    found = algorithm.representation
    if found.learns:
        return found.first if isinstance(found, Chain) else Raw()
    return found


class RepresentedMemory(NamedTuple):
    """The memories of the base and of the representation."""

    base: Memory
    seen: Memory


@twin(Represented)
class RepresentedTwin(AlgorithmTwin):
    """Runs the twin of the base on the columns of the representation.

    A simulated run learns from each list immediately, so the knots of a list are always the current ones. Arrays have room for all
    columns that the run will have; columns that do not exist yet are zero and are not explored.
    """

    base: AlgorithmTwin
    representation: RepresentationTwin | ChainTwin

    @classmethod
    def refuses(cls, part: Part) -> str | None:
        """Refuse knots on an axis without known ends: the number of pieces may differ from run to run."""
        assert isinstance(part, Represented)
        if part.representation.learns and not prepared(part).within_unit:
            return (
                "knots for values that are not known to be from 0 to 1 have no lockstep twin; put query-scaled before"
            )
        return None

    @property
    def view(self) -> RepresentationTwin:
        """The twin of the representation, without the part that was applied to the table."""
        return self.representation.then if isinstance(self.representation, ChainTwin) else self.representation

    @property
    def scores(self) -> Scores:
        """The function that scores documents."""
        return self.view.scores

    def columns(self, features: NDArray[np.bool_], impressions: int) -> NDArray[np.bool_]:
        """Return the flags of the features, once for each column that a feature will have."""
        return np.tile(features, (int(self.view.each(impressions)), 1))

    def documents(self, rows: int, real: DType) -> Memory:
        """Return what the base remembers of each training document."""
        return self.base.documents(rows, real)

    def start(self, numbers: Numbers, columns: Array, length: int, draws: Draws) -> State:
        """Start as the base does, with the columns that the representation starts with."""
        begun = self.base.start(numbers["base"], self._existing(columns, 0), length, draws)
        return begun._replace(memory=RepresentedMemory(begun.memory, self.view.start(columns, draws.real)))

    def explore(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Shown:
        """Explore as the base does."""
        seen = self._seen(numbers, state, query, draws.impression)
        return self.base.explore(numbers["base"], _base(state), seen, draws)

    def learn(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> State:
        """Let the base learn from the columns, and the representation from the documents."""
        own, view = self._seen(numbers, state, query, draws.impression), self.view
        after = self.base.learn(numbers["base"], _base(state), own, shown, clicked, draws)
        if not isinstance(view, KnottedTwin):
            return after._replace(memory=RepresentedMemory(after.memory, ()))
        seen = view.observe(state.memory.seen, query, draws)
        after = after._replace(memory=RepresentedMemory(after.memory, seen))
        # All runs are at the same impression, so between checks nothing is computed. What a condition returns is copied.
        small = after._replace(documents=())
        checked: State = lax.cond(
            is_due(draws.impression + 1), lambda: self._checked(view, numbers, small, query, draws), lambda: small
        )
        return checked._replace(documents=after.documents)

    def distance(self, before: State, after: State, draws: Draws) -> Array:
        """Return the length of a move; 0 if the columns have changed."""
        same = self.view.each(draws.impression + 1) == self.view.each(draws.impression)
        return jnp.where(same, super().distance(before, after, draws), 0.0)

    def kept(self, state: State) -> Any:
        """Return the data that a checkpoint keeps."""
        return self.view.kept(state.weights, state.memory.seen)

    def scored(self, numbers: Numbers, kept: Any) -> Any:
        """Return the input of `scores`."""
        return self.view.scored(numbers["representation"], kept)

    def trajectory(self, kept: Any) -> Array:
        """Return the curves of each checkpoint as weights of the last columns."""
        return self.view.trajectory(kept)

    def _checked(self, view: KnottedTwin, numbers: Numbers, state: State, query: Query, draws: Draws) -> State:
        """Check the knots; if they move, weights and memory are converted."""
        base, seen = state.memory
        lists, length = draws.impression + 1, query.places.shape[0]
        after, moves = view.checked(seen, query.table, lists)

        def carry(weights: Array) -> Array:
            return carried(weights, seen.knots, after.knots)

        weights = carry(state.weights)
        fresh = self.base.start(numbers["base"], self._existing(query.columns, lists), length, draws).memory
        fresh = self.base.carried(base, fresh, carry)

        def pick(new: Array, old: Array) -> Array:
            return jnp.where(moves, new, old)

        memory = RepresentedMemory(jax.tree.map(pick, fresh, base), jax.tree.map(pick, after, seen))
        return state._replace(weights=pick(weights, state.weights), memory=memory)

    def _seen(self, numbers: Numbers, state: State, query: Query, lists: Array) -> Query:
        """Return the query as the base sees it."""
        existing = self._existing(query.columns, lists)

        def represent(rows: Array) -> Array:
            columns = self.view.apply(numbers["representation"], rows, state.memory.seen)
            return columns.reshape(*rows.shape[:-1], -1) * existing.astype(rows.dtype)

        return query._replace(features=represent(query.features), columns=existing, represent=represent)

    def _existing(self, columns: Array, lists: Count) -> Array:
        """Return flags of the columns that exist after a number of lists, in the order of the weights: (columns,)."""
        there = jnp.arange(columns.shape[0]) < self.view.each(lists)
        return (columns & there[:, None]).reshape(-1)


class RememberedMemory(NamedTuple):
    """The memories of the base and of queries; the counts of documents are apart."""

    base: Memory
    remember: Recent


class Recalled(NamedTuple):
    """The trace of a list: the boosts it was made with, and the trace of the base."""

    boosts: Array
    base: Any


@twin(Remembered)
class RememberedTwin(AlgorithmTwin):
    """Gives the twin of the base queries with boosts; the base learns by the boosts that a list was made with."""

    base: AlgorithmTwin
    remember: RememberTwin

    def documents(self, rows: int, real: DType) -> Array:
        """Return the clicks and views of each training document."""
        return self.remember.table(rows, real)

    def start(self, numbers: Numbers, columns: Array, length: int, draws: Draws) -> State:
        """Start as the base does, with an empty memory."""
        begun = self.base.start(numbers["base"], columns, length, draws)
        own = self.remember.start(numbers["remember"], columns.shape[0])
        return begun._replace(memory=RememberedMemory(begun.memory, own))

    def carried(
        self, memory: RememberedMemory, fresh: RememberedMemory, carry: Callable[[Array], Array]
    ) -> RememberedMemory:
        """Keep the recent clicks and views; the examination model starts again."""
        base = self.base.carried(memory.base, fresh.base, carry)
        return RememberedMemory(base, fresh.remember._replace(rate=memory.remember.rate))

    def explore(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Shown:
        """Explore as the base does, with boosts."""
        own = state.memory.remember
        boosts = self.remember.boosts(numbers["remember"], own, state.documents, query, draws)
        shown = self.base.explore(numbers["base"], _base(state), query._replace(boosts=boosts), draws)
        return Shown(shown.ranking, Recalled(boosts, shown.trace))

    def learn(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> State:
        """Let the base learn, and count the list."""
        boosted, inner = query._replace(boosts=shown.trace.boosts), Shown(shown.ranking, shown.trace.base)
        after = self.base.learn(numbers["base"], _base(state), boosted, inner, clicked, draws)
        own, table = state.memory.remember, state.documents
        counted, table = self.remember.count(numbers["remember"], own, table, query, shown, clicked)
        return after._replace(memory=RememberedMemory(after.memory, counted), documents=table)


class LogMemory(NamedTuple):
    """The memories of the parts."""

    examination: Memory
    step: Memory


@twin(LogPairs)
class LogPairsTwin(AlgorithmTwin):
    """Weights a pair by the probability that its unclicked document was seen; all clicks have equal weight."""

    examination: ExaminationTwin
    step: StepTwin

    def memory(self, numbers: Numbers, n_features: int, length: int, real: DType) -> LogMemory:
        """Return the memories of the parts."""
        examined = self.examination.start(numbers["examination"], n_features)
        return LogMemory(examined, self.step.start(n_features, real))

    def explore(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Shown:
        """Return the best list; equal documents are in a random order."""
        scores = scores_of(state.weights[None], query)[0]
        best = best_first(scores, draws.order(Purpose.TIES, scores.shape))
        return Shown(best[: query.places.shape[0]], None)

    def gradient(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> tuple[Array, Memory]:
        """Return the mean over the pairs of the list, and the updated examination model."""
        own = state.memory.examination
        seen, known = self.examination.examine(numbers["examination"], own, query, shown, clicked)
        rows = query.features[shown.ranking].astype(jnp.float64)
        scores = query.boosted(jnp.sum(rows * state.weights.astype(jnp.float64), axis=1), shown.ranking)
        gradient = skip_gradient(scores, rows, clicked.clicks, seen)
        return gradient.astype(query.features.dtype), state.memory._replace(examination=known)

    def update(self, numbers: Numbers, state: State, gradient: Array) -> tuple[Array, Memory]:
        """Move by the step."""
        weights, stepped = self.step.move(numbers["step"], state._replace(memory=state.memory.step), gradient)
        return weights, state.memory._replace(step=stepped)


def skip_gradient(scores: Array, rows: Array, clicks: Array, seen: Array) -> Array:
    """Return the mean of ∇ log P(i ≻ j) over all pairs of a clicked and an unclicked row, weighted by P(j was seen)."""
    counts = jnp.where(clicks[:, None] & ~clicks[None, :], seen[None, :], 0.0)
    gap = scores[:, None] - scores[None, :]
    decay = jnp.exp(-jnp.abs(gap))
    slope = counts * jnp.where(gap > 0.0, decay, 1.0) / (1.0 + decay)
    pairs = jnp.sum(counts)
    coefficients = (jnp.sum(slope, axis=1) - jnp.sum(slope, axis=0)) / jnp.where(pairs > 0.0, pairs, 1.0)
    return jnp.sum(rows * coefficients[:, None], axis=0)


class ThompsonMemory(NamedTuple):
    """The square root of the covariance, or of its diagonal; the columns that exist; the memory of the examination."""

    belief: Array
    columns: Array
    examination: Memory


@twin(ThompsonPairs)
class ThompsonPairsTwin(AlgorithmTwin):
    """Draws a deviation for each list; all clicks have equal weight."""

    shaping: ClassVar[tuple[str, ...]] = ("covariances",)
    examination: ExaminationTwin

    def room(self, sizes: Sizes) -> int:
        """Return the bytes of the belief before and after a list."""
        return super().room(sizes) + (12 * sizes.columns**2 if sizes.columns <= self.shaped("covariances") else 0)

    def start(self, numbers: Numbers, columns: Array, length: int, draws: Draws) -> State:
        """Return zero weights, equally uncertain in all columns that exist."""
        n_columns = columns.shape[0]
        deviations = (columns / jnp.sqrt(numbers["prior"])).astype(draws.real)
        examined = self.examination.start(numbers["examination"], n_columns)
        full = n_columns <= self.shaped("covariances")
        memory = ThompsonMemory(jnp.diag(deviations) if full else deviations, columns, examined)
        return State(jnp.zeros(n_columns, draws.real), jnp.int32(0), jnp.int32(0), memory)

    def carried(self, memory: ThompsonMemory, fresh: ThompsonMemory, carry: Callable[[Array], Array]) -> ThompsonMemory:
        """Convert the columns of the square root; columns that did not exist before start as in the fresh memory."""
        if memory.belief.ndim == 1:
            return fresh
        known = jax.vmap(carry, in_axes=1, out_axes=1)(memory.belief)
        new = fresh.columns & ~memory.columns
        return fresh._replace(belief=jnp.where(new[None, :], fresh.belief, known))

    def explore(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Shown:
        """Rank by a sample of the weights; the trace has the scores of all documents by the mean weights."""
        belief = state.memory.belief
        noise = draws.normal(Purpose.DIRECTIONS, (1, state.weights.shape[0]))[0]
        deviation = jnp.sum(belief * noise, axis=1) if belief.ndim == 2 else belief * noise
        sample = state.weights + numbers["width"].astype(draws.real) * deviation
        leads = scores_of(state.weights[None], query._replace(boosts=None))[0]
        scores = scores_of(sample[None], query)[0]
        best = best_first(scores, draws.order(Purpose.TIES, scores.shape))
        return Shown(best[: query.places.shape[0]], leads)

    def gradient(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> tuple[Array, Memory]:
        """Return the step of the weights, and the narrower belief."""
        own, real = state.memory, state.weights.dtype
        seen, known = self.examination.examine(numbers["examination"], own.examination, query, shown, clicked)
        rows = jnp.where(query.places[:, None], query.features[shown.ranking], 0.0)
        full = own.belief.ndim == 2
        spread = jnp.matmul(rows, own.belief, precision="highest") if full else rows * own.belief
        covariances = jnp.matmul(spread, spread.T, precision="highest").astype(jnp.float64)
        now = query.boosted(jnp.sum(rows * state.weights, axis=1).astype(jnp.float64), shown.ranking)
        leads = shown.trace[shown.ranking].astype(jnp.float64)
        counts = pair_counts(numbers, leads, covariances, clicked.clicks & query.places, seen)
        slopes, laplacian = pair_tables(now, counts)
        learn = narrowed_full if full else narrowed_diagonal
        step, belief = learn(own.belief, rows, spread, covariances, slopes, laplacian)
        # All runs are at the same impression, so in between nothing is computed.
        due = (draws.impression + 1) % thompson_pairs.EVERY == 0
        belief = lax.cond(due, lambda: self._widened(numbers, belief.astype(real)), lambda: belief.astype(real))
        return step.astype(real), own._replace(belief=belief, examination=known)

    def _widened(self, numbers: Numbers, belief: Array) -> Array:
        """Return the belief with larger variances, up to those before the first list."""
        factor = (1.0 + numbers["drift"]) ** (thompson_pairs.EVERY / 2)
        full = belief.ndim == 2
        lengths = jnp.sqrt(jnp.sum(belief * belief, axis=1)) if full else belief
        limit = 1.0 / jnp.sqrt(numbers["prior"]) / jnp.where(lengths > 0.0, lengths, 1.0)
        scale = jnp.minimum(factor, limit).astype(belief.dtype)
        return belief * (scale[:, None] if full else scale)

    def update(self, numbers: Numbers, state: State, gradient: Array) -> tuple[Array, Memory]:
        """Move by the step."""
        return state.weights + gradient, state.memory


def pair_counts(numbers: Numbers, leads: Array, covariances: Array, clicks: Array, seen: Array) -> Array:
    """Return the weight of each pair of a clicked document (row) and an unclicked one: P(seen) · ρ^balance / Σ P(seen)."""
    counts = jnp.where(clicks[:, None] & ~clicks[None, :], seen[None, :], 0.0)
    total = jnp.sum(counts)
    variances = jnp.diagonal(covariances)
    spread = numbers["width"] * jnp.sqrt(jnp.maximum(variances[:, None] + variances[None, :] - 2.0 * covariances, 0.0))
    place = jnp.arange(leads.shape[0])
    gap = leads[:, None] - leads[None, :]
    lead = jnp.where(place[:, None] < place[None, :], gap, -gap)
    certain = jnp.where(lead == 0.0, 1.0, jnp.where(lead > 0.0, 0.0, 2.0))
    swapped = jnp.where(spread > 0.0, 2.0 * ndtr(-lead / jnp.where(spread > 0.0, spread, 1.0)), certain)
    balance = numbers["balance"]
    swapped = jnp.where(balance > 0.0, swapped**balance, 1.0)
    return counts * swapped / jnp.where(total > 0.0, total, 1.0)


def pair_tables(now: Array, counts: Array) -> tuple[Array, Array]:
    """Return the coefficient of each document in the gradient, and the Laplacian of the pairs in the information."""
    gap = now[:, None] - now[None, :]
    decay = jnp.exp(-jnp.abs(gap))
    slope = counts * jnp.where(gap > 0.0, decay, 1.0) / (1.0 + decay)
    bend = counts * decay / (1.0 + decay) ** 2
    bend = bend + bend.T
    return jnp.sum(slope, axis=1) - jnp.sum(slope, axis=0), jnp.diag(jnp.sum(bend, axis=1)) - bend


def _lower_factor(laplacian: Array) -> Array:
    """Return the lower Cholesky factor; a Laplacian is singular, so a negligible number is added to its diagonal."""
    least = 1e-12 * jnp.max(jnp.diagonal(laplacian)) + 1e-30
    return jnp.linalg.cholesky(laplacian + least * jnp.eye(laplacian.shape[0]))


def narrowed_full(
    belief: Array, rows: Array, spread: Array, covariances: Array, slopes: Array, laplacian: Array
) -> tuple[Array, Array]:
    """Return the step and the new square root, as the kernel `learn_full` does."""
    factor, one = _lower_factor(laplacian), jnp.eye(laplacian.shape[0])
    root = jnp.linalg.cholesky(one + factor.T @ covariances @ factor)
    inner = solve_triangular(root + one, factor.T, lower=True)
    shrink = factor @ solve_triangular(root.T, inner, lower=False)
    for table in (shrink.T, shrink):
        slopes = slopes - table @ (covariances @ slopes)
    along = jnp.matmul(belief, spread.T, precision="highest")
    change = jnp.matmul(
        jnp.matmul(along, shrink.astype(belief.dtype), precision="highest"), spread, precision="highest"
    )
    return jnp.sum(along * slopes.astype(belief.dtype), axis=1), belief - change


def narrowed_diagonal(
    belief: Array, rows: Array, spread: Array, covariances: Array, slopes: Array, laplacian: Array
) -> tuple[Array, Array]:
    """Return the step and the new deviations, as the kernel `learn_diagonal` does."""
    differences = jnp.matmul(_lower_factor(laplacian).T.astype(belief.dtype), spread, precision="highest")
    smaller = belief / jnp.sqrt(1.0 + jnp.sum(differences * differences, axis=0))
    return smaller * smaller * jnp.sum(rows * slopes[:, None].astype(rows.dtype), axis=0), smaller


@twin(PDGD)
class PDGDTwin(AlgorithmTwin):
    """Draws all positions of a list at once, by sorting random keys."""

    ignored: ClassVar[tuple[str, ...]] = ("observed",)
    step: StepTwin

    def memory(self, numbers: Numbers, n_features: int, length: int, real: DType) -> Memory:
        """Return the memory of the step."""
        return self.step.start(n_features, real)

    def explore(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Shown:
        """Draw a list from the Plackett-Luce model; the trace has the scores."""
        scores = scores_of(state.weights[None], query)[0]
        keys = scores - draws.log_exponential(Purpose.RACE, scores.shape)
        order = jnp.arange(scores.shape[0], dtype=jnp.uint32)
        return Shown(best_first(keys, order)[: query.places.shape[0]], scores)

    def gradient(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> tuple[Array, Memory]:
        """Return the weighted sum over all preferences."""
        scores = shown.trace.astype(jnp.float64)
        coefficients = pair_gradient(scores, shown.ranking, query.places, query.present, clicked)
        rows = query.features[shown.ranking].astype(jnp.float64)
        return jnp.sum(rows * coefficients[:, None], axis=0).astype(query.features.dtype), state.memory

    def update(self, numbers: Numbers, state: State, gradient: Array) -> tuple[Array, Memory]:
        """Move by the step."""
        return self.step.move(numbers["step"], state, gradient)


def pair_gradient(scores: Array, ranking: Array, places: Array, present: Array, clicked: Clicked) -> Array:
    """Return the coefficient of each shown document in the gradient Σ ρ ∇P(clicked ≻ unclicked).

    The pairs are those of a clicked and an unclicked document down to one below the last click; ρ is P(list with the two swapped) /
    (P(list) + P(list with the two swapped)). The masses of the remaining documents are summed from the end, as logarithms.
    """
    length = ranking.shape[0]
    position = jnp.arange(length)
    shown = jnp.where(places, scores[ranking], -jnp.inf)
    unshown = present & ~jnp.any((jnp.arange(scores.shape[0])[:, None] == ranking) & places, axis=1)
    masses = _log_masses(jnp.where(unshown, scores, -jnp.inf), shown)
    upper, lower = shown[:, None], shown[None, :]
    # Rows are the upper documents, columns the lower ones: the mass with the upper document at the lower position.
    swapped = jnp.broadcast_to(jnp.logaddexp(upper, masses[None, 1:]), (length, length))
    gap = jnp.zeros((length, length))
    for q in range(length - 1, 0, -1):
        inside = (position[:, None] < q) & (q <= position[None, :])
        gap = gap + jnp.where(inside, swapped - masses[q], 0.0)
        swapped = jnp.where(inside, jnp.logaddexp(swapped, shown[q - 1]), swapped)
    seen = (position < jnp.minimum(clicked.last + 1, length)) & places & (clicked.last > 0)
    pairs = seen[:, None] & seen[None, :] & (position[:, None] < position[None, :])
    pairs = pairs & (clicked.clicks[:, None] != clicked.clicks[None, :])
    decay = jnp.exp(-jnp.abs(jnp.where(pairs, upper - lower, 0.0)))
    slope = decay / (1.0 + decay) ** 2 / (1.0 + jnp.exp(jnp.where(pairs, gap, 0.0)))
    signed = jnp.where(pairs, jnp.where(clicked.clicks[:, None], slope, -slope), 0.0)
    return jnp.sum(signed, axis=1) - jnp.sum(signed, axis=0)


def _log_masses(unshown: Array, shown: Array) -> Array:
    """Return log Σ exp(score) over the documents not yet shown at each position; the last entry is of those never shown."""
    highest = jnp.max(unshown)
    safe = jnp.where(jnp.isfinite(highest), highest, 0.0)
    masses = [safe + jnp.log(jnp.sum(jnp.exp(unshown - safe)))]
    for position in range(shown.shape[0] - 1, -1, -1):
        masses.append(jnp.logaddexp(masses[-1], shown[position]))
    return jnp.stack(masses[::-1])


class Pairs(NamedTuple):
    """All pairs so far: M⁻¹, the curvature of their loss, its target, and their number, in double precision.

    Then the newest pairs, in slots by their number, and their curvatures. Slots without a pair are zeros.
    """

    inverse: Array
    curvature: Array
    target: Array
    count: Array
    differences: Array
    bounds: Array


class PairMemory(NamedTuple):
    """The pairs, and the memories of the parts."""

    pairs: Pairs
    examination: Memory
    step: Memory


@twin(PairRank)
class PairRankTwin(AlgorithmTwin):
    """Computes blocks from ranks, without sorting tables of pairs."""

    shaping: ClassVar[tuple[str, ...]] = ("loss",)
    examination: ExaminationTwin
    step: StepTwin

    def room(self, sizes: Sizes) -> int:
        """Return the bytes of tables of all pairs of documents, of features and of remembered pairs, before and after."""
        remembered = 3 * 8 * pairrank.REMEMBERED * sizes.columns
        return super().room(sizes) + 24 * sizes.widest**2 + 4 * 8 * sizes.columns**2 + remembered

    def memory(self, numbers: Numbers, n_features: int, length: int, real: DType) -> PairMemory:
        """Return the memory without pairs."""
        nothing = jnp.zeros((n_features, n_features), jnp.float64)
        newest = jnp.zeros((pairrank.REMEMBERED, n_features), real)
        inverse = jnp.eye(n_features) / numbers["regularisation"]
        pairs = Pairs(inverse, nothing, nothing[0], jnp.zeros(()), newest, jnp.zeros(len(newest), jnp.float64))
        examined = self.examination.start(numbers["examination"], n_features)
        return PairMemory(pairs, examined, self.step.start(n_features, real))

    def explore(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Shown:
        """Order the certain pairs, and shuffle the others."""
        scores = scores_of(state.weights[None], query)[0]
        inverse = state.memory.pairs.inverse.astype(scores.dtype)
        both = query.present[:, None] & query.present[None, :]
        certain = certain_pairs(scores, query.features, inverse, numbers["width"].astype(scores.dtype)) & both
        block = blocks(scores, certain, ~certain & both, numbers["transitive"] > 0.0)
        shuffled = best_first(jnp.where(query.present, -block, -jnp.inf), draws.order(Purpose.TIES, scores.shape))
        return Shown(shuffled[: query.places.shape[0]], None)

    def gradient(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> tuple[Array, Memory]:
        """Return the difference between the weights that fit all pairs, including the new ones, and the current weights."""
        memory, weights = state.memory, state.weights.astype(jnp.float64)
        seen, users = self.examination.examine(numbers["examination"], memory.examination, query, shown, clicked)
        chosen = matched(clicked.clicks, (seen > 0.0) & query.places, draws)
        differences = jnp.matmul(chosen, query.features[shown.ranking].astype(jnp.float64))
        pairs = learned(memory.pairs, weights, differences, jnp.any(chosen != 0.0, axis=1))
        mean = self.shaped("loss") == "mean"
        ridge = numbers["regularisation"] * (2.0 * pairs.count if mean else 1.0)
        tolerance = 1e-10 if state.weights.dtype == jnp.float64 else 1e-8
        new = pairs.count > memory.pairs.count
        fit, pairs = fitted(pairs, ridge, weights, new, tolerance, not mean)
        return (fit - weights).astype(state.weights.dtype), memory._replace(pairs=pairs, examination=users)

    def update(self, numbers: Numbers, state: State, gradient: Array) -> tuple[Array, Memory]:
        """Move by the step."""
        weights, stepped = self.step.move(numbers["step"], state._replace(memory=state.memory.step), gradient)
        return weights, state.memory._replace(step=stepped)


def certain_pairs(scores: Array, features: Array, inverse: Array, width: Array) -> Array:
    """Return whether the lower bound of P(i ≻ j) is above 1/2, (i, j).

    Single precision suffices: on MQ2008, after 3,000 impressions, it decided 8 of 255,766 pairs differently.
    """
    products = jnp.matmul(jnp.matmul(features, inverse, precision="highest"), features.T, precision="highest")
    norms = jnp.diagonal(products)
    squared_norm = norms[:, None] + norms[None, :] - 2.0 * products
    lead = scores[:, None] - scores[None, :]
    return 1.0 / (1.0 + jnp.exp(-lead)) - width * jnp.sqrt(jnp.maximum(squared_norm, 0.0)) > 0.5


def blocks(scores: Array, certain: Array, uncertain: Array, transitive: Array) -> Array:
    """Return the number of each document's block: the smallest blocks by score that leave no uncertain pair across a cut.

    With ``transitive``, a cut is allowed if chains of certain pairs lead from each document above it to each below it. It suffices
    to compare the documents above without a certainly worse document between them and the cut with the documents below without a
    certainly better one between the cut and them: every chain across the cut contains such a pair, and such a pair has no chain but
    itself.

    Parameters
    ----------
    scores
        The scores; −inf if there is no document.
    certain, uncertain
        (i, j): both documents exist, and i is certainly better than j, or not.
    """
    n = scores.shape[0]
    cut = jnp.arange(n)
    rank = ranks_of(scores, cut)
    next_below = jnp.min(jnp.where(certain & transitive, rank[None, :], n), axis=1)
    next_above = jnp.max(jnp.where(certain & transitive, rank[:, None], -1), axis=0)
    above = (rank < cut[:, None]) & (cut[:, None] <= next_below)
    below = (next_above < cut[:, None]) & (cut[:, None] <= rank)
    # Zeros, ones and their sums are exact also in the reduced precision of fast matrix products.
    doubts = jnp.matmul(below.astype(jnp.float32), uncertain.T.astype(jnp.float32))
    allowed = ~jnp.any(above & (doubts > 0.0), axis=1)
    return jnp.sum(allowed & (cut <= rank[:, None]), axis=1, dtype=jnp.int32)


def matched(clicks: Array, seen: Array, draws: Draws) -> Array:
    """Match clicked positions with seen but unclicked ones at random: a row per pair, 1 and −1 at its positions, or zeros."""
    order = draws.order(Purpose.PAIRS, clicks.shape)
    earlier = order[None, :] < order[:, None]
    losers = seen & ~clicks
    n_pairs = jnp.minimum(jnp.sum(clicks), jnp.sum(losers))
    pair = jnp.arange(clicks.shape[0] // 2)[:, None]
    found = [(jnp.sum(earlier & flags, axis=1) == pair) & flags & (pair < n_pairs) for flags in (clicks, losers)]
    return found[0].astype(jnp.float64) - found[1].astype(jnp.float64)


def learned(pairs: Pairs, weights: Array, differences: Array, real: Array) -> Pairs:
    """Add pairs to the memory; unused rows of the differences are zero and come last.

    The pairs that they replace are kept as the second-order expansion of their loss at the weights.
    """
    moved = jnp.matmul(differences, pairs.inverse)
    gram = jnp.eye(differences.shape[0]) + jnp.matmul(differences, moved.T)
    size = pairs.bounds.shape[0]
    slots = jnp.where(real, (pairs.count.astype(jnp.int32) + jnp.arange(len(real))) % size, size)
    old = pairs.differences.at[slots].get(mode="fill", fill_value=0.0).astype(jnp.float64)
    lead = jnp.sum(old * weights, axis=1)
    tilt = jnp.tanh(0.5 * lead)
    second = 0.25 * (1.0 - tilt * tilt)
    change = second - pairs.bounds.at[slots].get(mode="fill", fill_value=0.0)
    return Pairs(
        pairs.inverse - jnp.matmul(moved.T, solve(gram, moved, 0.0)),
        pairs.curvature + jnp.matmul((change[:, None] * old).T, old),
        pairs.target + jnp.sum((0.5 * (1.0 - tilt) + second * lead)[:, None] * old, axis=0),
        pairs.count + jnp.sum(real),
        pairs.differences.at[slots].set(differences.astype(pairs.differences.dtype), mode="drop"),
        pairs.bounds.at[slots].set(0.0, mode="drop"),
    )


def fitted(
    pairs: Pairs, ridge: Array, start: Array, new: Array, tolerance: float, conditioned: bool
) -> tuple[Array, Pairs]:
    """Fit the weights to all pairs, in sweeps, in runs with new pairs; return them, and the pairs with the last curvatures."""
    rows = pairs.differences.astype(jnp.float64)

    def sweep(now: tuple[Array, ...]) -> tuple[Array, ...]:
        rounds, open_, weights, curvature, bounds = now
        lead = jnp.sum(rows * weights, axis=1)
        tilt, near = jnp.tanh(0.5 * lead), jnp.abs(lead) < 1e-6
        bound = jnp.where(near, 0.25, 0.5 * tilt / jnp.where(near, 1.0, lead))
        loose = open_ & ((bound > LOOSE * bounds) | (bounds > LOOSE * bound))
        tight = jnp.where(loose, bound, bounds)
        curvature = curvature + jnp.matmul(((tight - bounds)[:, None] * rows).T, rows)
        pull = pairs.target + jnp.sum((0.5 * (1.0 - tilt) + tight * lead)[:, None] * rows, axis=0)
        known = pairs._replace(curvature=curvature, target=pull)
        fit = jnp.where(open_, ridge_solution(known, ridge, weights, tolerance, conditioned), weights)
        open_ &= jnp.sum((fit - weights) ** 2) > NEAR * NEAR * jnp.sum(fit * fit)
        return rounds + 1, open_, fit, curvature, tight

    def moving(now: tuple[Array, ...]) -> Array:
        return (lax.pmax(now[1].astype(jnp.int32), RUNS) > 0) & (now[0] < SWEEPS)

    begun = (jnp.int32(0), new, start, pairs.curvature, pairs.bounds)
    _, _, fit, curvature, bounds = lax.while_loop(moving, sweep, begun)
    return fit, pairs._replace(curvature=curvature, bounds=bounds)


def ridge_solution(pairs: Pairs, ridge: Array, start: Array, tolerance: float, conditioned: bool) -> Array:
    """Solve (A + ridge · I) w = target by conjugate gradients, until the residual of every run is below tolerance · |target|.

    Parameters
    ----------
    conditioned
        Whether to use M⁻¹ as a preconditioner. A has at most a quarter of each pair in M, so it helps if the ridge is about λ, but
        not if the ridge grows.
    """

    def image(vector: Array) -> Array:
        return jnp.sum(pairs.curvature * vector, axis=1) + ridge * vector

    def toward(residual: Array) -> Array:
        return jnp.sum(pairs.inverse * residual, axis=1) if conditioned else residual

    enough = tolerance * tolerance * jnp.sum(pairs.target * pairs.target)

    def advance(now: tuple[Array, ...]) -> tuple[Array, ...]:
        solution, residual, direction, slope = now
        moved = image(direction)
        open_ = jnp.sum(residual * residual) > enough
        rate = jnp.where(open_, slope / jnp.where(open_, jnp.sum(direction * moved), 1.0), 0.0)
        solution, residual = solution + rate * direction, residual - rate * moved
        steepest = toward(residual)
        after = jnp.sum(residual * steepest)
        direction = steepest + after / jnp.where(slope > 0.0, slope, 1.0) * direction
        return solution, residual, direction, after

    def unsolved(now: tuple[Array, ...]) -> Array:
        rounds, (_, residual, _, _) = now
        far = jnp.sum(residual * residual) > enough
        return (lax.pmax(far.astype(jnp.int32), RUNS) > 0) & (rounds < 2 * start.shape[0])

    def go_on(now: tuple[Array, ...]) -> tuple[Array, ...]:
        rounds, state = now
        for _ in range(_AT_ONCE):
            state = advance(state)
        return rounds + _AT_ONCE, state

    residual = pairs.target - image(start)
    steepest = toward(residual)
    begun = (start, residual, steepest, jnp.sum(residual * steepest))
    _, (solution, *_) = lax.while_loop(unsolved, go_on, (jnp.int32(0), begun))
    return solution
