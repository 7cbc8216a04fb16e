"""Validates what clients send: documents, feedback events, and logged lists of other systems; returns features and new events."""

from __future__ import annotations

import asyncio
import math
import struct
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Protocol

import msgspec
import numpy as np

from duelrank.core.errors import DuelrankError, InvalidValue, LimitExceeded, ShapeMismatch, UnknownName
from duelrank.core.types import Features
from duelrank.core.validation import whole_number
from duelrank.placing import free_above
from duelrank.representation import Fixed, Interactions, MinMax
from duelrank.service import log
from duelrank.service.definition import CLICK, MAX_ACTION_NAME, Definition, stored_action
from duelrank.service.http import schema
from duelrank.service.settings import Observer, Settings
from duelrank.storage import Event, NewEvent, Receipt
from duelrank.storage.base import checked_text

_encode = msgspec.msgpack.Encoder().encode
#: The context of a request without one.
NO_CONTEXT: Mapping[str, float] = {}


# Documents


class DocumentArray(schema.DocumentTable, frozen=True, gc=False, kw_only=True):
    """Candidates whose features are an array of finite numbers already, (n_documents, n_features)."""

    array: Features


class FeatureTroubles:
    """Counts the questionable feature values of one request, and passes the counts to an observer."""

    __slots__ = ("_observer", "missing", "out_of_range")

    def __init__(self, observer: Observer) -> None:
        self._observer, self.missing, self.out_of_range = observer, 0, 0

    def feature_trouble(self, name: str, kind: str, count: int) -> None:
        """Count feature values that were missing, out of range, or not finite."""
        self._observer.feature_trouble(name, kind, count)
        if kind == "missing":
            self.missing += count
        elif kind == "out_of_range":
            self.out_of_range += count


