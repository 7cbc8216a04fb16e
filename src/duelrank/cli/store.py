"""``duelrank keys`` and ``duelrank replay``: manage the API keys of a store, and verify its event log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from duelrank.cli.console import local_time, out, print_error, print_json, print_note
from duelrank.cli.options import SQLITE, JsonOption, StoreArgument, StoreOption, opened_store
from duelrank.cli.serve import need_extra
from duelrank.core.registry import counted

if TYPE_CHECKING:
    from duelrank.service.replay import Replayed
    from duelrank.storage import ApiKey

keys = typer.Typer(no_args_is_help=True, help="Create, list and revoke the API keys of a service.")

ScopeOption = Annotated[
    list[str] | None,
    typer.Option("--scope", "-s", help="Scope of the key: rank, feedback or admin (everything). May be repeated."),
]
KeyRankerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--ranker", "-r", help="Limit the key to this ranker or experiment. May be repeated; all if not given."
    ),
]
RankerOption = Annotated[str | None, typer.Option("--ranker", "-r", help="Replay this ranker or experiment only.")]
VerifyOption = Annotated[
    bool, typer.Option("--verify", help="Exit with status 1 if the store differs from the replay.")
]
ToleranceOption = Annotated[
    float | None,
    typer.Option(
        "--tolerance",
        min=0.0,
        help="Maximum relative difference of weights, such as 1e-9, instead of equality to the bit: for a store that was written "
        "with other versions, or on a machine that is not x86-64.",
    ),
]


@keys.command()
def create(
    store: StoreOption = SQLITE, scope: ScopeOption = None, ranker: KeyRankerOption = None, json: JsonOption = False
) -> None:
    """Create a key and show it once; a running service accepts it within seconds."""
    need_extra()
    from duelrank.service.http import make_key
    from duelrank.storage import open_storage

    token, key = make_key(scope or ["rank", "feedback"], ranker or ())
    with open_storage(store) as storage:
        storage.keys.add(key)
    if json:
        print_json({"key": token, **_described(key)})
        return
    typer.echo(token)
    limited = f" on {' and '.join(ranker)}" if ranker else ""
    print_note(f"key {key.id} for {' and '.join(key.scopes)}{limited}; store it safely now: only its hash is kept")


def _described(key: ApiKey) -> dict[str, Any]:
    return {"id": key.id, "scopes": key.scopes, "rankers": list(key.rankers), "created": key.created}


@keys.command("list")
def list_keys(store: StoreOption = SQLITE, json: JsonOption = False) -> None:
    """List the keys of a store, without their secrets."""
    from rich.table import Table

    from duelrank.storage import open_storage

    with open_storage(store) as storage:
        found: list[ApiKey] = storage.keys.list()
    if json:
        print_json([_described(key) for key in found])
        return
    if not found:
        print_note("no keys: the service accepts only requests from this machine, from all its users")
        return
    table = Table("id", "scopes", "rankers", "created")
    for key in found:
        table.add_row(key.id, " ".join(key.scopes), " ".join(key.rankers) or "all", local_time(key.created))
    out().print(table)


@keys.command()
def revoke(
    id: Annotated[str, typer.Argument(help="Id of the key (see duelrank keys list).")],
    store: StoreOption = SQLITE,
) -> None:
    """Revoke a key; a running service rejects it within seconds."""
    from duelrank.core.errors import UnknownName
    from duelrank.storage import open_storage

    with open_storage(store) as storage:
        known = storage.keys.list()
        if not storage.keys.revoke(id):
            raise UnknownName.among("API key", id, [key.id for key in known])
    left = len(known) - 1
    print_note(
        f"revoked {id}; {left} left"
        + ("" if left else ": a running service now rejects all requests, a new one has no keys")
    )


def replay(
    place: StoreArgument = None,
    store: StoreOption = SQLITE,
    ranker: RankerOption = None,
    verify: VerifyOption = False,
    tolerance: ToleranceOption = None,
    json: JsonOption = False,
) -> None:
    """Replay the event log of a store, from the start or the oldest checkpoint, and compare all model versions."""
    need_extra("duelrank.service.replay")
    from dataclasses import asdict

    from duelrank.service.replay import ranker_names
    from duelrank.service.replay import replay as replay_one

    with opened_store(place or store, read_only=True) as storage:
        names = ranker_names(storage) if ranker is None else [ranker]
        results = [replay_one(storage, name, tolerance) for name in names]
    if json:
        print_json([asdict(result) for result in results])
    else:
        for result in results:
            out().print(_sentence(result), soft_wrap=True, markup=False)
        if not results:
            out().print("this store has no rankers")
    differences = [result for result in results if result.difference is not None]
    for result in differences:
        print_error(f"{result.ranker}: {result.difference}")
    if differences and tolerance is None:
        print_error(
            "a replay is equal to the bit only with the same versions of duelrank, numba and numpy, and on x86-64; "
            "otherwise compare with --tolerance 1e-9"
        )
    if verify and differences:
        raise typer.Exit(1)


def _sentence(result: Replayed) -> str:
    begin = "from empty" if result.after == 0 else f"from the checkpoint at event {result.after:,}"
    compared = (
        f"{counted(result.versions_compared, 'version')} and {counted(result.snapshots_compared, 'snapshot')} compared"
    )
    equal = "all equal" if result.largest == 0.0 else f"all equal up to {result.largest:.1g}"
    verdict = equal if result.difference is None else "NOT equal"
    learned = f"{result.learned:,} {'learned' if result.model_version else 'counted'}"
    closed = f"{learned}, {result.no_feedback:,} without feedback, {result.skipped:,} skipped"
    before = f"{counted(result.backfilled, 'list')} of a log, " if result.backfilled else ""
    lists = counted(result.impressions, "impression")
    state = f"version {result.model_version:,}, {counted(result.updates, 'update')}, " if result.model_version else ""
    return (
        f"{result.ranker}: {counted(result.events, 'event')} {begin}; {before}{lists}, {closed}, "
        f"{result.failed:,} failed, {result.open:,} open; {state}digest {result.digest}; {compared}: {verdict}"
    )
