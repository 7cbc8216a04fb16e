"""The background thread of a read-only service: applies the event log as the leader does, and writes nothing."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from duelrank.core.errors import StorageFailure
from duelrank.core.types import Features, State
from duelrank.service.experiment_machine import ExperimentMachine
from duelrank.service.follower import RETRY_SECONDS, Background
from duelrank.service.log import CHECKPOINT, PUBLISHED, ListReader, StoredImpression, unpack_lists
from duelrank.service.machine import EventMachine, Machine
from duelrank.service.rankers import Experiment, Ranker, Rankers, Version, VersionStore, new_events, restore_newest
from duelrank.service.settings import Settings
from duelrank.storage import Storage

logger = logging.getLogger("duelrank.service")

#: The number of finished blocks of the history that are held until the leader has saved them.
MAX_BLOCKS = 100


@dataclass(slots=True)
class _Followed:
    """The machine of a ranker (named by its creation) that began from a checkpoint.

    ``missed`` counts features and states that it could not get; ``lost`` is whether learning has failed without them.
    """

    created: int
    machine: EventMachine
    lists: ListReader
    since: int = 0
    missed: int = 0
    lost: bool = False


class Viewer(Background):
    """Applies the log without a lease, and writes nothing: another process may serve from the store at the same time."""

    def __init__(self, storage: Storage, settings: Settings, rankers: Rankers) -> None:
        super().__init__(storage, settings, rankers)
        self._machines: dict[str, _Followed] = {}
        self._applied = 0

    @property
    def applied(self) -> int:
        """The number of the last event that was applied."""
        return self._applied

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._advance_all()
                self._report(True, None)
            except Exception as error:
                if type(error) is not type(self.failure):
                    trace = None if isinstance(error, StorageFailure) else error
                    logger.error(
                        "the store cannot be read, which is tried again every second: %s", error, exc_info=trace
                    )
                self._machines.clear()
                self._report(self.ready, error)
            self._stop.wait(self._settings.poll_every if self.failure is None else RETRY_SECONDS)

    def _advance_all(self) -> None:
        """Apply the log of all rankers up to its end."""
        last = self._storage.log.last_number()
        self._rankers.refresh()
        present = self._rankers.items()
        for name in self._machines.keys() - dict(present).keys():  # they were deleted
            del self._machines[name]
        for name, ranker in present:
            known = self._machines.get(name)
            if known is None or known.created != ranker.created.number or self._can_recover(name, known):
                known = self._machines[name] = self._begin(name, ranker)
            self._advance(name, ranker, known, last)
        self._applied = last

    def _can_recover(self, name: str, known: _Followed) -> bool:
        """Whether a machine has missed something, and there is a newer checkpoint to begin from."""
        return known.lost and self._storage.snapshots.newest(CHECKPOINT).get(name, 0) > known.since

    def _begin(self, name: str, found: Ranker | Experiment) -> _Followed:
        """Restore a ranker or an experiment from its newest checkpoint."""
        return self._begin_ranker(name, found) if isinstance(found, Ranker) else self._begin_experiment(name, found)

    def _begin_experiment(self, name: str, experiment: Experiment) -> _Followed:
        lists = ListReader(self._storage, name, read=unpack_lists)

        def fetch(id: str, number: int) -> tuple[StoredImpression, list[list[str]]] | None:
            found = lists.impression(id, number)
            followed.missed += found is None
            return found

        machine = ExperimentMachine(experiment.created, fetch)
        followed = _Followed(experiment.created.number, machine, lists)
        if restore_newest(machine, self._storage):
            followed.since = machine.number
        return followed

    def _begin_ranker(self, name: str, ranker: Ranker) -> _Followed:
        versions, lists = VersionStore(self._storage, ranker.created), ListReader(self._storage, name)

        def fetch_impression(id: str, number: int) -> tuple[StoredImpression, Features] | None:
            found = lists.impression(id, number)
            followed.missed += found is None
            return found

        def load_state(version: int) -> State | None:
            found = versions.state(version)
            followed.missed += found is None
            return found

        def fetch_features(number: int) -> Features | None:
            found = lists.features(number)
            followed.missed += found is None
            return found

        machine = Machine(ranker.created, fetch_impression, load_state, fetch_features=fetch_features)
        followed = _Followed(ranker.created.number, machine, lists)
        if restore_newest(machine, self._storage):
            followed.since = machine.number
        newest = versions.load()
        if newest is not None and newest.version <= machine.version:
            self._rankers.serve(name, newest)
        return followed

    def _advance(self, name: str, ranker: Ranker | Experiment, known: _Followed, last: int) -> None:
        """Apply new events, and note whether something was missing.

        A service may drop features faster than they are read here: then this process continues from the next checkpoint. Events
        from which the service itself could not learn do not count as missing.
        """
        machine = known.machine
        for event in new_events(self._storage.log, name, machine, last, known.lists):
            if self._stop.is_set():
                break
            before = known.missed
            closed = machine.apply(event)
            known.lost |= closed is not None and closed.outcome == "failed" and known.missed > before
            if event.kind == PUBLISHED and isinstance(machine, Machine):
                self._rankers.serve(name, Version.of(machine, event.time))
        if isinstance(machine, Machine):
            del machine.history.done[:-MAX_BLOCKS]  # the leader has saved them
        ranker.machine = machine  # type: ignore[assignment]  # it is of this kind
