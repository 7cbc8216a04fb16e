"""What the threads of a service share: rankers, the version each is served from, and recent lists."""

from __future__ import annotations

from threading import Lock

from duelrank.errors import UnknownName
from duelrank.serving.log.bodies import RANKERS, Created, unpack
from duelrank.serving.log.recent import Recent
from duelrank.serving.log.tail import Feed
from duelrank.serving.observer import Observer
from duelrank.serving.ranker.definition import Definition
from duelrank.serving.ranker.machine import Machine, Tally
from duelrank.serving.ranker.versions import Model
from duelrank.storage import Event, Storage

__all__ = ["Board", "Ranker"]


class Ranker:
    """One ranker: its definition, the model that lists are made from (swapped, never changed), its machine if we lead."""

    __slots__ = ("definition", "machine", "model")

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        frozen = definition.spec.mode == "frozen"
        self.model = Model(1, 0, definition.created, frozen, Tally(), 0, definition.start)
        self.machine: Machine | None = None


class Board:
    """The rankers of a store as this process knows them."""

    def __init__(self, recent: int) -> None:
        self.rankers: dict[str, Ranker] = {}
        self.recent = Recent(recent)
        self.feed = Feed()
        self.observer = Observer()
        self._read, self._defining = 0, Lock()

    def __getitem__(self, name: str) -> Ranker:
        found = self.rankers.get(name)
        if found is None:
            raise UnknownName.among("ranker", name, self.rankers)
        return found

    def define(self, event: Event) -> Ranker:
        """Take a ranker that somebody has made; one that is known stays as it is."""
        with self._defining:
            known = self.rankers.get(event.key)
            if known is None:
                definition = Definition(unpack(event.body, Created).spec, event.time)
                definition.warm()
                known = self.rankers[event.key] = Ranker(definition)
            return known

    def refresh(self, storage: Storage) -> None:
        """Take the rankers that were made meanwhile."""
        while found := storage.read(self._read, 1000, RANKERS):
            for event in found:
                self.define(event)
                self._read = event.number

    def serve(self, name: str, model: Model) -> None:
        """Make lists from this version from now on, unless a newer one is served."""
        ranker = self.rankers[name]
        if model.version > ranker.model.version:
            ranker.model = model
            self.observer.published(name, model.version)
