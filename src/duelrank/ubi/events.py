"""Events of User Behavior Insights (UBI) 1.3.0, and what they say: what was done with a document, and how far somebody looked."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

import msgspec

__all__ = [
    "Id",
    "UbiAttributes",
    "UbiEvent",
    "UbiObject",
    "UserAction",
    "action_of",
    "fingerprint",
    "id_text",
    "user_of",
]

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


class UserAction(NamedTuple):
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


def action_of(event: UbiEvent) -> UserAction:
    """Return what an event says."""
    attributes = event.event_attributes
    given = None if attributes is None or attributes.object is None else attributes.object.object_id
    document = None if given is None else id_text(given)
    looking = event.action_name in LOOKING or (event.action_name == "view" and document is None)
    depth = _ordinal(attributes) if looking else None
    return UserAction(event.action_name, document, depth, looking)


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
