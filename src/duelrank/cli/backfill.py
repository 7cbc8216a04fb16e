"""``duelrank backfill``: lets a ranker learn from the log of another search system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from duelrank.cli.console import out, print_json, print_note
from duelrank.cli.options import (
    URL,
    BiasOption,
    JsonOption,
    KeyOption,
    RewardChoice,
    RewardOption,
    UrlOption,
    connect,
    is_service,
    opened_store,
)
from duelrank.cli.serve import need_extra
from duelrank.core.progress import bytes_bar, spinner
from duelrank.core.registry import counted

if TYPE_CHECKING:
    from duelrank.adapters.tables import TableLog
    from duelrank.adapters.ubi import UbiLog
    from duelrank.service.backfill import BackfillResult, BackfillTarget
    from duelrank.service.http.schema import RankerInfo

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
LogOption = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="FILE",
        help="CSV or Parquet file with a row for each shown document, instead of the three files of UBI. May be repeated.",
    ),
]
ColumnsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="MEANING=COLUMN,…",
        help="Columns of --log with other names: of list, query, document, position, clicked, action, seen, user, time, or of "
        "features, actions and contexts of the ranker.",
    ),
]
QueriesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--queries", metavar="FILE", help="File of queries with their result lists (ubi_queries). May be repeated."
    ),
]
EventsOption = Annotated[
    list[str] | None,
    typer.Option("--events", metavar="FILE", help="File of user events (ubi_events). May be repeated."),
]
FeaturesOption = Annotated[
    list[str] | None,
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
EvaluateOption = Annotated[
    float | None,
    typer.Option(
        "--evaluate",
        metavar="SHARE",
        help="Change nothing: learn from this share of the lists, the first ones, and say what the result would have been worth on "
        "the others; as duelrank evaluate does, with --bias and --reward.",
    ),
]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Only read the log and report; change nothing.")]


def backfill(
    ranker: RankerArgument,
    second: SecondArgument = None,
    log: LogOption = None,
    columns: ColumnsOption = None,
    queries: QueriesOption = None,
    events: EventsOption = None,
    features: FeaturesOption = None,
    length: LengthOption = None,
    ignore: IgnoreOption = None,
    max_errors: ErrorsOption = 100,
    dry_run: DryOption = False,
    evaluate: EvaluateOption = None,
    bias: BiasOption = None,
    reward: RewardOption = RewardChoice.clicks,
    store: StoreInsteadOption = None,
    url: UrlOption = URL,
    api_key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Let a ranker learn from the log of another search: a table, or files of User Behavior Insights; repeat it to resume."""
    from duelrank.service.backfill import BackfillResult

    files = Files(log or [], columns or [], queries or [], events or [], features or [])
    files.check()
    result = BackfillResult()
    reading: dict[str, Any] = {"length": length, "ignore": ignore or [], "max_errors": max_errors}
    place, name = (store or url, ranker) if second is None else (ranker, second)
    if evaluate is not None:
        _evaluate(files, evaluate, _info(place, name, api_key), reading, {"reward": reward.value, "bias": bias}, json)
        return
    with _target(place, name, api_key, dry_run) as target:
        reader = files.log(target.info, **reading)
        with _progress_on_error(result):
            if dry_run:
                for _ in reader.lists(bytes_bar):
                    pass
            else:
                result.send_all(reader.lists(bytes_bar), target)
        with spinner("learning"):
            target.finish()
    if json:
        print_json(_as_json(reader, result))
    else:
        _print(reader, result, dry_run)


def _evaluate(
    files: Files, share: float, info: RankerInfo, reading: dict[str, Any], how: dict[str, Any], json: bool
) -> None:
    """Evaluate on the last lists of a log what a ranker would have learned from the first ones."""
    from duelrank.adapters.ubi import STDIN
    from duelrank.cli.evaluate import evaluate_backfill, show
    from duelrank.core.errors import InvalidValue

    if not 0.0 < share < 1.0:
        raise InvalidValue(f"--evaluate is the share of lists to learn from, between 0 and 1, got {share:g}")
    if any(STDIN in each for each in files):
        raise InvalidValue("--evaluate reads the log twice, so it cannot come from stdin; name a file")
    show(evaluate_backfill(files, info, share, reading, how), None, json)