class DocumentReader:
    """Converts the documents of requests to a table of numbers; errors name the document and the feature.

    Parameters
    ----------
    definition
        Definition of the ranker.
    settings
        Limits of the service.
    """

    def __init__(self, definition: Definition, settings: Settings) -> None:
        spec = definition.spec
        self.definition, self._settings = definition, settings
        lacking = {} if definition.missing is None else definition.missing.lacking(spec.features)
        self._name, self._interactions = spec.name, Interactions(spec.features, spec.context, lacking)
        self._names = self._interactions.given
        self._columns = {name: column for column, name in enumerate(self._names)}
        self._retired, self._single = frozenset(spec.retired), spec.precision == "float32"
        self._range = _expected_range(definition)
        self._lacking = np.isin(self._names, list(lacking)) if lacking else None  # columns whose values may be missing
        self._required = [name for name in self._names if name not in lacking]
        #: Features of a document without any.
        self._empty = [math.nan if name in lacking else 0.0 for name in self._names]
        self._pack = struct.Struct(f"<{len(self._names)}d").pack  # twice as fast as an array of numpy or of Python

    def read(
        self,
        given: Sequence[schema.Document] | schema.DocumentTable,
        troubles: FeatureTroubles,
        context: Mapping[str, float] = NO_CONTEXT,
    ) -> tuple[list[str], Features]:
        """Return the ids and the features, which are read-only."""
        read = isinstance(given, DocumentArray)
        if isinstance(given, schema.DocumentTable):
            ids = given.ids
            check_ids(ids, self._settings)
            raw = self._array(given) if isinstance(given, DocumentArray) else self._table(given)
        else:
            ids = [document.id for document in given]
            check_ids(ids, self._settings)
            packed = b"".join([self._row(document, troubles) for document in given])
            raw = np.frombuffer(packed, "<f8").reshape(len(ids), -1)
        if self._single:
            raw = _rounded(raw)
        if (self._single or not read) and not math.isfinite(raw.sum()) and not (valid := self._valid(raw)).all():
            self._refuse(ids, raw, valid, troubles)
        if self._interactions.context or context:
            raw = self._multiplied(ids, raw, context)
        if self._range is not None:
            low, high = self._range
            if outside := np.count_nonzero((raw < low) | (raw > high)):
                troubles.feature_trouble(self._name, "out_of_range", int(outside))
        raw.flags.writeable = False
        return ids, raw

    def _multiplied(self, ids: list[str], raw: Features, context: Mapping[str, float]) -> Features:
        """Return features with their products with a context."""
        if not self._interactions.context:
            raise InvalidValue(
                f"the ranker {self._name!r} has no context, got {', '.join(map(repr, context))}; declare it with the features that "
                "it changes"
            )
        table = self._interactions.table(raw, context)
        table = _rounded(table) if self._single else table
        if (too_large := np.isinf(table).any(axis=1)).any():
            document = ids[int(too_large.argmax())]
            raise InvalidValue(f"the context {dict(context)!r} makes features of document {document!r} too large")
        return table

    def _valid(self, raw: Features) -> np.ndarray:
        """Return which values are finite, or may be missing."""
        finite = np.isfinite(raw)
        return finite if self._lacking is None else finite | (np.isnan(raw) & self._lacking)

    def _array(self, given: DocumentArray) -> Features:
        if given.array.shape[1] != len(self._names):
            raise self._wrong_length(given.ids[0], given.array.shape[1])
        return given.array

    def _table(self, given: schema.DocumentTable) -> Features:
        """Return the features of a compact request."""
        kind = np.dtype("<f4" if given.type == "float32" else "<f8")
        expected = len(given.ids) * len(self._names) * kind.itemsize
        if len(given.features) != expected:
            raise ShapeMismatch(
                f"{len(given.ids)} documents with {len(self._names)} features as {given.type} take {expected:,} bytes, "
                f"got {len(given.features):,}"
            )
        return np.frombuffer(given.features, kind).reshape(len(given.ids), -1).astype(np.float64)

    def _row(self, document: schema.Document, troubles: FeatureTroubles) -> bytes:
        given = document.features
        if isinstance(given, dict):
            given = self._dense(document, given, troubles)
        elif len(given) != len(self._names):
            raise self._wrong_length(document.id, len(given))
        try:
            return self._pack(*given)
        except (struct.error, OverflowError) as error:
            if None in given:
                return self._row(schema.Document(document.id, self._without_null(document.id, given)), troubles)
            raise InvalidValue(f"the features of document {document.id!r} must be numbers: {error}") from None

    def _without_null(self, id: str, given: Sequence[float | None]) -> list[float | None]:
        """Return features with NaN in the place of null; raise if one of them may not be missing."""
        for name, value in zip(self._names, given, strict=True):
            if value is None and name in self._required:
                raise InvalidValue(
                    f"features must be numbers, found null in document {id!r}, feature {name!r}; a feature that documents may lack "
                    "is declared in missing"
                )
        return [math.nan if value is None else value for value in given]

    def _wrong_length(self, id: str, n_features: int) -> ShapeMismatch:
        return ShapeMismatch(f"the ranker has {len(self._names)} features, document {id!r} has {n_features}")

    def _dense(
        self, document: schema.Document, given: Mapping[str, float | None], troubles: FeatureTroubles
    ) -> list[float | None]:
        row: list[float | None] = [*self._empty]
        ignored = 0
        for name, value in given.items():
            column = self._columns.get(name)
            if column is not None:
                row[column] = value
            elif name in self._retired:
                ignored += 1
            else:
                unknown = UnknownName.among("feature", name, self._names[:50])
                raise InvalidValue(f"document {document.id!r}: {unknown}")
        missing = len(row) - len(given) + ignored
        if missing and self._lacking is not None:
            missing = sum(name not in given for name in self._required)
        if missing:
            troubles.feature_trouble(self._name, "missing", missing)
        return row

    def _refuse(self, ids: list[str], raw: Features, finite: np.ndarray, troubles: FeatureTroubles) -> None:
        troubles.feature_trouble(self._name, "nan", int(np.isnan(raw).sum()))
        troubles.feature_trouble(self._name, "infinite", int(np.isinf(raw).sum()))
        document, column = (int(index) for index in np.argwhere(~finite)[0])
        beyond = " (the ranker keeps features as float32)" if self._single else ""
        raise InvalidValue(
            f"features must be finite, found {raw[document, column]} in document {ids[document]!r}, "
            f"feature {self._names[column]!r}{beyond}"
        )


