"""The service: rank, feedback, learn. Everything it has promised is in the store before it answers."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from secrets import token_bytes
from typing import Literal, get_args

import msgspec

from duelrank.api import (
    BackfillCounts,
    Change,
    Comparison,
    FeatureCurve,
    FeedbackCounts,
    FeedbackEvent,
    GuardInfo,
    GuardSpec,
    History,
    ImpressionInfo,
    LastStep,
    LoggedImpression,
    ModelCurves,
    RankAnswer,
    RankedDocument,
    RankerInfo,
    RankerSpec,
    RankRequest,
    VersionInfo,
)
from duelrank.core.errors import Conflict, InvalidValue, LimitExceeded, NotReady, ReadOnly, UnknownName
from duelrank.core.types import Features
from duelrank.core.validation import printable_name, whole_number
from duelrank.export import LinearModel
from duelrank.representation.curves import ShownCurve
from duelrank.serving.backfill import LogIntake
from duelrank.serving.clock import Clock
from duelrank.serving.feedback import Intake, Rejected, add_counts, closing
from duelrank.serving.leader.election import Election
from duelrank.serving.leader.learner import Learner
from duelrank.serving.leader.retention import remove_creation
from duelrank.serving.leader.viewer import Viewer
from duelrank.serving.log.appender import Appender
from duelrank.serving.log.attachments import pack_features
from duelrank.serving.log.bodies import (
    CONTROL,
    CREATED,
    DELETED,
    IMPRESSION,
    RANKERS,
    SALT,
    Control,
    Created,
    Deleted,
    StoredImpression,
    pack,
    pack_state,
    unpack,
)
from duelrank.serving.log.impressions import Impressions, KnownImpression, RecentImpressions, read_attached
from duelrank.serving.log.tail import Tail
from duelrank.serving.observer import GuardEvent, Observer
from duelrank.serving.ranker.comparing import compare, recent_impressions
from duelrank.serving.ranker.definition import Definition, check_names, settled
from duelrank.serving.ranker.documents import DocumentReader, Troubles
from duelrank.serving.ranker.guarding import event_sentence
from duelrank.serving.ranker.history import STEPS, Step
from duelrank.serving.ranker.machine import MOST_LABELS
from duelrank.serving.ranker.rankers import Ranker, Rankers, read_history
from duelrank.serving.ranker.start import beginning_of, default_representation
from duelrank.serving.ranker.steps import explain_step
from duelrank.serving.ranker.versions import Version, Versions
from duelrank.serving.settings import Settings
from duelrank.serving.webhooks import Webhooks, check_public
from duelrank.storage import NewEvent, Receipt, Storage
from duelrank.storage.values import checked_text

__all__ = ["Service"]

logger = logging.getLogger("duelrank.serving")

Action = Literal["freeze", "resume", "rollback", "pin", "unpin"]

# Seconds that a change of a ranker may take until a leader has applied it.
PATIENCE = 15.0
# Seconds between two looks whether it has.
LOOK = 0.02
# Characters of the label of a version.
MOST_LABEL = 100
# So many feedback events are taken at once: the event loop sees to other requests in between.
SLICE = 200
# A request with more feature values than that is computed in a thread: the event loop must not stand still meanwhile.
INLINE_VALUES = 20_000
# So many impressions are shown that can be ranked again.
RECENT = 30


class Service:
    """Rankers in a store, served and taught. All coroutines belong to the event loop that `start` was called in.

    Errors: `NotReady` before everything was restored, `UnknownName` for a ranker that does not exist, `Conflict` for a name or
    an id that is taken by another one, `LimitExceeded` for too much of something, `InvalidValue`, `ShapeMismatch` and
    `InvalidRecipe` for what makes no sense, `ReadOnly` where it only looks, `StorageFailure` (whose ``retryable`` says whether to
    try again) where the store does not do its part.

    Parameters
    ----------
    storage
        The store, which the service does not close.
    settings
        Limits and times.
    clock
        For tests.
    read_only
        Only look: take no lease, write nothing, learn nothing, and refuse what would change the store. Another process may serve
        from the store meanwhile; what it does is seen.

    Examples
    --------
    A service without HTTP, with a store in memory:

    >>> import asyncio
    >>> from duelrank.api import Document, FeedbackEvent, RankerSpec, RankRequest
    >>> from duelrank.serving import Service
    >>> from duelrank.storage import open_storage
    >>> async def first_click():
    ...     with open_storage("sqlite://") as storage:
    ...         service = Service(storage)
    ...         await service.start()
    ...         await service.wait_ready()
    ...         await service.create(RankerSpec("shop", "mgd-dsp", ["bm25", "price"]))
    ...         documents = [Document("d1", [0.3, 0.9]), Document("d2", [0.8, 0.1])]
    ...         answer = await service.rank("shop", RankRequest(documents, impression_id="i1"))
    ...         counts = await service.feedback("shop", [FeedbackEvent("i1", ["d2"], close=True)])
    ...         await service.stop()
    ...     return len(answer.ranking), counts.accepted
    >>> asyncio.run(first_click())
    (2, 1)
    """

    def __init__(
        self,
        storage: Storage,
        settings: Settings | None = None,
        clock: Clock | None = None,
        read_only: bool = False,
    ) -> None:
        self.read_only = read_only
        #: Whether the process was told to stop: what would go on without end, such as a live stream, has to end.
        self.ending = False
        #: What kept it from writing down all that was learned when it stopped; the event log has it all the same.
        self.unsaved: Exception | None = None
        self.storage, self.settings, self._clock = storage, settings or Settings(), clock or Clock()
        self._rankers = Rankers(storage)
        self._recent, self._tail = RecentImpressions(self.settings.recent), Tail()
        self._impressions = Impressions(storage, self._recent, self.settings.max_id, lambda: self.leads)
        self._election: Election | Viewer | None = None
        self._webhooks = Webhooks(private=self.settings.private_webhooks)
        self._readers: dict[str, tuple[Definition, DocumentReader]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._appender: Appender | None = None
        self._changed: asyncio.Event | None = None  # set whenever something that a coroutine may wait for has changed

    @property
    def observer(self) -> Observer:
        """Who is told what happens."""
        return self._rankers.observer

    @observer.setter
    def observer(self, observer: Observer) -> None:
        self._rankers.observer = observer

    @property
    def ready(self) -> bool:
        """Whether all rankers were restored, so that requests can be answered."""
        return self._election is not None and self._election.ready

    @property
    def leads(self) -> bool:
        """Whether this process is the one that learns."""
        return self._election is not None and self._election.leads

    @property
    def failure(self) -> Exception | None:
        """What keeps the background from going on, None where nothing does; it is tried again every second."""
        return None if self._election is None else self._election.failure

    def claim(self) -> None:
        """Take the store; raise `StoreLocked` where it is for one process, and another one has it."""
        if self._election is None and self.read_only:
            self._election = Viewer(self.storage, self.settings, self._rankers, self._tell)
        elif self._election is None:
            parts = (self.storage, self.settings, self._clock, self._rankers)
            self._election = Election(*parts, self._make_learner, self._tell)
        self._election.claim()

    def _make_learner(self) -> Learner:
        parts = (self.storage, self.settings, self._clock, self._rankers, self._recent, self._tail)
        return Learner(*parts, self._ask_to_close, self._announce)

    def _announce(self, name: str, event: GuardEvent, info: GuardInfo) -> None:
        """Tell everybody what a guard has done; from the learner's thread."""
        said = f"guard of {name!r}: {event_sentence(event, info)}"
        logger.log(logging.ERROR if event == "alarm" else logging.INFO, said)
        self.observer.guard_event(name, event, info)
        if (address := info.guard.webhook or self.settings.webhook) is not None:
            self._webhooks.tell(address, event, info)

    async def start(self) -> None:
        """Begin to restore, to serve and to learn in the background; returns at once, see `wait_ready`."""
        if self._appender is not None:
            return
        self._loop, self._changed = asyncio.get_running_loop(), asyncio.Event()
        self._rankers.tell = self._tell
        self.claim()
        self._appender = Appender(self.storage.log, self._tail.tell)
        assert self._election is not None
        self._election.start()

    async def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until it is ready; raises what keeps it from that (`NotReady` where it is only time)."""

        def settled() -> bool:
            failure = self.failure
            if failure is not None and not getattr(failure, "retryable", False):
                raise failure
            return self.ready or self._election is None

        try:
            await self._until(settled, timeout)
        except TimeoutError:
            raise self.failure or NotReady("the service has not restored its rankers yet") from None
        if not self.ready:
            raise NotReady("the service was stopped")

    async def _until(self, condition: Callable[[], bool], timeout: float | None) -> None:
        """Wait for a condition, which is looked at whenever something has changed."""
        async with asyncio.timeout(timeout):
            while not condition():
                if self._changed is None:
                    raise NotReady("the service was not started")
                changed = self._changed
                await changed.wait()

    def _tell(self, deleted: str | None = None) -> None:
        """Wake all coroutines that wait for something, and forget a ranker that is gone; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake_waiting, deleted)

    def _wake_waiting(self, deleted: str | None = None) -> None:
        if deleted is not None:
            self._recent.forget(deleted)
            self._readers.pop(deleted, None)
        changed, self._changed = self._changed, asyncio.Event()
        if changed is not None:
            changed.set()

    async def stop(self) -> None:
        """End the background, having saved what was learned; may be called twice."""
        election, self._election = self._election, None
        if election is not None and self._appender is not None:
            await self._appender.settled()
            await asyncio.to_thread(election.stop)
            self.unsaved = election.unsaved
            await asyncio.to_thread(self._webhooks.close)
            self._impressions.close()
            self._wake_waiting()

    async def create(self, spec: RankerSpec) -> tuple[RankerInfo, bool]:
        """Create a ranker, and say whether it is new; the same spec again changes nothing, another one is a `Conflict`.

        The representation of a spec that has none is that of what it starts from, or the default of the service; of one that
        was created before, its own.
        """
        self._check_ready()
        self._check_writable()
        created, asked = False, spec
        known = self._rankers.by_name.get(spec.name)
        if known is None:
            spec = settled(asked, await asyncio.to_thread(default_representation, asked, self._version_of))
            start = await asyncio.to_thread(beginning_of, spec, self._version_of)
            definition = await asyncio.to_thread(Definition, spec, self._clock.time(), start.weights, 0, start.knots)
            definition.check_limits(self.settings)
            self._check_webhook(spec.guard)
            definition.check_new()
            await asyncio.to_thread(definition.warm_up)  # before it is in the log: what cannot rank must not get there
            if len(self._rankers.by_name) >= self.settings.max_rankers:
                raise LimitExceeded(f"there may be at most {self.settings.max_rankers:,} rankers")
            salt = token_bytes(16) if self.settings.salt is None else self.settings.salt
            body = pack(Created(spec, *start, salt))
            created = (await self._append([NewEvent(RANKERS, CREATED, spec.name, definition.created, body)]))[0].new
            await asyncio.to_thread(self._rankers.refresh)
            self._wake()
            if spec.name not in self._rankers.by_name and spec.name not in self._rankers.broken:
                raise NotReady(f"the ranker {spec.name!r} is just being deleted; try again in a moment")
            known = self._rankers[spec.name]
        if not created and not await asyncio.to_thread(_same, asked, known.created):
            raise Conflict(f"there is a ranker {spec.name!r} already, with another spec; choose another name")
        return known.info(), created

    async def change(self, name: str, change: Change) -> RankerInfo:
        """Change the definition of a ranker, without losing what it has learned; returns when it has happened."""
        ranker = await self._ranker(name)
        self._check_webhook(change.guard)
        after = await asyncio.to_thread(ranker.version.definition.changed, change)
        after.check_limits(self.settings)
        check_names(change.add_features, change.actions or ())
        await asyncio.to_thread(after.warm_up)
        return await self._control(name, ranker, Control("change", change=change))

    async def delete(self, name: str) -> None:
        """Delete a ranker with all that belongs to it; the name is free when it returns."""
        self._check_ready()
        self._check_writable()
        broken = self._rankers.broken.get(name)
        deleted = Deleted(name, (await self._ranker(name)).created.number if broken is None else broken[0])
        event = NewEvent(RANKERS, DELETED, f"{name}/{deleted.number}", self._clock.time(), pack(deleted))
        number = (await self._append([event]))[0].number
        # The name is free only when nothing is left of what ids of impressions and events could meet; the leader does the rest.
        await asyncio.to_thread(self.storage.log.delete, name, number)
        await asyncio.to_thread(remove_creation, self.storage, deleted)
        await asyncio.to_thread(self._rankers.refresh)
        self._wake()

    def rankers(self) -> list[RankerInfo]:
        """Return all rankers, by name."""
        self._check_ready()
        return [ranker.info() for _, ranker in sorted(self._rankers.by_name.items())]

    def ranker(self, name: str) -> RankerInfo:
        """Return one ranker; may read the store."""
        return self._known(name).info()

    def _known(self, name: str) -> Ranker:
        """Return a ranker to look at, also one that another process has created a moment ago."""
        self._check_ready()
        if name not in self._rankers and self.storage.shared:
            self._rankers.refresh()
        return self._rankers[name]

    def guard(self, name: str) -> GuardInfo:
        """Return how a guarded ranker does against the client's own order; may read the store."""
        found = self._known(name).guard()
        if found is None:
            raise InvalidValue(
                f'the ranker {name!r} has no guard; give it one with a change, such as {{"guard": {{}}}}'
            )
        return found

    def history(
        self, name: str, step: Step = "minute", start: float | None = None, end: float | None = None
    ) -> History:
        """Return what a ranker did over time; reads the store.

        Parameters
        ----------
        name
            Of the ranker.
        step
            "minute", "hour" or "day".
        start, end
            Seconds since 1970; the newest 2,000 steps between them are returned.
        """
        if step not in STEPS:
            raise InvalidValue(f"a step is {', '.join(STEPS)}; got {step!r}")
        return read_history(self.storage, self._known(name), step, start, end)

    async def rank(self, name: str, request: RankRequest) -> RankAnswer:
        """Return the ranking to show; when it returns, the impression is in the store."""
        ranker = await self._ranker(name)
        id = self._checked_id(request.impression_id)
        version, reader = ranker.version, self._reader(name, ranker.version.definition)
        if isinstance(request.documents, list):
            n_values = len(request.documents) * len(version.definition.spec.features)
        else:
            n_values = len(request.documents.features) // 4
        known = self._recent.get(name, id)
        if n_values <= INLINE_VALUES:
            ids, raw, stored, attachment = self._make(reader, version, id, request, known)
        else:
            ids, raw, stored, attachment = await asyncio.to_thread(self._make, reader, version, id, request, known)
        if known is None or known.body is None:
            known = await self._append_impression(name, id, stored, attachment)
            if known.body is stored:
                self.observer.ranked(name, len(ids))
        assert known.body is not None
        if known.body is not stored and not known.body.is_of(ids):
            raise Conflict(f"the impression {id!r} exists, and was made of other documents; use a new impression_id")
        if request.explain:
            return await self._explain(name, ranker, id, known, raw if known.body is stored else None)
        return _answer(id, known.body)

    def _make(
        self, reader: DocumentReader, version: Version, id: str, request: RankRequest, known: KnownImpression | None
    ) -> tuple[list[str], Features, StoredImpression | None, bytes]:
        """Read the documents, and order them where the impression is not known."""
        definition, troubles = version.definition, Troubles(self.observer)
        length = definition.spec.length if request.length is None else request.length
        whole_number("length", length)
        ids, raw = reader.read(request.documents, troubles)
        if known is not None and known.body is not None:
            return ids, raw, None, b""
        pinned = None if version.pin is None else version.pin[1]
        share = version.learned_share
        order, way, teams = definition.order(version.state, version.frozen, id, raw, length, pinned, share)
        rest = (troubles.missing, troubles.out_of_range, definition.names_digest)
        return ids, raw, StoredImpression.of(version.version, ids, order, way, teams, *rest), pack_features(raw)

    async def _append_impression(
        self, name: str, id: str, stored: StoredImpression | None, attachment: bytes
    ) -> KnownImpression:
        """Append an impression; where there is one under this id already, that is the impression."""
        assert stored is not None
        event = NewEvent(name, IMPRESSION, id, self._clock.time(), pack(stored), attachment)
        receipt = (await self._append([event]))[0]
        self._wake()
        if receipt.new:
            return self._recent.put(name, id, KnownImpression(receipt.number, stored, attachment))
        found = (await self._impressions.find(name, [id]))[id]
        if found is None or found.body is None:
            raise Conflict(f"the impression {id!r} was made long ago and is gone; use a new impression_id")
        return found

    async def _explain(
        self, name: str, ranker: Ranker, id: str, known: KnownImpression, raw: Features | None
    ) -> RankAnswer:
        """Return a ranking with the scores of its documents, by the version that it was made from."""
        body = known.body
        assert body is not None
        if raw is None:
            raw = await self._impressions.read(lambda: read_attached(self.storage, name, known.number))
        version = await self._version(ranker, body.version)
        if raw is None or version is None:
            return _answer(id, body)  # what it was made of is gone; the order is not
        return await asyncio.to_thread(_explained, id, body, version, raw)

    def _reader(self, name: str, definition: Definition) -> DocumentReader:
        known = self._readers.get(name)
        if known is None or known[0] is not definition:
            known = self._readers[name] = definition, DocumentReader(definition, self.settings)
        return known[1]

    async def feedback(self, name: str, events: Sequence[FeedbackEvent | Rejected]) -> FeedbackCounts:
        """Take what users did; when it returns, the accepted events are in the store."""
        await self._ranker(name)
        if len(events) > self.settings.max_events:
            raise LimitExceeded(f"a request has at most {self.settings.max_events:,} events, got {len(events):,}")
        starts = range(0, len(events), SLICE) or [0]
        counts = add_counts([await self._take(name, events[start : start + SLICE], start) for start in starts])
        self._wake()
        for outcome in ("accepted", "duplicate", "unknown", "expired"):
            if count := getattr(counts, outcome):
                self.observer.fed(name, outcome, count)
        if counts.invalid:
            self.observer.fed(name, "invalid", len(counts.invalid))
        return counts

    async def _take(self, name: str, events: Sequence[FeedbackEvent | Rejected], first: int) -> FeedbackCounts:
        """Take some events of a request."""
        assert self._appender is not None
        ids = {event.impression_id for event in events if isinstance(event, FeedbackEvent)}
        impressions = await self._impressions.find(name, ids)
        if self._rankers.salt is None and any(isinstance(event, FeedbackEvent) and event.user_id for event in events):
            await self._make_salt()
        intake = Intake(name, events, first, impressions, self._clock.time(), self.settings, self._rankers.salt)
        receipts = None
        try:
            receipts = await self._append(intake.new) if intake.new else []
        finally:
            intake.settle(receipts)
        if not intake.late:
            return intake.count(receipts, {})
        await self._appender.settled()  # what came before, also in other requests, is in the log
        return intake.count(receipts, await self._impressions.events(name, intake.late))

    async def backfill(self, name: str, impressions: Sequence[LoggedImpression | Rejected]) -> BackfillCounts:
        """Teach a ranker with lists that another system ranked, before it learns from its own.

        When it returns, the accepted ones are in the store; they teach in the background.
        """
        ranker = await self._ranker(name)
        _check_teachable(ranker)
        if len(impressions) > self.settings.max_events:
            raise LimitExceeded(f"a request has at most {self.settings.max_events:,} lists, got {len(impressions):,}")
        intake = LogIntake(ranker.version.definition, self.settings, self.observer)
        events, invalid = await asyncio.to_thread(intake.events, impressions, self._clock.time())
        receipts = await self._append(events) if events else []
        self._wake()
        accepted = sum(receipt.new for receipt in receipts)
        counts = {"accepted": accepted, "duplicate": len(receipts) - accepted, "invalid": len(invalid)}
        for outcome, count in counts.items():
            if count:
                self.observer.backfilled(name, outcome, count)
        return BackfillCounts(accepted, len(receipts) - accepted, invalid)

    def check_teachable(self, name: str) -> None:
        """Raise where lists of other systems cannot teach a ranker (any more); for those who only look, too."""
        _check_teachable(self._known(name))

    async def _make_salt(self) -> None:
        """Choose what ids of users are hashed with in this store, once; where two processes do, the first one counts."""
        event = NewEvent(RANKERS, SALT, SALT, self._clock.time(), pack(os.urandom(16)))
        await self._append([event])
        await asyncio.to_thread(self._rankers.refresh)

    async def control(self, name: str, action: Action, version: int | None = None) -> RankerInfo:
        """Change how a ranker goes on; returns when it has happened.

        Parameters
        ----------
        name
            Of the ranker.
        action
            "freeze" stops to learn and to explore, "resume" goes on; "rollback" goes back to a version, which becomes a new
            one; "pin" makes a shadow serve a version, in place of the client's order, "unpin" ends that.
        version
            To go back to, or to serve.
        """
        ranker = await self._ranker(name)
        if action not in get_args(Action):
            raise InvalidValue(f"a ranker can {', '.join(get_args(Action))}; got {action!r}")
        definition = ranker.version.definition
        if action in ("pin", "unpin") and definition.spec.mode != "shadow":
            raise InvalidValue(
                f"{name!r} is not a shadow, so it has no version to pin: it serves what it has learned, until you freeze it"
            )
        state, features = None, None
        if action in ("rollback", "pin"):
            if version is None:
                raise InvalidValue(f"to {action}, name the version")
            found = await self._version(ranker, version)
            if found is None:
                raise _no_version(name, version)
            state, features = pack_state(found.state), found.definition.spec.features
        return await self._control(name, ranker, Control(action, version, state, features=features))

    async def _control(self, name: str, ranker: Ranker, control: Control) -> RankerInfo:
        """Append what an operator said, and wait until a version that knows it is served."""
        event = NewEvent(name, CONTROL, os.urandom(12).hex(), self._clock.time(), pack(control))
        number = (await self._append([event]))[0].number
        self._wake()
        try:
            await self._until(lambda: ranker.version.number > number, PATIENCE)
        except TimeoutError:
            raise _noted(name) from None
        return ranker.info()

    def versions(self, name: str) -> list[VersionInfo]:
        """Return the versions that one can go back to, oldest first; reads the store."""
        self._check_ready()
        ranker = self._rankers[name]
        current = ranker.version.version
        stored, labels = Versions(self.storage, ranker.created), ranker.newest_status().labels
        lasting = stored.lasting(self.settings.keep_versions, self._clock.time(), labels)
        made = [(each.number, each.time, stored.event_of(each.number)) for each in lasting]
        first = Version.first(ranker.created)
        return [
            VersionInfo(version, time, number, version == current, labels.get(version, ""))
            for version, time, number in [(1, first.time, first.number), *made]
            if number is not None
        ]

    async def label(self, name: str, version: int, label: str) -> VersionInfo:
        """Keep a version under a label, or with "" no longer; returns when it has happened."""
        ranker = await self._ranker(name)
        labels = ranker.newest_status().labels
        if label:
            printable_name("a label", label, MOST_LABEL)
            if await self._version(ranker, version) is None:
                raise _no_version(name, version)
            if version not in labels and len(labels) >= MOST_LABELS:
                raise LimitExceeded(
                    f"{name!r} has {len(labels)} versions with a label, which is the most; remove one first"
                )
        elif version not in labels:
            raise UnknownName(f"version {version} of {name!r} has no label")
        await self._labelled(name, ranker, Control("label", version, label=label))
        found = await self._version(ranker, version)
        if found is None:  # it was removed in the same moment
            await self._labelled(name, ranker, Control("label", version))
            raise _no_version(name, version)
        labels = ranker.newest_status().labels
        return VersionInfo(version, found.time, found.number, found is ranker.version, labels.get(version, ""))

    async def _labelled(self, name: str, ranker: Ranker, control: Control) -> None:
        """Append a label, and wait until it is known here that the leader has applied it; no version is made of it."""
        event = NewEvent(name, CONTROL, os.urandom(12).hex(), self._clock.time(), pack(control))
        number = (await self._append([event]))[0].number
        self._wake()
        try:
            async with asyncio.timeout(PATIENCE):
                while ranker.newest_status().number < number:
                    await asyncio.sleep(LOOK)
        except TimeoutError:
            raise _noted(name) from None

    def model(self, name: str, version: int | None = None) -> LinearModel:
        """Return the model of a version, or the current one; an earlier one is read from the store."""
        found = self._version_of(name, version)
        return found.definition.model(found.version, found.state)

    def curves(self, name: str, version: int | None = None) -> ModelCurves:
        """Return what each feature adds to the score, in a version or the current one; the most important first."""
        found = self._version_of(name, version)
        shown = found.definition.curves(found.state)
        return ModelCurves(name, found.version, [_feature_curve(each) for each in shown])

    def last_step(self, name: str) -> LastStep:
        """Return what was learned from the last impression, computed once more; reads the store.

        Only the process that learns knows. Once the features of the impression were dropped, there is nothing to tell any more.
        """
        self._check_ready()
        ranker = self._rankers[name]
        if not self.leads:
            raise NotReady("another process learns, and only that one knows its last step; ask again to reach it")
        kept = None if ranker.machine is None else ranker.machine.last_step
        if kept is None:
            raise UnknownName(f"{name!r} has learned from no impression since this process began to learn")
        event = self.storage.log.find(name, IMPRESSION, [kept.id]).get(kept.id)
        stored = unpack(event.body, StoredImpression) if event is not None and event.body else None
        raw = None if stored is None else read_attached(self.storage, name, kept.impression.number)
        if stored is None or raw is None:
            raise UnknownName(f"the features of the last impression that {name!r} has learned from were dropped")
        return explain_step(kept, stored, raw, ranker.version.version)

    def impressions(self, name: str) -> list[ImpressionInfo]:
        """Return the newest impressions whose features are still there, newest first; reads the store."""
        self._check_ready()
        return recent_impressions(self.storage, self._rankers[name].created.spec.name, RECENT)

    def compare(self, name: str, id: str, one: int | None = None, other: int | None = None) -> Comparison:
        """Return how two versions rank an impression, by default the first and the current one; reads the store."""
        self._check_ready()
        ranker = self._rankers[name]
        versions = self._version_of(name, 1 if one is None else one), self._version_of(name, other)
        return compare(
            self.storage, name, checked_text("key", id), *versions, lambda each: self._stored_version(ranker, each)
        )

    def lag(self) -> int:
        """Return how many events of the log the learner has not applied yet, as far as this process knows; reads the store."""
        self._check_ready()
        last, applied = self.storage.log.last_number(), None if self._election is None else self._election.applied
        if applied is None:  # another process learns: it tells how far each ranker has come
            applied = max((ranker.status.number for ranker in self._rankers.by_name.values()), default=last)
        return max(0, last - applied)

    def _version_of(self, name: str, version: int | None = None) -> Version:
        """Return a version of a ranker, or the current one; may read the store."""
        self._check_ready()
        ranker = self._rankers[name]
        found = self._stored_version(ranker, ranker.version.version if version is None else version)
        if found is None:
            raise _no_version(name, version)
        return found

    def _stored_version(self, ranker: Ranker, version: int) -> Version | None:
        if version == ranker.version.version:
            return ranker.version
        if version == 1:
            return Version.first(ranker.created)
        return Versions(self.storage, ranker.created).load(version) if version > 1 else None

    async def _version(self, ranker: Ranker, version: int) -> Version | None:
        if version in (1, ranker.version.version):
            return self._stored_version(ranker, version)
        return await self._impressions.read(lambda: self._stored_version(ranker, version))

    async def _ranker(self, name: str) -> Ranker:
        """Return a ranker to do something with, also one that another process has created a moment ago."""
        self._check_ready()
        self._check_writable()
        if name not in self._rankers and self.storage.shared:
            await asyncio.to_thread(self._rankers.refresh)
        return self._rankers[name]

    def _check_ready(self) -> None:
        if not self.ready:
            raise NotReady("the service has not restored its rankers yet, or was stopped")

    def _check_writable(self) -> None:
        if self.read_only:
            raise ReadOnly(
                "this store is only looked at here: nothing is ranked, learned or changed; that takes 'duelrank serve'"
            )

    def _check_webhook(self, guard: GuardSpec | msgspec.UnsetType | None) -> None:
        if isinstance(guard, GuardSpec) and guard.webhook is not None and not self.settings.private_webhooks:
            check_public(guard.webhook)

    def _checked_id(self, given: str | None) -> str:
        if given is None:
            return os.urandom(12).hex()
        if not 0 < len(given) <= self.settings.max_id:
            raise InvalidValue(f"an impression_id has from 1 to {self.settings.max_id} characters, got {len(given)}")
        return checked_text("key", given)

    async def _append(self, events: Sequence[NewEvent]) -> list[Receipt]:
        assert self._appender is not None
        return await self._appender.append(events)

    def _wake(self) -> None:
        if self._election is not None:
            self._election.wake()

    def _ask_to_close(self, name: str, impressions: dict[str, int]) -> None:
        """Close impressions, from the learner's thread; in the loop, so that feedback before it counts and none after it does."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close, name, impressions)

    def _close(self, name: str, impressions: dict[str, int]) -> None:
        time, closed = self._clock.time(), []
        for id in impressions:
            known = self._recent.get(name, id)
            if known is not None and not known.closed:
                known.closed = True
                closed.append(known)
        assert self._appender is not None
        done = self._appender.append([closing(name, id, number, time) for id, number in impressions.items()])

        def settle(future: asyncio.Future[list[Receipt]]) -> None:
            failed = future.cancelled() or future.exception() is not None
            for known in closed:
                known.closed = not failed
            self._wake()

        done.add_done_callback(settle)


def _check_teachable(ranker: Ranker) -> None:
    """Raise where lists of other systems cannot teach a ranker (any more)."""
    info = ranker.info()
    _ = ranker.version.definition.log_learner  # raises where the algorithm cannot take over what they teach
    if info.learned:
        raise Conflict(
            f"{info.name!r} has learned from {info.learned:,} lists of its own, which lists of another system would undo; teach "
            "a new ranker with them, before it gets traffic"
        )
    if info.frozen:
        raise Conflict(f"{info.name!r} is frozen, so it learns nothing; resume it first")
    guard = ranker.guard()
    if guard is not None and guard.state == "alarm":
        raise Conflict(f"the guard of {info.name!r} has raised an alarm, so it learns nothing; resume it first")


def _answer(id: str, body: StoredImpression) -> RankAnswer:
    return RankAnswer(id, body.version, [RankedDocument(shown, place) for place, shown in enumerate(body.shown, 1)])


def _explained(id: str, body: StoredImpression, version: Version, raw: Features) -> RankAnswer:
    """Return a ranking with the scores of its documents, and what each feature adds to them."""
    definition = version.definition
    shares = definition.shares(version.state, raw)
    ranking = []
    for place, (shown, document) in enumerate(zip(body.shown, body.order, strict=True), 1):
        parts = dict(zip(definition.spec.features, shares[document].tolist(), strict=True))
        ranking.append(RankedDocument(shown, place, float(shares[document].sum()), parts))
    return RankAnswer(id, body.version, ranking)


def _same(spec: RankerSpec, known: Definition) -> bool:
    """Whether a spec means what a ranker was created with; a representation that it does not give may be any."""
    own = known.spec.representation
    assert own is not None
    if spec.features != known.spec.features:  # fixed scalings by name are of these features
        return False
    return known.same_as(Definition(settled(spec, own), 0.0))


def _feature_curve(shown: ShownCurve) -> FeatureCurve:
    curve, seen = shown.curve, (shown.edges.tolist(), shown.shares.tolist())
    points = (curve.values.tolist(), curve.heights.tolist())
    return FeatureCurve(shown.name, shown.domain, *points, curve.shape, shown.importance, *seen)


def _noted(name: str) -> NotReady:
    return NotReady(f"the change of {name!r} is noted, and happens as soon as a process learns again")


def _no_version(name: str, version: int | None) -> UnknownName:
    return UnknownName(f"version {version} of {name!r} is not there (any more); see its versions")
