"""Times the lockstep engine: the paper's grid on two data sets, thousands of runs of one recipe, and agreement with the CPU engine.

    python benchmarks/lockstep.py grid                       the paper's grid: 6 algorithms, 3 users, 2 data sets, 15 runs: 540 runs
    python benchmarks/lockstep.py many --runs 10000          runs of mgd-dsp on MQ2007, over all folds and many seeds
    python benchmarks/lockstep.py shapes                     the grid on random documents, 100 of 64, 136 and 700 features
    python benchmarks/lockstep.py probe --recipes mgd-dsp    a program on random documents of MQ2007's shape: time and memory
    python benchmarks/lockstep.py profile                    the same, and which compiled kernels the time goes into
    python benchmarks/lockstep.py rows --out FILE            the grid, 45 runs per cell, one line of JSON per run; --device cpu too
    python benchmarks/lockstep.py agree LOCKSTEP CPU         both files, cell by cell; needs no accelerator

``grid``, ``many``, ``shapes`` and ``probe`` run twice in one process: the first time programs are compiled or loaded from the cache
folder, the second time is warm.
``probe`` and ``shapes`` need no data set. Where numba is not installed, as on a machine that has only JAX, the few kernels that are
called run as plain Python.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import NormalDist
from time import perf_counter
from typing import Annotated, Any

import numpy as np

from duelrank.core.compiling import Kernel
from duelrank.core.registry import Between, register, spell
from duelrank.datasets import Dataset, Fold, Split
from duelrank.experiments.executors import run_all
from duelrank.metrics import DISCOUNT
from duelrank.simulation import Record, RunSpec

USERS = ("perfect", "navigational", "informational")
#: As published, but with exact credit and shared ties.
GRID = (
    "dbgd",
    "dbgd-dsp(beyond=2)",
    "mgd(n_candidates=49)",
    "mgd-dsp(n_candidates=49, beyond=2)",
    "nsgd",
    "nsgd-dsp(remembered=0, beyond=2)",
)


@register
@dataclass(frozen=True, repr=False)
class RandomDocuments(Dataset):
    """Random documents and grades, for timing only: most queries have ``usual`` documents, one has ``widest``."""

    usual: Annotated[int, Between(1)] = 40
    widest: Annotated[int, Between(1)] = 147
    n_features: Annotated[int, Between(1)] = 41
    n_queries: Annotated[int, Between(1)] = 1000

    @property
    def n_folds(self) -> int:
        """Five, as the published sets have."""
        return 5

    def fold(self, number: int = 1) -> Fold:
        """Draw the queries of one fold."""
        rng = np.random.default_rng((11, number))
        few = max(1, self.n_queries // 3)
        return Fold(self._split(rng, self.n_queries), self._split(rng, few), self._split(rng, few), 3)

    def _split(self, rng: np.random.Generator, n_queries: int) -> Split:
        sizes = rng.choice([*[self.usual] * 18, *[min(self.widest, self.usual * 3 // 2)] * 2], n_queries)
        sizes[0] = self.widest
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        labels = rng.choice([0, 0, 0, 0, 0, 0, 1, 1, 2], int(offsets[-1])).astype(np.int8)
        ids = np.array([f"q{number}".encode() for number in range(n_queries)])
        return Split(rng.random((int(offsets[-1]), self.n_features)), labels, offsets, ids)


def probe(recipe: str, runs: int, impressions: int, precision: Any) -> None:
    """Print the time of an impression of all runs, and what its compiled form consists of."""
    from duelrank.lockstep import program

    wanted = specs([recipe], ["RandomDocuments()"], -(-runs // 3), impressions)[:runs]
    records = timed(f"probe of {recipe}", wanted, precision)
    seconds = sum(record.seconds for record in records)
    print(f"  {seconds / impressions * 1e6:.1f} µs per impression of all {len(records)} runs", flush=True)
    for compiled in program.compiled_programs():
        body = max(compiled.as_text().split("\n\n"), key=lambda text: text.count("fusion("))
        kinds = Counter(re.findall(r"= \S+ (fusion|custom-call|while|conditional|copy|sort)\(", body))
        print(f"  {dict(kinds)}, {compiled.memory_analysis().temp_size_in_bytes / 1e6:.0f} MB", flush=True)


def specs(
    recipes: Iterable[str], datasets: Iterable[str], runs: int, impressions: int, first: int = 1
) -> list[RunSpec]:
    """Return runs over folds first and then over seeds, as suites do."""
    return [
        RunSpec(recipe, dataset, user, number % 5 + 1, first + number // 5, impressions)
        for recipe in recipes
        for dataset in datasets
        for user in USERS
        for number in range(runs)
    ]


def timed(name: str, wanted: Sequence[RunSpec], precision: Any, times: int = 2) -> list[Record]:
    from duelrank.lockstep import Lockstep

    for number in range(times):
        started = perf_counter()
        records = list(Lockstep(precision).run(wanted))
        seconds = perf_counter() - started
        each = seconds / len(wanted) / wanted[0].impressions * 1e6
        label = "first" if number == 0 else "warm"
        print(f"{name}: {len(wanted):,} runs, {label}: {seconds:.1f} s, {each:.3f} µs per impression", flush=True)
    return records


def profile(recipe: str, runs: int, impressions: int, precision: Any) -> None:
    """Print the kernels that take the most time, from JAX's own trace."""
    import gzip
    import tempfile

    import jax

    wanted = specs([recipe], ["RandomDocuments()"], -(-runs // 3), impressions)[:runs]
    timed(f"profile of {recipe}", wanted, precision)
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            timed("traced", wanted, precision, 1)
        spent: Counter[str] = Counter()
        for path in Path(folder).rglob("*.trace.json.gz"):
            for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
                if "hlo_op" in event.get("args", {}):
                    spent[event["name"]] += event.get("dur", 0.0)
    for name, microseconds in spent.most_common(40):
        print(f"  {microseconds / impressions:8.1f} µs per impression of all runs  {name}", flush=True)


def row(record: Record) -> dict[str, Any]:
    spec = record.spec
    online = float(record.online @ DISCOUNT ** np.arange(len(record.online)))
    cell = {"algorithm": spell(spec.algorithm), "dataset": spell(spec.dataset), "user": spell(spec.user)}
    place = {"fold": spec.fold, "seed": spec.seed, "device": record.device}
    return cell | place | {"online_performance": online, "offline_performance": record.offline_performance}


def load(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def agree(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    """Print a table of cells, with the difference in standard errors."""
    print("| data set | user | algorithm | runs | online, cpu | lockstep | z | offline, cpu | lockstep | z |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    scores = []
    for cell in dict.fromkeys(_cell(each) for each in other):
        mine, theirs = ([each for each in rows if _cell(each) == cell] for rows in (one, other))
        if not mine:
            continue
        shown = []
        for column, digits in (("online_performance", 1), ("offline_performance", 4)):
            z, means = _z(mine, theirs, column)
            scores.append(z)
            shown += [f"{means[1]:.{digits}f}", f"{means[0]:.{digits}f}", f"{z:+.2f}"]
        print(f"| {' | '.join(cell)} | {len(mine)} + {len(theirs)} | {' | '.join(shown)} |")
    if scores:
        sizes = np.abs(scores)
        chance = NormalDist().inv_cdf(1.0 - 0.025 / len(scores))
        print(
            f"\n{len(scores)} comparisons: largest |z| {sizes.max():.2f} ({chance:.2f} by chance once in 20 tables),",
            end=" ",
        )
        print(f"mean square {np.mean(sizes**2):.2f} (1 by chance)")


def _cell(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["dataset"], row["user"], row["algorithm"]


def _z(mine: list[dict[str, Any]], theirs: list[dict[str, Any]], column: str) -> tuple[float, list[float]]:
    """Return the difference of the means in standard errors; folds differ more than runs do, so it is taken fold by fold."""
    means, errors = [], 0.0
    folds = sorted({each["fold"] for each in theirs})
    for rows in (mine, theirs):
        by_fold = [np.array([each[column] for each in rows if each["fold"] == fold]) for fold in folds]
        means.append(float(np.mean([values.mean() for values in by_fold])))
        errors += sum(values.var(ddof=1) / len(values) for values in by_fold) / len(folds) ** 2
    return (means[0] - means[1]) / float(np.sqrt(errors)), means


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("grid", "many", "shapes", "probe", "profile", "rows", "agree"))
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--impressions", type=int, default=10_000)
    parser.add_argument("--datasets", default="mq2007,mq2008")
    parser.add_argument("--recipes", default=";".join(GRID))
    parser.add_argument("--precision", default="single")
    parser.add_argument("--device", default="lockstep", choices=("cpu", "lockstep"))
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--out", type=Path, default=Path("results/lockstep.jsonl"))
    options = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    if find_spec("numba") is None:
        Kernel.__call__ = lambda self, *given, **named: self._function(*given, **named)  # type: ignore[method-assign]
    logging.getLogger("duelrank").setLevel(logging.INFO)
    recipes, datasets = options.recipes.split(";"), options.datasets.split(",")
    runs = options.runs or {"many": 10_000, "rows": 45}.get(options.what, 15)
    timing = (runs, options.impressions, options.precision)
    if options.what == "agree":
        agree(*(load(path) for path in options.files))
    elif options.what == "many":
        wanted = specs(["mgd-dsp"], ["mq2007"], -(-runs // 3), options.impressions)[:runs]
        timed("mgd-dsp on mq2007", wanted, options.precision)
    elif options.what == "shapes":
        for features in (64, 136, 700):
            dataset = f"RandomDocuments(usual=100, widest=100, n_features={features})"
            timed(dataset, specs(recipes, [dataset], runs, options.impressions), options.precision)
    elif options.what in ("probe", "profile"):
        for recipe in recipes:
            (probe if options.what == "probe" else profile)(recipe, *timing)
    elif options.what == "grid":
        timed("grid", specs(recipes, datasets, runs, options.impressions), options.precision)
    else:
        # Seeds of one engine are not those of the other, so that their rows are independent.
        first = 1 if options.device == "cpu" else 1001
        wanted = specs(recipes, datasets, runs, options.impressions, first)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        with options.out.open("w", encoding="utf-8") as file:
            for record in run_all(wanted, options.workers, device=options.device):
                print(json.dumps(row(record)), file=file, flush=True)


if __name__ == "__main__":
    main()
