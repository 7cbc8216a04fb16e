"""Features as they were logged, per query and document: our own lines, or search answers of Elasticsearch, OpenSearch or Solr."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from duelrank.errors import DataFormatError
from duelrank.service.http.schema import Precision
from duelrank.ubi.events import Id, id_text
from duelrank.ubi.records import answers, hits, sources

__all__ = ["FeatureReader", "Row", "split"]

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
