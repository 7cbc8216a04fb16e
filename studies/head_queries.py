"""Chooses the settings of a memory of queries: reward, final weights and bad runs of a grid, with equal and unequal queries.

    python studies/head_queries.py --device gpu --grid --strength 1,3,10 --doubt 1,4 --half-life None,100 --curious 0,0.1 --learned …

The suite ``head`` compares recipes with and without the memory at its defaults. Here, with ``--grid``, each recipe is also run behind
``remember(…)``, with each combination of the given settings, and with ``--learned`` also with the memory as one more column of the
features, whose weight starts at the strength and is learned as any other weight.
All runs are made in one process, in lockstep. Each run is one line of runs.csv in the folder, written when its batch
ends; runs that are there already are not made again. Then a table is printed: for each data set the means of the users, online and
(held-out), and the worst run in percent of the mean of its cell; then, over all cells that the first recipe has, both means in
percent of the first recipe, the lowest cell of each, and the worst run.

The data sets must be installed (`duelrank data`). Compiling takes longest, some 20 to 60 seconds for each kind of recipe and
examination on data sets of one size. On a machine without numba, set ``NUMBA_DISABLE_JIT=1``.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from duelrank import RunSpec, parse
from duelrank.algorithms import Algorithm, Remembered, Represented
from duelrank.core.grammar import listed, split_top_level
from duelrank.core.registry import register, spell
from duelrank.datasets import Dataset, LongTail
from duelrank.experiments.executors import check_device
from duelrank.lockstep import Lockstep, program, why_not
from duelrank.lockstep.algorithms import Recalled, RememberedTwin
from duelrank.lockstep.draws import Draws
from duelrank.lockstep.twin import Array, Clicked, Memory, Numbers, Query, Shown, State, twin
from duelrank.simulation import Record

RECIPES = ("thompson-pairs-curves", "thompson-pairs", "wmgd-dsp-curves")
COLUMNS = (
    "recipe",
    "dataset",
    "exponent",
    "user",
    "fold",
    "seed",
    "impressions",
    "online",
    "late",
    "offline",
    "seconds",
)


@register
@dataclass(frozen=True, repr=False)
class LearnedStrength(Remembered):
    """A memory that is one more column of the features: (c − r·v) / (v + doubt), with a weight that starts at the strength.

    It runs in lockstep only. The column is 0 in documents of earlier lists, so a projection onto these would remove it.
    """

    @property
    def spelling(self) -> str:
        """The constructor: ``remember >> …`` is the other form."""
        return f"LearnedStrength({self.base!r}, {self.remember!r})"


class LearnedMemory(NamedTuple):
    """The memories of the base, with the additional column, and of queries; and the weight of the column."""

    base: Memory
    remember: Memory
    weight: Array


@twin(LearnedStrength)
class LearnedStrengthTwin(RememberedTwin):
    """Adds the column for the base, and takes its weight out of the state, because a representation does not know it."""

    def start(self, numbers: Numbers, columns: Array, length: int, draws: Draws) -> State:
        """Start as the base does with one more column."""
        begun = self.base.start(numbers["base"], jnp.append(columns, True), length, draws)
        own = self.remember.start(numbers["remember"], columns.shape[0])
        weight = jnp.asarray(numbers["remember"]["strength"], draws.real)[None]
        return begun._replace(weights=begun.weights[:-1], memory=LearnedMemory(begun.memory, own, weight))

    def carried(self, memory: Any, fresh: Any, carry: Callable[[Array], Array]) -> Any:
        """Convert the other columns only."""

        def carry_all(weights: Array) -> Array:
            return jnp.append(carry(weights[:-1]), weights[-1])

        base = self.base.carried(memory.base, fresh.base, carry_all)
        return LearnedMemory(base, fresh.remember._replace(rate=memory.remember.rate), memory.weight)

    def explore(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Shown:
        """Explore as the base does, with the column."""
        own = state.memory.remember
        boosts = self.remember.boosts(numbers["remember"], own, state.documents, query, draws)
        column = boosts / numbers["remember"]["strength"].astype(draws.real)
        shown = self.base.explore(numbers["base"], _whole(state), _with_column(query, column), draws)
        return Shown(shown.ranking, Recalled(column, shown.trace))

    def learn(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> State:
        """Let the base learn, and count the list."""
        wider, inner = _with_column(query, shown.trace.boosts), Shown(shown.ranking, shown.trace.base)
        after = self.base.learn(numbers["base"], _whole(state), wider, inner, clicked, draws)
        own, table = state.memory.remember, state.documents
        counted, table = self.remember.count(numbers["remember"], own, table, query, shown, clicked)
        memory = LearnedMemory(after.memory, counted, after.weights[-1:])
        return after._replace(weights=after.weights[:-1], memory=memory, documents=table)


def _whole(state: State) -> State:
    """Return the state of the base: with the weight of the column."""
    weights = jnp.concatenate((state.weights, state.memory.weight))
    return state._replace(weights=weights, memory=state.memory.base)


def _with_column(query: Query, column: Array) -> Query:
    def represent(rows: Array) -> Array:
        known = query.represent(rows)
        return jnp.concatenate((known, jnp.zeros((*known.shape[:-1], 1), known.dtype)), axis=-1)

    features = jnp.concatenate((query.features, column[:, None].astype(query.features.dtype)), axis=1)
    return query._replace(features=features, columns=jnp.append(query.columns, True), represent=represent)


def learned(algorithm: Algorithm) -> Algorithm:
    """Return a recipe with a memory as one with a learned column."""
    if isinstance(algorithm, Represented):
        return replace(algorithm, base=learned(algorithm.base))
    assert isinstance(algorithm, Remembered)
    return LearnedStrength(algorithm.base, algorithm.remember)


def recipes(asked: argparse.Namespace) -> list[Algorithm]:
    """Return the given recipes, and those of the grid."""
    read = Path(asked.file).read_text(encoding="utf-8").splitlines() if asked.file else ()
    texts = [text for text in (*(asked.recipes or RECIPES), *read) if text.strip()]
    memories = list(grid(asked)) if asked.grid else []
    remembered = [parse(f"{memory} >> {text}", Algorithm) for text in texts for memory in memories]
    columns = [learned(each) for each in remembered if asked.learned]
    return list(dict.fromkeys((*(parse(text, Algorithm) for text in texts), *remembered, *columns)))


def grid(asked: argparse.Namespace) -> Iterator[str]:
    """Yield the memories with all combinations of settings."""
    names = ("strength", "doubt", "half_life", "curious", "examination")
    for values in itertools.product(*(split_top_level(getattr(asked, name)) or [""] for name in names)):
        yield f"remember({', '.join(f'{name}={value}' for name, value in zip(names, values, strict=True) if value)})"


def specs(asked: argparse.Namespace) -> Iterator[RunSpec]:
    """Yield all runs; a data set with one fold has as many seeds more."""
    for algorithm, name, exponent in itertools.product(recipes(asked), listed(asked.datasets), asked.exponents):
        base = parse(str(name), Dataset)
        dataset: Dataset = LongTail(base, exponent=exponent) if exponent else base
        folds = min(asked.folds, dataset.n_folds)
        for user, number in itertools.product(asked.users.split(","), range(asked.folds * asked.seeds)):
            fold, seed = number % folds + 1, asked.first_seed + number // folds
            yield RunSpec(algorithm, dataset, user, fold, seed, asked.impressions, split=asked.split)


def row(record: Record) -> dict[str, Any]:
    """Return the line of a run; ``late`` is the mean of the last tenth of its lists."""
    late = record.online[-max(1, len(record.online) // 10) :].mean()
    found = (record.online_performance, late, record.offline_performance, record.seconds)
    return key(record.spec) | dict(zip(COLUMNS[-4:], (f"{value:.6g}" for value in found), strict=True))


def key(spec: RunSpec) -> dict[str, str]:
    """Return the columns that identify a run."""
    tail = spec.dataset if isinstance(spec.dataset, LongTail) else LongTail(spec.dataset, exponent=0.0)
    place = spell(tail.base), tail.exponent, spell(spec.user)
    texts = spell(spec.algorithm), *place, spec.fold, spec.seed, spec.impressions
    return dict(zip(COLUMNS, map(str, texts), strict=False))


class TimeIsOver(Exception):
    """No batch may begin any more."""


@dataclass(frozen=True)
class Limited(Lockstep):
    """Begins no batch after a time."""

    end: float = math.inf

    def _run_batch(self, *given: Any) -> list[Record]:
        if monotonic() > self.end:
            raise TimeIsOver
        return super()._run_batch(*given)


def make(wanted: list[RunSpec], asked: argparse.Namespace) -> list[dict[str, str]]:
    """Make the runs that are not in the file yet, until the time is over; return all lines of the file."""
    path, engine = asked.out / "runs.csv", Limited(end=monotonic() + asked.limit)
    known = read(path) if path.exists() else []
    have = {tuple(line[name] for name in COLUMNS[:7]) for line in known}
    missing = [spec for spec in wanted if tuple(key(spec).values()) not in have]
    print(f"{len(wanted):,} runs, {len(missing):,} to make", flush=True)
    with path.open("a", encoding="utf-8", newline="") as file, suppress(TimeIsOver):
        writer = csv.DictWriter(file, COLUMNS)
        if not known:
            writer.writeheader()
        for done, record in enumerate(engine.run(missing), start=1):
            writer.writerow(row(record))
            file.flush()
            if done % 100 == 0 or done == len(missing):
                print(f"{done:,} runs made", flush=True)
    return read(path)


def read(path: Path) -> list[dict[str, str]]:
    """Return the lines of a file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


