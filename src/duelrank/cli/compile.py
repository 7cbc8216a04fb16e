"""``duelrank compile``: compiles kernels ahead, for an image or a machine that must answer at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from time import perf_counter
from typing import Annotated, TypeAlias

import typer

from duelrank.cli.options import algorithm_names
from duelrank.core.compiling import kernel_folder
from duelrank.core.errors import StorageFailure

#: What is compiled, for people, and the function that compiles it by using it.
Task: TypeAlias = tuple[str, Callable[[], None]]


def compile_(
    algorithms: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ALGORITHM]...", help="Algorithms to prepare; by default all.", autocompletion=algorithm_names
        ),
    ] = None,
    service: Annotated[bool, typer.Option(help="Prepare for the service.")] = True,
    simulations: Annotated[bool, typer.Option(help="Prepare for simulations and data sets.")] = True,
) -> None:
    """Compile all kernels now, so that no later process has to.

    They are kept in DUELRANK_HOME, or in NUMBA_CACHE_DIR, for the present processor. For other processors set NUMBA_CPU_NAME,
    such as x86-64-v3, and an empty NUMBA_CPU_FEATURES, now and later: results are the same on all x86-64 processors.
    """
    folder = kernel_folder()
    if folder is None:
        raise StorageFailure("no folder for compiled kernels is writable: set DUELRANK_HOME or NUMBA_CACHE_DIR")
    tasks = [*_tasks(algorithms or [], service, simulations)]
    began = perf_counter()
    for place, (name, task) in enumerate(tasks, 1):
        at, before = perf_counter(), _count()
        task()
        typer.echo(f"[{place}/{len(tasks)}] {name}: {_count() - before} kernels, {perf_counter() - at:.1f} s")
    typer.echo(f"{_count()} compiled kernels in {folder}; this took {perf_counter() - began:.0f} s")


def _tasks(chosen: list[str], service: bool, simulations: bool) -> Iterator[Task]:
    from duelrank.algorithms import Algorithm
    from duelrank.core.grammar import parse
    from duelrank.core.registry import aliases
    from duelrank.representation import Representation

    for name in chosen:
        parse(name, Algorithm)  # raises an error that lists the names
    names = chosen or [
        "mgd-dsp",
        *sorted(aliases(Algorithm).keys() - {"mgd-dsp"}),
    ]  # the first one with all other parts
    if service and find_spec("msgspec") is not None:
        from duelrank.service.rehearsal import rehearse

        for name in names:
            yield f"service, {name}", partial(_rehearsed, name)
        for representation in sorted(aliases(Representation)):
            yield f"service, {representation} >> {names[0]}", partial(rehearse, names[0], representation)
    if simulations:
        yield from _simulations(names)


def _rehearsed(name: str) -> None:
    """Rehearse with the default representation, and as it is written."""
    from duelrank.service.rehearsal import rehearse

    rehearse(name)
    rehearse(name, None)


def _simulations(names: list[str]) -> Iterator[Task]:
    from duelrank.core.registry import aliases
    from duelrank.metrics import Metric
    from duelrank.users import User

    for name in names:
        yield f"simulations, {name}", partial(_simulate, name, "navigational", "nDCG@10")
    for user in sorted(aliases(User)):
        yield f"simulations, users {user}", partial(_simulate, names[0], user, "nDCG@10")
    for metric in sorted(aliases(Metric)):
        yield f"simulations, {metric}", partial(_simulate, names[0], "perfect", metric)
    yield "data sets", _read


def _simulate(algorithm: str, user: str, metric: str) -> None:
    from duelrank.simulation import simulate

    simulate(algorithm, "synthetic(n_queries=20)", user, impressions=100, metric=metric)


def _read() -> None:
    """Read a small file in the LETOR format."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from duelrank.datasets import read_letor

    with TemporaryDirectory() as folder:
        path = Path(folder, "train.txt")
        path.write_text("1 qid:1 1:0.5 2:1e-3\n0 qid:1 1:0.25\n")
        read_letor(path)


def _count() -> int:
    """Return the number of compiled kernels in the folder."""
    folder = kernel_folder()
    return 0 if folder is None else sum(1 for _ in folder.rglob("*.nbc"))