class Files(NamedTuple):
    """The files of a log: tables with their columns, or queries, events and features of User Behavior Insights."""

    table: Sequence[str]
    columns: Sequence[str]
    queries: Sequence[str]
    events: Sequence[str]
    features: Sequence[str]

    def check(self) -> None:
        """Raise an error if a file is missing, or options are missing or do not fit together."""
        from duelrank.adapters.tables import parse_columns
        from duelrank.adapters.ubi import check_files
        from duelrank.core.errors import InvalidValue

        ubi = {"--queries": self.queries, "--events": self.events, "--features": self.features}
        if self.table and any(ubi.values()):
            raise InvalidValue("a log is --log, or --queries, --events and --features, not both")
        if self.columns and not self.table:
            raise InvalidValue("--columns are those of --log")
        if not self.table and not all(ubi.values()):
            lacking = ", ".join(option for option, files in ubi.items() if not files)
            raise InvalidValue(f"a log is --log, or --queries, --events and --features; {lacking} is missing")
        check_files(self.table, *ubi.values())
        parse_columns(self.columns)

    def log(self, info: RankerInfo, **options: Any) -> UbiLog | TableLog:
        """Return the log for a ranker: with its features, and with the texts of queries if it remembers them."""
        from duelrank.representation import Interactions

        names = Interactions(info.features, info.context).given
        options |= {"actions": list(info.actions), "context": list(info.context), "lacking": _lacking(info)}
        return self.reader(names, precision=info.precision, with_queries=info.remembers, **options)

    def feature_names(self) -> list[str]:
        """Return the columns of tables that have no other meaning; raise for files of User Behavior Insights."""
        from duelrank.adapters.tables import feature_columns, parse_columns
        from duelrank.core.errors import InvalidValue

        if not self.table:
            raise InvalidValue("name the features of the log with --names, such as --names bm25,price")
        return feature_columns(self.table, parse_columns(self.columns))

    def reader(self, names: Sequence[str], **options: Any) -> UbiLog | TableLog:
        """Return the log with features of these names."""
        from duelrank.adapters.tables import TableLog, parse_columns
        from duelrank.adapters.ubi import UbiLog

        if self.table:
            return TableLog(self.table, names, parse_columns(self.columns), **options)
        return UbiLog(self.queries, self.events, self.features, names, **options)


def _lacking(info: RankerInfo) -> list[str]:
    """Return the names of the features whose values may be missing."""
    from duelrank.core.errors import DuelrankError
    from duelrank.representation.base import split_missing
    from duelrank.representation.fixed import read_representation

    try:
        missing, _ = split_missing(read_representation(info.representation, info.features))
    except DuelrankError:  # such as a representation of an extension that only the service has
        return []
    return [] if missing is None else list(missing.lacking(info.features))


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


def _info(place: str, ranker: str, api_key: str | None) -> RankerInfo:
    """Return what is known of a ranker of a running service, or of a store that no service has open."""
    if is_service(place):
        with connect(place, api_key, RETRIES) as client:
            return client.ranker(ranker)
    with _target(place, ranker, api_key, dry_run=True) as target:
        return target.info


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


def _as_json(log: UbiLog | TableLog, result: BackfillResult) -> dict[str, Any]:
    unreadable = {"unreadable": log.errors.count, "first_unreadable": log.errors.first}
    features = {"missing_features": dict(log.reader.missing), "unused_features": sorted(log.reader.unused)}
    return asdict(log.counts) | asdict(result) | unreadable | features


def _print(log: UbiLog | TableLog, result: BackfillResult, dry_run: bool) -> None:
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


def _lines(log: UbiLog | TableLog, result: BackfillResult, dry_run: bool) -> Iterator[tuple[int, str]]:
    """Return the numbers to print, each with its meaning."""
    counts = log.counts
    yield counts.lists, "lists read"
    if dry_run:
        yield counts.complete, "can be learned from; nothing was sent (--dry-run)"
    else:
        yield result.taken, "accepted"
    lacking, what = counts.documents_without_features, "features" if _is_ubi(log) else "readable row"
    others = (
        (result.there_already, "known already: sent by an earlier run, or the same query_id twice"),
        (result.refused, "refused"),
        (counts.untouched, "skipped: no action that has a weight in the ranker"),
        (counts.incomplete, f"skipped: {lacking:,} of their shown documents have no {what} in the log"),
        (counts.empty, "skipped: no documents were shown"),
        (log.errors.count, "records could not be read"),
        (counts.events - counts.matched, f"of {counted(counts.events, 'event')} belong to other lists"),
        (counts.elsewhere, "actions ignored: their documents were not in the list"),
    )
    yield from ((count, text) for count, text in others if count)


def _hints(log: UbiLog | TableLog) -> Iterator[str]:
    """Return notes on likely mistakes."""
    counts, reader = log.counts, log.reader
    if counts.lists and not counts.matched and not _is_ubi(log):
        yield "no row has a click or another action: which column has them? Name it with --columns clicked=COLUMN"
    elif counts.lists and not counts.matched:
        yield "no event belongs to any of these lists: are the files of the same days, and is query_id the same in both?"
    if counts.incomplete > counts.complete and _is_ubi(log):
        yield (
            "most lists have a document without features; give the number of shown hits with --length, and use the same query_id "
            "and object_id in features and hits"
        )
    if counts.complete >= 10 and counts.only_clicks == counts.complete:
        yield "every document of these lists was clicked; a ranker also needs the documents that were shown and not clicked"
    if counts.complete and log.context and not counts.with_context:
        where = "query_attributes" if _is_ubi(log) else "a column"
        yield f"no list has a value of {', '.join(log.context)} in {where}, so the log teaches one order for all contexts"
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


def _is_ubi(log: UbiLog | TableLog) -> bool:
    from duelrank.adapters.ubi import UbiLog

    return isinstance(log, UbiLog)
