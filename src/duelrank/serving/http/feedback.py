"""Feedback as it arrives: one event, an array or lines, in our own form or as UBI 1.3.0; bad ones do no harm to others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from duelrank.api import FeedbackEvent
from duelrank.errors import LimitExceeded
from duelrank.serving.feedback import InView, Rejected
from duelrank.serving.http.errors import MalformedBody, wrong_shape
from duelrank.ubi.events import UbiEvent, deed_of, fingerprint, id_text, user_of

__all__ = ["NDJSON", "UbiEvent", "decode_events"]

NDJSON = "application/x-ndjson"

Decoded = FeedbackEvent | Rejected

_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # a ValidationError is a DecodeError too
_native = msgspec.json.Decoder(FeedbackEvent)
_natives = msgspec.json.Decoder(list[FeedbackEvent])
_pieces = msgspec.json.Decoder(list[msgspec.Raw])
_anything = msgspec.json.Decoder()
_ubi = msgspec.json.Decoder(UbiEvent)


def decode_events(body: bytes, content_type: bytes, most: int) -> Sequence[Decoded]:
    """Return the events of a request; what cannot be read becomes a `Rejected` in its place."""
    if content_type.partition(b";")[0].strip().lower() in (b"application/x-ndjson", b"application/ndjson"):
        return _lines(body, most)
    if body.lstrip(b" \t\r\n")[:1] != b"[":
        return [_event(body, _whole)]
    try:
        return _natives.decode(body)
    except _BROKEN:
        pass  # look at each on its own
    try:
        pieces = _pieces.decode(body)
    except _BROKEN as error:
        raise MalformedBody(f"the body is not valid JSON: {error}") from None
    _check(len(pieces), most)
    return [_event(bytes(piece), _rejected) for piece in pieces]


def _lines(body: bytes, most: int) -> Sequence[Decoded]:
    _check(body.count(b"\n") // 2, most)  # before there are millions of lines; every second one may be empty
    lines = [line for line in body.splitlines() if line.strip()]
    _check(len(lines), most)
    return [_event(line, _rejected) for line in lines]


def _check(count: int, most: int) -> None:
    if count > most:
        raise LimitExceeded(f"a request may hold {most:,} events")


def _event(text: bytes, otherwise: Callable[[bytes, Exception], Decoded]) -> Decoded:
    try:
        return _native.decode(text)
    except _BROKEN as error:
        return (
            _from_ubi(text) if b'"action_name"' in text and b'"impression_id"' not in text else otherwise(text, error)
        )


def _whole(text: bytes, error: Exception) -> Decoded:
    """What to do with a body that should be one event: that it is not valid JSON is the request's fault, not the event's."""
    if not isinstance(error, msgspec.ValidationError):
        raise MalformedBody(f"the body is not valid JSON: {error}") from None
    return _rejected(text, error)


def _rejected(text: bytes, error: Exception) -> Rejected:
    return Rejected(_event_id(_content(text)), wrong_shape(error, FeedbackEvent))


def _from_ubi(text: bytes) -> Decoded:
    try:
        event, content = _ubi.decode(text), _anything.decode(text)
    except _BROKEN as error:
        return _rejected(text, error)
    id = _event_id(content) or fingerprint(content)
    if event.query_id is None:
        name = event.action_name[:50]
        return Rejected(id, f"a UBI event without query_id belongs to no impression (action_name {name!r})")
    deed = deed_of(event)
    told: dict[str, Any] = {"impression_id": id_text(event.query_id), "event_id": id, "user_id": user_of(event)}
    if deed.document is None:
        if deed.action == "click":
            return Rejected(id, "a UBI click needs event_attributes.object.object_id")
        return FeedbackEvent(**told, examined=deed.depth)
    if deed.looking:
        return InView(**told, examined=deed.depth, document=deed.document)
    return FeedbackEvent(**told, clicks=[deed.document], action=deed.action)


def _content(text: bytes) -> Any:
    try:
        return _anything.decode(text)
    except _BROKEN:
        return None


def _event_id(content: Any) -> str | None:
    id = content.get("event_id") if isinstance(content, dict) else None
    return id if isinstance(id, str) else None
