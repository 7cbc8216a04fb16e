"""Reads the lists to evaluate on: those of a live ranker from its store, or those of another system from its log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.core.progress import ProgressCallback
from duelrank.core.types import Features, Feedback, Query, Ranking
from duelrank.evaluation.candidates import Candidate, Documents, GivenCandidate, as_candidate, with_candidates
from duelrank.evaluation.estimators import Estimator, Reward
from duelrank.evaluation.evaluation import Evaluation, evaluate_lists
from duelrank.evaluation.lists import SAMPLES, Lists, LoggedList, Ranked
from duelrank.learner import Learner
from duelrank.representation import Interactions
from duelrank.service import log
from duelrank.service.definition import Definition
from duelrank.service.http.schema import DocumentTable, LoggedImpression
from duelrank.service.machine import VERSION_WINDOW, Machine, OpenImpression, feedback_on
from duelrank.service.rankers import Version, VersionStore
from duelrank.service.replay import Rerun, ranker_names
from duelrank.storage import Event, Storage

_RANKER = "ranker:"


def _no_progress(done: int, total: int | None) -> None:
    """Show nothing."""


def evaluate_store(
    storage: Storage,
    ranker: str,
    candidates: Sequence[GivenCandidate],
    *,
    reward: Reward = "clicks",
    estimator: Estimator | str | None = None,
    level: float = 0.05,
    bias: float | None = None,
    progress: ProgressCallback = _no_progress,
) -> Evaluation:
    """Estimate what candidates would have been worth on the lists of a live ranker, as far back as the store has features.

    The log is replayed, so the version that made each list is known, and draws what else it might have shown. All closed lists
    count, those without feedback as lists without an action. Placed documents, and documents that were removed, do not count.

    Parameters
    ----------
    storage
        The store, which is only read.
    ranker
        Name of the ranker.
    candidates
        Candidates; besides those of `duelrank.evaluate`, ``ranker:NAME`` and ``ranker:NAME@VERSION`` are rankers of the store.
    reward, estimator, level, bias
        As for `duelrank.evaluate`. With weights of actions in the ranker, "actions" adds these.
    progress
        Receives the number of events that were read, and of all.
    """
    chosen = [stored_candidate(storage, each) for each in candidates]
    lists = Lists.of(stored_lists(storage, ranker, chosen, progress))
    if not len(lists):
        raise InvalidValue(
            f"the store has no closed list of {ranker!r} with its features; features are dropped once they are learned from, "
            "unless the service runs with --keep-features, such as --keep-features 30d"
        )
    return evaluate_lists(lists, [each.name for each in chosen], reward, estimator, level, bias)


# Rankers of a store as candidates


def stored_candidate(storage: Storage, given: GivenCandidate) -> Candidate:
    """Return a candidate, perhaps a ranker of a store."""
    if not isinstance(given, str) or not given.startswith(_RANKER):
        return as_candidate(given)
    name, _, version = given.removeprefix(_RANKER).partition("@")
    created = storage.log.find(log.RANKERS, log.CREATED, [name]).get(name)
    body = None if created is None else log.unpack(created.body, log.Created)
    if created is None or body is None or body.spec is None:
        raise UnknownName.among("ranker", name, ranker_names(storage))
    if version and not version.isdecimal():
        raise InvalidValue(f"a version of a ranker is a number, as in ranker:{name}@12, got {given!r}")
    definition = Definition.read(created, body)
    store = VersionStore(storage, definition)
    found = store.load(int(version) if version else None) or (None if version else Version.first(definition))
    if found is None:
        known = [str(info.number) for info in store.list()]
        raise UnknownName.among(f"version of {name}", version, known)
    return _Served(given.removeprefix(_RANKER), found)


class _Served(Candidate):
    """A version of a ranker, without exploration, with what the memory of the query had added to scores when the list was made."""

    def __init__(self, name: str, version: Version) -> None:
        super().__init__(name)
        self._version = version

    def rank(self, documents: Documents) -> Ranking:
        """Return the rows as the version orders them."""
        definition, query = self._version.definition, documents.query
        raw = documents.columns(definition.spec.features)
        return np.array(definition.best(self._version.state, query.id, raw, query.boosts), np.int64)


# Lists of a store


class _Memoised(Rerun):
    """A rerun that holds the impression that was read last, because the machine reads it again."""

    _held: tuple[int, tuple[log.StoredImpression, Any] | None] = (0, None)

    def impression(self, id: str, number: int) -> tuple[log.StoredImpression, Any] | None:
        """Return an impression and its features; None if one of them is gone."""
        if self._held[0] != number:
            self._held = number, super().impression(id, number)
        return self._held[1]


def stored_lists(
    storage: Storage, ranker: str, candidates: Sequence[Candidate], progress: ProgressCallback = _no_progress
) -> Iterator[LoggedList]:
    """Yield the closed lists of a ranker, in the order of closing, each with draws from the version that made it."""
    rerun = _Memoised(storage, ranker)
    machine, end = rerun.ranker, storage.log.last_number()
    if machine is None:
        raise InvalidValue(f"{ranker!r} is an experiment; only lists of a ranker can be evaluated on")
    made_by = _Makers(rerun, machine)
    for event in rerun.events():
        progress(event.number, end)
        closing = made_by.closing(event)
        machine.apply(event)
        made_by.follow(event)
        if closing is not None:
            found = _as_shown(*closing, candidates)
            if found is not None:
                yield found


class _Makers:
    """Knows the version that made each open list."""

    def __init__(self, rerun: Rerun, machine: Machine) -> None:
        self._rerun, self._machine = rerun, machine
        first = Version.first(machine.definition) if not rerun.after else rerun.versions.load(machine.version)
        self._versions = {machine.version: first or Version.of(machine, 0.0)}
        self._of: dict[str, Version] = {}

    def closing(self, event: Event) -> tuple[Version, str, OpenImpression, log.StoredImpression, Features] | None:
        """Return the list that an event closes, with the version that made it; None if it closes none, or it is not known."""
        if event.kind != log.CLOSED:
            return None
        id = log.unpack(event.body, str)
        impression, version = self._machine.open.get(id), self._of.pop(id, None)
        if impression is None or version is None:
            return None
        found = self._rerun.impression(id, impression.number)
        return None if found is None else (version, id, impression, *found)

    def follow(self, event: Event) -> None:
        """Note the version of a new list, and a new version."""
        if event.kind == log.PUBLISHED:
            self._versions[self._machine.version] = Version.of(self._machine, event.time)
            self._versions.pop(self._machine.version - 2 * VERSION_WINDOW, None)
        elif event.kind == log.IMPRESSION:
            stored = log.unpack(event.body, log.StoredImpression)
            if stored.version in self._versions:
                self._of[event.key] = self._versions[stored.version]


def _as_shown(
    version: Version,
    id: str,
    impression: OpenImpression,
    stored: log.StoredImpression,
    raw: Features,
    candidates: Sequence[Candidate],
) -> LoggedList | None:
    """Return the shown part of a list with its actions; None if nothing that the ranker has ordered was shown."""
    length = len(stored.order)
    places = impression.shown(length)
    rows = list(range(length)) if places is None else places
    if not rows:
        return None
    definition, boosts = version.definition, stored.known_boosts
    gains = feedback_on(impression, length).gains[rows]
    query = definition.query(raw, boosts, id)
    documents = Documents(
        query, definition.spec.features, lambda: np.array(definition.best(version.state, id, raw, boosts), np.int64)
    )
    shown, others = np.array(stored.order, np.int64)[rows], drawn(version, id, raw, stored)[:, : len(rows)]
    return with_candidates(documents, shown, gains, others, candidates, len(rows))


def drawn(version: Version, id: str, raw: Features, stored: log.StoredImpression, n: int = SAMPLES - 1) -> Ranked:
    """Return lists that a version might have shown instead of a stored one, each as for another id: (n, length)."""
    definition, pinned = version.definition, None if version.pin is None else version.pin[1]
    length, boosts = len(stored.order), stored.known_boosts
    found = np.full((n, length), -1, np.int64)
    for number, row in enumerate(found):
        other = f"{id}\0{number}"
        kind = definition.list_kind(other, version.frozen, version.learned_share, version.imitates)
        order, _ = definition.order(kind, version.state, other, raw, length, pinned, boosts)
        row[: len(order)] = order
    return found


# Lists of a log


class OtherLog(NamedTuple):
    """The log of another system, which does not know what else it might have shown.

    Parameters
    ----------
    features
        Names of the features, and their products with contexts.
    actions
        Weights of actions by name; others do not count.
    """

    features: Interactions
    actions: Mapping[str, float]

    def lists(self, logged: Iterable[LoggedImpression], candidates: Sequence[Candidate]) -> Iterator[LoggedList]:
        """Yield lists as `duelrank.adapters.tables.TableLog` and `duelrank.adapters.ubi.UbiLog` read them."""
        nothing = np.empty((0, 0), np.int64)
        for each in logged:
            query, shown, feedback = self.entry(each)
            documents = Documents(query, self.features.names)
            yield with_candidates(documents, shown, feedback.gains, nothing, candidates, len(shown))

    def entry(self, logged: LoggedImpression) -> tuple[Query, Ranking, Feedback]:
        """Return a list as `duelrank.Learner.backfill` takes it; the heaviest action on a document counts."""
        table = logged.documents
        assert isinstance(table, DocumentTable)  # as readers of logs make them
        numbers = np.frombuffer(table.features, "<f4" if table.type == "float32" else "<f8").astype(np.float64)
        features = self.features.table(numbers.reshape(len(table.ids), -1), logged.context)
        query = Query(logged.query or "", features, documents=table.ids, missing=bool(np.isnan(features).any()))
        places = {id: place for place, id in enumerate(table.ids[: logged.shown])}
        gains = np.zeros(len(places))
        for action, ids in {"click": logged.clicks, **logged.actions}.items():
            for place in (places[id] for id in ids if id in places):
                gains[place] = max(gains[place], self.actions.get(action, 0.0))
        return query, np.arange(len(places)), Feedback(gains > 0.0, logged.examined, gains)

    def learned(self, learner: Learner, logged: Iterable[LoggedImpression]) -> int:
        """Let a learner learn from those lists that have an action; return their number."""
        lists = [entry for entry in map(self.entry, logged) if entry[2].gains.any()]
        learner.backfill(lists)
        return len(lists)
