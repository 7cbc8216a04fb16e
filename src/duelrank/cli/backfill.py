"""``duelrank backfill``: teaches a ranker with the logs of a search that ran before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from duelrank.cli.console import out, print_json, tell
from duelrank.cli.options import JsonOption, opened_store
from duelrank.cli.rankers import KeyOption, connect
from duelrank.cli.serve import need_extra
from duelrank.core.progress import bytes_bar, spinner

if TYPE_CHECKING:
    from duelrank.adapters.ubi import UbiLog
    from duelrank.service import Service
    from duelrank.service.http.schema import BackfillCounts, LoggedImpression, RankerInfo

# Lists of one request, and their bytes: a service takes 8 MiB, unless it was told otherwise.
MOST_LISTS, MOST_BYTES = 500, 6 << 20
# Seconds: between two looks at what was learned, and for the last version to come when all was.
POLL_EVERY, PATIENCE = 0.1, 15.0
# Reasons that are shown.
FIRST = 5
# The HTTP status of a request that is larger than the service takes.
TOO_LARGE = 413
# Attempts after one that failed: a service may be restarted meanwhile.
RETRIES = 8

PlaceArgument = Annotated[
    str,
    typer.Argument(
        metavar="STORE",
        help="File or address of the store; or the address of a running service, such as http://host:8000.",
    ),
]
RankerArgument = Annotated[str, typer.Argument(metavar="RANKER", help="Name of the ranker to teach.")]
QueriesOption = Annotated[
    list[str],
    typer.Option(
        "--queries", metavar="FILE", help="Queries and the lists that they have shown (ubi_queries). May be repeated."
    ),
]
EventsOption = Annotated[
    list[str], typer.Option("--events", metavar="FILE", help="What users did (ubi_events). May be repeated.")
]
FeaturesOption = Annotated[
    list[str],
    typer.Option(
        "--features", metavar="FILE", help="Features of each query and document. May be repeated; - is stdin."
    ),
]
LengthOption = Annotated[
    int | None,
    typer.Option("--length", min=1, help="Documents on a page, where a query has more hits than were shown."),
]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="ACTION", help="Name of an action to leave out. May be repeated."),
]
ErrorsOption = Annotated[
    int,
    typer.Option("--max-errors", min=0, help="Number of records that may be unreadable; one more stops the command."),
]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Only read the log and report; change nothing.")]

#: Hands some lists over.
Send: TypeAlias = "Callable[[Sequence[LoggedImpression]], BackfillCounts]"


def backfill(
    store: PlaceArgument,
    ranker: RankerArgument,
    queries: QueriesOption,
    events: EventsOption,
    features: FeaturesOption,
    length: LengthOption = None,
    ignore: IgnoreOption = None,
    max_errors: ErrorsOption = 100,
    dry_run: DryOption = False,
    api_key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Teach a ranker with the log of another search, in the form of User Behavior Insights; run again, it goes on where it was."""
    from duelrank.adapters.ubi import UbiLog, check_files

    check_files(queries, events, features)
    with _destination(store, ranker, api_key, dry_run) as (info, send):
        names, actions, ignore = info.features, list(info.actions), ignore or []
        log = UbiLog(queries, events, features, names, actions, length, ignore, max_errors, info.precision)
        sent = _Sent()
        with _saying(sent):
            for chunk in _chunks(log.lists(bytes_bar)):
                if not dry_run:
                    sent.hand_over(chunk, send)
    if json:
        print_json(_as_json(log, sent))
    else:
        _print(log, sent, dry_run)


@contextmanager
def _destination(place: str, ranker: str, api_key: str | None, dry_run: bool) -> Iterator[tuple[RankerInfo, Send]]:
    """Return a ranker that can be taught, and what teaches it: a running service, or one that is started for this."""
    if place.startswith(("http://", "https://")):
        with connect(place, api_key, "in place of a store", RETRIES) as client:
            client.backfill(ranker, [])  # changes nothing, and is refused where the ranker cannot be taught
            yield client.ranker(ranker), lambda lists: client.backfill(ranker, lists)
    else:
        with _own_service(place, ranker, dry_run) as found:
            yield found


@contextmanager
def _own_service(place: str, ranker: str, dry_run: bool) -> Iterator[tuple[RankerInfo, Send]]:
    need_extra("duelrank.service.replay")
    import asyncio
    import math

    from duelrank.service import Service, Settings

    newest: list[str] = []  # ids of the lists that were sent last

    def send(lists: Sequence[LoggedImpression]) -> BackfillCounts:
        newest[:] = [each.impression_id for each in lists]
        return runner.run(service.backfill(ranker, lists))

    with opened_store(place) as storage, asyncio.Runner() as runner:
        # Nothing is removed: what is old by the settings here may not be so by those of the service.
        service = Service(storage, Settings(tidy_every=math.inf), read_only=dry_run)
        try:
            runner.run(_started(service))
            service.check_backfill(ranker)
            yield service.ranker(ranker), send
            with spinner("learning"):
                runner.run(_learned(service, ranker, newest))
        finally:
            runner.run(service.stop())


async def _started(service: Service) -> None:
    from duelrank.core.errors import StoreLocked

    try:
        await service.start()
        await service.wait_ready()
    except StoreLocked as error:
        raise StoreLocked(f"{error}; or teach a ranker of that one: duelrank backfill http://ADDRESS …") from None


