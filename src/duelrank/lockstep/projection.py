"""Twins of projection: models of examined positions, and the projection onto the span of examined documents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from duelrank.core.registry import Part
from duelrank.kernels.projection import FAR, PACE
from duelrank.lockstep.twin import Array, Clicked, Memory, Numbers, Query, Shown, Sizes, Twin, twin
from duelrank.projection import (
    BELIEF,
    POSITIONS,
    DependentClick,
    DocumentSpace,
    DynamicBayesian,
    LastClick,
    Observed,
    PositionBased,
    WholeList,
)

_STEP = 10  # numbers of remembered documents are rounded up to multiples of it
_UNROLLED = 32  # most rounds of an unrolled loop: beyond that, compiling takes minutes


class ExaminationTwin(Twin):
    """The twin of an examination; by default a depth without memory."""

    #: Whether there are weights other than 0 and 1.
    graded: ClassVar[bool] = False
    #: Whether no position weighs more than one above it.
    from_top: ClassVar[bool] = True

    def start(self, numbers: Numbers, n_features: int) -> Memory:
        """Return the memory before the first impression."""
        return ()

    def examine(
        self, numbers: Numbers, memory: Memory, query: Query, shown: Shown, clicked: Clicked
    ) -> tuple[Array, Memory]:
        """Return the weight of each position, by the memory from before this list, and the memory after it."""
        seen = (jnp.arange(query.places.shape[0]) < self.depth(numbers, query, clicked)) & query.places
        return jnp.where(seen, 1.0, 0.0), memory

    def depth(self, numbers: Numbers, query: Query, clicked: Clicked) -> Array:
        """Return the number of examined positions; it may be beyond the end of the list."""
        raise NotImplementedError


@twin(LastClick)
class LastClickTwin(ExaminationTwin):
    """Examines down to the lowest click and some positions more; none without a click."""

    def depth(self, numbers: Numbers, query: Query, clicked: Clicked) -> Array:
        """Return the lowest click plus ``beyond``."""
        return jnp.where(clicked.last > 0, clicked.last + numbers["beyond"].astype(jnp.int32), 0)


@twin(WholeList)
class WholeListTwin(ExaminationTwin):
    """Examines all positions."""

    def depth(self, numbers: Numbers, query: Query, clicked: Clicked) -> Array:
        """Return the length of the list."""
        return query.places.shape[0]


@twin(Observed)
class ObservedTwin(ExaminationTwin):
    """Examines the positions that the simulated user has seen."""

    def depth(self, numbers: Numbers, query: Query, clicked: Clicked) -> Array:
        """Return the number of examined positions."""
        return clicked.examined


class Regression(NamedTuple):
    """Attraction as a logistic regression on centred features; the mean document averages a number of lists."""

    slopes: Array
    intercept: Array
    mean: Array
    lists: Array


class Users(NamedTuple):
    """Successes and trials, one entry per probability of the model."""

    successes: Array
    trials: Array


class ModelState(NamedTuple):
    """The parameters of a click model."""

    documents: Regression
    users: Users


class ModelledExaminationTwin(ExaminationTwin, ABC):
    """The twin of a click model; runs with fixed parameters, a ``forgetting`` of None, share the program of those that learn."""

    graded: ClassVar[bool] = True
    absent: ClassVar[dict[str, float]] = {"forgetting": -1.0}

    def start(self, numbers: Numbers, n_features: int) -> ModelState:
        """Return the initial parameters."""
        nothing, chances = jnp.zeros(n_features, jnp.float64), self.chances(numbers)
        odds = jnp.log(numbers["attraction"] / (1.0 - numbers["attraction"]))
        users = Users(BELIEF * chances, jnp.full(chances.shape, BELIEF))
        return ModelState(Regression(nothing, odds, nothing, jnp.zeros(())), users)

    @abstractmethod
    def chances(self, numbers: Numbers) -> Array:
        """Return the initial probabilities of the model."""

    def examine(
        self, numbers: Numbers, memory: ModelState, query: Query, shown: Shown, clicked: Clicked
    ) -> tuple[Array, Memory]:
        """Return P(seen | clicks) of each position, and the parameters after one step of online EM."""
        rows = query.features[shown.ranking].astype(jnp.float64)
        attraction, forgetting = attractions(memory.documents, rows), numbers["forgetting"]
        seen = jnp.where(query.places, self.seen(memory.users, attraction, query.places, clicked), 0.0)
        users = self.count(memory.users, seen, query.places, clicked, forgetting)
        errors = seen * (clicked.clicks - attraction)
        learned = ModelState(regressed(memory.documents, rows, errors, query.places, forgetting), users)
        return seen, jax.tree.map(lambda new, old: jnp.where(forgetting >= 0.0, new, old), learned, memory)

    @abstractmethod
    def seen(self, users: Users, attraction: Array, places: Array, clicked: Clicked) -> Array:
        """Return P(seen | clicks) of each position; values beyond the end of the list are ignored."""

    @abstractmethod
    def count(self, users: Users, seen: Array, places: Array, clicked: Clicked, forgetting: Array) -> Users:
        """Return the table of users after the list."""


def attractions(documents: Regression, rows: Array) -> Array:
    """Return P(click | seen) of each shown document."""
    scores = documents.intercept + jnp.sum((rows - documents.mean) * documents.slopes, axis=1)
    return 1.0 / (1.0 + jnp.exp(-jnp.clip(scores, -FAR, FAR)))


def regressed(documents: Regression, rows: Array, errors: Array, places: Array, forgetting: Array) -> Regression:
    """Update the regression by the errors of one list; the step is a safe one divided by √(number of lists)."""
    rows = jnp.where(places[:, None], rows, 0.0)
    n, total = jnp.sum(places), jnp.sum(errors)
    whole, squares = jnp.sum(rows, axis=0), jnp.sum(rows * rows)
    lists = forgetting * documents.lists + 1.0
    move = (whole / n - documents.mean) / lists
    mean = documents.mean + move
    pull = jnp.sum(errors[:, None] * rows, axis=0) - total * mean
    spread = squares + jnp.sum(mean * (n * mean - 2.0 * whole))
    pace = PACE / jnp.sqrt(lists)
    differ = spread > 1e-12 * squares
    slopes = documents.slopes + jnp.where(differ, pace / jnp.where(differ, spread, 1.0), 0.0) * pull
    # With the shift, a change of the mean document alone changes no prediction.
    intercept = documents.intercept + jnp.sum(documents.slopes * move) + pace * total / n
    return Regression(slopes, intercept, mean, lists)


def cascade(clicked: Clicked, places: Array, attraction: Array, after_click: Array, after_skip: Array) -> Array:
    """Return P(seen | all clicks) of each position for users who scan from the top and may stop after each document.

    Below the last click, a position was seen if the user stopped after it or read to the end. Each of these cases includes the
    probability that the positions before were seen without a click.

    Parameters
    ----------
    after_click, after_skip
        P(continue) after a click at each position, and after a document that was not clicked.
    """
    position = jnp.arange(places.shape[0])
    below = position[:, None] < position[None, :]
    hidden = places & (position >= jnp.maximum(clicked.last, 1))
    before = jnp.maximum(position - 1, 0)
    onward = jnp.where(hidden, jnp.where(clicked.clicks[before], after_click[before], after_skip), 1.0)
    silent = jnp.where(hidden, onward * (1.0 - attraction), 1.0)
    stops = (1.0 - onward) * jnp.prod(jnp.where(below, silent[:, None], 1.0), axis=0)
    later = jnp.sum(jnp.where(below, stops, 0.0), axis=1) + jnp.prod(silent)
    # Exactly 1 if no user can have stopped before: otherwise rounding would give users who never stop a probability to stop.
    doubt = jnp.any((stops > 0.0)[:, None] & ~below.T, axis=0)
    return jnp.where(hidden & doubt, later / (jnp.sum(stops) + jnp.prod(silent)), 1.0)


def counted(users: Users, column: Array, successes: Array, trials: Array, kept: Array, counts: Array) -> Users:
    """Add trials to a column if they count; a whole trial multiplies the weight of all earlier ones by ``kept``."""
    here = (jnp.arange(users.trials.shape[0]) == column) & counts
    share = jnp.where(here, 1.0 - (1.0 - kept) * trials, 1.0)
    return Users(
        share * users.successes + jnp.where(here, successes, 0.0), share * users.trials + jnp.where(here, trials, 0.0)
    )


@twin(PositionBased)
class PositionBasedTwin(ModelledExaminationTwin):
    """Has one column per position; the first position is always seen."""

    from_top: ClassVar[bool] = False

    def chances(self, numbers: Numbers) -> Array:
        """Return P(seen) per position."""
        return jnp.arange(1.0, POSITIONS + 1.0) ** -numbers["bias"]

    def seen(self, users: Users, attraction: Array, places: Array, clicked: Clicked) -> Array:
        """Return P(seen | clicks) of each position."""
        prior = (users.successes / users.trials)[np.minimum(np.arange(places.shape[0]), POSITIONS - 1)]
        return jnp.where(clicked.clicks, 1.0, prior * (1.0 - attraction) / (1.0 - prior * attraction))

    def count(self, users: Users, seen: Array, places: Array, clicked: Clicked, forgetting: Array) -> Users:
        """Count the users who saw each position; with a ``forgetting`` of 1, t lists count as t^0.6."""
        for i in range(1, places.shape[0]):
            column = min(i, POSITIONS - 1)
            known = users.trials[column]
            fading = 1.0 - (1.0 - 0.6 * known ** (-2.0 / 3.0)) / known
            users = counted(users, column, seen[i], 1.0, jnp.where(forgetting == 1.0, fading, forgetting), places[i])
        return users


@twin(DependentClick)
class DependentClickTwin(ModelledExaminationTwin):
    """Has the columns: continuing after a click, per position, and last continuing after a document that was not clicked."""

    def chances(self, numbers: Numbers) -> Array:
        """Return P(continue | clicked) per position, then P(continue | not clicked)."""
        return jnp.where(jnp.arange(POSITIONS + 1) < POSITIONS, numbers["after_click"], numbers["after_skip"])

    def seen(self, users: Users, attraction: Array, places: Array, clicked: Clicked) -> Array:
        """Return P(seen | clicks) of each position."""
        onward = users.successes / users.trials
        after_click = onward[np.minimum(np.arange(places.shape[0]), POSITIONS - 1)]
        return cascade(clicked, places, attraction, after_click, onward[POSITIONS])

    def count(self, users: Users, seen: Array, places: Array, clicked: Clicked, forgetting: Array) -> Users:
        """Count the users who continued from each position; after the last position it cannot be known."""
        for i in range(places.shape[0] - 1):
            column = jnp.where(clicked.clicks[i], min(i, POSITIONS - 1), POSITIONS)
            users = counted(users, column, seen[i + 1], seen[i], forgetting, places[i + 1])
        return users


@twin(DynamicBayesian)
class DynamicBayesianTwin(ModelledExaminationTwin):
    """Has the columns: perseverance, and satisfaction by a clicked document."""

    def chances(self, numbers: Numbers) -> Array:
        """Return perseverance and satisfaction."""
        return jnp.stack([numbers["perseverance"], numbers["satisfaction"]])

    def seen(self, users: Users, attraction: Array, places: Array, clicked: Clicked) -> Array:
        """Return P(seen | clicks) of each position."""
        perseverance, satisfaction = users.successes / users.trials
        onward = jnp.full(places.shape[0], perseverance * (1.0 - satisfaction))
        return cascade(clicked, places, attraction, onward, perseverance)

    def count(self, users: Users, seen: Array, places: Array, clicked: Clicked, forgetting: Array) -> Users:
        """Count users who continued and who were satisfied; a user who stops after a click was satisfied or gave up."""
        perseverance, satisfaction = users.successes / users.trials
        onward = perseverance * (1.0 - satisfaction)
        gave_up = jnp.where(onward < 1.0, 1.0 - satisfaction / jnp.where(onward < 1.0, 1.0 - onward, 1.0), 0.0)
        for i in range(places.shape[0] - 1):
            click, known = clicked.clicks[i], places[i + 1]
            wanting = jnp.where(click, seen[i + 1] + (1.0 - seen[i + 1]) * gave_up, seen[i])
            users = counted(users, 1, 1.0 - wanting, 1.0, forgetting, known & click)
            users = counted(users, 0, seen[i + 1], wanting, forgetting, known)
        return users


class Examined(NamedTuple):
    """Rows of the table of all documents, the newest last, −1 for none; their weights; the memory of the examination."""

    rows: Array
    weights: Array
    users: Memory


@twin(DocumentSpace)
class DocumentSpaceTwin(Twin):
    """Remembers documents by their rows, and their weights only if the examination gives weights other than 0 and 1."""

    shaping: ClassVar[tuple[str, ...]] = ("remembered",)
    ignored: ClassVar[tuple[str, ...]] = ("basis", "tolerance", "centred")
    absent: ClassVar[dict[str, float]] = {"ridge": 0.0}
    codes: ClassVar[dict[str, dict[str, float]]] = {"rescale": {"none": 0.0, "unit": 1.0, "preserve": 2.0}}
    examination: ExaminationTwin

    @classmethod
    def refuses(cls, part: Part) -> str | None:
        """Refuse settings that have no lockstep version."""
        assert isinstance(part, DocumentSpace)
        if part.centred:
            return "DocumentSpace(centred=True) has no lockstep twin"
        return None if part.tolerance is None else "DocumentSpace(tolerance=…) has no lockstep twin"

    def shaped(self, name: str) -> Any:
        """Round the number of remembered documents up, so that more recipes share a program."""
        return -(-super().shaped(name) // _STEP) * _STEP

    def room(self, sizes: Sizes) -> int:
        """Return the bytes of three copies of the documents and of the system of equations, in double precision."""
        rows = int(self.shaped("remembered")) + sizes.length
        return super().room(sizes) + 24 * rows * (rows + 1 + sizes.columns)

    def start(self, numbers: Numbers, n_features: int) -> Examined:
        """Return the memory before the first impression."""
        capacity = self.shaped("remembered")
        weights = jnp.zeros(capacity) if self.examination.graded else ()
        users = self.examination.start(numbers["examination"], n_features)
        return Examined(jnp.full(capacity, -1, jnp.int32), weights, users)

    def project(
        self, numbers: Numbers, gradient: Array, memory: Examined, query: Query, shown: Shown, clicked: Clicked
    ) -> tuple[Array, Memory]:
        """Return the projected gradient; documents of clicked impressions are then remembered."""
        weights, users = self.examination.examine(numbers["examination"], memory.users, query, shown, clicked)
        seen = (weights > numbers["threshold"]) & query.places
        rows = jnp.concatenate((memory.rows, self._first(seen, query.start + shown.ranking, -1)))
        documents = jnp.where((rows >= 0)[:, None], query.documents(jnp.maximum(rows, 0)), 0.0)
        known = memory._replace(users=users)
        n_seen, keeps = jnp.sum(seen, dtype=jnp.int32), clicked.last > 0
        if self.examination.graded:
            weights = jnp.concatenate((memory.weights, self._first(seen, weights, 0.0)))
            scale = jnp.where(numbers["ridge"] > 0.0, jnp.sqrt(weights), 1.0)
            documents = documents * scale[:, None].astype(documents.dtype)
            known = known._replace(weights=_newest(memory.weights, weights, n_seen, keeps))
        projected = project(gradient, documents, numbers["ridge"])
        mixed = rescaled_mix(gradient, projected, numbers["strength"], numbers["rescale"])
        recent = jnp.arange(memory.rows.shape[0]) >= memory.rows.shape[0] - numbers["remembered"]
        kept = jnp.where(recent, _newest(memory.rows, rows, n_seen, keeps), -1)
        return mixed, known._replace(rows=kept)

    def _first(self, seen: Array, values: Array, nothing: float) -> Array:
        """Return the values of the seen positions, one after the other, padded with ``nothing``."""
        if self.examination.from_top:
            return jnp.where(seen, values, nothing)
        place = jnp.cumsum(seen) - 1
        here = (place == jnp.arange(len(seen))[:, None]) & seen
        found = jnp.sum(jnp.where(here, values, 0), axis=1, dtype=values.dtype)
        return jnp.where(jnp.any(here, axis=1), found, nothing).astype(values.dtype)


def _newest(old: Array, grown: Array, n_new: Array, keeps: Array) -> Array:
    """Return the newest entries of an array that has grown by n_new, as many as before; the old array if nothing is kept."""
    return jnp.where(keeps, lax.dynamic_slice(grown, (n_new,), old.shape), old) if len(old) else old


def project(vector: Array, rows: Array, ridge: Array) -> Array:
    """Project a vector onto the span of rows: Xᵀ(XXᵀ + ridge · I)⁻¹Xu, in double precision; rows of zeros do not count."""
    wide = rows.astype(jnp.float64)
    gram = jnp.matmul(wide, wide.T, precision="highest")
    toward = jnp.matmul(wide, vector.astype(jnp.float64), precision="highest")
    larger = max(rows.shape)
    tolerance = max(larger * float(jnp.finfo(jnp.float64).eps), (larger * float(jnp.finfo(rows.dtype).eps)) ** 2)
    solution = solve(gram + ridge * jnp.eye(rows.shape[0]), toward, tolerance)
    return jnp.sum(wide * solution[:, None], axis=0)


def solve(matrix: Array, right: Array, tolerance: float) -> Array:
    """Solve a symmetric system by elimination; an equation that depends on earlier ones is left out, with its unknown."""
    size = matrix.shape[0]
    if size == 0:
        return right
    numbers, whole = jnp.arange(size), jnp.diagonal(matrix)

    def eliminate(pivot: Array, table: Array) -> Array:
        here = numbers == pivot
        column, row = lax.dynamic_index_in_dim(table, pivot, 1, False), lax.dynamic_index_in_dim(table, pivot, 0, False)
        counts = column[pivot] > tolerance * whole[pivot]
        row = jnp.where(counts, row / jnp.where(counts, column[pivot], 1.0), 0.0)
        return jnp.where(here[:, None], row, table - jnp.where(here, 0.0, column)[:, None] * row)

    table = jnp.concatenate((matrix, right.reshape(size, -1)), axis=1)
    table = lax.fori_loop(0, size, eliminate, table, unroll=unrolls(size))
    return table[:, size:].reshape(right.shape)


def unrolls(rounds: int) -> bool:
    """Return whether to unroll a loop: this takes longer to compile, but an accelerator waits in every round of a loop."""
    return rounds <= _UNROLLED and str(jax.default_backend()) != "cpu"


def rescaled_mix(gradient: Array, projected: Array, strength: Array, rescale: Array) -> Array:
    """Return strength · rescaled projection + (1 − strength) · gradient.

    Rescale 0: no change; 1: to length 1; 2: to the length of the gradient. The projection of a gradient that is orthogonal to the
    space is a rounding error, and counts as zero.
    """
    wide = gradient.astype(jnp.float64)
    before, after = jnp.sqrt(jnp.sum(wide * wide)), jnp.sqrt(jnp.sum(projected * projected))
    lost = after <= _rounding(gradient) * before
    wanted = jnp.where(rescale == 1.0, 1.0, jnp.where(rescale == 2.0, before, after))
    factor = jnp.where(lost, 0.0, wanted / jnp.where(lost, 1.0, after))
    mixed = (strength * factor) * projected + (1.0 - strength) * wide
    return mixed.astype(gradient.dtype)


def _rounding(gradient: Array) -> float:
    """Return the relative length below which a projection is a rounding error: 1e-12 in double precision, as on the CPU."""
    return 1e-12 if gradient.dtype == jnp.float64 else 1e-6