Cell = tuple[str, str, str]
Cells = dict[Cell, np.ndarray[Any, np.dtype[np.float64]]]


def table(lines: Iterable[dict[str, str]], names: list[str]) -> None:
    """Print a line for each recipe and data set, and then a line for each recipe."""
    found: dict[str, dict[Cell, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        cell = line["dataset"], line["exponent"], line["user"]
        found[line["recipe"]][cell].append((float(line["online"]), float(line["offline"])))
    cells = {name: {cell: np.array(runs) for cell, runs in found[name].items()} for name in names if name in found}
    for place in dict.fromkeys(cell[:2] for mine in cells.values() for cell in mine):
        print(f"\n{place[0]}, exponent {place[1]}")
        for name, mine in cells.items():
            here = [runs for cell, runs in mine.items() if cell[:2] == place]
            if here:
                online, offline = ([runs[:, i].mean() for runs in here] for i in (0, 1))
                means = " / ".join(f"{one:.0f} ({other:.3f})" for one, other in zip(online, offline, strict=True))
                print(f"{means}  {_worst(here):3.0f}%  {min(map(len, here))} runs  {name}")
    _summary(cells)


def _worst(runs: Iterable[np.ndarray[Any, np.dtype[np.float64]]]) -> float:
    return min(100.0 * float(each[:, 0].min() / each[:, 0].mean()) for each in runs)


def _summary(cells: dict[str, Cells]) -> None:
    """Print the means over cells in percent of the first recipe, best first."""
    first, printed = next(iter(cells.values()), {}), []
    for name, mine in cells.items():
        both = [cell for cell in mine if cell in first]
        if both:
            shares = np.array([100.0 * mine[cell].mean(axis=0) / first[cell].mean(axis=0) for cell in both])
            means, lowest = shares.mean(axis=0), shares.min(axis=0)
            ends = f"{lowest[0]:6.1f} {lowest[1]:6.1f} {_worst(mine.values()):5.0f}"
            printed.append((means[0], f"{means[0]:6.1f} {means[1]:6.1f} {ends} {len(both):3d}  {name}"))
    print("\nonline  held-out, lowest cells of both, worst run, cells")
    for _, text in sorted(printed, reverse=True):
        print(text)


def options() -> argparse.Namespace:
    """Return the options of the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", help="recipes; the first is the one that others are compared with")
    parser.add_argument("--file", help="a file with more recipes, one per line")
    parser.add_argument("--grid", action="store_true", help="run each recipe also with each of these memories")
    for name, default in (("strength", "3"), ("doubt", "1"), ("half-life", ""), ("curious", ""), ("examination", "")):
        parser.add_argument(f"--{name}", default=default, help="values, with commas between")
    parser.add_argument("--learned", action="store_true", help="and with the memory as a learned column")
    parser.add_argument("--datasets", default="mq2007,mq2008,mslr-sample")
    parser.add_argument("--users", default="perfect,navigational,informational")
    parser.add_argument("--exponents", default=[0.0, 1.0], type=_exponents, help="of popularity; 0: queries are equal")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=2, help="in each fold")
    parser.add_argument("--first-seed", type=int, default=101)
    parser.add_argument("--impressions", type=int, default=10_000)
    parser.add_argument("--split", default="test", choices=("test", "validation"))
    parser.add_argument("--device", default="lockstep", choices=("gpu", "lockstep"))
    parser.add_argument("--batch", type=int, default=2_000, help="most runs of a batch: results come batch by batch")
    parser.add_argument("--out", type=Path, default=Path("results/head_queries"))
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which no batch is begun")
    return parser.parse_args()


def _exponents(text: str) -> list[float]:
    return [float(each) for each in text.split(",")]


def main() -> None:
    """Make the runs, and print the table."""
    asked = options()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("duelrank").setLevel(logging.INFO)
    check_device(asked.device)
    program._MOST_RUNS = asked.batch
    asked.out.mkdir(parents=True, exist_ok=True)
    wanted = list(specs(asked))
    for spec in ({spec.algorithm: spec for spec in wanted} | {spec.dataset: spec for spec in wanted}).values():
        if reasons := why_not(spec):
            raise SystemExit(f"{spell(spec.algorithm)}: {reasons[0]}")
    lines = make(wanted, asked)
    table(lines, list(dict.fromkeys(spell(spec.algorithm) for spec in wanted)))


if __name__ == "__main__":
    main()
