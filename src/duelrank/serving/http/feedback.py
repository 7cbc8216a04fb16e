"""Feedback as it arrives: one event, an array or lines, in our own form or as UBI 1.3.0; bad ones do no harm to others."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from duelrank.adapters.ubi import UbiEvent, deed_of, fingerprint, id_text, user_of
from duelrank.api import FeedbackEvent
from duelrank.serving.feedback import InView, Rejected
from duelrank.serving.http.decoding import BROKEN, decode_many

__all__ = ["NDJSON", "UbiEvent", "decode_events"]

NDJSON = "application/x-ndjson"

Decoded = FeedbackEvent | Rejected

_native = msgspec.json.Decoder(FeedbackEvent).decode
_natives = msgspec.json.Decoder(list[FeedbackEvent]).decode
_anything = msgspec.json.Decoder().decode
_ubi = msgspec.json.Decoder(UbiEvent).decode


def decode_events(body: bytes, content_type: bytes, most: int) -> Sequence[Decoded]:
    """Return the events of a request; what cannot be read becomes a `Rejected` in its place."""
    if body[:1] == b"[":
        with suppress(*BROKEN):  # else look at each on its own
            return _natives(body)
    return decode_many(body, content_type, most, "events", _event, FeedbackEvent, "event_id")


def _event(text: bytes) -> Decoded:
    try:
        return _native(text)
    except BROKEN:
        if b'"action_name"' in text and b'"impression_id"' not in text:
            return _from_ubi(text)
        raise


def _from_ubi(text: bytes) -> Decoded:
    event, content = _ubi(text), _anything(text)
    own = content.get("event_id")
    id = own if own and isinstance(own, str) else fingerprint(content)
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
