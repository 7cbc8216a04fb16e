"""``duelrank memory`` and ``duelrank forget``: what a ranker of a running service remembers of queries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duelrank.cli.console import out, print_note
from duelrank.cli.options import URL, JsonOption, KeyOption, UrlOption, connect
from duelrank.cli.rankers import NameArgument, write_json
from duelrank.core.registry import counted

if TYPE_CHECKING:
    from duelrank.service.http.schema import MemoryInfo, RememberedQuery

#: Number of documents of a query in an overview of several queries.
BEST = 3

QueryOption = Annotated[
    str | None, typer.Option("--query", "-q", help="Text of a query; case and spaces make no difference.")
]
QueryKeyOption = Annotated[str | None, typer.Option("--query-key", help="Key of a query, instead of its text.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=100, help="Maximum number of queries to show.")]
ExportOption = Annotated[
    str | None,
    typer.Option(
        "--export",
        metavar="FORMAT",
        help="Write the chosen documents of queries for a search engine: json, solr (elevate.xml), elasticsearch (query rules) "
        "or opensearch (should clauses).",
    ),
]
TopOption = Annotated[
    int, typer.Option("--top", min=1, max=10_000, help="With --export: number of queries, those with the most views.")
]
EvidenceOption = Annotated[
    float, typer.Option("--evidence", min=0.0, help="With --export: least number of clicks on a document.")
]
DocumentsOption = Annotated[
    int, typer.Option("--documents", min=1, max=100, help="With --export: maximum number of documents of a query.")
]
OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="With --export: file to write instead of stdout.")]
DocumentOption = Annotated[
    str | None, typer.Option("--document", help="Id of a document, which is forgotten in all queries.")
]
EverythingOption = Annotated[bool, typer.Option("--everything", help="Forget all queries.")]


def memory(
    name: NameArgument,
    query: QueryOption = None,
    query_key: QueryKeyOption = None,
    limit: LimitOption = 20,
    export: ExportOption = None,
    top: TopOption = 100,
    evidence: EvidenceOption = 10.0,
    documents: DocumentsOption = 3,
    output: OutOption = None,
    url: UrlOption = URL,
    api_key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Show what the users of a query chose, or the queries in which that has the largest effect; or export it."""
    _check(export, output, query, query_key, json)
    with connect(url, api_key) as client:
        if export is not None:
            _write(client.export_memory(name, export, top, evidence, documents), output)
            return
        found = client.memory(name, query, query_key, limit)
    if json:
        write_json(found)
    else:
        _print(found, query is not None or query_key is not None)


def forget(
    name: NameArgument,
    query: QueryOption = None,
    query_key: QueryKeyOption = None,
    document: DocumentOption = None,
    everything: EverythingOption = False,
    url: UrlOption = URL,
    api_key: KeyOption = None,
) -> None:
    """Make a ranker forget a query, a document of all queries, or everything that it remembers of queries."""
    from duelrank.core.errors import InvalidValue

    if sum(each is not None for each in (query, query_key, document)) + everything != 1:
        raise InvalidValue("name what to forget with one of --query, --query-key, --document and --everything")
    with connect(url, api_key) as client:
        asked = query is not None or query_key is not None
        if asked and not client.memory(name, query, query_key).remembered:
            print_note(f"{name} does not know this query")
            return
        client.forget(name, query, query_key, document, everything)
        print_note(f"forgotten; {counted(client.memory(name, limit=1).queries, 'query')} left in the memory of {name}")


def _check(export: str | None, output: Path | None, query: str | None, query_key: str | None, json: bool) -> None:
    from duelrank.cli.options import check_file
    from duelrank.core.errors import InvalidValue

    if export is not None and (query is not None or query_key is not None or json):
        raise InvalidValue("--export writes many queries: give it without --query, --query-key and --json")
    if output is not None and export is None:
        raise InvalidValue("--out is the file of an export: give a format with --export")
    if output is not None:
        check_file(output)


def _write(content: bytes, output: Path | None) -> None:
    from duelrank.core.files import write_bytes

    if output is None:
        typer.echo(content, nl=False)
    else:
        write_bytes(output, content)


def _print(found: MemoryInfo, one: bool) -> None:
    """Print a table; of an overview, the best documents of each query."""
    from rich.table import Table
    from rich.text import Text

    if not found.remembered:
        print_note(f"{found.ranker} does not know this query" if one else f"{found.ranker} remembers no query yet")
        return
    table = Table("query", "lists", "document", "clicks", "views", "boost")
    for column in table.columns[1:2] + table.columns[3:]:
        column.justify = "right"
    for each in found.remembered:
        _add(table, each, len(each.documents) if one else BEST)
        table.add_section()
    out().print(table)
    documents = counted(found.documents, "document")
    size = f"{counted(found.queries, 'query')}, {documents}, {counted(found.bytes, 'byte')}"
    out().print(Text(f"{size}; {found.clicks_per_view:.3g} clicks per view over all queries"))


def _add(table: object, query: RememberedQuery, most: int) -> None:
    """Add the rows of a query; its text and its number of lists are in the first."""
    from rich.table import Table
    from rich.text import Text

    assert isinstance(table, Table)
    shown = query.documents[:most]
    for place, each in enumerate(shown):
        head = ("", "") if place else (Text(query.query), f"{query.lists:,}")
        table.add_row(*head, Text(each.id), f"{each.clicks:,.1f}", f"{each.views:,.1f}", f"{each.boost:+.2f}")
    if (rest := len(query.documents) - len(shown)) > 0:
        table.add_row("", "", Text(f"{rest:,} more", style="dim"), "", "", "")
    if not query.documents:
        table.add_row(Text(query.query), f"{query.lists:,}", "", "", "", "")
