"""Decoding of bodies: errors that say what was probably meant, and large requests to rank in pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from duelrank.api import Document, DocumentTable, RankRequest
from duelrank.serving.http.errors import MalformedBody, wrong_shape

__all__ = ["decode_rank", "decoded"]


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
