"""User Behavior Insights (UBI 1.3.0): the meaning of its events, and logs of past searches in its format.

`UbiLog` joins the queries, events and features of a log to lists that a ranker can learn from. It streams its files: features and
events are first sorted by query in a temporary database.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import sqlite3
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias, TypeVar

import msgspec

from duelrank.core.errors import DataFormatError, InvalidValue, MissingData, StorageFailure, StoreFull
from duelrank.core.progress import ProgressCallback
from duelrank.core.registry import counted
from duelrank.service.http.schema import DocumentTable, LoggedImpression, Precision

P = TypeVar("P")
T = TypeVar("T")

#: An id in a log; a number means its decimal text, and 12.0 means 12.
Id: TypeAlias = str | int | float
#: Shows progress in bytes under a label.
Bar = Callable[[str], AbstractContextManager[ProgressCallback]]
#: A query id and a hit of its search response, or None and a line of our own form.
Part: TypeAlias = tuple[str | None, Any]

#: Names of events that are not actions on a document: the user viewed the list down to ``position.ordinal``.
LOOKING = frozenset({"impression", "scroll"})

STDIN = "-"
# Maximum position in a list; the temporary database can store it.
LONGEST_LIST = 1_000_000_000
# Maximum size of a line in bytes; a search response with ten thousand hits has about ten million.
LONGEST_LINE = 256 << 20
# Bytes per read of a file without lines, and records between two progress reports.
PIECE, REPORT_EVERY = 1 << 20, 1000
# Number of reasons to keep.
FIRST = 5

# The file is useless after a crash, so it is not synchronised. The cache has 64 MiB; larger data is sorted in files.
SETTINGS = """
    PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA temp_store = FILE; PRAGMA cache_size = -65536;
"""
TABLES = """
    CREATE TABLE events (query BLOB, action TEXT, document TEXT, depth INTEGER, looking INTEGER);
    CREATE TABLE features (query BLOB, document TEXT, features BLOB);
