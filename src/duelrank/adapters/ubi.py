"""Logs in the form of User Behavior Insights: live events and files of past lists."""

from __future__ import annotations

import gzip
import io
import json
import re
import sqlite3
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias, TypeVar

import msgspec

from duelrank.core.errors import DataFormatError, InvalidValue, MissingData, StorageFailure, StoreFull
from duelrank.core.progress import Tell
from duelrank.service.http.schema import DocumentTable, LoggedImpression, Precision

STDIN = "-"
# Bytes of one line at most: a search answer with ten thousand hits has some ten million.
LONGEST = 256 << 20
# Bytes that are read at once of a file that is not made of lines; records between two words about progress.
PIECE, TELL_EVERY = 1 << 20, 1000
# Reasons that are kept.
FIRST = 5

_decode = msgspec.json.Decoder().decode


class Place(NamedTuple):
    """Where a record is."""

    file: str
    number: int
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.unit} {self.number:,} of {_name(self.file)}"


class Troubles:
    """Records that cannot be used: they are counted, the first are kept, and more than ``most`` of them are an error."""

    def __init__(self, most: int) -> None:
        self._most, self.count = most, 0
        self.first: list[str] = []

    def note(self, place: Place, reason: object) -> None:
        """Note one, or raise where there are too many."""
        self.count += 1
        if len(self.first) < FIRST:
            self.first.append(f"{place}: {reason}")
        if self.count > self._most:
            raise DataFormatError(
                f"{self.count:,} records cannot be used, and --max-errors is {self._most:,}; the first is {self.first[0]}"
            )


def check_files(*groups: Sequence[str]) -> None:
    """Raise an error if a file is missing, or stdin is asked for twice, before hours are spent on the others."""
    files = [file for group in groups for file in group]
    if files.count(STDIN) > 1:
        raise InvalidValue("only one of the files can be - (stdin)")
    for file in files:
        if file != STDIN and (not Path(file).exists() or Path(file).is_dir()):
            raise MissingData(f"there is no file {file}")


def read_records(files: Sequence[str], troubles: Troubles, tell: Tell) -> Iterator[tuple[Any, Place]]:
    """Return all records of some files and where they are; a line that is no JSON is noted.

    ``tell`` is told how many bytes were read, and of how many where that is known.
    """
    sizes = [Path(file).stat().st_size if file != STDIN and Path(file).is_file() else None for file in files]
    total = None if None in sizes else sum(filter(None, sizes))
    before = 0
    for file in files:
        with _opened(file) as raw:
            for count, found in enumerate(_records(_unpacked(raw), file, troubles)):
                if count % TELL_EVERY == 0:
                    tell(before + raw.done, total)
                yield found
        before += raw.done
    tell(before, total)


def sources(record: Any) -> Iterator[dict[str, Any]]:
    """Return the documents of a record as a search engine writes it.

    These are the hits of one search answer or of several, a hit with ``_source``, or the document itself; the lines between
    documents of a bulk request have none.
    """
    if not isinstance(record, dict):
        raise DataFormatError(f"an object is expected, got {type(record).__name__}")
    if "responses" in record:
        for each in answers(record):
            yield from sources(each)
    elif "hits" in record:
        for hit in hits(record):
            yield from sources(hit)
    elif "_source" in record:
        yield from sources(record["_source"])
    elif not is_bulk_action(record):
        yield record


def answers(record: dict[str, Any]) -> list[Any]:
    """Return the search answers of an answer to several searches at once."""
    found = record["responses"]
    if not isinstance(found, list):
        raise DataFormatError("responses is a list of search answers")
    return found


def hits(answer: dict[str, Any]) -> list[Any]:
    """Return the hits of a search answer."""
    found = answer["hits"].get("hits") if isinstance(answer["hits"], dict) else None
    if not isinstance(found, list):
        raise DataFormatError("a search answer has its hits in hits.hits")
    return found


def is_bulk_action(record: dict[str, Any]) -> bool:
    """Whether a record is a line of a bulk request that says what to do with the next line."""
    return len(record) == 1 and not record.keys().isdisjoint(("index", "create", "update", "delete"))