async def _learned(service: Service, ranker: str, newest: Sequence[str]) -> None:
    """Wait until a version is served that knows all lists; those that cannot be learned from make none, and are not waited for."""
    import asyncio

    from duelrank.service.log import LOGGED

    found = service.storage.log.find(ranker, LOGGED, newest)
    last = max((event.number for event in found.values()), default=0)
    waited = 0.0
    while waited < PATIENCE and service.versions(ranker)[-1].number < last:
        await asyncio.sleep(POLL_EVERY)
        waited = 0.0 if service.lag() else waited + POLL_EVERY


def _chunks(lists: Iterable[LoggedImpression]) -> Iterator[list[LoggedImpression]]:
    """Return the lists, many at a time."""
    import msgspec

    chunk: list[LoggedImpression] = []
    size = 0
    for each in lists:
        more = len(msgspec.json.encode(each)) + 1
        if chunk and (len(chunk) >= MOST_LISTS or size + more > MOST_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(each)
        size += more
    if chunk:
        yield chunk


@contextmanager
def _saying(sent: _Sent) -> Iterator[None]:
    """Say what has been done already where something ends the command early."""
    from duelrank.core.errors import DuelrankError

    try:
        yield
    except (DuelrankError, KeyboardInterrupt):
        if sent.taken:
            tell(f"{sent.taken:,} lists were taken before this ended; the same command again goes on from there")
        raise


@dataclass
class _Sent:
    """What became of the lists that were handed over."""

    taken: int = 0
    there_already: int = 0
    refused: int = 0
    reasons: list[str] = field(default_factory=list)

    def hand_over(self, chunk: Sequence[LoggedImpression], send: Send) -> None:
        """Send some lists, in smaller pieces where a service takes only these; a single one that is too large is refused."""
        from duelrank.core.errors import DuelrankError
        from duelrank.service.http.schema import BackfillCounts, Invalid

        try:
            counts = send(chunk)
        except DuelrankError as error:
            if getattr(error, "status", None) != TOO_LARGE:
                raise
            if len(chunk) > 1:
                middle = len(chunk) // 2
                self.hand_over(chunk[:middle], send)
                self.hand_over(chunk[middle:], send)
                return
            counts = BackfillCounts(invalid=[Invalid(0, chunk[0].impression_id, str(error))])
        self.add(chunk, counts)

    def add(self, chunk: Sequence[LoggedImpression], counts: BackfillCounts) -> None:
        """Add what became of some lists."""
        self.taken += counts.accepted
        self.there_already += counts.duplicate
        self.refused += len(counts.invalid)
        for each in counts.invalid[: FIRST - len(self.reasons)]:
            self.reasons.append(f"list {chunk[each.index].impression_id!r}: {each.reason}")


def _as_json(log: UbiLog, sent: _Sent) -> dict[str, Any]:
    unreadable = {"unreadable": log.errors.count, "first_unreadable": log.errors.first}
    features = {"missing_features": dict(log.reader.missing), "unused_features": sorted(log.reader.unused)}
    return asdict(log.counts) | asdict(sent) | unreadable | features


def _print(log: UbiLog, sent: _Sent, dry_run: bool) -> None:
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right")
    for count, text in _lines(log, sent, dry_run):
        table.add_row(f"{count:,}", text)
    out().print(table)
    for reason in (*sent.reasons, *log.errors.first):
        tell(reason)
    for hint in _hints(log):
        tell(f"note: {hint}")


def _lines(log: UbiLog, sent: _Sent, dry_run: bool) -> Iterator[tuple[int, str]]:
    """Return what a person wants to know: numbers, and of what."""
    counts = log.counts
    yield counts.lists, "lists read"
    if dry_run:
        yield counts.complete, "can teach; nothing was sent (--dry-run)"
    else:
        yield sent.taken, "taken"
    lacking = counts.documents_without_features
    others = (
        (sent.there_already, "there already: from an earlier run, or the same query_id twice"),
        (sent.refused, "refused"),
        (counts.untouched, "left out: nobody did anything with them that the ranker weighs"),
        (counts.incomplete, f"left out: {lacking:,} of the documents that they have shown have no features in the log"),
        (counts.empty, "left out: they have shown nothing"),
        (log.errors.count, "records could not be read"),
        (counts.events - counts.matched, f"of {counts.events:,} events are about other lists"),
        (counts.elsewhere, "actions on documents that were not in their list, which do not count"),
    )
    yield from ((count, text) for count, text in others if count)


def _hints(log: UbiLog) -> Iterator[str]:
    """Return what is likely to be a mistake."""
    counts, reader = log.counts, log.reader
    if counts.lists and not counts.matched:
        yield "no event is about any of these lists: are the files of the same days, and is query_id the same in both?"
    if counts.incomplete > counts.complete:
        yield (
            "most lists have a document without features; --length says how many of the hits were shown, and features need the "
            "same query_id and object_id as the hits"
        )
    if counts.looked >= 100 and counts.looked == counts.to_the_end:
        yield (
            "all lists were seen to the end: if impressions are sent for what is rendered, not for what is in view, "
            "leave them out with --ignore impression"
        )
    for name, count in reader.missing.most_common():
        yield f"feature {name!r} has no value in {count:,} documents; it counts as 0"
    if reader.unused:
        names = sorted(reader.unused)
        yield f"features that the ranker does not have are left out: {', '.join(names[:10])}{' …' if len(names) > 10 else ''}"
