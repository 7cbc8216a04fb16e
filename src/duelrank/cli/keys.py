"""``duelrank keys``: creates, lists and revokes the API keys of a service."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duelrank.cli.console import out, print_json, tell
from duelrank.cli.options import JsonOption
from duelrank.cli.serve import SQLITE, StoreOption, need_extra

if TYPE_CHECKING:
    from duelrank.storage import ApiKey

app = typer.Typer(no_args_is_help=True, help="Create, list and revoke the API keys of a service.")

ScopeOption = Annotated[
    list[str] | None,
    typer.Option("--scope", "-s", help="Scope of the key: rank, feedback or admin (everything). May be repeated."),
]
RankerOption = Annotated[
    list[str] | None,
    typer.Option("--ranker", "-r", help="Limit the key to this ranker. May be repeated; all rankers if not given."),
]


@app.command()
def create(
    store: StoreOption = SQLITE, scope: ScopeOption = None, ranker: RankerOption = None, json: JsonOption = False
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
    tell(f"key {key.id} for {' and '.join(key.scopes)}{limited}; store it safely now: only its hash is kept")


def _described(key: ApiKey) -> dict[str, Any]:
    return {"id": key.id, "scopes": key.scopes, "rankers": list(key.rankers), "created": key.created}


@app.command("list")
def list_keys(store: StoreOption = SQLITE, json: JsonOption = False) -> None:
    """List the keys of a store, without their secrets."""
    from rich.table import Table

    from duelrank.storage import open_storage

    with open_storage(store) as storage:
        keys: list[ApiKey] = storage.keys.list()
    if json:
        print_json([_described(key) for key in keys])
        return
    if not keys:
        tell("no keys: the service accepts only requests from this machine, from all its users")
        return
    table = Table("id", "scopes", "rankers", "created")
    for key in keys:
        created = datetime.fromtimestamp(key.created).astimezone()
        rankers = " ".join(key.rankers) or "all"
        table.add_row(key.id, " ".join(key.scopes), rankers, f"{created:%Y-%m-%d %H:%M}")
    out().print(table)


@app.command()
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
    tell(
        f"revoked {id}; {left} left"
        + ("" if left else ": a running service now rejects all requests, a new one has no keys")
    )