class _Counting(io.RawIOBase):
    """A file that knows how much of it was read; pipes do not."""

    def __init__(self, file: BinaryIO) -> None:
        self._read, self.done = getattr(file, "read1", file.read), 0

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read as many bytes as there are, or as fit."""
        content = self._read(len(buffer))
        buffer[: len(content)] = content
        self.done += len(content)
        return len(content)


@contextmanager
def _opened(file: str) -> Iterator[_Counting]:
    try:
        if file == STDIN:
            yield _Counting(sys.stdin.buffer)
        else:
            with open(file, "rb") as found:
                yield _Counting(found)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataFormatError(f"{_name(file)} is damaged, or not all of it is there: {error}") from None
    except OSError as error:
        raise MissingData(f"cannot read {_name(file)}: {error.strerror or error}") from None


def _unpacked(raw: _Counting) -> io.BufferedReader:
    content: io.BufferedReader = io.BufferedReader(raw, PIECE)
    if content.peek(2)[:2] != b"\x1f\x8b":
        return content
    return io.BufferedReader(gzip.GzipFile(fileobj=content), PIECE)


def _records(content: io.BufferedReader, file: str, troubles: Troubles) -> Iterator[tuple[Any, Place]]:
    """Return the records of a file: one per line, unless it begins as an array or as an object over several lines."""
    if re.match(rb"\xff\xfe|\xfe\xff|.\0|\0.", content.peek(2)[:2]):
        raise DataFormatError(f"{_name(file)} is in UTF-16, as > of Windows PowerShell writes it; convert it to UTF-8")
    if re.match(rb"(\xef\xbb\xbf)?\s*(\[|\{\s*\n)", content.peek(64)):
        yield from _values(content, file, troubles)
    else:
        yield from _lines(content, file, troubles)


def _lines(content: io.BufferedReader, file: str, troubles: Troubles) -> Iterator[tuple[Any, Place]]:
    line, number = content.readline(LONGEST).removeprefix(b"\xef\xbb\xbf"), 1
    while line:
        place = Place(file, number)
        if len(line) == LONGEST:
            raise DataFormatError(f"{place} has more than {LONGEST:,} bytes; one record per line is expected")
        if not line.isspace():
            yield from _decoded(line, place, troubles)
        line, number = content.readline(LONGEST), number + 1


def _decoded(text: bytes | str, place: Place, troubles: Troubles) -> Iterator[tuple[Any, Place]]:
    """Return a record, or nothing where its text is no JSON: that is noted."""
    try:
        record = _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        troubles.note(place, f"no valid JSON: {error}")
    else:
        yield record, place


def _values(content: io.BufferedReader, file: str, troubles: Troubles) -> Iterator[tuple[Any, Place]]:
    """Return the elements of an array, or objects with spaces between them; one at a time has to fit into memory."""
    text = io.TextIOWrapper(content, "utf-8-sig")
    # This decoder only finds the end of a record: it also takes what is no JSON, such as halves of letters and Infinity.
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
            if not more or len(pending) - at > LONGEST:
                raise DataFormatError(f"{Place(file, number + 1, 'record')} is no valid JSON: {error}") from None
            pending, at, size = pending[at:] + more, 0, 2 * size
        else:
            number, size = number + 1, PIECE
            yield from _decoded(pending[at:end], Place(file, number, "record"), troubles)
            at = end


def _skipped(text: str, at: int) -> int:
    """Return where the next record begins."""
    while at < len(text) and text[at] in " \t\r\n[,]":
        at += 1
    return at


def _read(content: io.TextIOWrapper, size: int, file: str) -> str:
    try:
        return content.read(size)
    except UnicodeDecodeError as error:
        raise DataFormatError(f"{_name(file)} is not in UTF-8: {error}") from None


def _name(file: str) -> str:
    return "stdin" if file == STDIN else file


#: An id as it is logged; a number means its decimal text, and 12.0 the same as 12.
Id: TypeAlias = str | int | float

#: What is no action on a document, but says that the list was seen as far as ``position.ordinal``.
LOOKING = frozenset({"impression", "scroll"})


class UbiObject(msgspec.Struct, frozen=True):
    """What an action was on; a number as ``object_id`` means its decimal text, and 12.0 the same as 12."""

    object_id: Id | None = None


class UbiAttributes(msgspec.Struct, frozen=True):
    """Particulars of an action; ``position`` has ``ordinal``, from 1, or what else a client sends, which is not looked at."""

    object: UbiObject | None = None
    position: Any = None


class UbiEvent(msgspec.Struct, frozen=True):
    """An event of User Behavior Insights 1.3.0, unchanged.

    ``action_name`` is what was done with the document ``event_attributes.object.object_id`` of the impression ``query_id``; the
    ranker's ``actions`` say what that weighs. An "impression" or a "scroll", and a "view" without an object, say that somebody
    has looked as far as ``event_attributes.position.ordinal``. All others are taken and kept, and nothing is learned from them.
    UBI events have no id of their own: the same content counts once. ``user_id`` is who it was, or ``client_id`` where it is
    missing; what is neither text nor number is left out. A number as an id means its decimal text. Fields that UBI has and duelrank
    does not use are allowed.
    """

    action_name: str
    timestamp: str | float | None = None
    query_id: Id | None = None
    user_id: Any = None
    client_id: Any = None
    event_attributes: UbiAttributes | None = None


class Deed(NamedTuple):
    """What an event says: an action on a document, how many positions were looked at, both or neither.

    Parameters
    ----------
    action
        Its name.
    document
        What it was on, or what was in view; None where the event does not say.
    depth
        So many positions were looked at; None where that was not observed.
    looking
        Whether somebody only looked: nothing was done with the document.
    """

    action: str
    document: str | None
    depth: int | None
    looking: bool


def deed_of(event: UbiEvent) -> Deed:
    """Return what an event says."""
    attributes = event.event_attributes
    given = None if attributes is None or attributes.object is None else attributes.object.object_id
    document = None if given is None else id_text(given)
    looking = event.action_name in LOOKING or (event.action_name == "view" and document is None)
    depth = _ordinal(attributes) if looking else None
    return Deed(event.action_name, document, depth, looking)


def _ordinal(attributes: UbiAttributes | None) -> int | None:
    """Return the position of an event, from 1; None where it has none, or coordinates on the screen."""
    position = None if attributes is None else attributes.position
    ordinal = position.get("ordinal") if isinstance(position, dict) else None
    if isinstance(ordinal, bool) or not isinstance(ordinal, (int, float)) or ordinal != ordinal // 1 or ordinal < 1:
        return None
    return int(ordinal)


def user_of(event: UbiEvent) -> str | None:
    """Return who did it: the user or, where that is not known, the client, which is mostly a browser."""
    for id in (event.user_id, event.client_id):
        if isinstance(id, (str, int, float)) and not isinstance(id, bool) and id != "":
            return id_text(id)
    return None


def id_text(id: Id) -> str:
    """Return an id as text; catalogues with numbers as ids write 12, and some JSON libraries make 12.0 of that."""
    if isinstance(id, float) and id.is_integer():
        return str(int(id))
    return str(id)


def fingerprint(content: Any) -> str:
    """Return an id for an event that has none: the same for the same content, in whatever order its fields come."""
    return "ubi-" + blake2b(msgspec.json.encode(content, order="sorted"), digest_size=16).hexdigest()


_SOLR = "[features]"

#: What `split` makes: the query of a search answer and one of its hits; or None and a line of our own form.
Part: TypeAlias = tuple[str | None, Any]


class _Line(msgspec.Struct, frozen=True):
    """Our own form: the features of one document under one query."""

    query_id: Id
    features: dict[str, float | None] | list[float]
    object_id: Id | None = None
    document_id: Id | None = None


class Row(NamedTuple):
    """The features of a document under a query, in the order of a ranker, as bytes with its precision."""

    query_id: str
    document: str
    features: bytes


def split(record: Any) -> Iterator[Part]:
    """Return what one record of a file has: a line of our own form, or all hits of a search answer."""
    if isinstance(record, dict) and "responses" in record:
        for each in answers(record):
            yield from split(each)
    elif isinstance(record, dict) and ("hits" in record or "response" in record):
        id = _query_id(record)
        for hit in hits(record) if "hits" in record else _solr_documents(record):
            yield id, hit
    else:
        for source in sources(record):
            yield None, source


class FeatureReader:
    """Reads features, and brings them into the order of a ranker.

    Parameters
    ----------
    names
        Of the ranker's features.
    precision
        With which the ranker keeps them.

    Attributes
    ----------
    missing
        In how many documents a feature of the ranker had no value, by name: it counts as 0, as it does in requests.
    unused
        Names that were logged and that the ranker does not have.
    """

    def __init__(self, names: Sequence[str], precision: Precision = "float64") -> None:
        self._names, self._known = tuple(names), frozenset(names)
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
        return Row(id_text(line.query_id), id_text(id), self._packed(line.features))

    def _hit(self, hit: Any) -> tuple[str, bytes]:
        """Return the id and the features of a hit, as the LTR plugin or module of its engine has logged them."""
        if not isinstance(hit, dict) or (id := hit.get("_id", hit.get("id"))) is None:
            raise DataFormatError("a hit needs _id or id")
        found = _solr(hit[_SOLR]) if _SOLR in hit else _ltrlog(hit)
        return id_text(id), self._packed(found)

    def _packed(self, given: dict[str, float | None] | list[float]) -> bytes:
        if isinstance(given, list):
            if len(given) != len(self._names):
                raise DataFormatError(f"the ranker has {len(self._names)} features, this document has {len(given)}")
            return self._bytes(given)
        if self._known.isdisjoint(given):
            ours, theirs = (", ".join(sorted(names)[:5]) or "none" for names in (self._known, given))
            raise DataFormatError(
                f"none of the ranker's features ({ours} …) is among those of this document ({theirs} …)"
            )
        values = [given.get(name) for name in self._names]
        if None in values:
            self.missing.update(name for name, value in zip(self._names, values, strict=True) if value is None)
        if len(given) > len(values) or not self._known.issuperset(given):
            self.unused.update(given.keys() - self._known)
        return self._bytes([value or 0.0 for value in values])

    def _bytes(self, values: list[float]) -> bytes:
        try:
            return self._pack(*values)
        except OverflowError:
            raise DataFormatError("a feature is too large for float32, as which the ranker keeps them") from None


def _query_id(answer: dict[str, Any]) -> str:
    """Return to which query an answer belongs: the engines' UBI plugins say it in the answer."""
    extra = answer.get("ext")
    places = (answer, extra.get("ubi") if isinstance(extra, dict) else None, answer.get("ubi"))
    for place in places:
        id = place.get("query_id") if isinstance(place, dict) else None
        if isinstance(id, (str, int, float)) and not isinstance(id, bool):
            return id_text(id)
    raise DataFormatError(
        "a search answer with features needs the query_id in query_id, ext.ubi.query_id or ubi.query_id"
    )


