"""Lists that were shown, ranked again by other versions: what has changed between two of them, on what users really saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from duelrank.api import Comparison, ImpressionInfo, RankedDocument, VersionRanking
from duelrank.core.errors import UnknownName
from duelrank.core.types import Features
from duelrank.serving.log.bodies import CLOSED, FEEDBACK, IMPRESSION, StoredFeedback, StoredImpression, unpack
from duelrank.serving.log.impressions import read_attached, read_impression
from duelrank.serving.ranker.definition import Definition
from duelrank.serving.ranker.history import KINDS
from duelrank.serving.ranker.versions import Version, events
from duelrank.storage import Event, Storage

__all__ = ["compare", "recent_impressions"]

# The events of a ranker are looked through backwards, so many at a time, and so many at most.
WINDOW, MOST = 2000, 20_000
# Events of the ranker behind an impression among which its clicks are looked for.
NEAR = 5000


def recent_impressions(storage: Storage, name: str, most: int) -> list[ImpressionInfo]:
    """Return the newest impressions of a ranker whose features are still there, newest first; reads the store."""
    found: list[ImpressionInfo] = []
    clicks: dict[str, set[int]] = {}
    for event in _backwards(storage, name):
        if event.kind == FEEDBACK:
            _note_clicks(clicks, event)
        elif event.kind == IMPRESSION:
            body = unpack(event.body, StoredImpression)
            features = read_attached(storage, name, event.number)
            if features is None:  # they are dropped from the oldest on
                break
            found.append(_info(event, body, features, clicks.get(event.key, set())))
            if len(found) >= most:
                break
    return found


def compare(
    storage: Storage, name: str, id: str, one: Version, other: Version, load: Callable[[int], Version | None]
) -> Comparison:
    """Return how two versions rank an impression; reads the store.

    Parameters
    ----------
    storage, name, id
        The store, the ranker and the impression.
    one, other
        The versions.
    load
        Returns another version, None where it is gone.
    """
    found = read_impression(storage, name, id)
    if found is None:
        raise UnknownName(
            f"the impression {id!r} of {name!r} is not known, or its features were dropped after it was learned from"
        )
    event, body, raw = found
    definition = _definition(body, raw, load(body.version), (one, other, load(1)))
    clicks: dict[str, set[int]] = {}
    for each in islice(events(storage.log, name, event.number, storage.log.last_number()), NEAR):
        if each.kind == FEEDBACK:
            _note_clicks(clicks, each)
        elif each.kind == CLOSED and each.key == str(event.number):  # later ones are too late
            break
    info = _info(event, body, raw, clicks.get(id, set()))
    return Comparison(info, _ranked(definition, one, id, body, raw), _ranked(definition, other, id, body, raw))


def _backwards(storage: Storage, name: str) -> Iterator[Event]:
    """Yield the newest events of a ranker, newest first.

    How many events of other rankers are in between does not matter: where there is little of this one, the next window is wider.
    """
    before, width, seen = storage.log.last_number(), WINDOW, 0
    while before > 0 and seen < MOST:
        after = max(0, before - width)
        found = storage.log.read(after, WINDOW, name)
        if len(found) == WINDOW and found[-1].number < before:  # there is more in it; one of WINDOW numbers has no more
            width = max(WINDOW, width // 4)
            continue
        found = [event for event in found if event.number <= before]
        yield from reversed(found)
        before, seen = after, seen + len(found)
        if len(found) < WINDOW // 4:
            width *= 2


def _note_clicks(clicks: dict[str, set[int]], event: Event) -> None:
    feedback = unpack(event.body, StoredFeedback)
    clicks.setdefault(feedback.impression, set()).update(feedback.clicks)


def _info(event: Event, body: StoredImpression, raw: Features, clicks: set[int]) -> ImpressionInfo:
    shown = body.shown
    clicked = [shown[place] for place in sorted(clicks) if place < len(shown)]
    return ImpressionInfo(event.key, event.time, body.version, KINDS[body.way], len(raw), shown, clicked)


def _definition(
    body: StoredImpression, raw: Features, made: Version | None, others: Sequence[Version | None]
) -> Definition:
    """Return the definition of the version that made an impression, or where that is gone, one with the same features.

    The same number of features says nothing: others may have come in the place of those that went.
    """
    known = [] if made is None else [made]
    if body.names:
        known = [each for each in (made, *others) if each is not None and each.definition.names_digest == body.names]
    for version in known:
        if len(version.definition.spec.features) == raw.shape[1]:
            return version.definition
    raise UnknownName(
        f"version {body.version}, which made this impression, is gone, and nothing else says what its features were; "
        "choose a newer impression, or a version from about its time"
    )


def _ranked(definition: Definition, version: Version, id: str, body: StoredImpression, raw: Features) -> VersionRanking:
    state = definition.carried(version.state, version.definition.spec.features)
    scores = definition.shares(state, raw).sum(axis=1).tolist()
    names = {document: f"#{document + 1}" for document in range(len(raw))}
    names |= dict(zip(body.order, body.shown, strict=True))
    order = definition.best(state, id, raw)
    ranking = [RankedDocument(names[document], place, scores[document]) for place, document in enumerate(order, 1)]
    return VersionRanking(version.version, ranking)