"""
# Created by sorting after all rows are inserted, which is much faster than updating an index of random keys.
INDEXES = "CREATE INDEX event ON events (query); CREATE INDEX feature ON features (query);"

_SOLR = "[features]"
_decode = msgspec.json.Decoder().decode

# Events


class UbiObject(msgspec.Struct, frozen=True):
    """The object of an action; a number as ``object_id`` means its decimal text, and 12.0 means 12."""

    object_id: Id | None = None


class UbiAttributes(msgspec.Struct, frozen=True):
    """Details of an action; ``position`` has ``ordinal``, counted from 1. Positions in other forms are ignored."""

    object: UbiObject | None = None
    position: Any = None


class UbiEvent(msgspec.Struct, frozen=True):
    """An event of User Behavior Insights 1.3.0, unchanged.

    ``action_name`` is the action on the document ``event_attributes.object.object_id`` of the impression ``query_id``; the
    ranker's ``actions`` define its weight. An "impression", a "scroll", and a "view" without an object mean that the user viewed
    the list down to ``event_attributes.position.ordinal``. Other events are accepted and stored, but nothing is learned from them.
    UBI events have no id: events with the same content count once. The user is ``user_id`` or, if that is missing, ``client_id``;
    values other than texts and numbers are ignored. A number as an id means its decimal text. Other fields of UBI are allowed and
    not used.
    """

    action_name: str
    timestamp: str | float | None = None
    query_id: Id | None = None
    user_id: Any = None
    client_id: Any = None
    event_attributes: UbiAttributes | None = None


class UserAction(NamedTuple):
    """The meaning of an event: an action on a document, a viewing depth, both, or neither.

    Parameters
    ----------
    name
        Name of the action.
    document
        Id of the document that was acted on or in view; None if the event has none.
    depth
        Number of positions that the user viewed; None if unknown.
    looking
        Whether the user only viewed the list, without an action on the document.
    """

    name: str
    document: str | None
    depth: int | None
    looking: bool


def action_of(event: UbiEvent) -> UserAction:
    """Return the meaning of an event."""
    attributes = event.event_attributes
    given = None if attributes is None or attributes.object is None else attributes.object.object_id
    document = None if given is None else id_text(given)
    looking = event.action_name in LOOKING or (event.action_name == "view" and document is None)
    depth = _ordinal(attributes) if looking else None
    return UserAction(event.action_name, document, depth, looking)


def _ordinal(attributes: UbiAttributes | None) -> int | None:
    """Return the position of an event, from 1; None if it has none, or only screen coordinates."""
    position = None if attributes is None else attributes.position
    ordinal = position.get("ordinal") if isinstance(position, dict) else None
    if isinstance(ordinal, bool) or not isinstance(ordinal, (int, float)) or ordinal != ordinal // 1 or ordinal < 1:
        return None
    return int(ordinal)


def user_of(event: UbiEvent) -> str | None:
    """Return the id of the user or, if that is unknown, of the client, usually a browser."""
    for id in (event.user_id, event.client_id):
        if isinstance(id, (str, int, float)) and not isinstance(id, bool) and id != "":
            return id_text(id)
    return None


def id_text(id: Id) -> str:
    """Return an id as text; some JSON libraries write the number 12 as 12.0, which is the same id."""
    if isinstance(id, float) and id.is_integer():
        return str(int(id))
    return str(id)


def fingerprint(content: Any) -> str:
    """Return an id for an event without one: a digest of its content that does not depend on the order of its fields."""
    return "ubi-" + blake2b(msgspec.json.encode(content, order="sorted"), digest_size=16).hexdigest()


# Logs


class UbiQuery(msgspec.Struct, frozen=True):
    """A query of User Behavior Insights 1.3.0: ``query_response_hit_ids`` are the ids of the shown documents, in order.

    ``user_query`` is what the user has typed; some systems log other things there, which are no reason to refuse the list.
    ``query_attributes`` are named values of your own.
    """

    query_id: Id
    query_response_hit_ids: list[Id] | None = None
    user_query: Any = None
    query_attributes: Any = None

    @property
    def text(self) -> str | None:
        """What the user has typed, None if that is not known."""
        return self.user_query if isinstance(self.user_query, str) else None

    def context(self, names: Iterable[str]) -> dict[str, float]:
        """Return the attributes of these names that are numbers, true or false."""
        given = self.query_attributes if isinstance(self.query_attributes, dict) else {}
        return {name: float(given[name]) for name in names if isinstance(given.get(name), (int, float))}


@dataclass
class LogCounts:
    """Statistics of a log.

    Parameters
    ----------
    lists
        Number of queries with an id, each with the list that it showed.
    empty
        Number of lists without documents; they are skipped.
    untouched
        Number of lists without an action that has a weight; they are skipped.
    incomplete
        Number of lists with a shown document that has no features; they are skipped.
    complete
        Number of lists to learn from.
    documents_without_features
        Number of shown documents without features, in the incomplete lists.
    events
        Number of events that have a query id and an action or a viewing depth.
    matched
        Number of these events whose query is in the log.
    elsewhere
        Number of actions on documents that were not in the list.
    looked, to_the_end
        Number of lists with a known viewing depth, and of those that were viewed to the last document.
    only_clicks
        Number of lists to learn from with an action on every document that was shown.
    with_context
        Number of lists to learn from with a value of a context.
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
    only_clicks: int = 0
    with_context: int = 0


