"""Measures a guard in the whole service: false alarms, harm under load, and cost.

- aa: services whose learned ranker is a random one, and users whose clicks depend on the position only. After each false alarm an
  operator resumes. The guarantee is a mean number of decisive lists between alarms.
- harm: a service under load whose weights are negated: lists and seconds until it serves the client's own order again; then all
  that was acknowledged is looked for in the store, and the log is replayed.
- cost: the same requests with and without a guard, in turns: the time of a rank, and of a list with its feedback.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from statistics import median

import numpy as np

from duelrank.core.types import State, frozen
from duelrank.service import Service, Settings
from duelrank.service.definition import BASELINE, GUARD
from duelrank.service.http.schema import Document, FeedbackEvent, GuardSpec, RankAnswer, RankerSpec, RankRequest, Start
from duelrank.service.log import Control, StoredImpression, pack, pack_state, unpack
from duelrank.service.replay import replay
from duelrank.service.settings import Clock
from duelrank.storage import NewEvent, Storage, open_storage

NAMES = ("a", "b", "c", "d")


class HandClock(Clock):
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1e9

    def time(self) -> float:
        """Return the time that was set."""
        return self.now

    def monotonic(self) -> float:
        """Return the same."""
        return self.now


# False alarms


async def one_service(seed: int, every: float, lists: int, at_once: int) -> tuple[int, int]:
    """Run a service for a number of guard lists; return the numbers of decisive lists and of false alarms."""
    rng, clock = np.random.default_rng((12, seed)), HandClock()
    with open_storage("sqlite://") as storage:
        service = Service(storage, Settings(poll_every=0.01, retention=60.0), clock)
        await service.start()
        await service.wait_ready()
        weights = dict(zip(NAMES, rng.normal(size=len(NAMES)).tolist(), strict=True))
        guard = GuardSpec(share=1.0, false_alarm_every=every)
        start = Start(weights=weights)
        await service.create(
            RankerSpec("shop", "mgd-dsp", NAMES, "raw", 5, mode="frozen", seed=seed, start=start, guard=guard)
        )
        for first in range(0, lists, at_once):
            numbers = range(first, min(first + at_once, lists))
            tables, chances = rng.random((len(numbers), 8, len(NAMES))), rng.random((len(numbers), 5))
            await asyncio.gather(*(show(service, *each) for each in zip(numbers, tables, chances, strict=True)))
            clock.now += 1.0
            if service.guard("shop").state == "alarm":
                await service.control("shop", "resume")
        while (
            service.guard("shop").lists
        ) < lists - at_once * 2 and service.ready:  # those open at a resume do not count
            await asyncio.sleep(0.01)
        machine = service._rankers["shop"].machine
        assert machine is not None
        assert machine.guard is not None
        found = machine.guard.counts.wins + machine.guard.counts.losses, machine.guard.alarms
        await service.stop()
    return found


async def show(service: Service, number: int, table: np.ndarray, chances: np.ndarray) -> None:
    """Show a list to a user who clicks by position only."""
    documents = [Document(f"d{place}", row) for place, row in enumerate(table.tolist())]
    answer = await service.rank("shop", RankRequest(documents, f"i{number}"))
    clicks = [each.id for each, chance in zip(answer.ranking, chances, strict=True) if chance < 1.0 / each.position]
    await service.feedback("shop", [FeedbackEvent(f"i{number}", clicks, close=True)])


def false_alarms(services: int, first: int, every: float, lists: int) -> None:
    """Print the rate of false alarms over many services."""
    decisive = alarms = 0
    for seed in range(first, first + services):
        more = asyncio.run(one_service(seed, every, lists, 100))
        decisive, alarms = decisive + more[0], alarms + more[1]
        done = seed - first + 1
        if done % 10 == 0 or done == services:
            per = decisive / max(alarms, 1)
            error = per / math.sqrt(max(alarms, 1))
            said = f"{done} services, {decisive:,} decisive lists, {alarms} alarms"
            print(f"{said}: one in {per:,.0f} ± {error:,.0f} (promised {every:,.0f})", flush=True)


# Harm


def requests(seed: int, n_documents: int = 20) -> Iterator[tuple[np.ndarray, RankRequest]]:
    """Yield tables, and requests whose documents come in the order of the first feature: a fair baseline."""
    for number in count():
        table = np.random.default_rng((seed, number)).random((n_documents, len(NAMES)))
        table = table[np.argsort(-table[:, 0])]
        documents = [Document(f"d{place}", row) for place, row in enumerate(table.tolist())]
        yield table, RankRequest(documents, f"{seed}-{number}")


def clicks_on(answer: RankAnswer, table: np.ndarray, rng: np.random.Generator) -> list[str]:
    """Click documents that are good by the first two features, more rarely further down."""
    clicked = []
    for each in answer.ranking:
        good = table[int(each.id[1:])] @ np.array([0.5, 0.5, 0.0, 0.0])
        if rng.random() < 0.9 ** (each.position - 1) * (0.6 if good > 0.7 else 0.1):
            clicked.append(each.id)
    return clicked


async def user(service: Service, seed: int, promised: dict[str, list[str]], stop: asyncio.Event) -> None:
    """Search and click until the stop event is set, and record acknowledged lists."""
    rng = np.random.default_rng(seed)
    for table, request in requests(seed):
        if stop.is_set():
            return
        answer = await service.rank("shop", request)
        key = answer.impression_id
        promised[key] = answer.ids
        event = FeedbackEvent(key, clicks_on(answer, table, rng), close=True, event_id=f"e-{key}")
        counts = await service.feedback("shop", [event])
        assert counts.accepted == 1


async def harm(algorithm: str, share: float, every: float, users: int, warm: int, folder: Path) -> None:
    """Let a service learn under load, negate its weights, and see how long it takes."""
    with open_storage(f"sqlite:///{folder / f'{algorithm}-{share}.db'}") as storage:
        service = Service(storage, Settings(keep_features=1e6))
        await service.start()
        await service.wait_ready()
        guard = GuardSpec(share=share, false_alarm_every=every, promote=(1.0,))
        start = None if algorithm == "pairrank" else Start(weights={"a": 1.0})
        await service.create(
            RankerSpec("shop", algorithm, NAMES, "query-scaled", 10, start=start, guard=guard, imitate=0)
        )
        promised: dict[str, list[str]] = {}
        stop = asyncio.Event()
        tasks = [asyncio.create_task(user(service, seed, promised, stop)) for seed in range(users)]
        while len(promised) < warm:
            await asyncio.sleep(0.01)
        before = service.guard("shop")
        state = service._rankers["shop"].version.state
        negated = State(frozen(-state.weights), state.step, state.updates, state.memory)
        body = Control("rollback", 1, pack_state(negated), features=NAMES)
        await service._append([NewEvent("shop", "control", "accident", time.time(), pack(body))])
        began, lists = time.perf_counter(), len(promised)
        while service.guard("shop").alarms == before.alarms and time.perf_counter() - began < 120:
            await asyncio.sleep(0.002)
        while service._rankers["shop"].version.learned_share > 0.0 and time.perf_counter() - began < 125:
            await asyncio.sleep(0.001)
        seconds, after = time.perf_counter() - began, len(promised)
        info = service.guard("shop")
        await asyncio.sleep(1.0)
        stop.set()
        await asyncio.gather(*tasks)
        served = _ways(storage, list(promised)[after + users * 2 :])
        await service.stop()
        alarm = info.last_alarm
        said = "no alarm" if alarm is None else f"alarm with {alarm.wins} wins, {alarm.losses} losses"
        lost = _lost(storage, promised)
        result = replay(storage, "shop")
        print(f"{algorithm}, share {share}: {len(promised):,} lists by {users} users at once, negated after {lists:,}")
        print(f"  before: {before.wins} wins, {before.losses} losses, {before.alarms} alarms")
        print(f"  own order served again after {after - lists:,} lists, {seconds:.2f} s ({said}); then {served}")
        print(
            f"  acknowledged and not in the store: {lost}; replay: {result.difference or 'equal'} ({result.events:,} events)"
        )


def _ways(storage: Storage, keys: list[str]) -> str:
    """Say how lists came about."""
    log = storage.log
    found = [unpack(event.body, StoredImpression).list_kind for event in log.find("shop", "ranked", keys).values()]
    names = {GUARD: "guard lists", BASELINE: "in the own order"}
    return ", ".join(
        f"{sum(names.get(way, 'by the ranker') == name for way in found)} {name}"
        for name in ("guard lists", "in the own order", "by the ranker")
    )


def _lost(storage: Storage, promised: dict[str, list[str]]) -> int:
    log = storage.log
    shown = {
        key: unpack(event.body, StoredImpression).shown
        for key, event in log.find("shop", "ranked", list(promised)).items()
    }
    fed = log.find("shop", "feedback", [f"e-{key}" for key in promised])
    return sum(shown.get(key) != ids or f"e-{key}" not in fed for key, ids in promised.items())


# Cost


async def timed(service: Service, name: str, round: int, lists: int, feedback: bool) -> float:
    """Return microseconds of a list, one after the other."""
    rng = np.random.default_rng(round)
    documents = [Document(f"d{place}", row) for place, row in enumerate(rng.random((20, 46)).tolist())]
    spent = 0.0
    for number in range(lists):
        request = RankRequest(documents, f"{name}-{round}-{number}")
        began = time.perf_counter()
        answer = await service.rank(name, request)
        if feedback:
            await service.feedback(name, [FeedbackEvent(answer.impression_id, answer.ids[:1], close=True)])
        spent += time.perf_counter() - began
    return 1e6 * spent / lists


async def made(service: Service, name: str, round: int, lists: int) -> float:
    """Return microseconds of making a list, without storing it."""
    version = service._rankers[name].version
    raw = np.random.default_rng(round).random((20, 46))
    began = time.perf_counter()
    for number in range(lists):
        id = f"{round}-{number}"
        kind = version.definition.list_kind(id, False, version.learned_share)
        version.definition.order(kind, version.state, id, raw, 10)
    return 1e6 * (time.perf_counter() - began) / lists


async def cost(rounds: int, lists: int) -> None:
    """Print times with and without a guard, in turns."""
    features = tuple(f"f{number}" for number in range(46))
    guards = {"plain": None, "guarded": GuardSpec(promote=(1.0,)), "laddered": GuardSpec()}
    with open_storage("sqlite://") as storage:  # in memory: a disk would dominate the cost
        service = Service(storage)
        await service.start()
        await service.wait_ready()
        for name, guard in guards.items():
            await service.create(RankerSpec(name, "mgd-dsp", features, guard=guard, imitate=0))
        for what in ("order", "rank", "list"):
            found: dict[str, list[float]] = {name: [] for name in guards}
            for round in range(rounds):
                for name in sorted(guards, key=lambda each: (round + len(each)) % 3):
                    if what == "order":
                        found[name].append(await made(service, name, round, lists))
                    else:
                        found[name].append(
                            await timed(service, name, round + 1000 * (what == "list"), lists, what == "list")
                        )
            for name in guards:
                ratio = median(a / b for a, b in zip(found[name], found["plain"], strict=True))
                print(f"{what:>6} {name:>9}: {median(found[name]):7.1f} µs, {ratio:.3f} of plain", flush=True)
        await service.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["aa", "harm", "cost"])
    parser.add_argument("--services", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first service")
    parser.add_argument("--lists", type=int, default=15_000, help="guard lists of one service")
    parser.add_argument("--every", type=float, default=10_000.0)
    given = parser.parse_args()
    if given.only in (None, "cost"):
        asyncio.run(cost(25, 500))
    if given.only in (None, "harm"):
        for algorithm in ("mgd-dsp", "wmgd-dsp", "pdgd", "mgd"):
            for share in (0.05, 0.1, 0.2) if algorithm == "wmgd-dsp" else (0.1,):
                with tempfile.TemporaryDirectory() as folder:
                    asyncio.run(harm(algorithm, share, 1e6, 8, 3000, Path(folder)))
    if given.only in (None, "aa"):
        false_alarms(given.services, given.first, given.every, given.lists)


if __name__ == "__main__":
    main()
