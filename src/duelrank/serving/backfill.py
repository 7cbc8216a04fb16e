"""Lists that other systems ranked, on their way in: what is wrong with one keeps out that one only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from duelrank.api import CLICK, Invalid, LoggedImpression
from duelrank.core.errors import DuelrankError, InvalidValue
from duelrank.core.validation import whole_number
from duelrank.serving.feedback import Rejected, checked_action
from duelrank.serving.log.attachments import pack_features
from duelrank.serving.log.bodies import LOGGED, StoredLog, pack
from duelrank.serving.observer import Observer
from duelrank.serving.ranker.definition import Definition
from duelrank.serving.ranker.documents import DocumentReader, Troubles
from duelrank.serving.settings import Settings
from duelrank.storage import NewEvent
from duelrank.storage.values import checked_text

__all__ = ["LogIntake"]


class LogIntake:
    """Makes events of the lists of one request.

    Parameters
    ----------
    definition
        Of the ranker that they are to teach.
    settings
        The limits.
    observer
        Is told of trouble with features.
    """

    def __init__(self, definition: Definition, settings: Settings, observer: Observer) -> None:
        self._definition, self._settings, self._observer = definition, settings, observer
        self._reader = DocumentReader(definition, settings)

    def events(
        self, impressions: Sequence[LoggedImpression | Rejected], time: float
    ) -> tuple[list[NewEvent], list[Invalid]]:
        """Return an event for each list that can teach, and what is wrong with the others."""
        events, invalid = [], []
        for index, each in enumerate(impressions):
            try:
                if isinstance(each, Rejected):
                    raise InvalidValue(each.reason)
                events.append(self._event(each, time))
            except DuelrankError as error:
                id = each.event_id if isinstance(each, Rejected) else each.impression_id
                invalid.append(Invalid(index, id, str(error)))
        return events, invalid

    def _event(self, logged: LoggedImpression, time: float) -> NewEvent:
        id, most = logged.impression_id, self._settings.max_id
        if not 0 < len(id) <= most:
            raise InvalidValue(f"an impression_id has from 1 to {most} characters, got {len(id)}")
        ids, raw = self._reader.read(logged.documents, Troubles(self._observer))
        self._definition.query(raw)  # refuses what cannot be ranked
        shown = len(ids) if logged.shown is None else whole_number("shown", logged.shown, 1, len(ids))
        examined = logged.examined
        if examined is not None:
            whole_number("examined", examined, 0, shown)
        places = {id: place for place, id in enumerate(ids[:shown])}
        given: Mapping[str, Sequence[str]] = {**logged.actions, CLICK: [*logged.clicks, *logged.actions.get(CLICK, ())]}
        actions = {
            checked_action(name) or CLICK: sorted({_place(id, places) for id in where})
            for name, where in given.items()
            if where
        }
        weights = self._definition.spec.actions
        if weights.keys().isdisjoint(actions):  # it keeps its id, and may be sent again when its clicks have come
            raise InvalidValue(f"no action that this ranker weighs: {', '.join(weights) or 'it weighs none'}")
        body = StoredLog(shown, actions, examined, self._definition.names_digest)
        name = self._definition.spec.name
        return NewEvent(name, LOGGED, checked_text("key", id), time, pack(body), pack_features(raw))


def _place(id: str, places: Mapping[str, int]) -> int:
    if id not in places:
        raise InvalidValue(f"the user did something with {id!r}, which is not among the documents that were shown")
    return places[id]
