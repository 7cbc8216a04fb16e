"""``duelrank backfill``: lets a ranker learn from the log of another search system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duelrank.cli.console import out, print_json, print_note
from duelrank.cli.options import URL, JsonOption, KeyOption, UrlOption, connect, is_service, opened_store
from duelrank.cli.serve import need_extra
from duelrank.core.progress import bytes_bar, spinner
from duelrank.core.registry import counted

if TYPE_CHECKING:
    from duelrank.adapters.ubi import UbiLog
    from duelrank.service.backfill import BackfillResult, BackfillTarget

# Attempts after a failed one: a service may be restarted meanwhile.
RETRIES = 8

RankerArgument = Annotated[str, typer.Argument(metavar="RANKER", help="Name of the ranker that learns.")]
SecondArgument = Annotated[
    str | None,
    typer.Argument(hidden=True, help="Name of the ranker if the first argument is an address, as in earlier releases."),
]
StoreInsteadOption = Annotated[
    str | None,
    typer.Option("--store", help="File or address of a store that no service has open, instead of --url."),
]
QueriesOption = Annotated[
    list[str],
    typer.Option(
        "--queries", metavar="FILE", help="File of queries with their result lists (ubi_queries). May be repeated."
    ),
]
EventsOption = Annotated[
    list[str], typer.Option("--events", metavar="FILE", help="File of user events (ubi_events). May be repeated.")
]
FeaturesOption = Annotated[
    list[str],
    typer.Option(
        "--features", metavar="FILE", help="File of features by query and document. May be repeated; - is stdin."
    ),
]
LengthOption = Annotated[
    int | None,
    typer.Option("--length", min=1, help="Number of documents on a page, if queries have more hits than were shown."),
]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="ACTION", help="Name of an action to ignore. May be repeated."),
]
ErrorsOption = Annotated[
    int,
    typer.Option("--max-errors", min=0, help="Maximum number of unreadable records."),
]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Only read the log and report; change nothing.")]


def backfill(
    ranker: RankerArgument,
    queries: QueriesOption,
    events: EventsOption,
    features: FeaturesOption,
    second: SecondArgument = None,
    length: LengthOption = None,
    ignore: IgnoreOption = None,
    max_errors: ErrorsOption = 100,
    dry_run: DryOption = False,
    store: StoreInsteadOption = None,
    url: UrlOption = URL,
    api_key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Let a ranker learn from the log of another search, in the format of User Behavior Insights; repeat the command to resume."""
    from duelrank.adapters.ubi import UbiLog, check_files
    from duelrank.service.backfill import BackfillResult

    check_files(queries, events, features)
    result = BackfillResult()
    place, name = (store or url, ranker) if second is None else (ranker, second)
    with _target(place, name, api_key, dry_run) as target:
        info = target.info
        names, actions, ignore = info.features, list(info.actions), ignore or []
        options = (length, ignore, max_errors, info.precision, _remembers(info.algorithm))
        log = UbiLog(queries, events, features, names, actions, *options)
        with _progress_on_error(result):
            if dry_run:
                for _ in log.lists(bytes_bar):
                    pass
            else:
                result.send_all(log.lists(bytes_bar), target)
        with spinner("learning"):
            target.finish()
    if json:
        print_json(_as_json(log, result))
    else:
        _print(log, result, dry_run)


def _remembers(algorithm: str) -> bool:
    """Whether an algorithm remembers queries: only then their texts are sent."""
    from duelrank.algorithms.remembered import Remember
    from duelrank.core.errors import DuelrankError
    from duelrank.core.grammar import parse
    from duelrank.core.registry import walk

    try:
        return any(isinstance(part, Remember) for _, part in walk(parse(algorithm)))
    except DuelrankError:  # such as an algorithm of an extension that only the service has
        return False


@contextmanager
def _target(place: str, ranker: str, api_key: str | None, dry_run: bool) -> Iterator[BackfillTarget]:
    """Open a ranker of a running service, or of a store."""
    from duelrank.service.backfill import BackfillTarget, local_target

    if is_service(place):
        with connect(place, api_key, RETRIES) as client:
            client.backfill(ranker, [])  # changes nothing, and raises an error if the ranker cannot learn from a log
            yield BackfillTarget(client.ranker(ranker), lambda lists: client.backfill(ranker, lists))
    else:
        need_extra("duelrank.service.replay")
        with opened_store(place) as storage, local_target(storage, ranker, dry_run) as target:
            yield target


@contextmanager
def _progress_on_error(result: BackfillResult) -> Iterator[None]:
    """Print the number of accepted lists if an error or Ctrl-C ends the command."""
    from duelrank.core.errors import DuelrankError

    try:
        yield
    except (DuelrankError, KeyboardInterrupt):
        if result.taken:
            print_note(f"{counted(result.taken, 'list')} accepted before this; run the same command again to resume")
        raise


def _as_json(log: UbiLog, result: BackfillResult) -> dict[str, Any]:
    unreadable = {"unreadable": log.errors.count, "first_unreadable": log.errors.first}
    features = {"missing_features": dict(log.reader.missing), "unused_features": sorted(log.reader.unused)}
    return asdict(log.counts) | asdict(result) | unreadable | features


def _print(log: UbiLog, result: BackfillResult, dry_run: bool) -> None:
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right")
    for count, text in _lines(log, result, dry_run):
        table.add_row(f"{count:,}", text)
    out().print(table)
    for reason in (*result.reasons, *log.errors.first):
        print_note(reason)
    for hint in _hints(log):
        print_note(f"note: {hint}")


def _lines(log: UbiLog, result: BackfillResult, dry_run: bool) -> Iterator[tuple[int, str]]:
    """Return the numbers to print, each with its meaning."""
    counts = log.counts
    yield counts.lists, "lists read"
    if dry_run:
        yield counts.complete, "can be learned from; nothing was sent (--dry-run)"
    else:
        yield result.taken, "accepted"
    lacking = counts.documents_without_features
    others = (
        (result.there_already, "known already: sent by an earlier run, or the same query_id twice"),
        (result.refused, "refused"),
        (counts.untouched, "skipped: no action that has a weight in the ranker"),
        (counts.incomplete, f"skipped: {lacking:,} of their shown documents have no features in the log"),
        (counts.empty, "skipped: no documents were shown"),
        (log.errors.count, "records could not be read"),
        (counts.events - counts.matched, f"of {counted(counts.events, 'event')} belong to other lists"),
        (counts.elsewhere, "actions ignored: their documents were not in the list"),
    )
    yield from ((count, text) for count, text in others if count)


def _hints(log: UbiLog) -> Iterator[str]:
    """Return notes on likely mistakes."""
    counts, reader = log.counts, log.reader
    if counts.lists and not counts.matched:
        yield "no event belongs to any of these lists: are the files of the same days, and is query_id the same in both?"
    if counts.incomplete > counts.complete:
        yield (
            "most lists have a document without features; give the number of shown hits with --length, and use the same query_id "
            "and object_id in features and hits"
        )
    if counts.looked >= 100 and counts.looked == counts.to_the_end:
        yield (
            "all lists were viewed to the end: if impressions are logged for rendered documents instead of visible ones, "
            "ignore them with --ignore impression"
        )
    for name, count in reader.missing.most_common():
        yield f"feature {name!r} has no value in {counted(count, 'document')}; it is taken as 0"
    if reader.unused:
        names = sorted(reader.unused)
        yield f"features that the ranker does not have are ignored: {', '.join(names[:10])}{' …' if len(names) > 10 else ''}"
