"""Decodes the bodies of requests: errors suggest the field that was meant, and large requests are decoded in pieces.

Feedback is one event, an array or one event per line, in our own form or as UBI 1.3.0; an invalid event does not affect the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import local
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np

from duelrank.adapters.ubi import UbiEvent, action_of, fingerprint, id_text, user_of
from duelrank.core.compiling import kernel_folder
from duelrank.core.errors import LimitExceeded
from duelrank.kernels.documents import READ, read_documents, read_documents_aside
from duelrank.service.http import schema
from duelrank.service.http.errors import MalformedBody, wrong_shape
from duelrank.service.intake import DocumentArray, InView, Rejected

T = TypeVar("T")

NDJSON = "application/x-ndjson"

#: The exceptions of decoders; a `ValidationError` is a `DecodeError`.
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decode_any = msgspec.json.Decoder().decode
_decode_pieces = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_logged_list = msgspec.json.Decoder(schema.LoggedImpression).decode
_decode_own = msgspec.json.Decoder(schema.FeedbackEvent).decode
_decode_own_list = msgspec.json.Decoder(list[schema.FeedbackEvent]).decode
_decode_ubi_struct = msgspec.json.Decoder(UbiEvent).decode


def decode_body(decode: Callable[[bytes], Any], body: bytes, wanted: Any, form: str = "JSON") -> Any:
    """Decode a body, or raise an error that explains what is wrong with it."""
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(wrong_shape(error, wanted)) from None
    except _BROKEN as error:
        hint = "; JSON has no NaN, send null for a missing value" if form == "JSON" and b"NaN" in bytes(body) else ""
        raise MalformedBody(f"the body is not valid {form}: {error}{hint}") from None


# Features that are no numbers

#: Returns the names of the features of a ranker.
Names: TypeAlias = Callable[[], Sequence[str]]

_NO_NUMBER = re.compile(r"^Expected `float \| null`, got .* - at `\$\.documents\[(\d+)\]\.features\[(\d+|\.\.\.)\]`$")


def naming_feature(error: msgspec.ValidationError, body: bytes, codec: Any, names: Names) -> msgspec.ValidationError:
    """Return an error that names the document and the feature that is no number, not their places in the body."""
    found, place = str(error), _NO_NUMBER.match(str(error))
    if place is not None:
        with suppress(*_BROKEN, LookupError):  # the body may have other mistakes after this one
            document = codec.decode(body)["documents"][int(place[1])]
            found = _no_number(document["id"], document["features"], place[2], names)
    return msgspec.ValidationError(found)


def _no_number(id: Any, features: Any, column: str, names: Names) -> str:
    if isinstance(features, dict):
        name, value = next(
            each
            for each in features.items()
            if not isinstance(each[1], int | float | None) or isinstance(each[1], bool)
        )
    else:
        known, value = names(), features[int(column)]
        name = known[int(column)] if int(column) < len(known) else f"#{int(column) + 1}"
    return f"features must be numbers, found {repr(value)[:50]} in document {id!r}, feature {name!r}"


# Requests for a ranking


class _Pieces(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `RankRequest` whose documents are not decoded yet."""

    documents: list[msgspec.Raw] | schema.DocumentTable
    impression_id: str | None = None
    length: int | None = None
    explain: bool = False
    query: str | None = None
    query_key: str | None = None
    context: dict[str, float] = {}
    fixed: dict[str, int] = {}
    below_top: dict[str, int] = {}
    page: int | None = None