@dataclass(kw_only=True)
class ClickLog:
    """What readers of logs have in common: what they read, and how a list is made of documents and events.

    Parameters
    ----------
    actions
        Names of the actions that have a weight.
    length
        Number of documents of each list that were on the page; by default all.
    ignore
        Names of actions to ignore.
    max_errors
        Maximum number of unreadable records.
    precision
        Precision in which the ranker stores features.
    with_queries
        Whether lists have the text of their query, for a ranker that remembers queries.
    lacking
        Names of features whose values may be missing; another feature without a value is 0.
    context
        Names of the ranker's contexts; those that the log does not have are left out.
    keep_untouched
        Whether lists without an action that has a weight are read, too.

    Attributes
    ----------
    counts, errors
        Statistics, and what could not be read; complete when all lists have been read.
    """

    actions: Collection[str] = ("click",)
    length: int | None = None
    ignore: Collection[str] = ()
    max_errors: int = 100
    precision: Precision = "float64"
    with_queries: bool = False
    lacking: Collection[str] = ()
    context: Collection[str] = ()
    keep_untouched: bool = False
    counts: LogCounts = field(default_factory=LogCounts)

    def __post_init__(self) -> None:
        self.errors = RecordErrors(self.max_errors)

    def _by_action(
        self, events: Iterable[UserAction], shown: Sequence[str]
    ) -> tuple[dict[str, list[str]], int | None] | None:
        """Return the documents of a list by action, and the viewing depth; None if nothing can be learned from the list."""
        places = {document: place for place, document in enumerate(shown, 1)}
        found: dict[str, dict[str, None]] = {}
        depths, counts = [], self.counts
        for event in events:
            if event.name in self.ignore:
                continue
            if event.looking:
                depths += [places.get(event.document or "", min(event.depth or 0, len(shown)))]
            elif event.document in places:
                found.setdefault(event.name, {})[event.document] = None
            else:
                counts.elsewhere += 1
        examined = max(depths, default=0) or None
        counts.looked += examined is not None
        counts.to_the_end += examined == len(shown)
        untouched = found.keys().isdisjoint(self.actions)
        counts.empty += not shown
        counts.untouched += bool(shown) and untouched
        if not shown or (untouched and not self.keep_untouched):
            return None
        return {name: list(documents) for name, documents in found.items()}, examined

    def _lacks(self, n_documents: int) -> bool:
        """Whether some shown documents of a list, this many, are not in the log; count them."""
        self.counts.incomplete += n_documents > 0
        self.counts.documents_without_features += n_documents
        return n_documents > 0

    def _list(
        self,
        id: str,
        ids: Sequence[str],
        features: Mapping[str, bytes],
        n_shown: int,
        actions: dict[str, list[str]],
        examined: int | None,
        query: str | None,
        context: dict[str, float],
    ) -> LoggedImpression:
        """Return a list of documents with their features, the shown ones first."""
        counts = self.counts
        counts.complete += 1
        counts.only_clicks += set().union(*actions.values()).issuperset(ids[:n_shown])
        counts.with_context += bool(context)
        table = DocumentTable(list(ids), b"".join(features[each] for each in ids), self.precision)
        shown, text = None if n_shown == len(ids) else n_shown, query if self.with_queries else None
        return LoggedImpression(id, table, actions.pop("click", []), actions, examined, shown, text, context=context)


