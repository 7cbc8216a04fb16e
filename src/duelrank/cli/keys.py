"""``duelrank keys``: who may use a service."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from duelrank.cli.console import out, print_json, tell
from duelrank.cli.options import JsonOption
from duelrank.cli.serve import SQLITE, StoreOption, need_extra

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="API keys of a service: make, list and revoke them.")

ScopeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--scope", "-s", help="What the key allows: rank, feedback or admin (everything). Can be given more than once."
    ),
]


@app.command()
def create(store: StoreOption = SQLITE, scope: ScopeOption = None, json: JsonOption = False) -> None:
    """Make a key, and show it this once; a running service knows it within seconds."""
    need_extra()
    from duelrank.serving.web import make_key
    from duelrank.storage import open_storage

    token, key = make_key(scope or ["rank", "feedback"])
    with open_storage(store) as storage:
        storage.add_key(key)
    if json:
        print_json({"key": token, "id": key.id, "scopes": key.scopes})
        return
    typer.echo(token)
    tell(f"a key for {' and '.join(key.scopes)}, with the id {key.id}; only its hash is kept, so store it safely now")


@app.command("list")
def list_keys(store: StoreOption = SQLITE, json: JsonOption = False) -> None:
    """List the keys of a store, without their secrets."""
    from rich.table import Table

    from duelrank.storage import open_storage

    with open_storage(store) as storage:
        keys = storage.keys()
    if json:
        print_json([{"id": key.id, "scopes": key.scopes, "created": key.created} for key in keys])
        return
    if not keys:
        tell("there are no keys: the service answers this machine only, and everybody on it")
        return
    table = Table("id", "scopes", "created")
    for key in keys:
        created = datetime.fromtimestamp(key.created).astimezone()
        table.add_row(key.id, " ".join(key.scopes), f"{created:%Y-%m-%d %H:%M}")
    out().print(table)


@app.command()
def revoke(
    id: Annotated[str, typer.Argument(help="The id of the key; duelrank keys list shows it.")],
    store: StoreOption = SQLITE,
) -> None:
    """Revoke a key; a running service refuses it within seconds."""
    from duelrank.errors import UnknownName
    from duelrank.storage import open_storage

    with open_storage(store) as storage:
        known = storage.keys()
        if not storage.revoke_key(id):
            raise UnknownName.among("API key", id, [key.id for key in known])
    left = len(known) - 1
    tell(
        f"revoked {id}; {left} left"
        + ("" if left else ": a running service now refuses everybody, a new one has no keys")
    )