class _RankDecoder:
    """Decodes requests for a ranking, at once or, if they are large, document by document.

    A decoder holds the GIL until it is done, 45 ms for 1,000 documents of 800 features; between two documents, other threads can
    run.
    """

    def __init__(self, codec: Any, form: str) -> None:
        self.codec, self._form = codec, form
        self.whole = codec.Decoder(schema.RankRequest).decode
        self._pieces = codec.Decoder(_Pieces).decode
        self._document = codec.Decoder(schema.Document).decode

    def __call__(self, body: bytes, large: bool) -> schema.RankRequest:
        if not large:
            request: schema.RankRequest = decode_body(self.whole, body, schema.RankRequest, self._form)
            return request
        found: _Pieces = decode_body(self._pieces, body, schema.RankRequest, self._form)
        _, *rest = msgspec.structs.astuple(found)
        if isinstance(found.documents, schema.DocumentTable):
            return schema.RankRequest(found.documents, *rest)
        return schema.RankRequest(self._decode_documents(found.documents), *rest)

    def _decode_documents(self, pieces: list[msgspec.Raw]) -> list[schema.Document]:
        documents = []
        for place, piece in enumerate(pieces):
            try:
                documents.append(decode_body(self._document, piece, schema.Document, self._form))
            except msgspec.ValidationError as error:
                message = str(error).partition(" - at `$")
                rest = message[2] or "`"
                raise msgspec.ValidationError(f"{message[0]} - at `$.documents[{place}]{rest}") from None
        return documents


_rank_from_json = _RankDecoder(msgspec.json, "JSON")
_rank_from_msgpack = _RankDecoder(msgspec.msgpack, "MessagePack")


