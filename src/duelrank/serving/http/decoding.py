"""Decoding of bodies: errors that say what was probably meant, and large requests to rank in pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from duelrank.api import Document, DocumentTable, LoggedImpression, RankRequest
from duelrank.core.errors import LimitExceeded
from duelrank.serving.feedback import Rejected
from duelrank.serving.http.errors import MalformedBody, wrong_shape

__all__ = ["BROKEN", "decode_logged", "decode_many", "decode_rank", "decoded"]

T = TypeVar("T")

#: What decoders raise.
BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # a ValidationError is a DecodeError too
_raw = msgspec.json.Decoder(list[msgspec.Raw])
_logged = msgspec.json.Decoder(LoggedImpression).decode
_anything = msgspec.json.Decoder()


def decoded(decode: Callable[[bytes], Any], body: bytes, wanted: Any, form: str = "JSON") -> Any:
    """Decode a body, or raise what is wrong with it."""
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(wrong_shape(error, wanted)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedBody(f"the body is not valid {form}: {error}") from None


class _Pieces(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `RankRequest` whose documents are not decoded yet."""

    documents: list[msgspec.Raw] | DocumentTable
    impression_id: str | None = None
    length: int | None = None
    explain: bool = False


class _RankDecoder:
    """Decodes requests for a ranking, in one go or, where they are large, document by document.

    A decoder holds Python's lock until it is done, 45 ms for 1,000 documents of 800 features: between two documents, other
    threads may go on.
    """

    def __init__(self, codec: Any, form: str) -> None:
        self._form = form
        self._whole = codec.Decoder(RankRequest).decode
        self._pieces = codec.Decoder(_Pieces).decode
        self._document = codec.Decoder(Document).decode

    def __call__(self, body: bytes, large: bool) -> RankRequest:
        if not large:
            request: RankRequest = decoded(self._whole, body, RankRequest, self._form)
            return request
        found: _Pieces = decoded(self._pieces, body, RankRequest, self._form)
        documents = found.documents
        return RankRequest(
            documents=documents if isinstance(documents, DocumentTable) else self._each(documents),
            impression_id=found.impression_id,
            length=found.length,
            explain=found.explain,
        )

    def _each(self, pieces: list[msgspec.Raw]) -> list[Document]:
        documents = []
        for place, piece in enumerate(pieces):
            try:
                documents.append(decoded(self._document, piece, Document, self._form))
            except msgspec.ValidationError as error:
                message = str(error).partition(" - at `$")
                rest = message[2] or "`"
                raise msgspec.ValidationError(f"{message[0]} - at `$.documents[{place}]{rest}") from None
        return documents


_from_json = _RankDecoder(msgspec.json, "JSON")
_from_msgpack = _RankDecoder(msgspec.msgpack, "MessagePack")


def decode_rank(body: bytes, content_type: bytes, large: bool) -> RankRequest:
    """Decode a request to rank, which is JSON or MessagePack."""
    return (_from_msgpack if b"msgpack" in content_type else _from_json)(body, large)


def decode_many(
    body: bytes, content_type: bytes, most: int, what: str, read: Callable[[bytes], T], kind: type, id: str
) -> list[T | Rejected]:
    """Decode one thing, an array of them, or one on each line; what cannot be read becomes a `Rejected` in its place.

    Parameters
    ----------
    body, content_type
        Of the request.
    most, what
        So many of these may be in it.
    read
        Decodes one.
    kind
        What they should be.
    id
        The field that names one.
    """
    lines = content_type.partition(b";")[0].strip().lower() in (b"application/x-ndjson", b"application/ndjson")
    alone = not lines and body.lstrip(b" \t\r\n")[:1] != b"["
    if lines:
        _check(body.count(b"\n") // 2, most, what)  # before there are millions of lines; every second one may be empty
        pieces = [line for line in body.splitlines() if line.strip()]
    else:
        pieces = [body] if alone else [bytes(piece) for piece in decoded(_raw.decode, body, list)]
    _check(len(pieces), most, what)
    found: list[T | Rejected] = []
    for piece in pieces:
        try:
            found.append(read(piece))
        except BROKEN as error:
            if alone and not isinstance(
                error, msgspec.ValidationError
            ):  # the request's fault, not that of the one in it
                raise MalformedBody(f"the body is not valid JSON: {error}") from None
            found.append(Rejected(_text_at(piece, id), wrong_shape(error, kind)))
    return found


def _check(count: int, most: int, what: str) -> None:
    if count > most:
        raise LimitExceeded(f"a request may hold {most:,} {what}")


def _text_at(body: bytes, field: str) -> str | None:
    """Return the text in a field of a JSON object, None where there is none."""
    try:
        content = _anything.decode(body)
    except BROKEN:
        return None
    found = content.get(field) if isinstance(content, dict) else None
    return found if isinstance(found, str) else None


def decode_logged(body: bytes, content_type: bytes, most: int) -> list[LoggedImpression | Rejected]:
    """Decode lists that another system ranked; what cannot be read becomes a `Rejected` in its place."""
    return decode_many(body, content_type, most, "lists", _logged, LoggedImpression, "impression_id")
