"""The definition of an experiment: the systems that it compares, and how it merges their lists into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidValue, LimitExceeded, UnknownName
from duelrank.core.grammar import parse
from duelrank.core.randomness import stream_key
from duelrank.core.types import Gains, Impression
from duelrank.core.validation import printable_name, whole_number
from duelrank.evidence.interleaving import checked_ranking, merged_list
from duelrank.evidence.sequential import check_level
from duelrank.kernels.random import derive
from duelrank.multileaving import Multileaver, TeamDraft
from duelrank.service.definition import CLICK, check_closing, check_name, hash63, stored_action
from duelrank.service.settings import Settings
from duelrank.storage import Event

if TYPE_CHECKING:
    from duelrank.service.log import Created

#: The least and the largest number of systems that are compared.
LEAST_SYSTEMS, MOST_SYSTEMS = 2, 10
#: The maximum number of characters in the name of a system.
MAX_SYSTEM_NAME = 100

_SHOW_KEY, _RECORD_KEY = stream_key(0, "show"), stream_key(0, "record")


class ExperimentSpec(msgspec.Struct, frozen=True):
    """The specification of an experiment; `duelrank.service.http.schema.ExperimentSpec` explains the fields."""

    name: str
    systems: tuple[str, ...]
    rankers: tuple[str, ...] = ()
    multileaver: str = "PairDraft()"
    length: int = 10
    level: float = 0.05
    close_after: float = 1800.0
    actions: dict[str, float] = msgspec.field(default_factory=lambda: {CLICK: 1.0})

    @property
    def all_systems(self) -> tuple[str, ...]:
        """The names of the client's systems, and then of the rankers."""
        return (*self.systems, *self.rankers)


class ExperimentDefinition:
    """A specification with its multileaver; raises if it cannot be served.

    Parameters
    ----------
    spec
        The specification.
    created
        Time of the creation, in seconds.
    number
        Number of the event that created the experiment; earlier events belong to another one of the same name.
    salt
        Bytes that are mixed into the random stream of each list, so that an impression id does not predict it.
    """

    def __init__(self, spec: ExperimentSpec, created: float = 0.0, number: int = 0, salt: bytes = b"") -> None:
        _check(spec)
        self.spec, self.created, self.number, self._salt = spec, created, number, salt
        self.multileaver = parse(spec.multileaver, Multileaver)
        self.multileaver.check_rankers(len(spec.all_systems))

    @classmethod
    def read(cls, event: Event, created: Created) -> ExperimentDefinition:
        """Return the definition of an experiment that an event has created."""
        assert created.experiment is not None
        return cls(created.experiment.read(), event.time, event.number, created.salt)

    def check_new(self, settings: Settings) -> None:
        """Raise if a new experiment has invalid names, or exceeds a limit of the service."""
        for name in self.spec.systems:
            printable_name("the name of a system", name, MAX_SYSTEM_NAME)
        for name in self.spec.actions:
            stored_action(name)
        if self.spec.length > settings.max_documents:
            raise LimitExceeded(
                f"a list may have at most {settings.max_documents:,} documents, got {self.spec.length:,}"
            )

    def warm_up(self, learning: bool = True) -> None:
        """Merge and count one full list, so that kernels are compiled before the first request."""
        n = self.spec.length + 1
        lists = [[str((place + first) % n) for place in range(n)] for first in range(len(self.spec.all_systems))]
        impression, _ = self.merge("", lists, self.spec.length)
        self.preferences("", impression, np.ones(len(impression.ranking)))

    def same_as(self, other: ExperimentDefinition) -> bool:
        """Whether two specifications have the same meaning."""
        ours, theirs = (msgspec.structs.replace(each.spec, multileaver="") for each in (self, other))
        return ours == theirs and self.multileaver == other.multileaver

    def given_lists(self, lists: Mapping[str, Sequence[str]], settings: Settings) -> dict[str, list[str]]:
        """Return the lists of the client's systems; raise if one is missing, or has an invalid id."""
        for name in lists:
            if name in self.spec.rankers:
                raise InvalidValue(
                    f"{name!r} is a ranker of this service: it ranks the documents, so send no list of it"
                )
            if name not in self.spec.systems:
                raise InvalidValue(str(UnknownName.among("system of this experiment", name, self.spec.systems)))
        return {name: _checked(name, lists, settings) for name in self.spec.systems}

    @property
    def merges_fast(self) -> bool:
        """Whether lists are merged in so short a time that other requests can wait: others may solve linear programmes."""
        return isinstance(self.multileaver, TeamDraft)

    def merge(self, id: str, lists: Sequence[Sequence[str]], length: int) -> tuple[Impression, list[str]]:
        """Return the merged list of an impression, and the documents that its indices refer to."""
        return merged_list(self.multileaver, lists, length, derive(_SHOW_KEY, hash63(id, self._salt)))

    def preferences(self, id: str, impression: Impression, gains: Gains) -> NDArray[np.float64]:
        """Return the preference of each system (row) over each other one (column), given the gains of the positions."""
        return self.multileaver.preferences(impression, gains, derive(_RECORD_KEY, hash63(id, self._salt)))


def _checked(name: str, lists: Mapping[str, Sequence[str]], settings: Settings) -> list[str]:
    found = checked_ranking(name, lists)
    if len(found) > settings.max_documents:
        raise LimitExceeded(
            f"the list of a system has at most {settings.max_documents:,} documents, got {len(found):,}"
        )
    for id in found:
        if not isinstance(id, str) or not 0 < len(id) <= settings.max_id:
            raise InvalidValue(
                f"the id of a document has from 1 to {settings.max_id} characters; the list of {name!r} has {id!r}"
            )
    try:
        "".join(map(str, found)).encode()
    except UnicodeEncodeError as error:
        raise InvalidValue(f"the id of a document must be valid Unicode: {error}") from None
    return [str(id) for id in found]


def _check(spec: ExperimentSpec) -> None:
    check_name("an experiment", spec.name)
    check_closing(spec.close_after, spec.actions)
    names = spec.all_systems
    if len(set(names)) < len(names):
        raise InvalidValue(f"the names of systems must be unique, got {', '.join(names)}")
    if not LEAST_SYSTEMS <= len(names) <= MOST_SYSTEMS:
        raise InvalidValue(
            f"an experiment compares from {LEAST_SYSTEMS} to {MOST_SYSTEMS} systems, rankers included, got {len(names)}"
        )
    whole_number("length", spec.length)
    check_level(spec.level)
