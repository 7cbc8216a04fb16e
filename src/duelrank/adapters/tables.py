"""Click logs as tables: CSV or Parquet, with one row for each document that was shown.

`TableLog` reads them, and yields the same lists as `UbiLog`. It streams its files: rows are sorted by list in a temporary database.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from hashlib import blake2b
from io import BufferedReader
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple, TypeAlias

import msgspec

from duelrank.adapters.ubi import (
    LONGEST_LINE,
    LONGEST_LIST,
    LOOKING,
    REPORT_EVERY,
    STDIN,
    Bar,
    ClickLog,
    FeatureReader,
    Place,
    RecordErrors,
    UserAction,
    check_files,
    file_name,
    id_text,
    opened,
    silent,
    sorting,
    temporary,
    unpacked,
)
from duelrank.core.errors import DataFormatError, InvalidValue, MissingExtra, UnknownName
from duelrank.core.progress import ProgressCallback
from duelrank.service.http.schema import LoggedImpression

#: The meanings that a column may have; further ones are the names of features, of actions with a weight, and of contexts.
ROLES = ("list", "query", "document", "position", "clicked", "action", "seen", "user", "time")

# The position of each document of a table without positions: their order is that of the rows.
BY_ROW = -1
# The action of a document that was in view.
LOOKED = "impression"
# Rows that are read from Parquet at a time.
BATCH = 4096
PARQUET = b"PAR1"
DELIMITERS = ",;\t|"
# How others write an empty cell in a column of numbers.
EMPTY = frozenset({"nan", "null", "none", "na", "n/a", "\\n"})
YES, NO = frozenset({"true", "t", "yes", "y"}), frozenset({"false", "f", "no", "n"})

TABLES = """
    CREATE TABLE rows (list, time, file INTEGER, number INTEGER, unit TEXT, document TEXT, position INTEGER, query TEXT,
        user TEXT, actions TEXT, context TEXT, features BLOB);
    CREATE TABLE times (id TEXT PRIMARY KEY, count INTEGER) WITHOUT ROWID;