class ArrayReader:
    """Reads requests for a ranking in JSON with a kernel, which is faster and lets other threads run; it does not read all."""

    #: Whether the kernels are compiled; before that, nothing is read.
    ready = False
    #: The bytes of a body up to which a thread uses the same arrays again: they stay in the processor's cache.
    max_kept = 64 << 10

    def __init__(self) -> None:
        self._kept = local()

    def may_prepare(self) -> bool:
        """Whether the kernels were compiled before, so that `prepare` takes only a moment; or no process can store them."""
        return (mark := self._mark()) is None or mark.exists()

    def _mark(self) -> Path | None:
        folder = kernel_folder()
        return None if folder is None else folder / "requests"

    def prepare(self) -> None:
        """Compile the kernels, or load them."""
        example = b'{"documents":[{"id":"a","features":[1]}]}'
        compiled = all(self.read(example, large) for large in (False, True)) and hasattr(read_documents, "signatures")
        self.ready = compiled  # not if kernels run as plain Python
        if compiled and (mark := self._mark()) is not None:
            with suppress(OSError):
                mark.touch()

    def read(self, body: bytes, large: bool) -> schema.RankRequest | None:
        """Return the request, None if a general decoder has to read it, such as to explain what is wrong."""
        text, (values, names, found) = np.frombuffer(body, np.uint8), self._scratch(len(body))
        code = (read_documents_aside if large else read_documents)(text, values, names, found)
        if code != READ:
            return None
        start, stop, n_documents, n_features, n_bytes = found.tolist()
        try:
            rest: schema.RankRequest = _rank_from_json.whole(b"%b[]%b" % (body[:start], body[stop:]))
            ids = names[:n_bytes].tobytes().decode().split("\0")
        except _BROKEN:
            return None
        # NumPy's own copy would let other threads run, and the event loop would wait for its next turn.
        features = np.frombuffer(values[: n_documents * n_features].tobytes()).reshape(n_documents, n_features)
        documents = DocumentArray(ids, b"", array=features)
        own = (rest.impression_id, rest.length, rest.explain, rest.query, rest.query_key)
        return schema.RankRequest(documents, *own, page=rest.page)

    def _scratch(self, n_bytes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return arrays for the values, the ids and the counts in a body of this size."""
        kept: tuple[np.ndarray, np.ndarray, np.ndarray] | None = getattr(self._kept, "arrays", None)
        if n_bytes > self.max_kept or kept is None:
            size = max(n_bytes, self.max_kept)
            kept = np.empty(size // 2 + 1), np.empty(size, np.uint8), np.zeros(5, np.int64)
            if size == self.max_kept:
                self._kept.arrays = kept
        kept[2][1] = 0  # no documents were found yet
        return kept


array_reader = ArrayReader()


def decode_rank(body: bytes, content_type: bytes, large: bool, names: Names = tuple) -> schema.RankRequest:
    """Decode a request for a ranking, in JSON or MessagePack."""
    decoder = _rank_from_msgpack if b"msgpack" in content_type else _rank_from_json
    if array_reader.ready and decoder is _rank_from_json and (found := array_reader.read(body, large)) is not None:
        return found
    try:
        return decoder(body, large)
    except msgspec.ValidationError as error:
        raise naming_feature(error, body, decoder.codec, names) from None


# Feedback and logged lists


def _decode_many(
    body: bytes, content_type: bytes, limit: int, what: str, read: Callable[[bytes], T], kind: type, id: str
) -> list[T | Rejected]:
    """Decode one item, an array of items, or one item on each line; an invalid item becomes a `Rejected` in its place.

    Parameters
    ----------
    body, content_type
        Body and content type of the request.
    limit, what
        Maximum number of items, and their name.
    read
        Decodes one item.
    kind
        Expected type of an item.
    id
        Field with the id of an item.
    """
    lines = content_type.partition(b";")[0].strip().lower() in (b"application/x-ndjson", b"application/ndjson")
    alone = not lines and body.lstrip(b" \t\r\n")[:1] != b"["
    if lines:
        # Check before there are millions of lines; every second one may be empty.
        _check_count(body.count(b"\n") // 2, limit, what)
        pieces = [line for line in body.splitlines() if line.strip()]
    else:
        pieces = [body] if alone else [bytes(piece) for piece in decode_body(_decode_pieces, body, list)]
    _check_count(len(pieces), limit, what)
    found: list[T | Rejected] = []
    for piece in pieces:
        try:
            found.append(read(piece))
        except _BROKEN as error:
            if alone and not isinstance(error, msgspec.ValidationError):  # the body is invalid, not only the item in it
                raise MalformedBody(f"the body is not valid JSON: {error}") from None
            found.append(Rejected(_text_field(piece, id), wrong_shape(error, kind)))
    return found


def _check_count(count: int, limit: int, what: str) -> None:
    if count > limit:
        raise LimitExceeded(f"a request may have {limit:,} {what}")


def _text_field(body: bytes, field: str) -> str | None:
    """Return the text in a field of a JSON object, or None."""
    try:
        content = _decode_any(body)
    except _BROKEN:
        return None
    found = content.get(field) if isinstance(content, dict) else None
    return found if isinstance(found, str) else None


def decode_logged(
    body: bytes, content_type: bytes, limit: int, names: Names = tuple
) -> list[schema.LoggedImpression | Rejected]:
    """Decode logged lists of another system; an invalid one becomes a `Rejected` in its place."""

    def read(text: bytes) -> schema.LoggedImpression:
        try:
            return _decode_logged_list(text)
        except msgspec.ValidationError as error:
            raise naming_feature(error, text, msgspec.json, names) from None

    return _decode_many(body, content_type, limit, "lists", read, schema.LoggedImpression, "impression_id")


def decode_events(
    body: bytes, content_type: bytes, limit: int, large: bool = False
) -> Sequence[schema.FeedbackEvent | Rejected]:
    """Decode feedback events; an invalid one becomes a `Rejected` in its place. Other threads can run while many are decoded."""
    if body[:1] == b"[" and not large:
        with suppress(*_BROKEN):  # otherwise decode each event separately
            return _decode_own_list(body)
    return _decode_many(body, content_type, limit, "events", _decode_event, schema.FeedbackEvent, "event_id")


def _decode_event(text: bytes) -> schema.FeedbackEvent | Rejected:
    try:
        return _decode_own(text)
    except _BROKEN:
        if b'"action_name"' in text and b'"impression_id"' not in text:
            return _decode_ubi(text)
        raise


def _decode_ubi(text: bytes) -> schema.FeedbackEvent | Rejected:
    event, content = _decode_ubi_struct(text), _decode_any(text)
    own = content.get("event_id")
    id = own if own and isinstance(own, str) else fingerprint(content)
    if event.query_id is None:
        name = event.action_name[:50]
        return Rejected(id, f"a UBI event without query_id belongs to no impression (action_name {name!r})")
    action = action_of(event)
    common: dict[str, Any] = {"impression_id": id_text(event.query_id), "event_id": id, "user_id": user_of(event)}
    if action.document is None:
        if action.name == "click":
            return Rejected(id, "a UBI click needs event_attributes.object.object_id")
        return schema.FeedbackEvent(**common, examined=action.depth)
    if action.looking:
        return InView(**common, examined=action.depth, document=action.document)
    return schema.FeedbackEvent(**common, clicks=[action.document], action=action.name)
