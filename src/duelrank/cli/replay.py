"""``duelrank replay``: learns again from the event log of a store, and compares the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from duelrank.cli.console import complain, out, print_json
from duelrank.cli.options import JsonOption, StoreArgument, opened_store
from duelrank.cli.serve import SQLITE, StoreOption, need_extra

if TYPE_CHECKING:
    from duelrank.service.replay import Replayed

RankerOption = Annotated[str | None, typer.Option("--ranker", "-r", help="Replay this ranker only.")]
VerifyOption = Annotated[
    bool, typer.Option("--verify", help="Exit with status 1 if the store differs from the replay.")
]
ToleranceOption = Annotated[
    float | None,
    typer.Option(
        "--tolerance",
        min=0.0,
        help="Accept weights that differ by up to this share, such as 1e-9, instead of comparing to the bit: for a store that was "
        "written with other versions, or on a machine that is not x86-64.",
    ),
]


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
        complain(f"{result.ranker}: {result.difference}")
    if differences and tolerance is None:
        complain(
            "the bits of a replay depend on the versions of duelrank, numba and numpy, and are those of x86-64: with other "
            "versions than the service's, or on another kind of machine, compare with --tolerance 1e-9"
        )
    if verify and differences:
        raise typer.Exit(1)


def _sentence(result: Replayed) -> str:
    begin = "from empty" if result.after == 0 else f"from the checkpoint at event {result.after:,}"
    compared = f"{result.versions_compared:,} versions and {result.snapshots_compared:,} snapshots compared"
    equal = "all equal" if result.largest == 0.0 else f"all equal up to {result.largest:.1g}"
    verdict = equal if result.difference is None else "NOT equal"
    closed = f"{result.learned:,} learned, {result.no_feedback:,} without feedback, {result.skipped:,} skipped"
    before = f"taught with {result.backfilled:,} lists of a log, " if result.backfilled else ""
    return (
        f"{result.ranker}: {result.events:,} events {begin}; {before}{result.impressions:,} impressions, {closed}, "
        f"{result.failed:,} failed, {result.open:,} open; version {result.model_version:,}, "
        f"{result.updates:,} updates, digest {result.digest}; {compared}: {verdict}"
    )