"""
ADD = "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
INDEX = "CREATE INDEX list ON rows (list)"
LISTS = "SELECT list FROM rows GROUP BY list ORDER BY min(time), min(rowid)"
ROWS = "SELECT * FROM rows WHERE list = ? ORDER BY position IS NULL, position, rowid"
COUNT = "INSERT OR REPLACE INTO times VALUES (?1, 1 + coalesce((SELECT count FROM times WHERE id = ?1), 0))"
COUNTED = "SELECT count FROM times WHERE id = ?"

#: The cells of a row by meaning; None is an empty one.
Cells: TypeAlias = Mapping[str, Any]


class _Row(NamedTuple):
    """A row as it is sorted: the id of its list, or a number if the table has none, and what is said of one document.

    ``actions`` and ``context`` are JSON. A row that could not be read has no document.
    """

    list: str | int
    time: str | float | None
    file: int
    number: int
    unit: str
    document: str | None = None
    position: int | None = None  # None if the document was not shown
    query: str | None = None
    user: str | None = None
    actions: str = ""
    context: str = ""
    features: bytes = b""


def parse_columns(given: Iterable[str]) -> dict[str, str]:
    """Return the columns by meaning of texts such as ``query=q,document=sku``; a meaning without a column, ``price=``, has none.

    Examples
    --------
    >>> from duelrank.adapters.tables import parse_columns
    >>> parse_columns(["query=q,document=sku", "bm25=score"])
    {'query': 'q', 'document': 'sku', 'bm25': 'score'}
    """
    columns: dict[str, str] = {}
    for pair in (pair for text in given for pair in text.split(",") if pair.strip()):
        meaning, found, column = (part.strip() for part in pair.partition("="))
        if not found or not meaning:
            raise InvalidValue(f"columns are MEANING=COLUMN,MEANING=COLUMN …, got {pair!r}")
        if meaning in columns:
            raise InvalidValue(f"{meaning} has two columns: {columns[meaning]} and {column}")
        columns[meaning] = column
    return columns


@dataclass
class TableLog(ClickLog):
    r"""A log of past searches in tables, read as a stream: memory holds one list at a time, a temporary database holds the rest.

    A row is a document of a list. Rows with the same ``list`` are one list. Without such a column, rows with the same ``query``,
    ``user`` and ``time`` are one; without ``time``, too, rows that follow each other with the same query and user, as long as the
    position increases. Lists without an id get one from their content.

    Parameters
    ----------
    files
        Paths of CSV files, perhaps compressed with gzip, of Parquet files, or ``-`` for a CSV file from stdin.
    names
        Names of the ranker's features; each must have a column.
    columns
        Column of each meaning that has another name in the table. Meanings are `ROLES`, and the names of features, of actions with
        a weight, and of contexts. An empty name means that there is no such column; the feature then counts as missing.

    Attributes
    ----------
    reader
        The reader of the features.
    user
        User of the list that was yielded last, None if that is not known.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from duelrank.adapters.tables import TableLog
    >>> table = "q,sku,rank,clicked,bm25\nshoes,a,1,0,0.9\nshoes,b,2,1,0.5\nboots,c,1,1,0.3\n"
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "clicks.csv"
    ...     _ = path.write_text(table)
    ...     log = TableLog([str(path)], ["bm25"], {"query": "q", "document": "sku", "position": "rank"})
    ...     [(each.documents.ids, each.clicks) for each in log.lists()]
    [(['a', 'b'], ['b']), (['c'], ['c'])]
    """

    files: Sequence[str]
    names: Sequence[str]
    columns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_files(self.files)
        self.reader = FeatureReader(self.names, self.precision, self.lacking)
        self.user: str | None = None
        #: Meanings of the ranker's names: a feature that is called like a role, such as time, is ranker.time.
        self._own = {
            name: f"ranker.{name}" if name in ROLES else name for name in (*self.names, *self.actions, *self.context)
        }
        self._meanings = (*ROLES, *(meaning for name, meaning in self._own.items() if name != "click"))
        for meaning in self.columns:
            if meaning not in self._meanings:
                raise InvalidValue(str(UnknownName.among("meaning of a column", meaning, self._meanings)))

    def lists(self, bar: Bar | None = None) -> Iterator[LoggedImpression]:
        """Yield the lists to learn from, by time, or in the order of their first rows; then `counts` and `errors` are complete."""
        bar = bar or silent
        with temporary(TABLES) as database:
            with bar("reading rows") as progress, sorting():
                database.execute("BEGIN")
                database.executemany(ADD, self._rows(progress))
                database.execute("COMMIT")
                database.execute(INDEX)
            with bar("joining lists") as progress:
                done, (total,) = 0, database.execute("SELECT count(*) FROM rows").fetchone()
                for (list_id,) in database.execute(LISTS):
                    with sorting():
                        rows = [_Row(*row) for row in database.execute(ROWS, (list_id,))]
                    done += len(rows)
                    progress(done, total)
                    logged = self._joined(rows, database)
                    if logged is not None:
                        yield logged

    def _rows(self, progress: ProgressCallback) -> Iterator[_Row]:
        """Yield the rows of all files."""
        sizes = [Path(file).stat().st_size if file != STDIN and Path(file).is_file() else None for file in self.files]
        total, before, groups = None if None in sizes else sum(filter(None, sizes)), 0, _Groups()
        for index, file in enumerate(self.files):
            groups.begin()
            done = 0
            for count, (place, cells, done) in enumerate(_table_rows(file, self._columns, self.errors)):
                if count % REPORT_EVERY == 0:
                    progress(before + done, total)
                row = self._row(index, place, cells, groups)
                if row is not None:
                    yield row
            before += done
        progress(before, total)

    def _columns(self, file: str, header: Sequence[str]) -> dict[str, str]:
        """Return the columns of a file by meaning; raise if one is missing."""
        for column in filter(None, self.columns.values()):
            if header.count(column) != 1:
                twice = f"two columns are called {column!r}" if column in header else ""
                raise DataFormatError(f"{file_name(file)}: {twice or UnknownName.among('column', column, header)}")
        columns = {meaning: meaning for meaning in self._meanings} | dict(self.columns)
        found = {meaning: column for meaning, column in columns.items() if column in header}
        self._check_needed(file, header, found)
        self.reader.unused.update(set(header) - set(found.values()))
        return found

    def _check_needed(self, file: str, header: Sequence[str], found: Mapping[str, str]) -> None:
        missing = [] if "document" in found else ["document"]
        missing += [] if found.keys() & {"list", "query"} else ["query"]
        missing += (
            [] if found.keys() & {"clicked", "action", *(self._own[name] for name in self.actions)} else ["clicked"]
        )
        own = [self._own[name] for name in self.names]
        features = [name for name in own if name not in found and name not in self.columns]
        if missing or features:
            wanted = [*missing, *features]
            hint = f", or --columns {features[0]}= if the table does not have it" if features else ""
            raise DataFormatError(
                f"{file_name(file)} has no column for {', '.join(wanted)}; its columns are {', '.join(header)}; "
                f"name the right one with --columns {wanted[0]}=COLUMN{hint}"
            )

    def _row(self, file: int, place: Place, cells: Cells, groups: _Groups) -> _Row | None:
        """Return a row; an error is counted, and the row then spoils its list, if that is known."""
        found = groups.list_of(cells)
        try:
            if found is None:
                raise DataFormatError("list or time is empty")
            return self._read(found, _time(cells), file, place, cells)
        except DataFormatError as error:
            self.errors.add(place, error)
        return None if found is None else _Row(found, None, file, *place[1:])

    def _read(self, list_id: str | int, time: str | float | None, file: int, place: Place, cells: Cells) -> _Row:
        document = _text(cells, "document")
        if document is None:
            raise DataFormatError("document is empty")
        actions = [name for name in self.actions if name != "click" and _flag(cells, self._own[name])]
        actions += ["click"] * _flag(cells, "clicked") + [LOOKED] * _flag(cells, "seen")
        actions += filter(None, [_text(cells, "action")])
        self.counts.events += len(actions)
        self.counts.matched += len(actions)
        features = self.reader.packed({name: _number(cells, self._own[name]) for name in self.names})
        context = {name: value for name in self.context if (value := _number(cells, self._own[name])) is not None}
        position, query, user = _position(cells), _text(cells, "query"), _text(cells, "user")
        done, situation = (msgspec.json.encode(each).decode() for each in (actions, context))
        about = (list_id, time, file, place.number, place.unit, document, position)
        return _Row(*about, query, user, done, situation, features)

    # Lists

    def _joined(self, rows: list[_Row], database: Connection) -> LoggedImpression | None:
        """Return a list, or None if nothing can be learned from it."""
        self.counts.lists += 1
        documents, faults = self._by_document(rows)
        page = [row for row in documents.values() if row.position is not None][: self.length]
        if self._lacks(max(faults, _gap(page))):  # an unreadable row is a gap, too
            return None
        shown = [row.document for row in page if row.document is not None]
        done = self._by_action((each for row in rows for each in _events(row)), shown)
        if done is None:
            return None
        first = frozenset(shown)
        self.user, ids = rows[0].user, sorted(documents, key=lambda id: id not in first)
        features, context = {id: row.features for id, row in documents.items()}, msgspec.json.decode(rows[0].context)
        found, query = rows[0].list, rows[0].query
        logged = self._list(str(found), ids, features, len(shown), *done, query, context)
        if isinstance(found, str):
            return logged
        content = msgspec.structs.replace(logged, impression_id="")
        return msgspec.structs.replace(logged, impression_id=_content_id((query, content), database))

    def _by_document(self, rows: list[_Row]) -> tuple[dict[str, _Row], int]:
        """Return the documents of a list with their first rows, and the number of rows that contradict others or are unreadable."""
        documents: dict[str, _Row] = {}
        places: dict[int | None, str] = {}
        known = [row for row in rows if row.document is not None]
        faults = len(rows) - len(known)
        for row in known:
            assert row.document is not None
            first = documents.setdefault(row.document, row)
            free = row.position is None or row.position == BY_ROW
            other = row.document if free else places.setdefault(row.position, row.document)
            reason = ""
            if (first.position, other) != (row.position, row.document):
                one, two = ("(empty)" if each.position is None else each.position for each in (row, first))
                what = f"at position {two}" if other == row.document else f"and {other!r}"
                reason = f"document {row.document!r} is at position {one} {what} of the same list"
            elif (row.query, row.context) != (known[0].query, known[0].context):
                reason = "query and context must be the same in all rows of a list"
            if reason:
                self.errors.add(Place(self.files[row.file], row.number, row.unit), reason)
                faults += 1
        return documents, faults


def _events(row: _Row) -> Iterator[UserAction]:
    for name in msgspec.json.decode(row.actions) if row.actions else ():
        yield UserAction(name, row.document, None, name in LOOKING)


def _gap(page: Sequence[_Row]) -> int:
    """Return the number of positions of a page that have no document."""
    places = [row.position for row in page if row.position is not None and row.position != BY_ROW]
    return places[-1] - places[0] + 1 - len(places) if places else 0


def _content_id(content: object, database: Connection) -> str:
    """Return an id for a list without one: a digest of its content, and which one of the lists with this content it is."""
    digest = _digest(content)
    with sorting():
        database.execute(COUNT, (digest,))
        (count,) = database.execute(COUNTED, (digest,)).fetchone()
    return digest if count == 1 else f"{digest}-{count}"


def _digest(content: object) -> str:
    return "list-" + blake2b(msgspec.json.encode(content, order="sorted"), digest_size=16).hexdigest()


class _Groups:
    """Assigns rows to lists."""

    def __init__(self) -> None:
        self._number = 0
        self.begin()

    def begin(self) -> None:
        """Begin a new file, and so a new list, if lists have no id."""
        self._number += 1
        self._of: tuple[str | None, ...] = ()
        self._documents: dict[str | None, None] = {}
        self._position: int = BY_ROW

    def list_of(self, cells: Cells) -> str | int | None:
        """Return the id of the list of a row, or a number if the table has none; None if it cannot be known."""
        if "list" in cells:
            return _text(cells, "list")
        of = _text(cells, "query"), _text(cells, "user")
        if "time" in cells:
            time = _text(cells, "time")
            return None if time is None else _digest((*of, time))
        document, position = _text(cells, "document"), self._position
        with suppress(DataFormatError):  # reported when the row is read
            position = _position(cells) or BY_ROW
        again = document in self._documents and document != next(reversed(self._documents), None)
        if of != self._of or again or -1 < position < self._position:
            self.begin()
        self._of, self._position = of, position
        self._documents[document] = None
        return self._number


def feature_columns(files: Sequence[str], columns: Mapping[str, str]) -> list[str]:
    r"""Return the columns of the first file that have no other meaning, for a log whose features nobody has named.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from duelrank.adapters.tables import feature_columns
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "clicks.csv"
    ...     _ = path.write_text("query,sku,position,clicked,bm25\nshoes,a,1,0,0.9\n")
    ...     feature_columns([str(path)], {"document": "sku"})
    ['bm25']
    """
    check_files(files)
    found: list[str] = []

    def choose(_: str, header: Sequence[str]) -> dict[str, str]:
        found.extend(name for name in header if name not in {*columns.values(), *(set(ROLES) - columns.keys())})
        return {}

    next(_table_rows(files[0], choose, RecordErrors(0)), None)
    return found


# Cells


def _text(cells: Cells, meaning: str) -> str | None:
    """Return a cell as text, None if it is empty."""
    value = cells.get(meaning)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return None if value is None else id_text(value)


def _number(cells: Cells, meaning: str) -> float | None:
    """Return a cell as a number, None if it is empty."""
    value = cells.get(meaning)
    if value is None or (isinstance(value, str) and value.lower() in EMPTY):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise DataFormatError(f"{meaning} must be a number, got {value!r}") from None
    if not math.isfinite(number):
        raise DataFormatError(f"{meaning} must be finite, got {value!r}")
    return number


def _flag(cells: Cells, meaning: str) -> bool:
    """Return whether a cell says yes: true, a positive number such as a count of clicks; an empty one says no."""
    value = cells.get(meaning)
    if isinstance(value, str) and value.lower() in YES | NO:
        return value.lower() in YES
    try:
        number = _number(cells, meaning) or 0.0
    except DataFormatError:
        number = -1.0
    if number < 0.0:
        raise DataFormatError(f"{meaning} must be 0, 1, a count, true or false, got {value!r}")
    return number > 0.0


def _position(cells: Cells) -> int | None:
    """Return the position of a row, `BY_ROW` in a table without positions, None for a document that was not shown."""
    if "position" not in cells:
        return BY_ROW
    number = _number(cells, "position")
    if number is None:
        return None
    if number != number // 1 or not 0 <= number <= LONGEST_LIST:
        raise DataFormatError(f"position must be a whole number from 0, got {cells['position']!r}")
    return int(number)


def _time(cells: Cells) -> str | float | None:
    """Return the time of a row, for sorting: a number, or the text of a date."""
    text = _text(cells, "time")
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


# Files

#: Chooses the columns of a file by meaning, from its path and the names of its columns.
Choice: TypeAlias = Callable[[str, Sequence[str]], Mapping[str, str]]


def _table_rows(file: str, choose: Choice, errors: RecordErrors) -> Iterator[tuple[Place, Cells, int]]:
    """Yield the rows of a CSV or Parquet file with their places, and the number of bytes that were read."""
    with opened(file) as raw:
        content = unpacked(raw, file)
        if content.peek(4)[:4] == PARQUET:
            yield from _parquet(file, choose)
        else:
            yield from ((place, cells, raw.done) for place, cells in _csv(content, file, choose, errors))


def _csv(content: BufferedReader, file: str, choose: Choice, errors: RecordErrors) -> Iterator[tuple[Place, Cells]]:
    lines = _lines(content, file)
    first = next(lines, "")
    delimiter = max(DELIMITERS, key=first.count)
    (header,) = csv.reader([first], delimiter=delimiter) if first.strip() else ([],)
    header = [name.strip() for name in header]
    if not header:
        raise DataFormatError(f"{file_name(file)} has no columns; the names of the columns must be in the first line")
    chosen = {meaning: header.index(column) for meaning, column in choose(file, header).items()}
    reader, number = csv.reader(lines, delimiter=delimiter), 2
    while True:
        place, number = Place(file, number), 0
        try:
            values = next(reader, None)
        except csv.Error as error:
            raise DataFormatError(f"{place} is not valid CSV: {error}") from None
        if values is None:
            return
        number = reader.line_num + 2
        if len(values) == len(header):
            yield place, {meaning: _cell(values[column]) for meaning, column in chosen.items()}
        elif values:
            errors.add(place, f"has {len(values)} cells, the first line has {len(header)}")


def _lines(content: BufferedReader, file: str) -> Iterator[str]:
    number = 0
    while line := content.readline(LONGEST_LINE):
        number += 1
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataFormatError(f"{Place(file, number)} is not in UTF-8: {error}") from None


def _parquet(file: str, choose: Choice) -> Iterator[tuple[Place, Cells, int]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise MissingExtra("reading Parquet needs pyarrow: pip install 'duelrank[parquet]'") from None
    if file == STDIN:
        raise DataFormatError("Parquet cannot be read from stdin; name the file")
    try:
        with closing(ParquetFile(file)) as table:
            chosen = choose(file, table.schema_arrow.names)
            size, total, number = Path(file).stat().st_size, table.metadata.num_rows, 0
            for batch in table.iter_batches(BATCH, columns=list(dict.fromkeys(chosen.values()))):
                columns = [batch.column(column).to_pylist() for column in chosen.values()]
                for values in zip(*columns, strict=True):
                    number += 1
                    cells = dict(zip(chosen, map(_cell, values), strict=True))
                    yield Place(file, number, "row"), cells, size * number // total
    except ArrowException as error:
        raise DataFormatError(f"{file} cannot be read as Parquet: {error}") from None


def _cell(value: Any) -> Any:
    """Return None for an empty cell: a text of spaces, or NaN in Parquet."""
    if isinstance(value, str):
        value = value.strip()
    return None if value == "" or value != value else value
