"""Builds the answers of the API from rankers, versions and stored events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from heapq import nlargest
from itertools import combinations, islice
from operator import itemgetter
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms.base import StepExplanation
from duelrank.algorithms.remembered import Remember, Remembrance, click_rate
from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.core.registry import spell
from duelrank.core.types import Features, Feedback, Impression, Memory, State
from duelrank.evidence import ConfidenceSequence, Result
from duelrank.evidence.guard import LEVEL, MEMORY, SLACK, Alarm, Guard
from duelrank.export import LinearModel, Model, supported_formats
from duelrank.export.pinned import PinnedDocument, PinnedQuery
from duelrank.kernels.random import derive
from duelrank.representation.base import by_feature, split_missing
from duelrank.representation.fixed import write_representation
from duelrank.service import log
from duelrank.service.definition import (
    HISTORY_FEATURES,
    LIST_KINDS,
    OLD,
    Definition,
    GuardEvent,
    RankerSpec,
    Step,
    converted,
)
from duelrank.service.experiment_machine import ExperimentStatus
from duelrank.service.history import (
    MAX_POINTS,
    STEPS,
    Block,
    HistoryState,
    Point,
    block_kind,
    select_points,
    sum_lists,
)
from duelrank.service.http import schema
from duelrank.service.machine import LearnedStep, Status, learned_list
from duelrank.service.rankers import Experiment, Ranker, Version
from duelrank.storage import Event, Storage

# Rankers

SHADOW_WARNING = (
    "a shadow learns from impressions in your order: users look at the top first, so its weights are biased for or against what "
    "you sort by; do not judge features by them, and let a ranker learn from its own rankings before you trust it"
)
COLD_WARNING = (
    "it starts from zero weights, so at first it is worse than a good order of yours, and on a low rung it learns slowly: the "
    "guard may raise an alarm before it has learned enough; let it imitate your order first (imitate), give it initial weights "
    "close to what you sort by, or let it learn from the lists of your log first"
)


def ranker_info(ranker: Ranker) -> schema.RankerInfo:
    """Return a ranker; in the leader, up to the last event that was applied."""
    version, status = ranker.version, ranker.newest_status()
    own = {
        "open": status.open,
        "model_version": version.version,
        "updates": status.updates,
        "created": ranker.created.created,
        "frozen": version.frozen,
        "pinned": None if version.pin is None else version.pin[0],
        "warnings": tuple(_warnings(ranker, status)),
        "imitated": status.imitated,
        "remembers": ranker.created.remember is not None,
    }
    fields = msgspec.structs.asdict(version.definition.spec) | msgspec.structs.asdict(status.tally) | own
    return msgspec.convert(fields, schema.RankerInfo, from_attributes=True)


def _warnings(ranker: Ranker, status: Status) -> Iterator[str]:
    spec, guard = ranker.version.definition.spec, status.guard
    yield from _export_warnings(ranker.version.definition)
    if spec.mode == "shadow":
        yield SHADOW_WARNING
    yield from ranker.troubles.sentences(spec.actions)
    if guard is None:
        return
    cold = spec.start is None and not spec.imitate and not status.tally.backfilled
    if cold and not guard.promotions and not guard.raised:
        yield COLD_WARNING
    yield from _guard_warnings(guard)
    if guard.raised and guard.last_alarm is not None:
        yield f"the guard has raised an alarm: {alarm_sentence(guard.last_alarm, guard.spec.false_alarm_every)}"


def _export_warnings(definition: Definition) -> Iterator[str]:
    supporting, refusing = supported_formats(definition.representation)
    if not definition.algorithm.linear:
        yield "this ranker is not linear, so it can be exported to onnx only (see docs/export.md)"
    elif refusing:
        missing, rest = split_missing(definition.representation)
        neutral = missing is not None and (not missing.values or "neutral" in missing.values)
        name = spell(rest) + " and neutral missing values" * neutral
        yield (
            f"models with the representation {name} cannot be exported to {', '.join(refusing)}; they can to "
            f"{', '.join(supporting)} (see docs/export.md)"
        )


# Experiments

UNFAIR_WARNING = (
    "with this multileaver, and this number of systems, one may be preferred although it is not better; PairDraft() has fair wins "
    "(see docs/interleaving.md)"
)
NO_USERS_WARNING = (
    "most decisive lists have no user_id, so there is no limit to the votes of one user, such as a script; send user_id with the "
    "lists or with the feedback"
)


def experiment_info(experiment: Experiment) -> schema.ExperimentInfo:
    """Return an experiment; in the leader, up to the last event that was applied."""
    spec, status = experiment.created.spec, experiment.newest_status()
    result, closed = status.result(spec.all_systems), status.closed
    own = {
        "verdict": result.verdict(spec.level),
        "created": experiment.created.created,
        "lists": closed.impressions,
        "counted": result.impressions,
        "clicked": result.clicked,
        "pairs": [_pair(result, *places, spec.level) for places in combinations(range(len(spec.all_systems)), 2)],
        "warnings": tuple(_experiment_warnings(experiment, status)),
    }
    names = ("stopped", "open", "waiting", "decisive", "repeated", "anonymous")
    own |= {name: getattr(status, name) for name in names}
    own |= {name: getattr(closed, name) for name in ("no_feedback", "failed", "late")}
    return msgspec.convert(msgspec.structs.asdict(spec) | own, schema.ExperimentInfo, from_attributes=True)


def _experiment_warnings(experiment: Experiment, status: ExperimentStatus) -> Iterator[str]:
    definition = experiment.created
    if not definition.multileaver.has_fair_wins(len(definition.spec.all_systems)):
        yield UNFAIR_WARNING
    if status.decisive >= MIN_VOTES and 2 * status.anonymous > status.decisive:
        yield NO_USERS_WARNING
    yield from experiment.troubles.sentences(experiment.actions)


def _pair(result: Result, row: int, column: int, level: float) -> schema.ExperimentPair:
    one, other = result.rankers[row], result.rankers[column]
    wins, losses, ties = (int(table[row, column]) for table in (result.wins, result.losses, result.ties))
    better = one if result.beats(one, other, level) else other if result.beats(other, one, level) else None
    rate, band = ConfidenceSequence(wins, losses).rate, result.interval(one, other, level)
    p_value = float(result.p_values[row, column])
    return schema.ExperimentPair(one, other, wins, losses, ties, rate, *band, p_value, better)


def experiment_history(experiment: Experiment) -> schema.ExperimentHistory:
    """Return the win rates of an experiment over time."""
    spec, status = experiment.created.spec, experiment.newest_status()
    result, pairs = status.result(spec.all_systems), list[schema.ExperimentBand]()
    lists = result.history.impressions
    times = [*status.times, status.counted][: len(lists)]
    for row, column in combinations(range(len(spec.all_systems)), 2):
        found = result.over_time(row, column, spec.level)
        before: list[float | None] = [None] * (len(lists) - len(found.impressions))
        bands = (before + each.tolist() for each in (found.rate, found.low, found.high))
        pairs.append(schema.ExperimentBand(result.rankers[row], result.rankers[column], *bands))
    return schema.ExperimentHistory(spec.name, lists, times, pairs)


# Rankings


def ranking_answer(id: str, body: log.StoredImpression) -> schema.RankAnswer:
    """Return the ranking of an impression."""
    if body.placed:
        return _answer(id, body, [schema.RankedDocument(shown, 0) for shown in body.ids])
    ranking = [schema.RankedDocument(shown, place) for place, shown in enumerate(body.ids, 1)]
    return schema.RankAnswer(id, body.version, ranking, body.kind)


def _answer(id: str, body: log.StoredImpression, free: Sequence[schema.RankedDocument]) -> schema.RankAnswer:
    """Return the ranking of an impression, given its documents without the placed ones; these are added, and all numbered."""
    rest, placed = iter(free), body.placed
    listed = [
        schema.RankedDocument(placed[place], 0, placed=True) if place in placed else next(rest)
        for place in range(len(free) + len(placed))
    ]
    ranking = [msgspec.structs.replace(each, position=place) for place, each in enumerate(listed, 1)]
    return schema.RankAnswer(id, body.version, ranking, body.kind)


def page_of(answer: schema.RankAnswer, start: int, size: int) -> schema.RankAnswer:
    """Return some positions of a ranking, from ``start`` on, counted from 1."""
    part = answer.ranking[start - 1 : start - 1 + size]
    return msgspec.structs.replace(answer, ranking=part, prepared=len(answer.ranking))


def explained_answer(id: str, body: log.StoredImpression, version: Version, raw: Features) -> schema.RankAnswer:
    """Return the ranking of an impression with the scores of its documents, and what each feature adds to them."""
    definition = version.definition
    if not definition.algorithm.linear:
        return _scored_answer(id, body, version, raw)
    added = definition.contributions(version.state, raw)
    belief = definition.score_deviations(version.state, raw)
    boosts, ranking = body.known_boosts.tolist(), []
    for shown, document in zip(body.ids, body.order, strict=True):
        parts = dict(zip(definition.spec.features, added[document].tolist(), strict=True))
        deviation, boost = None if belief is None else float(belief[document]), boosts[document] if boosts else 0.0
        score = float(added[document].sum()) + boost
        ranking.append(schema.RankedDocument(shown, 0, score, parts, deviation, boost or None))
    return _answer(id, body, ranking)


def _scored_answer(id: str, body: log.StoredImpression, version: Version, raw: Features) -> schema.RankAnswer:
    """Return the ranking of an impression with scores only."""
    scores = version.definition.algorithm.scores(version.state, raw, np.array([0, len(raw)]))
    boosts = body.known_boosts if body.boosts else np.zeros(len(raw))
    ranking = [
        schema.RankedDocument(shown, 0, float(scores[each] + boosts[each]), memory=float(boosts[each]) or None)
        for shown, each in zip(body.ids, body.order, strict=True)
    ]
    return _answer(id, body, ranking)


# Memory of queries


def memory_info(ranker: Ranker, query: str | None, limit: int) -> schema.MemoryInfo:
    """Return what a ranker remembers of a query, or without one, of those with the largest effect."""
    name, (remember, memory) = ranker.name, _memory_of(ranker)
    if not memory:
        return schema.MemoryInfo(name, 0, 0, 0, 0.0, [])
    rate, n_documents, effects = click_rate(memory), 0, list[tuple[float, int, NDArray[np.int64]]]()
    for _, lists, model in remember.table.models(memory):
        n_documents += int(model[0])
        if query is None:
            boosts = remember.boosts_of(model, rate, model[1 : 1 + int(model[0])])
            effects.append((float(np.abs(boosts).max(initial=0.0)), lists, model))
    if query is not None:
        model, lists = remember.table.read(memory, query)
        found = [(lists, model)] if lists else []
    else:
        found = [each[1:] for each in nlargest(limit, effects, key=itemgetter(0))]
    shown = [_remembered_query(remember, rate, *each) for each in found]
    known = int(memory["queries_known"][0])
    return schema.MemoryInfo(name, known, n_documents, remember.table.n_bytes(memory), rate, shown)


def _memory_of(ranker: Ranker) -> tuple[Remember, Memory]:
    if (remember := ranker.created.remember) is None:
        raise InvalidValue(
            f"{ranker.name!r} does not remember queries; "
            f"create a ranker with the algorithm 'remember >> {ranker.created.spec.algorithm}'"
        )
    return remember, ranker.remembered


def _remembered_query(remember: Remember, rate: float, lists: int, model: NDArray[np.int64]) -> schema.RememberedQuery:
    best = [schema.RememberedDocument(str(id), *rest) for id, *rest in remember.documents_of(model, rate)]
    effect = max((abs(each.boost) for each in best), default=0.0)
    return schema.RememberedQuery(Remembrance.unpacked(model).names[0], lists, effect, best)


def pinned_queries(ranker: Ranker, queries: int, evidence: float, documents: int) -> list[PinnedQuery]:
    """Return the queries with the most views, with those of their documents that rise and have enough clicks."""
    remember, memory = _memory_of(ranker)
    rate, found = click_rate(memory), list[tuple[float, int, NDArray[np.int64]]]()
    for _, lists, model in remember.table.models(memory):
        clicks, views = Remembrance.counts_in(model)
        if ((clicks >= evidence) & (clicks > rate * views)).any():
            found.append((views.sum(), lists, model))
    best = [_remembered_query(remember, rate, *each[1:]) for each in nlargest(queries, found, key=itemgetter(0))]
    pinned = [PinnedQuery(each.query, each.lists, _pinned(each, evidence)[:documents]) for each in best]
    return [each for each in pinned if each.documents]


def _pinned(query: schema.RememberedQuery, evidence: float) -> list[PinnedDocument]:
    rising = [each for each in query.documents if each.boost > 0.0 and each.clicks >= evidence]
    return [PinnedDocument(each.id, each.clicks, each.views, each.boost) for each in rising]


def model_answer(model: Model, deviations: NDArray[np.float64] | None = None) -> schema.Model:
    """Return the weights of a model by feature, and their deviations; a list for a feature with several columns."""
    if not isinstance(model, LinearModel):
        raise InvalidValue(
            f"{model.name!r} is not linear, no weight belongs to one feature, so there are no weights to show; it can be exported "
            "as onnx"
        )
    weights = _by_column(model.weights, model.features)
    knots = None
    if model.knots is not None and not np.isnan(model.knots[0, 0]):
        knots = dict(zip(model.features, model.knots.tolist(), strict=True))
    representation = write_representation(model.representation, model.features)
    belief = None if deviations is None else _by_column(deviations, model.features)
    return schema.Model(model.name, model.version, weights, representation, knots, belief)


def _by_column(columns: NDArray[np.float64], features: Sequence[str]) -> dict[str, float | list[float]]:
    rows = by_feature(columns, len(features))
    return dict(zip(features, (rows[:, 0] if rows.shape[1] == 1 else rows).tolist(), strict=True))


def model_curves(version: Version, state: State) -> schema.ModelCurves:
    """Return what each feature adds to the score, the most important first; the state may have a sample of documents."""
    curves = []
    for shown in version.definition.curves(state):
        curve, seen = shown.curve, (shown.edges.tolist(), shown.shares.tolist())
        points, belief = (curve.values.tolist(), curve.heights.tolist()), (shown.deviation, shown.uncertainty)
        curves.append(
            schema.FeatureCurve(shown.name, shown.domain, *points, curve.shape, shown.importance, *seen, *belief),
        )
    return schema.ModelCurves(version.definition.spec.name, version.version, curves)


# Guards

#: The fewest decisive lists for a warning that most of them are anonymous.
MIN_VOTES = 20
_ANONYMOUS_ADVICE = {
    "count": "there is no limit to the votes of one user, so a script may decide; send user_id with the feedback, or set "
    "anonymous=ignore in the guard",
    "ignore": "the guard ignores these (anonymous=ignore), so it has little evidence of what users prefer; send user_id with the "
    "feedback",
}


def guard_info(spec: RankerSpec, version: int, status: Status) -> schema.GuardInfo:
    """Return the evidence of a guard, for a ranker that serves a version."""
    guard, imitates = status.guard, spec.imitates(status.imitated, status.tally.learned)
    assert guard is not None
    period, gain, counts = guard.period, guard.gain, guard.counts
    low, high = period.interval
    alarm = guard.last_alarm
    return schema.GuardInfo(
        name=spec.name,
        model_version=version,
        state="alarm" if guard.raised else "watching",
        summary=_imitation(status.imitated, spec.imitate) if imitates else _summary(guard) + _waiting(status.waiting),
        lists=counts.lists,
        decisive=period.decisive,
        wins=period.wins,
        losses=period.losses,
        ties=counts.ties,
        no_click=counts.no_click,
        repeated=counts.repeated,
        win_rate=period.rate,
        low=low,
        high=high,
        level=LEVEL,
        e_value=gain.value,
        proved=gain.proves(LEVEL),
        statistic=guard.detector.statistic,
        threshold=guard.spec.false_alarm_every,
        rung=_rung(guard),
        learned_share=0.0 if imitates else guard.learned_share,
        alarms=guard.alarms,
        promotions=guard.promotions,
        last_alarm=None if alarm is None else _alarm(alarm, guard.spec.false_alarm_every),
        guard=converted(guard.spec, schema.GuardSpec),
        lately=guard.lately,
        ignored=counts.ignored,
        anonymous=guard.anonymous,
        warnings=tuple(_guard_warnings(guard)),
        phase=_phase(guard, imitates),
        imitated=status.imitated,
        imitate=spec.imitate or 0,
        waiting=status.waiting,
    )


def _phase(guard: Guard, imitates: bool) -> Literal["imitating", "climbing", "full", "alarm"]:
    if guard.raised:
        return "alarm"
    if imitates:
        return "imitating"
    return "full" if guard.rung + 1 == len(guard.spec.promote) else "climbing"


def _imitation(imitated: int, imitate: int | None) -> str:
    return f"It shows your order and learns to imitate it, so far from {imitated:,} of {imitate:,} lists; then the guard begins."


def _guard_warnings(guard: Guard) -> Iterator[str]:
    if guard.counts.votes >= MIN_VOTES and guard.anonymous > 0.5:
        advice = _ANONYMOUS_ADVICE[guard.spec.anonymous]
        yield f"{guard.anonymous:.0%} of the latest decisive lists have no user_id: {advice}"


def _rung(guard: Guard) -> schema.GuardRung:
    found, rungs = guard.on_rung, guard.spec.promote
    place = (guard.rung + 1, len(rungs), rungs[guard.rung])
    return schema.GuardRung(*place, found.wins, found.losses, found.rate, *found.interval, 0.5 - SLACK)


def _alarm(alarm: Alarm, threshold: float) -> schema.GuardAlarm:
    evidence = (alarm.statistic, alarm.wins, alarm.losses)
    done = (alarm.did, alarm.to_version, alarm_sentence(alarm, threshold))
    return schema.GuardAlarm(
        alarm.time, alarm.version, *evidence, *done, alarm.lately, _happened(alarm), _consequence(alarm)
    )


def alarm_sentence(alarm: Alarm, threshold: float) -> str:
    """Return what happened, what the service did, and the evidence, as a sentence without a full stop."""
    evidence = f"{alarm.wins:,} won and {alarm.losses:,} lost in all, the statistic {alarm.statistic:,.0f} reached {threshold:,.0f}"
    return f"{_happened(alarm)}; {_consequence(alarm)} ({evidence})"


def _happened(alarm: Alarm) -> str:
    wins, losses = alarm.decline if any(alarm.decline) else (alarm.wins, alarm.losses)
    return f"users preferred your own order in {losses:,} of the last {wins + losses:,} comparisons"


def _consequence(alarm: Alarm) -> str:
    return {
        "baseline": "your own order is shown, and learning has stopped until an operator resumes the ranker",
        "rollback": f"version {alarm.to_version}, the newest with proved gain, is shown again and continues to learn",
        "tell": "nothing was changed, because the guard only reports (on_alarm=tell)",
    }[alarm.did]


def event_sentence(event: GuardEvent, info: schema.GuardInfo) -> str:
    """Return the log message of a guard event."""
    if event == "promotion":
        rung = info.rung
        return f"Rung {rung.number} of {rung.rungs}: the learned ranker decides {rung.share:.0%} of the lists. {info.summary}"
    if event == "resume":
        share = f"{info.learned_share:.0%}"
        return (
            f"An operator has resumed the ranker: the guard starts again, and the ranker decides {share} of the lists."
        )
    if info.last_alarm is not None and info.state == "watching":
        return f"Alarm: {info.last_alarm.reason}."
    return info.summary


def _summary(guard: Guard) -> str:
    """Return the state of a guard in one or two sentences."""
    period = guard.period
    if guard.raised and guard.last_alarm is not None:
        alarm = f"Alarm: {alarm_sentence(guard.last_alarm, guard.spec.false_alarm_every)}."
        return f"{alarm} Since then it {_record(guard)}" if guard.stepped_back and period.decisive else alarm
    if not period.decisive:
        return "No comparison with your own order yet: nothing is known."
    return f"The learned ranker {_record(guard)} {_verdict(guard)}"


def _waiting(lists: int) -> str:
    return f" {lists:,} more are closed and wait for earlier ones, which are still open." if lists else ""


def _record(guard: Guard) -> str:
    period = guard.period
    low, high = period.interval
    return (
        f"won {period.rate:.1%} of {period.decisive:,} comparison{'s' * (period.decisive > 1)} with your own order "
        f"({low:.1%} to {high:.1%} at level {LEVEL})."
    )


def _verdict(guard: Guard) -> str:
    if guard.gain.proves(LEVEL):
        recent = min(guard.period.decisive, MEMORY)
        if guard.lately < 0.5:
            lost = round((1.0 - guard.lately) * recent)
            return (
                "It was proved to be better over the whole period; but lately users preferred your own order, "
                f"in about {lost} of the last {recent} comparisons."
            )
        return f"It is proved to be better; it won {guard.lately:.0%} of the last {recent} comparisons."
    if guard.period.interval[1] < 0.5:
        return "It is worse."
    return "Whether it is better is not known yet."


# All rankers

#: Minutes over which traffic is averaged.
TRAFFIC_MINUTES = 5


def overview(storage: Storage, ranker: Ranker, now: float) -> schema.Overview:
    """Return a ranker with its guard and its traffic at a time in seconds; reads the store."""
    version, status = ranker.version, ranker.newest_status()
    start = (now // 60 - TRAFFIC_MINUTES) * 60
    history = read_history(storage, ranker, "minute", start)
    lists = sum(sum(counts) for counts in history.lists.values())
    minutes = max(now - max(start, ranker.created.created), 60) / 60
    guard = None if status.guard is None else guard_info(version.definition.spec, version.version, status)
    return schema.Overview(ranker_info(ranker), guard, lists / minutes)


# History


def read_history(
    storage: Storage, ranker: Ranker, step: Step, start: float | None = None, end: float | None = None
) -> schema.History:
    """Return the history of a ranker, from its machine, or from what the leader has saved for other processes."""
    name, definition = ranker.name, ranker.version.definition
    machine, state, pending = ranker.machine, HistoryState(0), list[Block]()
    if machine is not None:
        # In this order, and the store last: a block that is saved meanwhile is then found twice, not never.
        state = machine.history.copy(machine.step_end())
        pending = [block for of, block in list(machine.history.done) if of == step]
    elif (found := storage.snapshots.load(name, log.HISTORY)) is not None:
        state = log.unpack(found.body, HistoryState)
    kind, kept, count = block_kind(step), dict[int, Block](), 0
    for info in reversed(storage.snapshots.list(name, kind)):
        if count >= MAX_POINTS:
            break
        body = storage.snapshots.load(name, kind, info.number)
        if body is not None:
            kept[info.number] = log.unpack(body.body, Block)
            count += len(kept[info.number].points)
        if start is not None and info.time <= start:  # earlier blocks end before this one begins
            break
    kept |= {block.number: block for block in pending}
    blocks = [block for _, block in sorted(kept.items())]
    return history_answer(name, step, blocks, state, definition.spec.features, definition.names_digest, start, end)


def history_answer(
    name: str,
    step: Step,
    blocks: Sequence[Block],
    state: HistoryState,
    features: Sequence[str],
    digest: bytes,
    start: float | None = None,
    end: float | None = None,
) -> schema.History:
    """Return the newest points of a step, as one list per quantity.

    Parameters
    ----------
    name
        Name of the ranker.
    step, blocks, state, start, end
        As in `select_points`.
    features, digest
        Names of the features, and their digest.
    """
    points, marks = select_points(step, blocks, state, start, end)
    shown: list[int] = []
    clicks: list[int] = []
    for each in points:
        shown, clicks = sum_lists(shown, each.shown), sum_lists(clicks, each.clicks)
    kinds = LIST_KINDS.items()
    return schema.History(
        name=name,
        step=step,
        seconds=STEPS[step][0],
        time=[float(each.at * STEPS[step][0]) for each in points],
        lists={label: [each.made[kind] for each in points] for kind, label in kinds if kind != OLD},
        closed={label: [each.closed[kind] for each in points] for kind, label in kinds},
        clicked={label: [each.clicked[kind] for each in points] for kind, label in kinds},
        reciprocal_rank={
            label: [each.ranks[kind] / each.closed[kind] if each.closed[kind] else None for each in points]
            for kind, label in kinds
        },
        no_feedback=[each.no_feedback for each in points],
        learned=[each.learned for each in points],
        failed=[each.failed for each in points],
        events=[each.events for each in points],
        trouble={"missing": [each.missing for each in points], "out_of_range": [each.out_of_range for each in points]},
        model_version=[each.version for each in points],
        weights=_weights(points, features[:HISTORY_FEATURES], digest),
        deviations=_deviations(points, features[:HISTORY_FEATURES], digest),
        positions_shown=shown,
        positions_clicked=clicks,
        guard=_guard_history(points),
        marks=[schema.HistoryMark(each.time, each.event, each.text, each.version) for each in marks],
    )


def _weights(points: list[Point], names: Sequence[str], digest: bytes, first: int = 0) -> dict[str, list[float | None]]:
    """Return weights by name; None for points with other features than the present ones."""
    rows = [_row(each.weights[4:]) if each.weights[:4] == digest else [] for each in points]
    unknown: list[float | None] = [None] * len(names)
    rows = [row[first : first + len(names)] or unknown for row in rows]
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _deviations(points: list[Point], names: Sequence[str], digest: bytes) -> dict[str, list[float | None]]:
    """Return the standard deviations that follow the weights; nothing if there are none."""
    found = _weights(points, names, digest, len(names))
    return found if any(value is not None for values in found.values() for value in values) else {}


def _row(weights: bytes) -> list[float | None]:
    row: list[float | None] = np.frombuffer(weights, "<f4").astype(np.float64).tolist()
    return row


def _guard_history(points: list[Point]) -> schema.HistoryGuard | None:
    if all(each.guard is None for each in points):
        return None
    bands = [None if each.guard is None else ConfidenceSequence(*each.guard[:2]) for each in points]
    return schema.HistoryGuard(
        wins=[each.wins for each in points],
        losses=[each.losses for each in points],
        win_rate=[None if band is None else band.rate for band in bands],
        low=[None if band is None else band.interval[0] for band in bands],
        high=[None if band is None else band.interval[1] for band in bands],
        statistic=[None if each.guard is None else each.guard[2] for each in points],
        learned_share=[None if each.guard is None else each.guard[3] for each in points],
    )


# The last step


def explain_step(kept: LearnedStep, stored: log.StoredImpression, raw: Features, served: int) -> schema.LastStep:
    """Repeat a step of learning, without effect, and return its intermediate results.

    Parameters
    ----------
    kept
        The step.
    stored, raw
        The impression and its features.
    served
        The version that is served now.
    """
    definition = kept.definition
    definition.algorithm.check_linear("the step has no direction by feature")
    assert kept.made_by is not None  # it was there when the step was made
    rebuilt, feedback = learned_list(definition, kept.made_by, kept.id, (stored, raw), kept.impression)
    fresh = derive(definition.learn_key, kept.before.step)
    found = definition.algorithm.explain_step(kept.before, rebuilt, feedback, fresh)
    return schema.LastStep(
        name=definition.spec.name,
        impression_id=kept.id,
        made_by_version=kept.impression.version,
        model_version=served,
        step=kept.before.step + 1,
        documents=_step_documents(stored, rebuilt, feedback, found),
        direction=_by_name(found.direction, definition),
        followed=_by_name(found.followed, definition),
        direction_length=float(np.linalg.norm(found.direction)),
        followed_length=float(np.linalg.norm(found.followed)),
        angle=_angle(found.direction, found.followed),
        weights_before=_by_name(found.before, definition),
        weights_after=_by_name(found.after, definition),
    )


def _step_documents(
    stored: log.StoredImpression, rebuilt: Impression, feedback: Feedback, found: StepExplanation
) -> list[schema.StepDocument]:
    ids = dict(zip(stored.order, stored.ids, strict=True)).__getitem__
    examined = [None] * len(rebuilt.ranking) if found.examined is None else found.examined.tolist()
    rows = zip(map(ids, rebuilt.ranking.tolist()), feedback.clicks.tolist(), examined, strict=True)
    return [schema.StepDocument(id, place, clicked, seen) for place, (id, clicked, seen) in enumerate(rows, 1)]


def _by_name(columns: NDArray[np.float64], definition: Definition) -> dict[str, float]:
    """Return the sum over the columns of each feature, by name: the rise of its curve from its lowest value to its highest."""
    features = definition.spec.features
    return dict(zip(features, by_feature(columns, len(features)).sum(axis=1).tolist(), strict=True))


def _angle(one: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    """Return the angle between two vectors in degrees, None if one of them is zero."""
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return None if lengths == 0.0 else math.degrees(math.acos(max(-1.0, min(1.0, float(one @ other) / lengths))))


# Comparisons of versions

#: Number of events of the ranker after an impression among which its clicks are searched.
MAX_CLICK_DISTANCE = 5000


def recent_impressions(storage: Storage, name: str, count: int) -> list[schema.ImpressionInfo]:
    """Return the newest impressions of a ranker whose features are still there, newest first; reads the store."""
    found: list[schema.ImpressionInfo] = []
    clicks: dict[str, set[int]] = {}
    for event in log.read_backwards(storage, name):
        if event.kind == log.FEEDBACK:
            _add_clicks(clicks, event)
        elif event.kind == log.IMPRESSION:
            body = log.unpack(event.body, log.StoredImpression)
            features = log.read_features(storage, name, event.number)
            if features is None:  # features are dropped in the order of age
                break
            found.append(_impression_info(event, body, features, clicks.get(event.key, set())))
            if len(found) >= count:
                break
    return found


def compare_versions(
    storage: Storage, name: str, id: str, one: Version, other: Version, load: Callable[[int], Version | None]
) -> schema.Comparison:
    """Return the rankings of an impression by two versions; reads the store.

    Parameters
    ----------
    storage, name, id
        The store, and names of the ranker and the impression.
    one, other
        The versions.
    load
        Returns another version, None if it is gone.
    """
    found = log.read_impression(storage, name, id)
    if found is None:
        raise UnknownName(
            f"the impression {id!r} of {name!r} is not known, or its features were dropped after it was learned from"
        )
    event, body, raw = found
    definition = _definition_of(body, raw, load(body.version), (one, other, load(1)))
    clicks: dict[str, set[int]] = {}
    for each in islice(log.read_events(storage.log, name, event.number, storage.log.last_number()), MAX_CLICK_DISTANCE):
        if each.kind == log.FEEDBACK:
            _add_clicks(clicks, each)
        elif each.kind == log.CLOSED and each.key == str(event.number):  # later clicks are too late
            break
    info = _impression_info(event, body, raw, clicks.get(id, set()))
    return schema.Comparison(
        info, _version_ranking(definition, one, id, body, raw), _version_ranking(definition, other, id, body, raw)
    )


def _add_clicks(clicks: dict[str, set[int]], event: Event) -> None:
    feedback = log.unpack(event.body, log.StoredFeedback)
    clicks.setdefault(feedback.impression, set()).update(feedback.clicks)


def _impression_info(
    event: Event, body: log.StoredImpression, raw: Features, clicks: set[int]
) -> schema.ImpressionInfo:
    shown = body.shown
    clicked = [body.ids[place] for place in sorted(clicks) if place < len(body.ids)]
    return schema.ImpressionInfo(event.key, event.time, body.version, body.kind, len(raw), shown, clicked)


def _definition_of(
    body: log.StoredImpression, raw: Features, made_by: Version | None, others: Sequence[Version | None]
) -> Definition:
    """Return the definition of the version that made an impression, or if that is gone, another one with the same features.

    The number of features is not enough: some may have been replaced by others.
    """
    known = [] if made_by is None else [made_by]
    if body.names:
        known = [each for each in (made_by, *others) if each is not None and each.definition.names_digest == body.names]
    for version in known:
        if len(version.definition.spec.features) == raw.shape[1]:
            return version.definition
    raise UnknownName(
        f"version {body.version}, which made this impression, is gone, and the names of its features with it; "
        "choose a newer impression, or a version from about its time"
    )


def _version_ranking(
    definition: Definition, version: Version, id: str, body: log.StoredImpression, raw: Features
) -> schema.VersionRanking:
    definition = definition.represented_as(version.definition)
    state = definition.carry(version.state, version.definition.spec.features)
    boosts = body.known_boosts
    added = (boosts if boosts.size else np.zeros(len(raw))).tolist()
    scores = definition.algorithm.scores(state, raw, np.array([0, len(raw)])).tolist()
    names = {document: f"#{document + 1}" for document in range(len(raw))}
    names |= dict(zip(body.order, body.ids, strict=True))
    order = definition.best(state, id, raw, boosts)
    ranking = [
        schema.RankedDocument(names[each], place, scores[each] + added[each], memory=added[each] or None)
        for place, each in enumerate(order, 1)
    ]
    return schema.VersionRanking(version.version, ranking)