def _solr_documents(answer: dict[str, Any]) -> list[Any]:
    found = answer["response"].get("docs") if isinstance(answer["response"], dict) else None
    if not isinstance(found, list):
        raise DataFormatError("an answer of Solr has its documents in response.docs")
    return found


def _solr(text: Any) -> dict[str, float | None]:
    """Read ``name=value,name=value``."""
    pairs = (piece.rpartition("=") for piece in str(text).split(",") if piece.strip())
    try:
        return {name.strip(): float(value) for name, _, value in pairs}
    except ValueError:
        raise DataFormatError(f"{_SOLR} is name=value,name=value …; got {str(text)[:50]!r}") from None


def _ltrlog(hit: dict[str, Any]) -> dict[str, float | None]:
    """Read ``fields._ltrlog``: a list of entries of the log by their names, each a list of features; no value means no match."""
    try:
        entries = msgspec.convert(hit, _Hit).fields.ltrlog
    except msgspec.ValidationError as error:
        raise DataFormatError(f"a hit needs the features that were logged, in fields._ltrlog: {error}") from None
    return {each.name: each.value for entry in entries for features in entry.values() for each in features}


class _Feature(msgspec.Struct, frozen=True):
    name: str
    value: float = 0.0


class _Fields(msgspec.Struct, frozen=True):
    ltrlog: list[dict[str, list[_Feature]]] = msgspec.field(name="_ltrlog")


