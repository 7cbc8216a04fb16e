"""A log as lists that were shown: queries and their hits, with what users did with them and with the features of that time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from duelrank.errors import DataFormatError
from duelrank.progress import Tell
from duelrank.service.http.schema import DocumentTable, LoggedImpression, Precision
from duelrank.ubi.events import Id, UbiEvent, UserAction, action_of, id_text
from duelrank.ubi.features import FeatureReader, split
from duelrank.ubi.records import Troubles, check_files, read_records, sources
from duelrank.ubi.workspace import Workspace, workspace

__all__ = ["History", "LogCounts"]

P = TypeVar("P")
T = TypeVar("T")

# No list has more positions; also, the temporary database has room for so large numbers.
LONGEST = 1_000_000_000

#: Shows progress in bytes under a label.
Bar = Callable[[str], AbstractContextManager[Tell]]


class UbiQuery(msgspec.Struct, frozen=True):
    """A query of User Behavior Insights 1.3.0: ``query_response_hit_ids`` are the documents that were shown, in order."""

    query_id: Id
    query_response_hit_ids: list[Id] | None = None


@dataclass
class LogCounts:
    """What was found in a log.

    Parameters
    ----------
    lists
        Queries with an id, each with the list that it has shown.
    empty
        Of these, those without any document.
    untouched
        Those with which nobody did anything that weighs something; they teach nothing, and are left out.
    incomplete
        Those left out because features of a document that was shown are missing.
    complete
        Those that can teach.
    documents_without_features
        Documents that were shown in the incomplete lists, and that have no features.
    events
        Those that name a query, and say something about its list.
    matched
        Those of them whose query is in the log.
    elsewhere
        Actions on documents that were not in the list.
    looked, to_the_end
        Lists of which is known how far somebody looked, and of these those that were seen to the last document.
    """

    lists: int = 0
    empty: int = 0
    untouched: int = 0
    incomplete: int = 0
    complete: int = 0
    documents_without_features: int = 0
    events: int = 0
    matched: int = 0
    elsewhere: int = 0
    looked: int = 0
    to_the_end: int = 0


@dataclass
class History:
    """The files of a log, read as a stream: memory holds one list at a time, the rest waits in a temporary database.

    Parameters
    ----------
    queries, events, features
        Files; ``-`` is stdin. Records of another kind, such as events between the queries, are passed over.
    names
        Of the ranker's features.
    actions
        Names of the actions that weigh something.
    length
        How many documents of each list were on the page; all where it is not given.
    ignore
        Names of actions that are to be left out.
    max_errors
        So many records may be unreadable.
    precision
        With which the ranker keeps features.
    """

    queries: Sequence[str]
    events: Sequence[str]
    features: Sequence[str]
    names: Sequence[str]
    actions: Collection[str] = ("click",)
    length: int | None = None
    ignore: Collection[str] = ()
    max_errors: int = 100
    precision: Precision = "float64"
    counts: LogCounts = field(default_factory=LogCounts)

    def __post_init__(self) -> None:
        check_files(self.queries, self.events, self.features)
        self.troubles = Troubles(self.max_errors)
        self.reader = FeatureReader(self.names, self.precision)

    def lists(self, bar: Bar | None = None) -> Iterator[LoggedImpression]:
        """Return the lists that can teach, in the order of the queries; count all of them."""
        bar = bar or _silent
        with workspace() as found:
            with bar("reading features") as tell:
                found.add_features(self._read(self.features, tell, split, self.reader.row))
            with bar("reading events") as tell:
                found.add_events(self._read(self.events, tell, sources, self._event))
            found.finish()
            with bar("reading queries") as tell:
                for id, hits in self._read(self.queries, tell, sources, self._query):
                    logged = self._joined(id, hits, found)
                    if logged is not None:
                        yield logged

    def _read(
        self, files: Sequence[str], tell: Tell, split: Callable[[Any], Iterator[P]], read: Callable[[P], T | None]
    ) -> Iterator[T]:
        """Return what the records of some files say; one that cannot be used does no harm to the others."""
        for record, place in read_records(files, self.troubles, tell):
            try:
                parts = list(split(record))
            except DataFormatError as error:
                self.troubles.note(place, error)
                continue
            for part in parts:
                try:
                    found = read(part)
                except (DataFormatError, msgspec.ValidationError) as error:
                    self.troubles.note(place, error)
                else:
                    if found is not None:
                        yield found

    def _event(self, source: dict[str, Any]) -> tuple[str, UserAction] | None:
        if "action_name" not in source and not source.keys().isdisjoint(("user_query", "query_response_hit_ids")):
            return None  # a query
        event = msgspec.convert(source, UbiEvent)
        deed = action_of(event)
        if (deed.depth or 0) > LONGEST:
            raise DataFormatError(f"position.ordinal is {deed.depth:,}, and no list is that long")
        if event.query_id is None or (deed.document is None and deed.depth is None):
            return None
        self.counts.events += 1
        return id_text(event.query_id), deed

    def _query(self, source: dict[str, Any]) -> tuple[str, list[str]] | None:
        if "action_name" in source:
            return None  # an event
        query = msgspec.convert(source, UbiQuery)
        return id_text(query.query_id), [id_text(id) for id in query.query_response_hit_ids or ()]

    def _joined(self, id: str, hits: list[str], found: Workspace) -> LoggedImpression | None:
        """Return a list with its features and what was done with it; None, and counted, where it cannot teach."""
        counts, deeds = self.counts, found.deeds(id)
        counts.lists += 1
        counts.matched += len(deeds)
        hits = hits or _in_view(deeds)
        shown = hits[: self.length]
        actions, examined = self._summed_up([deed for deed in deeds if deed.action not in self.ignore], shown)
        if not shown or actions.keys().isdisjoint(self.actions):
            counts.empty += not shown
            counts.untouched += bool(shown)
            return None
        features = found.features(id)
        if lacking := sum(document not in features for document in shown):
            counts.incomplete += 1
            counts.documents_without_features += lacking
            return None
        counts.complete += 1
        ids = [*shown, *(each for each in hits[len(shown) :] if each in features)]
        table = DocumentTable(ids, b"".join(features[each] for each in ids), self.precision)
        clicks, others = actions.pop("click", []), actions
        return LoggedImpression(id, table, clicks, others, examined, len(shown) if len(shown) < len(ids) else None)

    def _summed_up(self, deeds: list[UserAction], shown: list[str]) -> tuple[dict[str, list[str]], int | None]:
        """Return the documents of a list by what was done with them, and how many positions were looked at."""
        places = {document: place for place, document in enumerate(shown, 1)}
        actions: dict[str, dict[str, None]] = {}
        depths = []
        for deed in deeds:
            if deed.looking:
                depths += [places.get(deed.document or "", min(deed.depth or 0, len(shown)))]
            elif deed.document in places:
                actions.setdefault(deed.action, {})[deed.document] = None
            else:
                self.counts.elsewhere += 1
        examined = max(depths, default=0) or None
        self.counts.looked += examined is not None
        self.counts.to_the_end += examined == len(shown)
        return {action: list(documents) for action, documents in actions.items()}, examined


def _in_view(deeds: list[UserAction]) -> list[str]:
    """Return the list of a query that was logged without one: what was in view at positions 1, 2 and so on, up to the first gap."""
    places = {deed.depth: deed.document for deed in deeds if deed.looking and deed.document is not None}
    found: list[str] = []
    while (document := places.get(len(found) + 1)) is not None:
        found.append(document)
    return found


@contextmanager
def _silent(_: str) -> Iterator[Tell]:
    yield lambda done, total: None