def check_ids(ids: list[str], settings: Settings) -> None:
    """Raise if there are too many ids of documents, two are equal, or one cannot be stored."""
    limit = settings.max_documents
    if not 1 <= len(ids) <= limit:
        wrong = LimitExceeded if ids else InvalidValue
        raise wrong(f"a request has from 1 to {limit:,} documents, got {len(ids):,}")
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise InvalidValue(f"two documents have the id {twice!r}; ids must be unique")
    if len(max(ids, key=len)) > settings.max_id:
        raise LimitExceeded(f"the id of a document may have at most {settings.max_id} characters")
    if "" in ids:
        raise InvalidValue("the id of a document must not be empty")
    try:
        "".join(ids).encode()
    except UnicodeEncodeError as error:
        raise InvalidValue(f"the id of a document must be valid Unicode: {error}") from None


def _rounded(raw: Features) -> Features:
    """Round to single precision; larger numbers become infinite, and are refused."""
    with np.errstate(over="ignore"):
        return raw.astype(np.float32).astype(np.float64)


def _expected_range(definition: Definition) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the least and largest values that fixed scalings expect, None if there are no such scalings."""
    first = definition.first_stage
    scalings = first.scalings if isinstance(first, Fixed) else ()
    if not any(isinstance(each, MinMax) for each in scalings):
        return None
    low = [each.minimum if isinstance(each, MinMax) else -math.inf for each in scalings]
    high = [each.maximum if isinstance(each, MinMax) else math.inf for each in scalings]
    return np.array(low), np.array(high)


def known_to(
    definition: Definition, documents: list[schema.Document] | schema.DocumentTable, others: Collection[Collection[str]]
) -> list[schema.Document] | schema.DocumentTable:
    """Return documents without features by name that only other rankers have."""
    if isinstance(documents, schema.DocumentTable) or len(others) < 2:
        return documents
    own = {*definition.columns, *definition.spec.retired}
    foreign = {name for each in others for name in each if name not in own}
    return [
        schema.Document(each.id, {name: value for name, value in each.features.items() if name not in foreign})
        if isinstance(each.features, dict)
        else each
        for each in documents
    ]


class NamesQuery(Protocol):
    """A request that may name a query, by its text or by a key."""

    @property
    def query(self) -> str | None:
        """The text."""

    @property
    def query_key(self) -> str | None:
        """The key."""


def stored_query(given: NamesQuery, settings: Settings, definition: Definition) -> str:
    """Return the query that is stored with a list: as it is remembered, and "" for a ranker that does not remember queries."""
    query = remembered_query(given, settings)
    return "" if definition.remember is None else query


def remembered_query(given: NamesQuery, settings: Settings) -> str:
    """Return the query of a request as it is remembered, "" if it is not: a text without differences of case and spaces, or a key.

    A text that is too long is not remembered: nobody asks it again.
    """
    if given.query_key is None and given.query is None:
        return ""
    if given.query_key is not None and given.query is not None:
        raise InvalidValue("give either query, a text, or query_key, an opaque name, not both")
    limit = settings.max_id
    if given.query_key is not None:
        if not 0 < len(given.query_key) <= limit:
            raise InvalidValue(f"a query_key has from 1 to {limit} characters, got {len(given.query_key)}")
        return _valid_query(given.query_key)
    text = " ".join((given.query or "").casefold().split())
    return _valid_query(text) if len(text) <= limit else ""


def _valid_query(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidValue(f"a query must be valid Unicode, got {text!r}") from None
    return text


# Feedback


class Rejected(msgspec.Struct, frozen=True):
    """An event that could not be decoded; it is a placeholder, so that the event is counted and later ones keep their index."""

    event_id: str | None
    reason: str


class InView(schema.FeedbackEvent, frozen=True):
    """An event about a document that a user has seen: the list was examined as far as that, or as ``examined`` says."""

    document: str = ""


class FeedbackTroubles:
    """Remembers a few examples of feedback without effect, by reason; its size is bounded."""

    max_examples = 3

    def __init__(self) -> None:
        self._examples: dict[str, tuple[str, ...]] = {}

    def add(self, reason: str, *examples: str) -> None:
        """Note examples of a reason: "action", "document" or "impression"."""
        known = self._examples.get(reason, ())
        if len(known) < self.max_examples:
            named = (each if len(each) <= MAX_ACTION_NAME else f"{each[:MAX_ACTION_NAME]}…" for each in examples)
            self._examples[reason] = tuple(dict.fromkeys((*known, *named)))[: self.max_examples]

    def add_all(self, other: FeedbackTroubles) -> None:
        """Note the examples of another one."""
        for reason, examples in other._examples.items():
            self.add(reason, *examples)

    def sentences(self, actions: Collection[str]) -> list[str]:
        """Return one sentence for each reason; actions that have a weight by now are left out."""
        listed = {reason: ", ".join(map(repr, examples)) for reason, examples in self._examples.items()}
        listed["action"] = ", ".join(repr(each) for each in self._examples.get("action", ()) if each not in actions)
        weighed = f"actions of this ranker have weights for: {', '.join(actions) or 'nothing'}"
        told = {
            "action": ("an action without a weight has no effect", weighed),
            "document": (
                "a click on a document that was not shown has no effect",
                "send the ids in the answer of rank",
            ),
            "impression": (
                "feedback on an unknown impression has no effect",
                "send the impression_id of the answer of rank",
            ),
        }
        return [f"{what}: {listed[reason]}; {hint}" for reason, (what, hint) in told.items() if listed.get(reason)]


class FeedbackIntake:
    """Validates some feedback events of one request; each is counted once.

    Parameters
    ----------
    name, actions
        Name of the ranker or experiment, and its weights of actions.
    events
        The events.
    first
        Index of the first of them in its request.
    impressions
        Impressions by id, None for unknown ones.
    time
        Time of arrival.
    settings
        Limits of the service.
    salt
        Salt of the hashes of user ids.
    troubles
        Receives examples of feedback without effect.
    """

    def __init__(
        self,
        name: str,
        actions: Mapping[str, float],
        events: Sequence[schema.FeedbackEvent | Rejected],
        first: int,
        impressions: Mapping[str, log.CachedImpression | None],
        time: float,
        settings: Settings,
        salt: bytes | None,
        troubles: FeedbackTroubles,
    ) -> None:
        self._name, self._actions = name, actions
        self._impressions, self._time, self._settings = impressions, time, settings
        self._salt, self._troubles = salt or b"", troubles
        #: The events to append.
        self.new: list[NewEvent] = []
        #: Ids of events about closed impressions: duplicates, or too late.
        self.late: list[str] = []
        self._closing: list[tuple[int, log.CachedImpression]] = []  # indices in `new` of closings, and what they close
        self._feedback: list[int] = []  # indices in `new` of feedback
        self._unknown = 0
        self._invalid: list[schema.Invalid] = []
        for index, event in enumerate(events, first):
            self._add(index, event)

    def _add(self, index: int, event: schema.FeedbackEvent | Rejected) -> None:
        if isinstance(event, Rejected):
            self._invalid.append(schema.Invalid(index, event.event_id, event.reason))
            return
        impression = self._impressions.get(event.impression_id)
        if impression is None:
            self._unknown += 1
            self._troubles.add("impression", event.impression_id)
            return
        key = event.event_id if event.event_id is not None else content_id(event)
        if impression.closed or impression.body is None:
            self.late.append(key)
            return
        try:
            examined = _examined(event, impression.body)
            clicks, seen = self._positions(index, event, impression.body)
            if clicks or seen is not None or event.close or examined is not None or event.removed or not event.clicks:
                parts = (seen or 0, _removed(event, impression.body))
                self._accept(event, key, impression, clicks, examined, *parts)
        except DuelrankError as error:
            self._invalid.append(schema.Invalid(index, event.event_id, str(error)))

    def _positions(
        self, index: int, event: schema.FeedbackEvent, body: log.StoredImpression
    ) -> tuple[list[int], int | None]:
        """Return the positions of the clicked documents, and how many are above a clicked placed one, None without any.

        Documents that were not shown are reported.
        """
        if not event.clicks:
            return [], None
        places = {id: place for place, id in enumerate(body.ids)}
        placed = {id: place for place, id in body.placed.items()}
        missing = [id for id in event.clicks if id not in places and id not in placed]
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            reason = f"not shown in this impression: {', '.join(map(repr, missing[:3]))}{more}"
            self._troubles.add("document", missing[0])
            self._invalid.append(schema.Invalid(index, event.event_id, reason))
        last = max((placed[id] for id in event.clicks if id in placed), default=None)
        seen = None if last is None else free_above(body.placed, last)
        return sorted({places[id] for id in event.clicks if id in places}), seen

    def _accept(
        self,
        event: schema.FeedbackEvent,
        key: str,
        impression: log.CachedImpression,
        clicks: list[int],
        examined: int | None,
        seen: int,
        removed: list[int],
    ) -> None:
        if len(key) > self._settings.max_id:
            raise InvalidValue(f"an event_id has at most {self._settings.max_id} characters")
        user, action = user_hash(event.user_id, self._salt), stored_action(event.action)
        if clicks and event.action not in self._actions:
            self._troubles.add("action", event.action)
        body = log.pack(
            log.StoredFeedback(event.impression_id, clicks, examined, event.time, user, action, seen, removed)
        )
        stored = NewEvent(self._name, log.FEEDBACK, key, self._time, body)
        self._feedback.append(len(self.new))
        self.new.append(stored)
        if event.close:
            self._closing.append((len(self.new), impression))
            # An event with a known id, even of another impression, closes nothing.
            self.new.append(
                log.closing_event(self._name, event.impression_id, impression.number, self._time, follows=True)
            )
            impression.closed = True

    def settle(self, appended: asyncio.Future[list[Receipt]]) -> None:
        """Mark the impressions that were not closed in the log as open again, once, given the future of the append."""
        failed = appended.cancelled() or appended.exception() is not None
        closing, self._closing = self._closing, []
        for place, impression in closing:
            impression.closed = not failed and appended.result()[place].number > 0

    def count(self, receipts: Sequence[Receipt], known: Mapping[str, Event]) -> schema.FeedbackCounts:
        """Return the counts, given the receipts of the log, and the late events that the log already has."""
        accepted = sum(receipts[place].new for place in self._feedback)
        again = sum(key in known for key in self.late)
        return schema.FeedbackCounts(
            accepted=accepted,
            duplicate=len(self._feedback) - accepted + again,
            unknown=self._unknown,
            expired=len(self.late) - again,
            invalid=self._invalid,
        )


def user_hash(id: str | None, salt: bytes) -> bytes:
    """Return the hash of a user id, b"" if there is none: it recognizes a user, and does not reveal who it is."""
    if not id:
        return b""
    return blake2b(id.encode("utf-8", "surrogatepass"), key=salt, digest_size=8).digest()


def _examined(event: schema.FeedbackEvent, body: log.StoredImpression) -> int | None:
    """Return the number of examined positions of a list, without placed documents; None if the event does not have it."""
    shown, examined = body.shown, event.examined
    if isinstance(event, InView):
        if event.document in shown:
            examined = shown.index(event.document) + 1  # more reliable than a position that the client has counted
        elif examined is None:
            raise InvalidValue(f"not shown in this impression: {event.document!r}")
    if examined is None:
        return None
    if not 0 <= examined <= len(shown):
        raise InvalidValue(f"examined is from 0 to {len(shown)}, the number of documents shown, got {examined}")
    return free_above(body.placed, examined)


def _removed(event: schema.FeedbackEvent, body: log.StoredImpression) -> list[int]:
    """Return the positions of removed documents; placed ones, and those that are not in the list, are ignored."""
    removed = frozenset(event.removed)
    return [place for place, id in enumerate(body.ids) if id in removed] if removed else []


def add_counts(counts: Sequence[schema.FeedbackCounts]) -> schema.FeedbackCounts:
    """Return the sum of the counts of the parts of a request."""
    if len(counts) == 1:
        return counts[0]
    names = ("accepted", "duplicate", "unknown", "expired")
    totals = {name: sum(getattr(each, name) for each in counts) for name in names}
    return schema.FeedbackCounts(**totals, invalid=[one for each in counts for one in each.invalid])


def content_id(event: schema.FeedbackEvent) -> str:
    """Return an id for an event that has none, derived from its content."""
    # Stores contain ids of these fields in this order.
    names = ("impression_id", "event_id", "clicks", "examined", "close", "time")
    content = {name: getattr(event, name) for name in names}
    if event.action != CLICK:
        content["action"] = event.action
    if event.removed:
        content["removed"] = event.removed
    return "=" + blake2b(_encode(content), digest_size=16).hexdigest()


# Logged lists of other systems


class LogIntake:
    """Validates the logged lists of one request; an invalid list does not affect the others.

    Parameters
    ----------
    definition
        Definition of the ranker that learns from them.
    settings
        Limits of the service.
    observer
        Receives counts of questionable feature values.
    """

    def __init__(self, definition: Definition, settings: Settings, observer: Observer) -> None:
        self._definition, self._settings, self._observer = definition, settings, observer
        self._reader = DocumentReader(definition, settings)

    def events(
        self, impressions: Sequence[schema.LoggedImpression | Rejected], time: float
    ) -> tuple[list[NewEvent], list[schema.Invalid]]:
        """Return an event for each valid list, and the reasons why the others are invalid."""
        events, invalid = [], []
        for index, each in enumerate(impressions):
            try:
                if isinstance(each, Rejected):
                    raise InvalidValue(each.reason)
                events.append(self._event(each, time))
            except DuelrankError as error:
                id = each.event_id if isinstance(each, Rejected) else each.impression_id
                invalid.append(schema.Invalid(index, id, str(error)))
        return events, invalid

    def _event(self, logged: schema.LoggedImpression, time: float) -> NewEvent:
        id, limit = logged.impression_id, self._settings.max_id
        if not 0 < len(id) <= limit:
            raise InvalidValue(f"an impression_id has from 1 to {limit} characters, got {len(id)}")
        ids, raw = self._reader.read(logged.documents, FeatureTroubles(self._observer), logged.context)
        self._definition.query(raw)  # raises if it cannot be ranked
        shown = len(ids) if logged.shown is None else whole_number("shown", logged.shown, 1, len(ids))
        examined = logged.examined
        if examined is not None:
            whole_number("examined", examined, 0, shown)
        places = {id: place for place, id in enumerate(ids[:shown])}
        given: Mapping[str, Sequence[str]] = {**logged.actions, CLICK: [*logged.clicks, *logged.actions.get(CLICK, ())]}
        actions = {
            stored_action(name) or CLICK: sorted({_place(id, places) for id in where})
            for name, where in given.items()
            if where
        }
        weights = self._definition.spec.actions
        if weights.keys().isdisjoint(actions):  # its id stays free: it may be sent again when its clicks have arrived
            raise InvalidValue(f"no action with a weight of this ranker: {', '.join(weights) or 'it has none'}")
        query = stored_query(logged, self._settings, self._definition)
        body = log.StoredLog(
            shown, actions, examined, self._definition.names_digest, query, ids[:shown] if query else []
        )
        name = self._definition.spec.name
        return NewEvent(name, log.LOGGED, checked_text("key", id), time, log.pack(body), log.pack_features(raw))


def _place(id: str, places: Mapping[str, int]) -> int:
    if id not in places:
        raise InvalidValue(f"an action names the document {id!r}, which was not shown")
    return places[id]