class _Hit(msgspec.Struct, frozen=True):
    fields: _Fields


# The file is worth nothing after a crash, so nothing is done to save it. The cache has 64 MiB; what is larger is sorted in files.
SCHEMA = """
    PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA temp_store = FILE; PRAGMA cache_size = -65536;
    CREATE TABLE events (query BLOB, action TEXT, document TEXT, depth INTEGER, looking INTEGER);
    CREATE TABLE features (query BLOB, document TEXT, features BLOB);
"""
# Made when all rows are there, by sorting: to keep an index of random keys up to date is much slower.
INDEXES = "CREATE INDEX event ON events (query); CREATE INDEX feature ON features (query);"


class Workspace:
    """Events and features by the query that they belong to."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        with _working():
            database.executescript(SCHEMA)

    def add_events(self, events: Iterable[tuple[str, Deed]]) -> None:
        """Add what events say, by the id of their query."""
        self._add("INSERT INTO events VALUES (?, ?, ?, ?, ?)", ((_key(id), *deed) for id, deed in events))

    def add_features(self, rows: Iterable[Row]) -> None:
        """Add features of documents."""
        self._add("INSERT INTO features VALUES (?, ?, ?)", ((_key(row.query_id), *row[1:]) for row in rows))

    def _add(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        with _working():
            self._database.execute("BEGIN")
            self._database.executemany(statement, rows)
            self._database.execute("COMMIT")

    def finish(self) -> None:
        """Make everything that was added easy to find."""
        with _working():
            self._database.executescript(INDEXES)

    def deeds(self, query_id: str) -> list[Deed]:
        """Return what the events of a query say, in the order of their files."""
        statement = "SELECT action, document, depth, looking FROM events WHERE query = ? ORDER BY rowid"
        with _working():
            return [Deed(*row) for row in self._database.execute(statement, (_key(query_id),))]

    def features(self, query_id: str) -> dict[str, bytes]:
        """Return the features of the documents of a query; what was logged last counts."""
        statement = "SELECT document, features FROM features WHERE query = ? ORDER BY rowid"
        with _working():
            return dict(self._database.execute(statement, (_key(query_id),)))


@contextmanager
def workspace() -> Iterator[Workspace]:
    """Open a workspace in a file without a name, which is gone when the process ends, however it ends."""
    with closing(sqlite3.connect("", isolation_level=None)) as database:
        yield Workspace(database)


@contextmanager
def _working() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if "full" in str(error):
            raise StoreFull(
                "the disk is full on which the log is sorted; name a folder on another one with TMPDIR"
            ) from None
        raise StorageFailure(f"the log could not be sorted: {error}") from error


def _key(query_id: str) -> bytes:
    """Return the id of a query in 16 bytes: it is in every row."""
    return blake2b(query_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


P = TypeVar("P")
T = TypeVar("T")

# No list has more positions; also, the temporary database has room for so large numbers.
LONGEST_LIST = 1_000_000_000

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

    def _event(self, source: dict[str, Any]) -> tuple[str, Deed] | None:
        if "action_name" not in source and not source.keys().isdisjoint(("user_query", "query_response_hit_ids")):
            return None  # a query
        event = msgspec.convert(source, UbiEvent)
        deed = deed_of(event)
        if (deed.depth or 0) > LONGEST_LIST:
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

    def _summed_up(self, deeds: list[Deed], shown: list[str]) -> tuple[dict[str, list[str]], int | None]:
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


def _in_view(deeds: list[Deed]) -> list[str]:
    """Return the list of a query that was logged without one: what was in view at positions 1, 2 and so on, up to the first gap."""
    places = {deed.depth: deed.document for deed in deeds if deed.looking and deed.document is not None}
    found: list[str] = []
    while (document := places.get(len(found) + 1)) is not None:
        found.append(document)
    return found


@contextmanager
def _silent(_: str) -> Iterator[Tell]:
    yield lambda done, total: None
