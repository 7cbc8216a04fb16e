"""Twins of the click models: which positions were seen given all clicks, and online EM, in double precision."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from duelrank.kernels.click_models import FAR, PACE
from duelrank.lockstep.twins.examination import ExaminationTwin
from duelrank.lockstep.values import Clicked, Memory, Numbers, Query, Shown
from duelrank.projection.click_model import BELIEF

__all__ = ["ClickModelTwin", "Regression", "Users", "cascade", "counted"]

Array = Any


class Regression(NamedTuple):
    """Attraction as a logistic regression on features less the mean document, which was made of so many lists."""

    slopes: Array
    intercept: Array
    mean: Array
    lists: Array


class Users(NamedTuple):
    """Successes and trials, one of each per probability of the model."""

    successes: Array
    trials: Array


class Believed(NamedTuple):
    """What a click model knows."""

    documents: Regression
    users: Users


class ClickModelTwin(ExaminationTwin, ABC):
    """Runs that learn nothing, with a ``forgetting`` of None, share the program of those that do."""

    graded: ClassVar[bool] = True
    absent: ClassVar[dict[str, float]] = {"forgetting": -1.0}

    def start(self, numbers: Numbers, n_features: int) -> Believed:
        """Return the parameters as given."""
        nothing, chances = jnp.zeros(n_features, jnp.float64), self.chances(numbers)
        odds = jnp.log(numbers["attraction"] / (1.0 - numbers["attraction"]))
        users = Users(BELIEF * chances, jnp.full(chances.shape, BELIEF))
        return Believed(Regression(nothing, odds, nothing, jnp.zeros(())), users)

    @abstractmethod
    def chances(self, numbers: Numbers) -> Array:
        """Return the initial probabilities of the model."""

    def examine(
        self, numbers: Numbers, memory: Believed, query: Query, shown: Shown, clicked: Clicked
    ) -> tuple[Array, Memory]:
        """Return P(seen | clicks) of each position, and the parameters after one step of online EM."""
        rows = query.features[shown.ranking].astype(jnp.float64)
        attraction, forgetting = attractions(memory.documents, rows), numbers["forgetting"]
        seen = jnp.where(query.places, self.seen(memory.users, attraction, query.places, clicked), 0.0)
        users = self.count(memory.users, seen, query.places, clicked, forgetting)
        errors = seen * (clicked.clicks - attraction)
        learned = Believed(regressed(memory.documents, rows, errors, query.places, forgetting), users)
        return seen, jax.tree.map(lambda new, old: jnp.where(forgetting >= 0.0, new, old), learned, memory)

    @abstractmethod
    def seen(self, users: Users, attraction: Array, places: Array, clicked: Clicked) -> Array:
        """Return P(seen | clicks) of each position; it does not matter what stands beyond the end of the list."""

    @abstractmethod
    def count(self, users: Users, seen: Array, places: Array, clicked: Clicked, forgetting: Array) -> Users:
        """Return the table of users after the list."""


def attractions(documents: Regression, rows: Array) -> Array:
    """Return P(click | seen) of each shown document."""
    scores = documents.intercept + jnp.sum((rows - documents.mean) * documents.slopes, axis=1)
    return 1.0 / (1.0 + jnp.exp(-jnp.clip(scores, -FAR, FAR)))


def regressed(documents: Regression, rows: Array, errors: Array, places: Array, forgetting: Array) -> Regression:
    """Move the regression along the errors of one list, by a step that is safe for it divided by √(lists known)."""
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
    # Another mean document alone changes no prediction.
    intercept = documents.intercept + jnp.sum(documents.slopes * move) + pace * total / n
    return Regression(slopes, intercept, mean, lists)


def cascade(clicked: Clicked, places: Array, attraction: Array, after_click: Array, after_skip: Array) -> Array:
    """Return P(seen | all clicks) of each position, where users go from the top down and may stop after each document.

    Below the last click, a position was seen if the user stopped after it or at the end. Each of these ways has its probability of
    silence: to see, and not to click, all positions before.

    Parameters
    ----------
    after_click, after_skip
        P(going on) after a click at each position, and after a document that was not clicked.
    """
    position = jnp.arange(places.shape[0])
    below = position[:, None] < position[None, :]
    hidden = places & (position >= jnp.maximum(clicked.last, 1))
    before = jnp.maximum(position - 1, 0)
    onward = jnp.where(hidden, jnp.where(clicked.clicks[before], after_click[before], after_skip), 1.0)
    silent = jnp.where(hidden, onward * (1.0 - attraction), 1.0)
    stops = (1.0 - onward) * jnp.prod(jnp.where(below, silent[:, None], 1.0), axis=0)
    later = jnp.sum(jnp.where(below, stops, 0.0), axis=1) + jnp.prod(silent)
    # Where nobody stops before, exactly 1: who never stops would else, by rounding, be found to stop at times.
    doubt = jnp.any((stops > 0.0)[:, None] & ~below.T, axis=0)
    return jnp.where(hidden & doubt, later / (jnp.sum(stops) + jnp.prod(silent)), 1.0)


def counted(users: Users, column: Array, successes: Array, trials: Array, kept: Array, counts: Array) -> Users:
    """Add trials to a column if they count; a whole trial makes all earlier ones count ``kept`` times as much."""
    here = (jnp.arange(users.trials.shape[0]) == column) & counts
    share = jnp.where(here, 1.0 - (1.0 - kept) * trials, 1.0)
    return Users(
        share * users.successes + jnp.where(here, successes, 0.0), share * users.trials + jnp.where(here, trials, 0.0)
    )
