"""The service: ranks documents and takes feedback; everything that it acknowledges is in the store before it answers."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from secrets import token_bytes
from time import monotonic, sleep
from typing import Literal, get_args

import msgspec

from duelrank.core.errors import Conflict, InvalidValue, LimitExceeded, NotReady, ReadOnly, StoreLocked, UnknownName
from duelrank.core.memory import completed
from duelrank.core.types import NO_BOOSTS, Features, Memory, State, frozen
from duelrank.core.validation import printable_name, whole_number
from duelrank.evidence import GuardSpec
from duelrank.export import Model
from duelrank.export.pinned import PinnedQuery
from duelrank.placing import Placement, free_above
from duelrank.representation.base import split_missing
from duelrank.representation.fixed import write_representation
from duelrank.service import intake, log, views
from duelrank.service.channel import FrontChannel, SaveStep
from duelrank.service.definition import (
    EXPLORED,
    GREEDY,
    OLD,
    Change,
    Definition,
    RankerSpec,
    Step,
    check_names,
    converted,
    declared_missing,
    default_representation,
    initial_state,
    normalized,
    with_products,
)
from duelrank.service.experiments import ExperimentDefinition, ExperimentSpec
from duelrank.service.follower import Background, Front
from duelrank.service.history import STEPS
from duelrank.service.http import schema
from duelrank.service.intake import (
    DocumentReader,
    FeatureTroubles,
    FeedbackIntake,
    FeedbackTroubles,
    LogIntake,
    Rejected,
    add_counts,
    check_ids,
    user_hash,
)
from duelrank.service.leader import Leader
from duelrank.service.machine import MAX_LABELS, LearnedStep, learned_state
from duelrank.service.rankers import Experiment, Ranker, Rankers, StoredStep, Version, VersionStore, newest_checkpoint
from duelrank.service.refit import refitted, stored_lists
from duelrank.service.retention import remove_creation
from duelrank.service.settings import ONE_SERVER, SERVING, Clock, Observer, Settings
from duelrank.service.viewer import Viewer
from duelrank.service.webhooks import check_public
from duelrank.storage import Lease, NewEvent, Receipt, Storage
from duelrank.storage.base import checked_text

logger = logging.getLogger("duelrank.service")

Action = Literal["freeze", "resume", "rollback", "pin", "unpin"]

#: Seconds that a change of a ranker may take until a leader has applied it, and seconds between two checks.
CONTROL_TIMEOUT, CONTROL_POLL = 15.0, 0.02
#: Seconds in which the learner must have saved the last step of a ranker.
STEP_TIMEOUT = 3.0
#: The maximum number of characters in the label of a version.
MAX_LABEL = 100
#: The number of feedback events that are processed at once, in about a millisecond; other requests are handled in between.
FEEDBACK_SLICE = 50
#: Requests with more feature values are computed in a thread, so that they do not block the event loop.
INLINE_VALUES = 20_000
#: The maximum number of queries in an answer about the memory.
MAX_REMEMBERED = 100
#: The maximum numbers of queries, and of documents of each, in an export of the memory.
MAX_PINNED_QUERIES, MAX_PINNED_DOCUMENTS = 10_000, 100
#: The number of impressions in the list of recent ones.
RECENT_IMPRESSIONS = 30


class Service:
    """Serves the rankers of a store, and learns. All coroutines belong to the event loop in which `start` was called.

    Errors: `NotReady` before everything was restored, `UnknownName` for a ranker that does not exist, `Conflict` for a name or
    an id that is in use, `LimitExceeded` for requests that exceed a limit, `InvalidValue`, `ShapeMismatch` and `InvalidRecipe` for
    invalid requests, `ReadOnly` for changes of a read-only service, `StorageFailure` for failures of the store (its ``retryable``
    says whether to try again).

    Parameters
    ----------
    storage
        The store, which the service does not close.
    settings
        Limits and intervals.
    clock
        Clocks, for tests.
    read_only
        Whether to acquire no lease, write nothing, learn nothing, and refuse changes. Another process may serve from the store at
        the same time; its changes are visible.
    channel
        Messages from and to a process that learns (see `duelrank.service.leader.learn`); None to learn in a thread of this process.

    Examples
    --------
    A service without HTTP, with a store in memory:

    >>> import asyncio
    >>> from duelrank.service import Service
    >>> from duelrank.service.http.schema import Document, FeedbackEvent, RankerSpec, RankRequest
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
        channel: FrontChannel | None = None,
    ) -> None:
        self.read_only, self._channel = read_only, channel
        #: Whether the process was asked to stop: endless answers, such as live streams, have to end.
        self.ending = False
        #: Why the newest checkpoints could not be saved when it stopped; the event log is complete all the same.
        self.unsaved: Exception | None = None
        self.storage, self.settings, self._clock = storage, settings or Settings(), clock or Clock()
        self._rankers = Rankers(storage, learns=channel is None)
        self._recent, self._tail = log.ImpressionCache(self.settings.recent), log.Tail(channel)
        self._impressions = log.ImpressionFinder(storage, self._recent, self.settings.max_id)
        self._background: Background | None = None
        self._appender: log.Appender | None = None
        self._lease: Lease | None = None

    @property
    def observer(self) -> Observer:
        """The observer that receives events."""
        return self._rankers.observer

    @observer.setter
    def observer(self, observer: Observer) -> None:
        self._rankers.observer = observer

    @property
    def ready(self) -> bool:
        """Whether all rankers were restored, so that requests can be answered."""
        return self._background is not None and self._background.ready

    @property
    def leads(self) -> bool:
        """Whether this process is the leader, which learns."""
        return self._background is not None and self._background.leads

    @property
    def learning(self) -> bool:
        """Whether this process or another one learns, as far as this one knows."""
        return self._background is not None and self._background.learning

    @property
    def failure(self) -> Exception | None:
        """What currently fails in the background, None if nothing does; it is tried again every second."""
        return None if self._background is None else self._background.failure

    # Start and stop

    def claim(self) -> None:
        """Acquire the store; raise `StoreLocked` if it is for one process, and another one has it."""
        if self._background is None:
            self._background = self._make_background()
        self._background.claim()
        if not (self.read_only or self.storage.shared) and self._lease is None:
            self._lease = self.storage.leases.acquire(SERVING)
            if self._lease is None:
                raise StoreLocked(ONE_SERVER)

    def _make_background(self) -> Background:
        parts = (self.storage, self.settings, self._rankers)
        if self.read_only:
            return Viewer(*parts)
        if self._channel is not None:
            return Front(*parts, self._clock, self._channel)
        return Leader(*parts, self._clock, self._recent, self._tail)

    async def start(self) -> None:
        """Begin to restore, to serve and to learn in the background; returns at once, see `wait_ready`."""
        if self._appender is not None:
            return
        self._rankers.changes.bind()
        self.claim()
        self._appender = log.Appender(self.storage.log, self._tail, self._recent)
        assert self._background is not None
        self._background.start(self._appender)

    async def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until it is ready; raise the failure that prevents it, or `NotReady` if it only takes too long."""

        def decided() -> bool:
            failure = self.failure
            if failure is not None and not getattr(failure, "retryable", False):
                raise failure
            return self.ready or self._background is None

        try:
            await self._rankers.changes.wait_until(decided, timeout)
        except TimeoutError:
            raise self.failure or NotReady("the service has not restored its rankers yet") from None
        if not self.ready:
            raise NotReady("the service was stopped")

    async def stop(self) -> None:
        """Stop the background, after what was learned is saved; may be called twice."""
        background, self._background = self._background, None
        if background is not None and self._appender is not None:
            await self._appender.settled()
            await asyncio.to_thread(background.stop)
            self.unsaved = background.unsaved
            if self._lease is not None:
                self._lease.release()
            self._impressions.close()
            self._rankers.changes.notify()

    # Rank: make a list, append it, acknowledge it

    async def rank(self, name: str, request: schema.RankRequest) -> schema.RankAnswer:
        """Return the ranking to show; when it returns, the impression is in the store."""
        ranker = await self._writable_ranker(name)
        id = self._checked_id(request.impression_id)
        version, reader = ranker.version, self._reader(ranker)
        documents = request.documents if isinstance(request.documents, list) else request.documents.ids
        known = self._recent.get(ranker.created.number, id)
        make, parts = self._make_impression, (reader, version, ranker.remembered, id, request, known)
        large = len(documents) * len(version.definition.spec.features) > INLINE_VALUES
        ids, raw, stored, attachment = await asyncio.to_thread(make, *parts) if large else make(*parts)
        if known is None or known.body is None:
            known = await self._append_impression(ranker, id, stored, attachment)
            if known.body is stored:
                self.observer.ranked(name, len(ids))
        assert known.body is not None
        if known.body is not stored and not known.body.is_of(ids):
            raise Conflict(f"the impression {id!r} exists, and has other documents; use a new impression_id")
        n_shown = len(known.body.order) + len(known.body.placed)
        if n_shown < min(request.length or 0, len(ids) + len(request.fixed) + len(request.below_top)):
            raise Conflict(
                f"the impression {id!r} exists with {n_shown} positions and keeps its length, but {request.length} were requested; "
                "request as many as a user may page through the first time, or use a new impression_id"
            )
        if request.explain:
            answer = await self._explain(ranker, id, known, raw if known.body is stored else None)
        else:
            answer = views.ranking_answer(id, known.body)
        return answer if not known.body.page else views.page_of(answer, 1, known.body.page)

    async def page(self, name: str, request: schema.PageRequest) -> schema.RankAnswer:
        """Return another page of an impression; when it returns, the store knows that the page is shown."""
        ranker, id = await self._writable_ranker(name), self._checked_id(request.impression_id)
        whole_number("start", request.start)
        whole_number("size", request.size, 1, self.settings.max_documents)
        known = (await self._impressions.find(name, ranker.created.number, [id], self._sole_writer))[id]
        if known is None or known.body is None:
            raise UnknownName(f"the impression {id!r} of {name!r} is not known; rank it first")
        body = known.body
        answer = views.page_of(views.ranking_answer(id, body), request.start, request.size)
        last = request.start - 1 + len(answer.ranking)
        if answer.ranking and 0 < body.page < last and not known.closed:
            shown = log.pack(log.StoredPage(id, free_above(body.placed, last)))
            await self._append([NewEvent(name, log.PAGE, f"{known.number}/{last}", self._clock.time(), shown)])
        return answer

    def _reader(self, ranker: Ranker) -> DocumentReader:
        definition = ranker.version.definition
        if ranker.reader is None or ranker.reader.definition is not definition:
            ranker.reader = DocumentReader(definition, self.settings)
        return ranker.reader

    def _make_impression(
        self,
        reader: DocumentReader,
        version: Version,
        remembered: Memory,
        id: str,
        request: schema.RankRequest,
        known: log.CachedImpression | None,
    ) -> tuple[list[str], Features, log.StoredImpression | None, bytes]:
        """Read the documents, and order them if the impression is not known."""
        definition, troubles = version.definition, FeatureTroubles(self.observer)
        length = definition.spec.length if request.length is None else request.length
        whole_number("length", length)
        page = 0 if request.page is None else whole_number("page", request.page)
        ids, raw = reader.read(request.documents, troubles, request.context)
        query, placed = intake.stored_query(request, self.settings, definition), log.NOTHING_PLACED
        if request.fixed or request.below_top:
            place = self._placement(version, remembered, id, query, request, ids, raw, length)
            ids, raw, length, placed = place.free, raw[place.rows], place.n_free, place.placed
            raw.flags.writeable = False
        if known is not None and known.body is not None:
            return ids, raw, None, b""
        pinned = None if version.pin is None else version.pin[1]
        kind = definition.list_kind(id, version.frozen, version.learned_share, version.imitates) if length else GREEDY
        boosts = definition.boosts(remembered, id, query, ids, explore=kind == EXPLORED) if query else NO_BOOSTS
        order, teams = definition.order(kind, version.state, id, raw, length, pinned, boosts)
        stopped = version.frozen and kind == GREEDY
        rest = (troubles.missing, troubles.out_of_range, definition.names_digest, stopped, query, boosts, placed, page)
        stored = log.StoredImpression.of(version.version, ids, order, kind, teams, *rest)
        return ids, raw, stored, log.pack_features(raw)

    def _placement(
        self,
        version: Version,
        remembered: Memory,
        id: str,
        query: str,
        request: schema.RankRequest,
        ids: list[str],
        raw: Features,
        length: int,
    ) -> Placement:
        """Return the places of the documents that the request places; those in ``below_top`` are ranked without exploring."""
        definition, order, fixed = version.definition, None, request.fixed
        if fixed:
            check_ids(list(fixed), self.settings)
        if request.below_top:
            rows = [row for row, each in enumerate(ids) if each not in fixed]
            pinned = None if version.pin is None else version.pin[1]
            others = frozen(raw[rows])
            names = [ids[row] for row in rows]
            known = query and names
            boosts = definition.boosts(remembered, id, query, names, explore=False) if known else NO_BOOSTS
            if rows and not definition.own_order(version, id, others, boosts):
                rows = [rows[place] for place in definition.best(pinned or version.state, id, others, boosts)]
            order = [ids[row] for row in rows]
        return Placement(ids, length, fixed, request.below_top, order)

    async def _append_impression(
        self, ranker: Ranker | Experiment, id: str, stored: log.StoredImpression | None, attachment: bytes
    ) -> log.CachedImpression:
        """Append an impression, and return it; if the log has an impression with this id already, return that one."""
        assert stored is not None
        name, number = ranker.name, ranker.created.number
        event = NewEvent(name, log.IMPRESSION, id, self._clock.time(), log.pack(stored), attachment)
        receipt = (await self._append([event]))[0]
        if receipt.new:
            kept = attachment if self._channel is None else None  # another process reads it from the store
            return self._recent.put(number, id, log.CachedImpression(receipt.number, stored, kept))
        found = (await self._impressions.find(name, number, [id], self._sole_writer))[id]
        if found is None or found.body is None:
            raise Conflict(f"the impression {id!r} was made long ago and is gone; use a new impression_id")
        return found

    async def _explain(
        self, ranker: Ranker, id: str, known: log.CachedImpression, raw: Features | None
    ) -> schema.RankAnswer:
        """Return a ranking with the scores of its documents, by the version that made it."""
        body = known.body
        assert body is not None
        if raw is None:
            raw = await self._impressions.read(lambda: log.read_features(self.storage, ranker.name, known.number))
        version = await self._read_version(ranker, body.version)
        if raw is None or not len(raw) or version is None:
            return views.ranking_answer(id, body)  # its features or its version are gone; the order is not
        return await asyncio.to_thread(views.explained_answer, id, body, version, raw)

    # Feedback: validate events, append them, acknowledge them

    async def feedback(self, name: str, events: Sequence[schema.FeedbackEvent | Rejected]) -> schema.FeedbackCounts:
        """Accept feedback events; when it returns, they are in the store."""
        return await self._feedback(await self._writable_ranker(name), events)

    async def _feedback(
        self, ranker: Ranker | Experiment, events: Sequence[schema.FeedbackEvent | Rejected]
    ) -> schema.FeedbackCounts:
        name = ranker.name
        if len(events) > self.settings.max_events:
            raise LimitExceeded(f"a request has at most {self.settings.max_events:,} events, got {len(events):,}")
        troubles, slices = FeedbackTroubles(), []
        for start in range(0, len(events), FEEDBACK_SLICE):
            if start:
                await asyncio.sleep(0)
            slices.append(await self._take_feedback(ranker, events[start : start + FEEDBACK_SLICE], start, troubles))
        counts = add_counts([await self._feedback_counts(name, *each) for each in slices])
        ranker.troubles.add_all(troubles)
        for outcome in ("accepted", "duplicate", "unknown", "expired"):
            if count := getattr(counts, outcome):
                self.observer.fed(name, outcome, count)
        if counts.invalid:
            self.observer.fed(name, "invalid", len(counts.invalid))
        warnings = troubles.sentences(ranker.actions)
        return msgspec.structs.replace(counts, warnings=warnings)

    async def _take_feedback(
        self,
        ranker: Ranker | Experiment,
        events: Sequence[schema.FeedbackEvent | Rejected],
        first: int,
        troubles: FeedbackTroubles,
    ) -> tuple[FeedbackIntake, asyncio.Future[list[Receipt]]]:
        """Validate some events of a request and submit them to the store; the future is done when they are durable."""
        assert self._appender is not None
        ids = {event.impression_id for event in events if isinstance(event, schema.FeedbackEvent)}
        impressions = await self._impressions.find(ranker.name, ranker.created.number, ids, self._sole_writer)
        if any(isinstance(event, schema.FeedbackEvent) and event.user_id for event in events):
            await self._make_salt()
        parts = (impressions, self._clock.time(), self.settings, self._rankers.salt, troubles)
        intake = FeedbackIntake(ranker.name, ranker.actions, events, first, *parts)
        appended = self._appender.append(intake.new)
        appended.add_done_callback(intake.settle)
        return intake, appended

    async def _feedback_counts(
        self, name: str, intake: FeedbackIntake, appended: asyncio.Future[list[Receipt]]
    ) -> schema.FeedbackCounts:
        """Wait until events are durable, and count them."""
        assert self._appender is not None
        try:
            receipts = await appended
        finally:
            intake.settle(appended)  # now, not in the next turn of the event loop: the client may try again at once
        if not intake.late:
            return intake.count(receipts, {})
        await self._appender.settled()  # now earlier events, including those of other requests, are in the log
        return intake.count(receipts, await self._impressions.events(name, intake.late))

    @property
    def _sole_writer(self) -> bool:
        """Whether no other process can close impressions."""
        return not self.storage.shared and (self.leads or self._channel is not None)

    async def _make_salt(self) -> None:
        """Choose the salt of the hashes of user ids in this store, once; if two processes do, the first one counts."""
        if self._rankers.salt is not None:
            return
        event = NewEvent(log.RANKERS, log.SALT, log.SALT, self._clock.time(), log.pack(os.urandom(16)))
        await self._append([event])
        await asyncio.to_thread(self._rankers.refresh)

    async def backfill(
        self, name: str, impressions: Sequence[schema.LoggedImpression | Rejected]
    ) -> schema.BackfillCounts:
        """Let a ranker learn from logged lists of another system, before it learns from its own.

        When it returns, the accepted ones are in the store; the ranker learns from them in the background.
        """
        ranker = await self._writable_ranker(name)
        _check_backfill(ranker)
        if len(impressions) > self.settings.max_events:
            raise LimitExceeded(f"a request has at most {self.settings.max_events:,} lists, got {len(impressions):,}")
        intake = LogIntake(ranker.version.definition, self.settings, self.observer)
        events, invalid = await asyncio.to_thread(intake.events, impressions, self._clock.time())
        receipts = await self._append(events) if events else []
        accepted = sum(receipt.new for receipt in receipts)
        counts = {"accepted": accepted, "duplicate": len(receipts) - accepted, "invalid": len(invalid)}
        for outcome, count in counts.items():
            if count:
                self.observer.backfilled(name, outcome, count)
        return schema.BackfillCounts(accepted, len(receipts) - accepted, invalid, self.settings.retention)

    def check_backfill(self, name: str) -> None:
        """Raise if a ranker cannot learn, or can no longer learn, from logged lists; available on a read-only service, too."""
        _check_backfill(self._readable_ranker(name))

    # Rankers

    async def create(self, spec: schema.RankerSpec) -> tuple[schema.RankerInfo, bool]:
        """Create a ranker, and return it and whether it is new; the same spec again changes nothing, another one is a `Conflict`.

        The representation of a spec that has none is that of what it starts from, or the default of the service; if the ranker
        exists, its own.
        """
        self._check_ready()
        self._check_writable()
        asked = with_products(converted(spec, RankerSpec))
        written = declared_missing(asked.representation, spec.missing)
        created, asked = False, msgspec.structs.replace(asked, representation=written)
        name = asked.name
        known = self._rankers.by_name.get(name)
        if name in self._rankers.experiments:
            raise Conflict(f"there is an experiment {name!r}; choose another name")
        if known is None:
            created = await self._create(asked)
            await self._refresh_created(name)
            known = self._rankers[name]
        if not created and not await asyncio.to_thread(_has_same_meaning, asked, known.created):
            raise Conflict(f"there is a ranker {name!r} already, with another spec; choose another name")
        return views.ranker_info(known), created

    async def _create(self, asked: RankerSpec) -> bool:
        """Append the creation of a ranker; return whether it is new."""
        spec = normalized(asked, await asyncio.to_thread(default_representation, asked, self._version_of))
        start = await asyncio.to_thread(initial_state, spec, self._version_of)
        definition = await asyncio.to_thread(Definition, spec, self._clock.time(), start.weights, 0, start.knots)
        definition.check_limits(self.settings)
        self._check_webhook(spec.guard)
        definition.check_new()
        await asyncio.to_thread(
            definition.warm_up, self._rankers.learns
        )  # before it is in the log: what cannot rank must not get there
        return await self._append_created(spec.name, log.Created(log.StoredSpec.of(spec), *start, self._new_salt()))

    def _new_salt(self) -> bytes:
        return token_bytes(16) if self.settings.salt is None else self.settings.salt

    async def _append_created(self, name: str, created: log.Created) -> bool:
        """Append the creation of a ranker or an experiment; return whether it is new."""
        if len(self._rankers.items()) >= self.settings.max_rankers:
            raise LimitExceeded(f"there may be at most {self.settings.max_rankers:,} rankers and experiments")
        event = NewEvent(log.RANKERS, log.CREATED, name, self._clock.time(), log.pack(created))
        return (await self._append([event]))[0].new

    async def _refresh_created(self, name: str) -> None:
        await asyncio.to_thread(self._rankers.refresh)
        if self._rankers.get(name) is None and name not in self._rankers.broken:
            raise NotReady(f"{name!r} is being deleted; try again in a moment")

    async def change(self, name: str, change: schema.Change) -> schema.RankerInfo:
        """Change the definition of a ranker, without losing what it has learned; returns when it is applied."""
        ranker, wanted = await self._writable_ranker(name), converted(change, Change)
        written = declared_missing(wanted.representation, change.missing)
        if written is None and not isinstance(change.missing, msgspec.UnsetType):  # nothing may be missing any more
            present = ranker.version.definition
            written = write_representation(split_missing(present.representation)[1], present.spec.features)
        wanted = msgspec.structs.replace(wanted, representation=written)
        if isinstance(wanted.guard, GuardSpec):
            self._check_webhook(wanted.guard)
        version = ranker.version
        after = await asyncio.to_thread(version.definition.changed, wanted)
        after.check_limits(self.settings)
        check_names((*wanted.add_features, *(wanted.context or ())), wanted.actions or ())
        await asyncio.to_thread(after.warm_up, self._rankers.learns)
        control = log.Control("change", change=log.StoredChange.of(wanted))
        if wanted.representation is None or after.representation == version.definition.representation:
            return await self._control(ranker, control)
        after.check_scalings()
        state, fit = await self._refit(version, after)
        own = log.pack_state(state), after.spec.features
        info = await self._control(ranker, msgspec.structs.replace(control, state=own[0], features=own[1], fit=fit))
        logger.info("%r has the representation %s now: %s", name, after.spec.representation, fit)
        return msgspec.structs.replace(info, fit=converted(fit, schema.Fit))

    async def _refit(self, version: Version, after: Definition) -> tuple[State, log.Fit]:
        """Return a state of a definition with another representation, fitted to the scores of a version."""
        name = after.spec.name
        if version.pin is not None:
            raise Conflict(f"{name!r} serves version {version.pin[0]}, of the present representation; unpin it first")
        lists = await self._impressions.read(lambda: stored_lists(self.storage, name, version.definition))
        return await asyncio.to_thread(refitted, version, after, lists)

    async def delete(self, name: str) -> None:
        """Delete a ranker and all its data; the name is free when it returns. A running experiment keeps its rankers."""
        for each in self._rankers.experiments.values():
            if name in each.created.spec.rankers and name in self._rankers and not each.stopped:
                raise Conflict(f"the experiment {each.name!r} compares the ranker {name!r}; stop the experiment first")
        await self._delete(name, self._writable_ranker)

    async def _delete(self, name: str, find: Callable[[str], Awaitable[Ranker | Experiment]]) -> None:
        self._check_ready()
        self._check_writable()
        broken = self._rankers.broken.get(name)
        deleted = log.Deleted(name, (await find(name)).created.number if broken is None else broken[0])
        event = NewEvent(log.RANKERS, log.DELETED, f"{name}/{deleted.number}", self._clock.time(), log.pack(deleted))
        number = (await self._append([event]))[0].number
        # The name is free only when no ids of impressions and events are left; the leader removes the rest.
        await asyncio.to_thread(self.storage.log.delete, name, number)
        await asyncio.to_thread(remove_creation, self.storage, deleted)
        await asyncio.to_thread(self._rankers.refresh)

    def rankers(self) -> list[schema.RankerInfo]:
        """Return all rankers, by name."""
        self._check_ready()
        return [views.ranker_info(ranker) for _, ranker in sorted(self._rankers.by_name.items())]

    def ranker(self, name: str) -> schema.RankerInfo:
        """Return one ranker; may read the store."""
        return views.ranker_info(self._readable_ranker(name))

    def overview(self) -> list[schema.Overview]:
        """Return all rankers with their guards and their traffic, those with an alarm first, then by name; reads the store."""
        self._check_ready()
        now, rankers = self._clock.time(), sorted(self._rankers.by_name.items())
        found = [views.overview(self.storage, ranker, now) for _, ranker in rankers]
        return sorted(found, key=lambda each: each.guard is None or each.guard.state != "alarm")

    def alarms(self) -> list[str]:
        """Return the names of the rankers whose guards have raised an alarm."""
        found = ((name, ranker.newest_status().guard) for name, ranker in sorted(self._rankers.by_name.items()))
        return [name for name, guard in found if guard is not None and guard.raised]

    def guard(self, name: str) -> schema.GuardInfo:
        """Return the evidence of the guard of a ranker; may read the store."""
        ranker = self._readable_ranker(name)
        status = ranker.newest_status()
        if status.guard is None:
            raise InvalidValue(
                f'the ranker {name!r} has no guard; give it one with a change, such as {{"guard": {{}}}}'
            )
        return views.guard_info(ranker.version.definition.spec, ranker.version.version, status)

    def history(
        self, name: str, step: Step = "minute", start: float | None = None, end: float | None = None
    ) -> schema.History:
        """Return the history of a ranker; reads the store.

        Parameters
        ----------
        name
            Name of the ranker.
        step
            "minute", "hour" or "day".
        start, end
            Seconds since 1970; the newest 2,000 steps between them are returned.
        """
        if step not in STEPS:
            raise InvalidValue(f"a step is {', '.join(STEPS)}; got {step!r}")
        return views.read_history(self.storage, self._readable_ranker(name), step, start, end)

    async def control(self, name: str, action: Action, version: int | None = None) -> schema.RankerInfo:
        """Freeze, resume, roll back, pin or unpin a ranker; returns when it is applied.

        Parameters
        ----------
        name
            Name of the ranker.
        action
            "freeze" stops learning and exploring, "resume" continues; "rollback" restores a version, as a new version; "pin"
            makes a shadow serve a version instead of the client's order, "unpin" ends that.
        version
            The version of a rollback or a pin.
        """
        ranker = await self._writable_ranker(name)
        if action not in get_args(Action):
            raise InvalidValue(f"a ranker can {', '.join(get_args(Action))}; got {action!r}")
        definition = ranker.version.definition
        if action in ("pin", "unpin") and definition.spec.mode != "shadow":
            raise InvalidValue(
                f"{name!r} is not a shadow, so it has no version to pin: it serves what it has learned, until you freeze it"
            )
        if action not in ("rollback", "pin"):
            return await self._control(ranker, log.Control(action, version))
        if version is None:
            raise InvalidValue(f"to {action}, name the version")
        found = await self._read_version(ranker, version)
        if found is None:
            raise _no_version(name, version)
        return await self._control(ranker, _use_version(action, found, definition))

    def memory(self, name: str, query: str | None = None, limit: int = MAX_REMEMBERED) -> schema.MemoryInfo:
        """Return what a ranker remembers of a query, in its remembered form; or without one, of those with the largest effect."""
        return views.memory_info(self._readable_ranker(name), query, whole_number("limit", limit, 1, MAX_REMEMBERED))

    def pinned(
        self, name: str, queries: int = 100, evidence: float = 10.0, documents: int = 3
    ) -> Sequence[PinnedQuery]:
        """Return the documents that users of the queries with the most views chose, for a search engine that shows them first.

        Parameters
        ----------
        name
            Name of the ranker.
        queries, documents
            Maximum number of queries, and of documents of each.
        evidence
            Least number of clicks on a document.
        """
        whole_number("queries", queries, 1, MAX_PINNED_QUERIES)
        whole_number("documents", documents, 1, MAX_PINNED_DOCUMENTS)
        if not 0.0 <= evidence < math.inf:
            raise InvalidValue(f"evidence must be a number of clicks, 0 or more, got {evidence!r}")
        return views.pinned_queries(self._readable_ranker(name), queries, evidence, documents)

    async def forget(self, name: str, query: str = "", document: str = "") -> schema.RankerInfo:
        """Remove a query, or a document of all queries, or everything from the memory of queries; returns when it is applied."""
        ranker = await self._writable_ranker(name)
        if ranker.created.remember is None:
            raise InvalidValue(f"{name!r} does not remember queries, so there is nothing to forget")
        if query and document:
            raise InvalidValue("name either a query or a document to forget, not both")
        return await self._control(ranker, log.Control("forget", query=query, document=document))

    async def _control(self, ranker: Ranker, control: log.Control) -> schema.RankerInfo:
        """Append a control event, and wait until a version after it is served."""
        number = await self._append_control(ranker, control)
        try:
            await self._rankers.changes.wait_until(lambda: ranker.version.number > number, CONTROL_TIMEOUT)
        except TimeoutError:
            raise _not_applied(ranker.name) from None
        return views.ranker_info(ranker)

    async def _append_control(self, ranker: Ranker | Experiment, control: log.Control) -> int:
        """Append a control event, and return its number."""
        event = NewEvent(ranker.name, log.CONTROL, os.urandom(12).hex(), self._clock.time(), log.pack(control))
        return (await self._append([event]))[0].number

    # Experiments

    async def create_experiment(self, spec: schema.ExperimentSpec) -> tuple[schema.ExperimentInfo, bool]:
        """Create an experiment, and return it and whether it is new; the same spec again changes nothing."""
        self._check_ready()
        self._check_writable()
        created, name, known = False, spec.name, self._rankers.experiments.get(spec.name)
        asked = ExperimentDefinition(converted(spec, ExperimentSpec))
        if name in self._rankers.by_name:
            raise Conflict(f"there is a ranker {name!r}; choose another name")
        if known is None:
            asked.check_new(self.settings)
            for each in spec.rankers:
                await self._system(each)
            await asyncio.to_thread(asked.warm_up)  # before it is in the log: what cannot merge must not get there
            body = log.Created(None, salt=self._new_salt(), experiment=log.StoredExperiment.of(asked.spec))
            created = await self._append_created(name, body)
            await self._refresh_created(name)
            known = self._rankers.experiment(name)
        if not known.created.same_as(asked):
            raise Conflict(f"there is an experiment {name!r} already, with another spec; choose another name")
        return views.experiment_info(known), created

    async def show(self, name: str, request: schema.ShowRequest) -> schema.ShowAnswer:
        """Merge the lists of the systems of an experiment; when it returns, the merged list is in the store."""
        experiment = await self._writable_experiment(name)
        id, definition = self._checked_id(request.impression_id), experiment.created
        known = self._recent.get(definition.number, id)
        if experiment.stopped and known is None:
            known = (await self._impressions.find(name, definition.number, [id], self._sole_writer))[id]
            if known is None:
                raise Conflict(f"the experiment {name!r} was stopped; show the list of the system that you have chosen")
        given = await self._lists(definition, id, request)
        documents = list(dict.fromkeys(document for each in given for document in each))
        if known is None or known.body is None:
            known = await self._merge(experiment, id, request, given, documents)
        assert known.body is not None
        if not known.body.is_of(documents):
            raise Conflict(f"the impression {id!r} exists, and has other documents; use a new impression_id")
        return schema.ShowAnswer(id, known.body.shown)

    async def _lists(self, definition: ExperimentDefinition, id: str, request: schema.ShowRequest) -> list[list[str]]:
        """Return the list of each system of an experiment, without documents of fixed positions."""
        lists = definition.given_lists(request.lists, self.settings)
        for each in definition.spec.rankers:
            lists[each] = await self._list_of(each, id, request, definition.spec.rankers)
        if not any(lists.values()):
            raise InvalidValue("no system has returned any document, so there is nothing to show")
        return [[document for document in one if document not in request.fixed] for one in lists.values()]

    async def _merge(
        self,
        experiment: Experiment,
        id: str,
        request: schema.ShowRequest,
        given: list[list[str]],
        documents: list[str],
    ) -> log.CachedImpression:
        """Merge the lists of an impression of an experiment, and append it."""
        definition = experiment.created
        length, placed = definition.spec.length, log.NOTHING_PLACED
        if request.fixed:
            check_ids(list(request.fixed), self.settings)
            place = Placement(documents, length, request.fixed)
            length, placed = place.n_free, place.placed
            if not length:
                raise InvalidValue("the documents with fixed positions leave no position to the systems")
        inline = definition.merges_fast and len(documents) * len(given) <= INLINE_VALUES
        parts = (id, given, length)
        merged, _ = definition.merge(*parts) if inline else await asyncio.to_thread(definition.merge, *parts)
        if request.user_id:
            await self._make_salt()
        stored = log.StoredImpression.of(0, documents, merged.ranking.tolist(), OLD, placed=placed)
        stored = msgspec.structs.replace(stored, user=user_hash(request.user_id, self._rankers.salt or b""))
        known = await self._append_impression(experiment, id, stored, log.pack_lists(documents, given))
        if known.body is stored:
            self.observer.ranked(experiment.name, len(documents))
        return known

    async def _system(self, name: str) -> Ranker:
        """Return a ranker that is a system of an experiment."""
        try:
            return await self._writable_ranker(name)
        except UnknownName as error:  # of the experiment: the path is valid
            raise InvalidValue(str(error)) from None

    async def _list_of(self, name: str, id: str, request: schema.ShowRequest, rankers: Sequence[str]) -> list[str]:
        """Return the list of a ranker of an experiment, the best by its current version."""
        ranker = await self._system(name)
        if request.documents is None:
            raise InvalidValue(
                f"the ranker {name!r} is one of the systems, so send the documents with their features, too"
            )
        version, reader, remembered = ranker.version, self._reader(ranker), ranker.remembered
        definition = version.definition
        others = [self._rankers[each].version.definition for each in rankers if each in self._rankers]
        documents = intake.known_to(definition, request.documents, [each.columns for each in others])
        foreign = {one for each in others for one in each.spec.context}.difference(definition.spec.context)
        context = {one: value for one, value in request.context.items() if one not in foreign}
        query = intake.stored_query(request, self.settings, definition)

        def best() -> list[str]:
            ids, raw = reader.read(documents, FeatureTroubles(self.observer), context)
            boosts = definition.boosts(remembered, id, query, ids, explore=False) if query else NO_BOOSTS
            return [ids[place] for place in definition.best(version.state, id, raw, boosts)]

        n_documents = len(documents) if isinstance(documents, list) else len(documents.ids)
        return await asyncio.to_thread(best) if n_documents * len(definition.columns) > INLINE_VALUES else best()

    async def experiment_feedback(
        self, name: str, events: Sequence[schema.FeedbackEvent | Rejected]
    ) -> schema.FeedbackCounts:
        """Accept feedback events on lists of an experiment; when it returns, they are in the store."""
        return await self._feedback(await self._writable_experiment(name), events)

    async def stop_experiment(self, name: str) -> schema.ExperimentInfo:
        """Stop an experiment: it shows no new lists, and counts those that are open when they close."""
        experiment = await self._writable_experiment(name)
        if not experiment.stopped:
            await self._append_applied(experiment, log.Control("stop"))
        return views.experiment_info(experiment)

    async def delete_experiment(self, name: str) -> None:
        """Delete an experiment and all its data; the name is free when it returns."""
        await self._delete(name, self._writable_experiment)

    def experiments(self) -> list[schema.ExperimentInfo]:
        """Return all experiments, by name."""
        self._check_ready()
        return [views.experiment_info(each) for _, each in sorted(self._rankers.experiments.items())]

    def experiment(self, name: str) -> schema.ExperimentInfo:
        """Return one experiment; may read the store."""
        return views.experiment_info(self._readable_experiment(name))

    def experiment_history(self, name: str) -> schema.ExperimentHistory:
        """Return the win rates of an experiment over time; may read the store."""
        return views.experiment_history(self._readable_experiment(name))

    async def _writable_experiment(self, name: str) -> Experiment:
        """Return an experiment to write to, even if another process has just created it."""
        self._check_ready()
        self._check_writable()
        if name not in self._rankers.experiments and self.storage.shared:
            await asyncio.to_thread(self._rankers.refresh)
        return self._rankers.experiment(name)

    def _readable_experiment(self, name: str) -> Experiment:
        """Return an experiment to read from, even if another process has just created it."""
        self._check_ready()
        if name not in self._rankers.experiments and self.storage.shared:
            self._rankers.refresh()
        return self._rankers.experiment(name)

    # Versions and models

    def versions(self, name: str) -> list[schema.VersionInfo]:
        """Return the versions that a rollback can use, oldest first; reads the store."""
        self._check_ready()
        ranker = self._rankers[name]
        current = ranker.version.version
        stored, labels = VersionStore(self.storage, ranker.created), ranker.newest_status().labels
        retained = stored.retained(self.settings.keep_versions, self._clock.time(), labels)
        made = [(each.number, each.time, stored.event_of(each.number)) for each in retained]
        first = Version.first(ranker.created)
        return [
            schema.VersionInfo(version, time, number, version == current, labels.get(version, ""))
            for version, time, number in [(1, first.time, first.number), *made]
            if number is not None
        ]

    async def label(self, name: str, version: int, label: str) -> schema.VersionInfo:
        """Keep a version under a label, or with "" remove the label; returns when it is applied."""
        ranker = await self._writable_ranker(name)
        labels = ranker.newest_status().labels
        if label:
            printable_name("a label", label, MAX_LABEL)
            if await self._read_version(ranker, version) is None:
                raise _no_version(name, version)
            if version not in labels and len(labels) >= MAX_LABELS:
                raise LimitExceeded(f"{name!r} has {len(labels)} versions with a label, the limit; remove one first")
        elif version not in labels:
            raise UnknownName(f"version {version} of {name!r} has no label")
        await self._append_applied(ranker, log.Control("label", version, label=label))
        found = await self._read_version(ranker, version)
        if found is None:  # it was removed in the same moment
            await self._append_applied(ranker, log.Control("label", version))
            raise _no_version(name, version)
        labels = ranker.newest_status().labels
        return schema.VersionInfo(version, found.time, found.number, found is ranker.version, labels.get(version, ""))

    async def _append_applied(self, ranker: Ranker | Experiment, control: log.Control) -> None:
        """Append a control event from which no version follows, and wait until the leader has applied it."""
        number = await self._append_control(ranker, control)
        try:
            async with asyncio.timeout(CONTROL_TIMEOUT):
                while ranker.newest_status().number < number:
                    await asyncio.sleep(CONTROL_POLL)
        except TimeoutError:
            raise _not_applied(ranker.name) from None

    def model(self, name: str, version: int | None = None) -> Model:
        """Return the model of a version, or the current one; earlier ones are read from the store."""
        found = self._version_of(name, version)
        return found.definition.model(found.version, found.state)

    def weights(self, name: str, version: int | None = None) -> schema.Model:
        """Return the weights of a version, or of the current one, with their deviations if the algorithm has a belief."""
        found = self._version_of(name, version)
        definition, state = found.definition, found.state
        return views.model_answer(definition.model(found.version, state), definition.algorithm.deviations(state))

    def curves(self, name: str, version: int | None = None) -> schema.ModelCurves:
        """Return what each feature adds to the score, in a version or the current one; the most important first."""
        found = self._version_of(name, version)
        return views.model_curves(found, self._with_documents(self._rankers[name], found))

    def _with_documents(self, ranker: Ranker, version: Version) -> State:
        """Return the state of a version with the sample of documents, which only the learner and its checkpoints have."""
        definition, machine = version.definition, ranker.machine
        if not definition.representation.learns:
            return version.state
        if machine is not None:
            source, state = machine.definition, machine.state
        elif (body := newest_checkpoint(self.storage, ranker.name)) is not None:
            source, state = learned_state(body, ranker.created)
        else:
            return version.state
        same = source.representation == definition.representation and source.spec.features == definition.spec.features
        if not same or not definition.fits(state):  # they have changed since this version
            return version.state
        return replace(version.state, memory=completed(version.state.memory, state.memory))

    def last_step(self, name: str) -> schema.LastStep:
        """Return what was learned from the last impression, computed again; reads the store.

        Only the leader has it, and it can be computed only until the features of the impression are dropped.
        """
        self._check_ready()
        ranker = self._rankers[name]
        kept = self._own_step(ranker) if self._channel is None else self._asked_step(ranker, self._channel)
        if kept is None:
            raise UnknownName(f"{name!r} has learned from no impression since this process began to learn")
        event = self.storage.log.find(name, log.IMPRESSION, [kept.id]).get(kept.id)
        stored = log.unpack(event.body, log.StoredImpression) if event is not None and event.body else None
        raw = None if stored is None else log.read_features(self.storage, name, kept.impression.number)
        if stored is None or raw is None:
            raise UnknownName(f"the features of the last impression that {name!r} has learned from were dropped")
        return views.explain_step(kept, stored, raw, ranker.version.version)

    def _own_step(self, ranker: Ranker) -> LearnedStep | None:
        if not self.leads:
            raise NotReady("another process leads, and only that one has the last step; try again to reach it")
        return None if ranker.machine is None else ranker.machine.last_step

    def _asked_step(self, ranker: Ranker, channel: FrontChannel) -> LearnedStep | None:
        """Ask the learner to save the last step of a ranker, and read it; not in the event loop."""
        asked, end, sent = self._clock.time(), monotonic() + STEP_TIMEOUT, False
        while monotonic() < end:
            sent = sent or channel.ask(SaveStep(ranker.name))
            found = self.storage.snapshots.load(ranker.name, log.LAST_STEP)
            if found is not None and found.time >= asked:
                return log.unpack(found.body, StoredStep).read(ranker.created) if found.body else None
            sleep(CONTROL_POLL)
        raise NotReady("the process that learns, which has the last step, does not answer now; try again")

    def impressions(self, name: str) -> list[schema.ImpressionInfo]:
        """Return the newest impressions whose features are still there, newest first; reads the store."""
        self._check_ready()
        return views.recent_impressions(self.storage, self._rankers[name].name, RECENT_IMPRESSIONS)

    def compare(self, name: str, id: str, one: int | None = None, other: int | None = None) -> schema.Comparison:
        """Return the rankings of an impression by two versions, by default the first and the current one; reads the store."""
        self._check_ready()
        ranker = self._rankers[name]
        versions = self._version_of(name, 1 if one is None else one), self._version_of(name, other)
        key = checked_text("key", id)
        return views.compare_versions(self.storage, name, key, *versions, lambda each: self._find_version(ranker, each))

    def lag(self) -> int:
        """Return the number of events that are not applied yet, as far as this process knows; reads the store."""
        self._check_ready()
        last, applied = self.storage.log.last_number(), None if self._background is None else self._background.applied
        if applied is None:  # another process leads, and saves how far each ranker has come
            applied = max((ranker.status.number for ranker in self._rankers.by_name.values()), default=last)
        return max(0, last - applied)

    def _version_of(self, name: str, version: int | None = None) -> Version:
        """Return a version of a ranker, or the current one; may read the store."""
        self._check_ready()
        ranker = self._rankers[name]
        found = self._find_version(ranker, ranker.version.version if version is None else version)
        if found is None:
            raise _no_version(name, version)
        return found

    def _find_version(self, ranker: Ranker, version: int) -> Version | None:
        if version == ranker.version.version:
            return ranker.version
        if version == 1:
            return Version.first(ranker.created)
        return VersionStore(self.storage, ranker.created).load(version) if version > 1 else None

    async def _read_version(self, ranker: Ranker, version: int) -> Version | None:
        if version in (1, ranker.version.version):
            return self._find_version(ranker, version)
        return await self._impressions.read(lambda: self._find_version(ranker, version))

    # Checks

    async def _writable_ranker(self, name: str) -> Ranker:
        """Return a ranker to write to, even if another process has just created it."""
        self._check_ready()
        self._check_writable()
        if name not in self._rankers and self.storage.shared:
            await asyncio.to_thread(self._rankers.refresh)
        return self._rankers[name]

    def _readable_ranker(self, name: str) -> Ranker:
        """Return a ranker to read from, even if another process has just created it."""
        self._check_ready()
        if name not in self._rankers and self.storage.shared:
            self._rankers.refresh()
        return self._rankers[name]

    def _check_ready(self) -> None:
        if not self.ready:
            raise NotReady("the service has not restored its rankers yet, or was stopped")

    def _check_writable(self) -> None:
        if self.read_only:
            raise ReadOnly(
                "this service is read-only: it does not rank, learn or change anything; use 'duelrank serve' for that"
            )

    def _check_webhook(self, guard: GuardSpec | None) -> None:
        if guard is not None and guard.webhook is not None and not self.settings.private_webhooks:
            check_public(guard.webhook)

    def _checked_id(self, given: str | None) -> str:
        if given is None:
            return os.urandom(12).hex()
        if not 0 < len(given) <= self.settings.max_id:
            raise InvalidValue(f"an impression_id has from 1 to {self.settings.max_id} characters, got {len(given)}")
        return checked_text("key", given)

    def _append(self, events: Sequence[NewEvent]) -> asyncio.Future[list[Receipt]]:
        """Append events; the future is done when they are durable."""
        assert self._appender is not None
        return self._appender.append(events)


def _use_version(action: Action, version: Version, present: Definition) -> log.Control:
    """Return the event that rolls a ranker back to a version, or pins it."""
    represented = present.represented_as(version.definition)
    if action == "pin" and represented.representation != present.representation:
        raise InvalidValue(
            f"version {version.version} has the representation {represented.spec.representation}, and {present.spec.name!r} has "
            f"{present.spec.representation} now: change the representation, or roll back to the version, before you pin it"
        )
    change = log.StoredChange(representation=represented.spec.representation)
    state, features = log.pack_state(version.state), version.definition.spec.features
    return log.Control(action, version.version, state, change, features)


def _check_backfill(ranker: Ranker) -> None:
    """Raise if a ranker cannot learn, or can no longer learn, from logged lists; available on a read-only service, too."""
    status, name = ranker.newest_status(), ranker.name
    _ = ranker.version.definition.log_learner  # raises if the algorithm cannot start from what they teach
    if status.tally.learned:
        raise Conflict(
            f"{name!r} has learned from {status.tally.learned:,} lists of its own, and logged lists of another system would undo "
            "that; use a new ranker for them, before it gets traffic"
        )
    if ranker.version.frozen:
        raise Conflict(f"{name!r} is frozen, so it learns nothing; resume it first")
    if status.guard is not None and status.guard.raised:
        raise Conflict(f"the guard of {name!r} has raised an alarm, so it learns nothing; resume it first")


def _has_same_meaning(spec: RankerSpec, known: Definition) -> bool:
    """Whether a spec has the same meaning as that of an existing ranker; what it does not give is not compared if it has changed.

    That is the representation, ``imitate``, and the settings of a guard that had other defaults when the ranker was created.
    """
    own = known.spec.representation
    assert own is not None
    if spec.features != known.spec.features:  # fixed scalings by name are of these features
        return False
    if spec.imitate is None:
        spec = msgspec.structs.replace(spec, imitate=known.spec.imitate)
    if spec.guard is not None and known.spec.guard is not None:
        spec = msgspec.structs.replace(spec, guard=_with_former_defaults(spec.guard, known.spec.guard))
    return known.same_as(Definition(normalized(spec, own), 0.0))


def _with_former_defaults(guard: GuardSpec, known: GuardSpec) -> GuardSpec:
    """Return the settings of a guard, with those defaults of earlier versions that an existing guard has."""
    now, former = GuardSpec(), converted(log.StoredGuardSpec(), GuardSpec)
    kept = {
        name: getattr(former, name)
        for name in ("share", "promote")
        if getattr(guard, name) == getattr(now, name) and getattr(known, name) == getattr(former, name)
    }
    settled: GuardSpec = msgspec.structs.replace(guard, **kept)
    return settled


def _not_applied(name: str) -> NotReady:
    return NotReady(f"the change of {name!r} is in the log, and is applied as soon as a process leads again")


def _no_version(name: str, version: int | None) -> UnknownName:
    return UnknownName(f"version {version} of {name!r} does not exist (any more); see its versions")
