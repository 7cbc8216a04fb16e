"""``duelrank bench``: measures the time per impression."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from duelrank.cli.console import out, print_json
from duelrank.cli.options import JsonOption
from duelrank.core.progress import count_bar

if TYPE_CHECKING:
    from rich.table import Table

    from duelrank.testing.benchmark import Timing

CONTENDERS = ["dbgd", "dbgd-dsp", "mgd", "mgd-dsp", "mgd(n_candidates=49)", "nsgd", "nsgd-dsp"]


def bench(
    algorithms: Annotated[
        list[str] | None, typer.Argument(help="Algorithms to time; those of the paper by default.")
    ] = None,
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, help="Number of rounds; every algorithm runs once in each.")
    ] = 7,
    impressions: Annotated[int, typer.Option("--impressions", min=10, help="Number of impressions per round.")] = 300,
    as_json: JsonOption = False,
) -> None:
    """Measure the time per impression of each algorithm: the median over rounds that interleave all algorithms."""
    from duelrank.testing.benchmark import benchmark

    with count_bar("timing") as tell:
        timings = list(benchmark(algorithms or CONTENDERS, rounds=rounds, impressions=impressions, progress=tell))
    if as_json:
        print_json([asdict(timing) | {"outside": timing.outside, "speedup": timing.speedup} for timing in timings])
    else:
        out().print(_table(timings))


def _table(timings: list[Timing]) -> Table:
    from rich.table import Table

    table = Table(
        title="Microseconds per impression: rank, click, learn, measure the list",
        caption="kernels: inside compiled calls · Python: around them · naive: the same algorithm on plain NumPy",
        title_justify="left",
        caption_justify="left",
    )
    for heading in ("documents", "features", "algorithm", "total", "kernels", "Python", "naive"):
        table.add_column(heading, justify="left" if heading == "algorithm" else "right")
    for before, timing in zip([None, *timings], timings, strict=False):
        size = (timing.n_documents, timing.n_features)
        if before is not None and (before.n_documents, before.n_features) != size:
            table.add_section()
        share = timing.outside / timing.total
        cells = (f"{timing.total:.1f}", f"{timing.kernels:.1f}", f"{timing.outside:.1f} ({share:.0%})")
        table.add_row(*map(str, size), timing.algorithm, *cells, f"{timing.speedup:.1f} ×")
    return table
