"""Guarded learning in a simulation, with the guard of the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from duelrank.adapters.backfill import IMITATE, LogLearner
from duelrank.algorithms import Algorithm
from duelrank.core.errors import InvalidRecipe, InvalidValue
from duelrank.core.randomness import stream_key
from duelrank.core.registry import Between, Part, register, spell
from duelrank.core.types import Feedback, Impression, Query, Ranking, State, Weights, frozen
from duelrank.evidence import Guard
from duelrank.evidence.guard import GuardSpec, Kind, OnAlarm, check_guard, draw_kind, guard_list, outcome_of
from duelrank.kernels.random import derive
from duelrank.learner import Learner
from duelrank.simulation.production import Baseline, BestFeature, order

#: Levels at which a history records the first proof of gain.
PROOF_LEVELS = (0.05, 0.01)


@register
@dataclass(frozen=True, repr=False)
class Guarded(Part):
    """The guard of a run: the settings of a guard in the service, and the baseline.

    Parameters
    ----------
    baseline
        The production ranking.
    share
        Share of guard lists: team drafts of the baseline and of the best list of the learned ranker.
    false_alarm_every
        Least mean number of decisive lists between two false alarms.
    margin
        Distance below one half that the chance to win a decisive list may have without an alarm.
    on_alarm
        Action on an alarm: "baseline" shows the baseline from then on and learns nothing; "rollback" restores the newest weights
        that had proved gain, or acts as "baseline" if there are none; "tell" only reports the alarm.
    promote
        Rising shares of the other lists that the learned ranker orders, one for each rung; the baseline orders the rest.
    start
        Initial weights of the learned ranker: those of the recipe ("nothing"), or those of the baseline.
    harm_after
        Number of lists after which an accident negates the weights, for experiments; the accident ends an alarm, like a resume by
        an operator. 0 means never.
    imitate
        Number of lists that are shown in the order of the baseline at first, while the learned ranker learns to imitate that order;
        lists of a log are included. None: as many as in the service, 300 for a ranker that starts from nothing, otherwise 0.

    Examples
    --------
    After 500 lists an accident negates the weights. The guard raises an alarm, and the run shows the baseline from then on:

    >>> from duelrank import simulate
    >>> guard = "Guarded(Feature(0), share=0.5, false_alarm_every=1000, promote=(1.0,), harm_after=500)"
    >>> record = simulate("pdgd", "synthetic(n_queries=20, n_features=5)", "perfect", impressions=1000, guard=guard)
    >>> record.guard.alarms
    (558,)
    >>> record.guard.guard.learned_share
    0.0
    """

    kind: ClassVar[str] = "guard"
    added_fields: ClassVar[Mapping[str, Any]] = {"imitate": 0}

    baseline: Baseline = BestFeature()
    share: float = 0.2
    false_alarm_every: float = 1_000_000.0
    margin: float = 0.0
    on_alarm: Literal["baseline", "rollback", "tell"] = "baseline"
    promote: tuple[float, ...] = (0.5, 1.0)
    start: Literal["nothing", "baseline"] = "nothing"
    harm_after: Annotated[int, Between(0)] = 0
    imitate: Annotated[int, Between(0)] | None = None

    if TYPE_CHECKING:  # the constructor accepts more types than the fields have

        def __init__(
            self,
            baseline: Baseline | str = ...,
            share: float = 0.2,
            false_alarm_every: float = 1_000_000.0,
            margin: float = 0.0,
            on_alarm: OnAlarm = "baseline",
            promote: tuple[float, ...] = (0.5, 1.0),
            start: Literal["nothing", "baseline"] = "nothing",
            harm_after: int = 0,
            imitate: int | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            check_guard(self.spec)
        except InvalidValue as error:  # parts raise InvalidRecipe
            raise InvalidRecipe(str(error)) from None

    @property
    def spec(self) -> GuardSpec:
        """Settings of the guard, in the form of the service."""
        return GuardSpec(self.share, self.false_alarm_every, self.margin, self.on_alarm, self.promote)

    def check(self, algorithm: Algorithm) -> None:
        """Raise an error if the accident would have no effect: the algorithm does not use its weights, or recomputes them."""
        if self.harm_after:
            algorithm.check_linear("harm_after negates weights, which does not reverse its rankings")
        if self.harm_after and (algorithm.per_query or algorithm.weights_follow_memory):
            raise InvalidRecipe(
                f"harm_after negates weights, but {spell(algorithm)} does not keep what it knows in weights"
            )

    def lists_to_imitate(self, algorithm: Algorithm) -> int:
        """Return the number of lists that an algorithm imitates at first."""
        if self.imitate is not None:
            return self.imitate
        return IMITATE if self.start == "nothing" and LogLearner.supports(algorithm) else 0


@dataclass(frozen=True)
class GuardHistory:
    """Counts and actions of a guard in a run. Lists are counted from 1, so that 300 means "after 300 lists".

    Parameters
    ----------
    guard
        The guard after the last list.
    kinds
        Number of lists of each kind.
    alarms, alarms_decisive
        Number of lists, and of decisive lists, before each alarm.
    promotions
        Number of lists before each promotion.
    proved
        Number of lists before the first proof of gain at each of `PROOF_LEVELS`; 0 if there was none.
    harm_decisive
        Number of decisive lists before the accident.
    imitated
        Number of lists that were imitated at first; they are among the lists of the baseline.

    Examples
    --------
    >>> from duelrank import simulate
    >>> record = simulate("mgd", "synthetic(n_queries=10)", "perfect", impressions=200, guard="Guarded(Feature(0), share=0.5)")
    >>> sum(record.guard.kinds.values())
    200
    """

    guard: Guard
    kinds: dict[Kind, int]
    alarms: tuple[int, ...]
    alarms_decisive: tuple[int, ...]
    promotions: tuple[int, ...]
    proved: tuple[int, ...]
    harm_decisive: int
    imitated: int = 0

    def columns(self, harm_after: int, online: NDArray[np.float64]) -> dict[str, Any]:
        """Return plain values for the row of a run; ``online`` has the metric of each list."""
        counts = self.guard.counts
        harmed = 0 < harm_after < len(online)
        return {
            "guard_lists": [self.kinds["guard"], self.kinds["learned"], self.kinds["baseline"]],
            "guard_outcomes": [counts.wins, counts.losses, counts.ties, counts.no_click],
            "guard_alarms": list(self.alarms),
            "guard_alarms_decisive": list(self.alarms_decisive),
            "guard_promotions": list(self.promotions),
            "guard_proved": list(self.proved),
            "guard_harm": [harm_after, self.harm_decisive, float(online[harm_after:].mean())] if harmed else [],
        }


#: Columns of a run without a guard; also the defaults for stored runs that lack these columns.
NO_GUARD: dict[str, Any] = {
    "guard": "",
    "guard_lists": [],
    "guard_outcomes": [],
    "guard_alarms": [],
    "guard_alarms_decisive": [],
    "guard_promotions": [],
    "guard_proved": [],
    "guard_harm": [],
}


@dataclass(frozen=True, slots=True, eq=False)
class _GuardList(Impression):
    """A guard list, with its teams as the trace; nothing is learned from it."""


@dataclass(frozen=True, slots=True, eq=False)
class _BaselineList(Impression):
    """A list in the order of the baseline; nothing is learned from it."""


class GuardedLearner:
    """Shows guard lists, lists of a learner and lists of the baseline, and applies the actions of the guard.

    Each list draws from its own stream, so the guard changes neither the queries nor the users of a run. A run closes each list
    before it shows the next, so outcomes are counted in the order of showing.

    Parameters
    ----------
    settings
        Settings of the guard.
    learner
        The guarded learner.
    baseline
        Weights of the baseline.
    logged
        Number of lists of a log that the learner has learned from before.
    """

    def __init__(self, settings: Guarded, learner: Learner, baseline: Weights, logged: int = 0) -> None:
        settings.check(learner.algorithm)
        self._imitate = max(0, settings.lists_to_imitate(learner.algorithm) - logged)
        self._teacher = LogLearner(learner.algorithm) if self._imitate else None
        self._log_key, self._logged = stream_key(learner.seed, "log"), State(learner.weights)
        self.settings, self.learner, self.baseline = settings, learner, baseline
        self.guard = Guard.begin(settings.spec)
        self._key = stream_key(learner.seed, "guard")
        self._kinds: dict[Kind, int] = {"guard": 0, "learned": 0, "baseline": 0}
        self._lists = 0
        self._proven: State | None = None
        self._alarms: list[tuple[int, int]] = []
        self._promotions: list[int] = []
        self._proved = dict.fromkeys(PROOF_LEVELS, 0)
        self._harm_decisive = 0

    @property
    def history(self) -> GuardHistory:
        """Counts and actions so far."""
        lists, decisive = (tuple(numbers) for numbers in zip(*self._alarms, strict=True)) if self._alarms else ((), ())
        proved = tuple(self._proved.values())
        promotions = tuple(self._promotions)
        rest = (self._harm_decisive, min(self._imitate, self._lists))
        return GuardHistory(self.guard, dict(self._kinds), lists, decisive, promotions, proved, *rest)

    def rank(self, query: Query) -> Impression:
        """Return the list to show."""
        if self._lists and self._lists == self.settings.harm_after:
            self._harm()
        stream = derive(self._key, self._lists)
        self._lists += 1
        imitates = self._lists <= self._imitate
        kind = "baseline" if imitates else draw_kind(stream, self.settings.share, self.guard.learned_share)
        self._kinds[kind] += 1
        if kind == "learned":
            return self.learner.rank(query)
        baseline, length = order(self.baseline, query), self.learner.length
        if imitates:
            self._learn_order(query, baseline)
        if kind == "baseline":
            return _BaselineList(query, baseline[:length])
        learned = self.learner.algorithm.best(self.learner.state, query, stream)
        ranking, teams = guard_list(baseline, learned, length, stream)
        return _GuardList(query, ranking, {"teams": teams})

    def _learn_order(self, query: Query, ranking: Ranking) -> None:
        assert self._teacher is not None
        before = self._logged if self._logged.step else self._teacher.start(self.learner.state)
        self._logged = self._teacher.imitate(before, query, ranking, derive(self._log_key, before.step))
        self.learner.state = self._teacher.handed_over(self.learner.state, self._logged)

    def learn(self, impression: Impression, feedback: Feedback) -> None:
        """Learn from the clicks on a list of the learner; count the outcome of a guard list, and apply the action that is due."""
        if isinstance(impression, _GuardList):
            self.guard = self.guard.count(outcome_of(impression.trace["teams"], feedback.gains))
            self._act()
        elif not isinstance(impression, _BaselineList):
            self.learner.learn(impression, feedback)

    def _act(self) -> None:
        for level, proved in self._proved.items():
            if not proved and self.guard.gain.proves(level):
                self._proved[level] = self._lists
        if self.guard.has_fresh_proof:
            self._proven, self.guard = self.learner.state, self.guard.proved()
        if self.guard.due == "alarm":
            self._alarm()
        elif self.guard.due == "promote":
            self.guard = self.guard.promoted()
            self._promotions.append(self._lists)

    def _alarm(self) -> None:
        proven = self._proven
        self._alarms.append((self._lists, self._decisive))
        to_version = None if proven is None else proven.updates
        self.guard = self.guard.alarmed(float(self._lists), self.learner.state.updates, to_version)
        if proven is not None and self.settings.on_alarm == "rollback":
            state = self.learner.state  # the counts continue: they name random streams, each of which is used once
            self.learner.state = replace(proven, step=state.step, updates=state.updates)

    def _harm(self) -> None:
        state = self.learner.state
        self.learner.state = replace(state, weights=frozen(-state.weights))
        self.guard, self._harm_decisive = self.guard.resumed(), self._decisive

    @property
    def _decisive(self) -> int:
        return self.guard.counts.wins + self.guard.counts.losses