@dataclass
class UbiLog(ClickLog):
    """A log of past searches, read as a stream: memory holds one list at a time, a temporary database holds the rest.

    Contexts are ``query_attributes``.

    Parameters
    ----------
    queries, events, features
        Paths of files; ``-`` is stdin. Records of another kind, such as events between the queries, are skipped.
    names
        Names of the ranker's features.

    Attributes
    ----------
    reader
        The reader of the features.
    """

    queries: Sequence[str]
    events: Sequence[str]
    features: Sequence[str]
    names: Sequence[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_files(self.queries, self.events, self.features)
        self.reader = FeatureReader(self.names, self.precision, self.lacking)

    def lists(self, bar: Bar | None = None) -> Iterator[LoggedImpression]:
        """Yield the lists to learn from, in the order of the queries; `counts` and `errors` are complete at the end."""
        bar = bar or silent
        with workspace() as found:
            with bar("reading features") as progress:
                found.add_features(self._read(self.features, progress, split, self.reader.row))
            with bar("reading events") as progress:
                found.add_events(self._read(self.events, progress, sources, self._event))
            found.finish()
            with bar("reading queries") as progress:
                for query in self._read(self.queries, progress, sources, self._query):
                    logged = self._joined(query, found)
                    if logged is not None:
                        yield logged

    def _read(
        self,
        files: Sequence[str],
        progress: ProgressCallback,
        split: Callable[[Any], Iterator[P]],
        read: Callable[[P], T | None],
    ) -> Iterator[T]:
        """Yield the parts of all records of some files; those that cannot be read are counted and skipped."""
        for record, place in read_records(files, self.errors, progress):
            try:
                parts = list(split(record))
            except DataFormatError as error:
                self.errors.add(place, error)
                continue
            for part in parts:
                try:
                    found = read(part)
                except (DataFormatError, msgspec.ValidationError) as error:
                    self.errors.add(place, error)
                else:
                    if found is not None:
                        yield found

    def _event(self, source: dict[str, Any]) -> tuple[str, UserAction] | None:
        if "action_name" not in source and not source.keys().isdisjoint(("user_query", "query_response_hit_ids")):
            return None  # a query
        event = msgspec.convert(source, UbiEvent)
        action = action_of(event)
        if (action.depth or 0) > LONGEST_LIST:
            raise DataFormatError(f"position.ordinal is too large: {action.depth:,}")
        if event.query_id is None or (action.document is None and action.depth is None):
            return None
        self.counts.events += 1
        return id_text(event.query_id), action

    def _query(self, source: dict[str, Any]) -> UbiQuery | None:
        return None if "action_name" in source else msgspec.convert(source, UbiQuery)  # else an event

    def _joined(self, query: UbiQuery, found: Workspace) -> LoggedImpression | None:
        """Return a list with its features and actions, or None if nothing can be learned from it."""
        id, hits = id_text(query.query_id), [id_text(id) for id in query.query_response_hit_ids or ()]
        events = found.actions(id)
        self.counts.lists += 1
        self.counts.matched += len(events)
        hits = hits or _in_view(events)
        shown = hits[: self.length]
        done = self._by_action(events, shown)
        if done is None:
            return None
        features = found.features(id)
        if self._lacks(sum(document not in features for document in shown)):
            return None
        ids = [*shown, *(each for each in hits[len(shown) :] if each in features)]
        return self._list(id, ids, features, len(shown), *done, query.text, query.context(self.context))


def _in_view(events: list[UserAction]) -> list[str]:
    """Return the list of a query that was logged without one: the viewed documents at positions 1, 2, … up to the first gap."""
    places = {event.depth: event.document for event in events if event.looking and event.document is not None}
    found: list[str] = []
    while (document := places.get(len(found) + 1)) is not None:
        found.append(document)
    return found


@contextmanager
def silent(_: str) -> Iterator[ProgressCallback]:
    """Show no progress."""
    yield lambda done, total: None


# Features


class Row(NamedTuple):
    """The features of a document for a query, in the ranker's order, as bytes in its precision."""

    query_id: str
    document: str
    features: bytes


class FeatureReader:
    """Reads logged features and converts them to the order and precision of a ranker.

    Parameters
    ----------
    names
        Names of the ranker's features.
    precision
        Precision in which the ranker stores them.
    lacking
        Names of features whose values may be missing.

    Attributes
    ----------
    missing
        Number of documents without a value, by feature that may not be missing; the value is then 0, as in requests.
    unused
        Names of logged features that the ranker does not have.
    """

    def __init__(self, names: Sequence[str], precision: Precision = "float64", lacking: Collection[str] = ()) -> None:
        self._names, self._known, self._lacking = tuple(names), frozenset(names), frozenset(lacking)
        self._empty = [math.nan if name in self._lacking else 0.0 for name in names]
        self._pack = struct.Struct(f"<{len(self._names)}{'f' if precision == 'float32' else 'd'}").pack
        self.missing: Counter[str] = Counter()
        self.unused: set[str] = set()

    def row(self, part: Part) -> Row:
        """Return the features of one document."""
        query_id, source = part
        return self._line(source) if query_id is None else Row(query_id, *self._hit(source))

    def _line(self, source: dict[str, Any]) -> Row:
        try:
            line = msgspec.convert(source, _Line)
        except msgspec.ValidationError as error:
            raise DataFormatError(str(error)) from None
        id = line.document_id if line.object_id is None else line.object_id
        if id is None:
            raise DataFormatError("features need the object_id of their document")
        return Row(id_text(line.query_id), id_text(id), self.packed(line.features))

    def _hit(self, hit: Any) -> tuple[str, bytes]:
        """Return the id and the features of a hit, as logged by the learning-to-rank plug-in of its engine."""
        if not isinstance(hit, dict) or (id := hit.get("_id", hit.get("id"))) is None:
            raise DataFormatError("a hit needs _id or id")
        found = _solr(hit[_SOLR]) if _SOLR in hit else _ltrlog(hit)
        return id_text(id), self.packed(found)

    def packed(self, given: dict[str, float | None] | list[float | None]) -> bytes:
        """Return features, by name or in the order of the ranker, as bytes."""
        if isinstance(given, list):
            if len(given) != len(self._names):
                raise DataFormatError(
                    f"the ranker has {counted(len(self._names), 'feature')}, this document has {len(given)}"
                )
            return self._bytes(given)
        if self._known.isdisjoint(given):
            ours, theirs = (", ".join(sorted(names)[:5]) or "none" for names in (self._known, given))
            raise DataFormatError(f"this document has none of the ranker's features ({ours} …), only {theirs} …")
        values = [given.get(name) for name in self._names]
        if None in values:
            self.missing.update(
                name
                for name, value in zip(self._names, values, strict=True)
                if value is None and name not in self._lacking
            )
        if len(given) > len(values) or not self._known.issuperset(given):
            self.unused.update(given.keys() - self._known)
        return self._bytes(values)

    def _bytes(self, values: Sequence[float | None]) -> bytes:
        if None in values:
            values = [other if value is None else value for value, other in zip(values, self._empty, strict=True)]
        try:
            return self._pack(*values)
        except OverflowError:
            raise DataFormatError("a feature is too large for float32, the precision of the ranker") from None


def split(record: Any) -> Iterator[Part]:
    """Yield the parts of one record: a line of our own form, or all hits of a search response."""
    if isinstance(record, dict) and "responses" in record:
        for each in _responses(record):
            yield from split(each)
    elif isinstance(record, dict) and ("hits" in record or "response" in record):
        id = _query_id(record)
        for hit in _hits(record) if "hits" in record else _solr_documents(record):
            yield id, hit
    else:
        for source in sources(record):
            yield None, source


class _Line(msgspec.Struct, frozen=True):
    """A line of our own form: the features of one document for one query."""

    query_id: Id
    features: dict[str, float | None] | list[float | None]
    object_id: Id | None = None
    document_id: Id | None = None


def _query_id(answer: dict[str, Any]) -> str:
    """Return the query id of a search response, which the engines' UBI plug-ins write into it."""
    extra = answer.get("ext")
    places = (answer, extra.get("ubi") if isinstance(extra, dict) else None, answer.get("ubi"))
    for place in places:
        id = place.get("query_id") if isinstance(place, dict) else None
        if isinstance(id, (str, int, float)) and not isinstance(id, bool):
            return id_text(id)
    raise DataFormatError("a search response with features needs query_id, ext.ubi.query_id or ubi.query_id")


def _solr_documents(answer: dict[str, Any]) -> list[Any]:
    found = answer["response"].get("docs") if isinstance(answer["response"], dict) else None
    if not isinstance(found, list):
        raise DataFormatError("a response of Solr must have its documents in response.docs")
    return found


def _solr(text: Any) -> dict[str, float | None]:
    """Read ``name=value,name=value``."""
    pairs = (piece.rpartition("=") for piece in str(text).split(",") if piece.strip())
    try:
        return {name.strip(): float(value) for name, _, value in pairs}
    except ValueError:
        raise DataFormatError(f"{_SOLR} must be name=value,name=value …, got {str(text)[:50]!r}") from None


def _ltrlog(hit: dict[str, Any]) -> dict[str, float | None]:
    """Read ``fields._ltrlog``: log entries by name, each a list of features; a feature without a value did not match."""
    try:
        entries = msgspec.convert(hit, _Hit).fields.ltrlog
    except msgspec.ValidationError as error:
        raise DataFormatError(f"a hit needs its logged features in fields._ltrlog: {error}") from None
    return {each.name: each.value for entry in entries for features in entry.values() for each in features}


class _Feature(msgspec.Struct, frozen=True):
    name: str
    value: float = 0.0


class _Fields(msgspec.Struct, frozen=True):
    ltrlog: list[dict[str, list[_Feature]]] = msgspec.field(name="_ltrlog")


class _Hit(msgspec.Struct, frozen=True):
    fields: _Fields


# The temporary database


class Workspace:
    """A temporary database of events and features by query."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def add_events(self, events: Iterable[tuple[str, UserAction]]) -> None:
        """Add actions with the ids of their queries."""
        self._add("INSERT INTO events VALUES (?, ?, ?, ?, ?)", ((_key(id), *action) for id, action in events))

    def add_features(self, rows: Iterable[Row]) -> None:
        """Add features of documents."""
        self._add("INSERT INTO features VALUES (?, ?, ?)", ((_key(row.query_id), *row[1:]) for row in rows))

    def _add(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        with sorting():
            self._database.execute("BEGIN")
            self._database.executemany(statement, rows)
            self._database.execute("COMMIT")

    def finish(self) -> None:
        """Create the indexes, after everything has been added."""
        with sorting():
            self._database.executescript(INDEXES)

    def actions(self, query_id: str) -> list[UserAction]:
        """Return the actions of a query, in the order of the files."""
        statement = "SELECT action, document, depth, looking FROM events WHERE query = ? ORDER BY rowid"
        with sorting():
            return [UserAction(*row) for row in self._database.execute(statement, (_key(query_id),))]

    def features(self, query_id: str) -> dict[str, bytes]:
        """Return the features of the documents of a query; the last logged ones count."""
        statement = "SELECT document, features FROM features WHERE query = ? ORDER BY rowid"
        with sorting():
            return dict(self._database.execute(statement, (_key(query_id),)))


@contextmanager
def workspace() -> Iterator[Workspace]:
    """Open a workspace in a temporary database."""
    with temporary(TABLES) as database:
        yield Workspace(database)


@contextmanager
def temporary(tables: str) -> Iterator[sqlite3.Connection]:
    """Open a database in an unnamed file, which disappears when the process ends, even if it is killed."""
    with closing(sqlite3.connect("", isolation_level=None)) as database:
        with sorting():
            database.executescript(SETTINGS + tables)
        yield database


@contextmanager
def sorting() -> Iterator[None]:
    """Raise errors of our family for those of the temporary database."""
    try:
        yield
    except sqlite3.Error as error:
        if "full" in str(error):
            raise StoreFull(
                "the disk for sorting the log is full; choose a folder on another disk with TMPDIR"
            ) from None
        raise StorageFailure(f"the log could not be sorted: {error}") from error


def _key(query_id: str) -> bytes:
    """Return a digest of a query id in 16 bytes, to keep the rows small."""
    return blake2b(query_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


# Records of files


class Place(NamedTuple):
    """The position of a record."""

    file: str
    number: int
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.unit} {self.number:,} of {file_name(self.file)}"


class RecordErrors:
    """Counts unreadable records, keeps the first reasons, and raises an error after more than ``most`` records."""

    def __init__(self, most: int) -> None:
        self._most, self.count = most, 0
        self.first: list[str] = []

    def add(self, place: Place, reason: object) -> None:
        """Count one record, or raise an error if there are too many."""
        self.count += 1
        if len(self.first) < FIRST:
            self.first.append(f"{place}: {reason}")
        if self.count > self._most:
            raise DataFormatError(
                f"{counted(self.count, 'record')} cannot be read, and --max-errors is {self._most:,}; the first is {self.first[0]}"
            )


def check_files(*groups: Sequence[str]) -> None:
    """Raise an error if a file is missing or stdin occurs twice, before any file is read."""
    files = [file for group in groups for file in group]
    if files.count(STDIN) > 1:
        raise InvalidValue("only one of the files can be - (stdin)")
    for file in files:
        if file != STDIN and (not Path(file).exists() or Path(file).is_dir()):
            raise MissingData(f"the file {file} does not exist")


def read_records(files: Sequence[str], errors: RecordErrors, progress: ProgressCallback) -> Iterator[tuple[Any, Place]]:
    """Yield all records of some files with their positions; lines that are not valid JSON are counted as errors.

    ``progress`` is called with the number of bytes read and the total, or None if the total is unknown.
    """
    sizes = [Path(file).stat().st_size if file != STDIN and Path(file).is_file() else None for file in files]
    total = None if None in sizes else sum(filter(None, sizes))
    before = 0
    for file in files:
        with opened(file) as raw:
            for count, found in enumerate(_records(unpacked(raw, file), file, errors)):
                if count % REPORT_EVERY == 0:
                    progress(before + raw.done, total)
                yield found
        before += raw.done
    progress(before, total)


def sources(record: Any) -> Iterator[dict[str, Any]]:
    """Yield the documents of a record in any form of a search engine.

    A record is a search response, several of them, a hit with ``_source``, or a document; action lines of bulk requests have none.
    """
    if not isinstance(record, dict):
        raise DataFormatError(f"expected an object, got {type(record).__name__}")
    if "responses" in record:
        for each in _responses(record):
            yield from sources(each)
    elif "hits" in record:
        for hit in _hits(record):
            yield from sources(hit)
    elif "_source" in record:
        yield from sources(record["_source"])
    elif not _is_bulk_action(record):
        yield record


def _responses(record: dict[str, Any]) -> list[Any]:
    """Return the search responses of a response to several searches."""
    found = record["responses"]
    if not isinstance(found, list):
        raise DataFormatError("responses must be a list of search responses")
    return found


def _hits(answer: dict[str, Any]) -> list[Any]:
    """Return the hits of a search response."""
    found = answer["hits"].get("hits") if isinstance(answer["hits"], dict) else None
    if not isinstance(found, list):
        raise DataFormatError("a search response must have its hits in hits.hits")
    return found


def _is_bulk_action(record: dict[str, Any]) -> bool:
    """Whether a record is the action line of a bulk request, which precedes a document."""
    return len(record) == 1 and not record.keys().isdisjoint(("index", "create", "update", "delete"))


class CountedFile(io.RawIOBase):
    """A file that counts the bytes read, also from a pipe."""

    def __init__(self, file: BinaryIO) -> None:
        self._read, self.done = getattr(file, "read1", file.read), 0

    def readable(self) -> bool:
        """Return True: the file is open for reading."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the available bytes into the buffer."""
        content = self._read(len(buffer))
        buffer[: len(content)] = content
        self.done += len(content)
        return len(content)


@contextmanager
def opened(file: str) -> Iterator[CountedFile]:
    """Open a file, or stdin; errors name it."""
    try:
        if file == STDIN:
            yield CountedFile(sys.stdin.buffer)
        else:
            with open(file, "rb") as found:
                yield CountedFile(found)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataFormatError(f"{file_name(file)} is damaged or incomplete: {error}") from None
    except OSError as error:
        raise MissingData(f"cannot read {file_name(file)}: {error.strerror or error}") from None


def unpacked(raw: CountedFile, file: str) -> io.BufferedReader:
    """Return the content of a file that may be compressed with gzip; raise if it is in UTF-16."""
    content: io.BufferedReader = io.BufferedReader(raw, PIECE)
    if content.peek(2)[:2] == b"\x1f\x8b":
        content = io.BufferedReader(gzip.GzipFile(fileobj=content), PIECE)
    if re.match(rb"\xff\xfe|\xfe\xff|.\0|\0.", content.peek(2)[:2]):
        raise DataFormatError(
            f"{file_name(file)} is in UTF-16, as written by > in Windows PowerShell; convert it to UTF-8"
        )
    return content


def _records(content: io.BufferedReader, file: str, errors: RecordErrors) -> Iterator[tuple[Any, Place]]:
    """Yield the records of a file: one per line, unless it begins with an array or with an object over several lines."""
    if re.match(rb"(\xef\xbb\xbf)?\s*(\[|\{\s*\n)", content.peek(64)):
        yield from _values(content, file, errors)
    else:
        yield from _lines(content, file, errors)


def _lines(content: io.BufferedReader, file: str, errors: RecordErrors) -> Iterator[tuple[Any, Place]]:
    line, number = content.readline(LONGEST_LINE).removeprefix(b"\xef\xbb\xbf"), 1
    while line:
        place = Place(file, number)
        if len(line) == LONGEST_LINE:
            raise DataFormatError(f"{place} has more than {LONGEST_LINE:,} bytes; expected one record per line")
        if not line.isspace():
            yield from _decoded(line, place, errors)
        line, number = content.readline(LONGEST_LINE), number + 1


def _decoded(text: bytes | str, place: Place, errors: RecordErrors) -> Iterator[tuple[Any, Place]]:
    """Yield a record, or count an error if its text is not valid JSON."""
    try:
        record = _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        errors.add(place, f"not valid JSON: {error}")
    else:
        yield record, place


def _values(content: io.BufferedReader, file: str, errors: RecordErrors) -> Iterator[tuple[Any, Place]]:
    """Yield the elements of an array, or objects separated by whitespace; memory holds one at a time."""
    text = io.TextIOWrapper(content, "utf-8-sig")
    # This decoder only finds the end of a record; it also accepts invalid JSON, such as Infinity and lone surrogates.
    decode, pending, number, size = json.JSONDecoder(parse_int=len, parse_float=len).raw_decode, "", 0, PIECE
    at = 0
    while True:
        at = _skipped(pending, at)
        try:
            _, end = decode(pending, at)
        except (ValueError, RecursionError) as error:
            more = _read(text, size, file)
            if not more and at == len(pending):
                return
            if not more or len(pending) - at > LONGEST_LINE:
                raise DataFormatError(f"{Place(file, number + 1, 'record')} is not valid JSON: {error}") from None
            pending, at, size = pending[at:] + more, 0, 2 * size
        else:
            number, size = number + 1, PIECE
            yield from _decoded(pending[at:end], Place(file, number, "record"), errors)
            at = end


def _skipped(text: str, at: int) -> int:
    """Return the start of the next record."""
    while at < len(text) and text[at] in " \t\r\n[,]":
        at += 1
    return at


def _read(content: io.TextIOWrapper, size: int, file: str) -> str:
    try:
        return content.read(size)
    except UnicodeDecodeError as error:
        raise DataFormatError(f"{file_name(file)} is not in UTF-8: {error}") from None


def file_name(file: str) -> str:
    """Return how messages name a file."""
    return "stdin" if file == STDIN else file
