"""Runs several processes on one PostgreSQL store at full load, and checks that everything is learned, once, and at once.

Users rank in one process and click in another, as fast as answers come. Then every process must say within two seconds that all
closed impressions were learned from. A second round kills processes, and stops the leader for a while. Part of `soak.py`.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duelrank.storage import Storage, open_storage
from load import Connection, Target, Traffic
from served import Process, duelrank, service

RANKER, BATCH, USERS = "shop", 20, 16
#: Seconds until a user gives a process up and tries another one, which has the same store.
TIMEOUT = 5.0
#: Seconds after the end of the load until all counts must be right; seconds until there must be a new leader.
SOON, TAKEN_OVER = 2.0, 10.0
#: A lag of 0 is wrong if an impression that was closed this many seconds before is not learned: counts may be two seconds old.
STALE = 4.0
#: What says how far the learner is behind: the second is the older name.
LAGS = ("duelrank_learner_lag_events", "duelrank_oldest_unlearned_event_age_seconds")
#: What becomes of a closed impression; each has exactly one of these.
OUTCOMES = ("learned", "no_feedback", "skipped", "failed")


@dataclass
class Acknowledged:
    """Acknowledged impressions and events, and errors of the processes."""

    impressions: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    #: (time, number of impressions that were closed by then)
    closed: list[tuple[float, int]] = field(default_factory=list)
    retries: int = 0
    troubles: list[str] = field(default_factory=list)

    def trouble(self, text: str) -> None:
        """Keep what must not happen, the first few of each kind."""
        if sum(each[:30] == text[:30] for each in self.troubles) < 3:
            self.troubles.append(text)

    def closed_before(self, when: float) -> int:
        """Return how many impressions were acknowledged as closed before a time."""
        return max((count for moment, count in self.closed[-20_000:] if moment < when), default=0)


class Visitor:
    """One user of many, with a connection to each process; a request is repeated elsewhere until it is answered."""

    def __init__(self, urls: Sequence[str], log: Acknowledged, seed: int) -> None:
        self.targets, self.log, self.random = [Target(url) for url in urls], log, random.Random(seed)
        self.traffics = [Traffic(target, f"/v1/rankers/{RANKER}/rank", RANKER, variants=8) for target in self.targets]
        self.connections: dict[int, Connection] = {}

    async def ask(self, requests: Sequence[bytes]) -> bytes:
        """Send a request, of which there is one version per process, until a process has answered it."""
        while True:
            which = self.random.randrange(len(self.targets))
            try:
                async with asyncio.timeout(TIMEOUT):
                    if which not in self.connections or self.connections[which].lost:
                        self.connections[which] = await self.targets[which].connect()
                    status, body = await self.connections[which].ask(requests[which])
            except (OSError, TimeoutError):
                self._drop(which)
                status, body = 503, b""
            if status in (200, 202):
                return body
            self.log.retries += 1
            if status not in (429, 503):
                self.log.trouble(f"answered {status}: {body[:200]!r}")
            await asyncio.sleep(0.1)

    def _drop(self, which: int) -> None:
        """Forget a connection: an answer that comes late must not be taken for that of the next request."""
        if connection := self.connections.pop(which, None):
            connection.transport.abort()

    async def visit(self) -> None:
        """Ask for some impressions, then click in each and close it."""
        answers = []
        for _ in range(BATCH):
            request = self.traffics[0].rank()
            body = request[request.index(b"\r\n\r\n") + 4 :]
            path = f"/v1/rankers/{RANKER}/rank"
            answers.append(await self.ask([target.head(path, len(body)) + body for target in self.targets]))
            self.log.impressions.append(json.loads(answers[-1])["impression_id"])
        request = self.traffics[0].feedback(answers)
        body = request[request.index(b"\r\n\r\n") + 4 :]
        path = f"/v1/rankers/{RANKER}/feedback"
        counts = json.loads(await self.ask([target.head(path, len(body)) + body for target in self.targets]))
        if counts["accepted"] + counts["duplicate"] != BATCH:
            self.log.trouble(f"{BATCH} events for impressions that were shown: {counts}")
        self.log.events += [event["event_id"] for event in json.loads(body)]
        self.log.closed.append((time.monotonic(), len(self.log.events)))


@contextmanager
def visitors(urls: Sequence[str], log: Acknowledged, seed: int) -> Iterator[None]:
    """Run users against the processes within the block; at the end each user finishes its current request."""
    stopping = threading.Event()

    async def one(number: int) -> None:
        visitor = Visitor(urls, log, 1000 * seed + number)
        while not stopping.is_set():
            await visitor.visit()
        for which in list(visitor.connections):
            visitor._drop(which)

    async def everybody() -> None:
        await asyncio.gather(*(one(number) for number in range(USERS)))

    thread = threading.Thread(target=lambda: asyncio.run(everybody()))
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def asked(process: Process, path: str, timeout: float = 2.0) -> bytes | None:
    """Return the answer of a process, or None if there is none."""
    try:
        with urllib.request.urlopen(process.url + path, timeout=timeout) as answer:
            body: bytes = answer.read()
            return body
    except (OSError, urllib.error.URLError):
        return None


def metric(text: bytes | None, *names: str) -> float | None:
    """Return the value of the first of these metrics that there is, with or without labels."""
    for name in names:
        for line in (text or b"").decode().splitlines():
            if line.startswith(name) and line[len(name)] in " {" and (RANKER in line or "{" not in line):
                return float(line.rsplit(" ", 1)[1])
    return None


def handled(process: Process) -> int | None:
    """Return how many closed impressions a process knows to have been dealt with."""
    found = asked(process, f"/v1/rankers/{RANKER}")
    return None if found is None else sum(json.loads(found).get(name, 0) for name in OUTCOMES)


def leaders(processes: Sequence[Process]) -> list[Process]:
    """Return the processes that say that they learn."""
    return [each for each in processes if metric(asked(each, "/metrics"), "duelrank_leading") == 1.0]


class Watch(threading.Thread):
    """Looks at the lag of the leader: it must not be 0 while there is a backlog."""

    def __init__(self, processes: Sequence[Process], log: Acknowledged) -> None:
        super().__init__()
        self.processes, self.log, self.over = processes, log, threading.Event()
        self.backlog, self.lag = 0, 0.0

    def run(self) -> None:
        """Look twice a second."""
        while not self.over.wait(0.5):
            for process in self.processes:
                self.look(process)

    def look(self, process: Process) -> None:
        """Compare the metric with what was closed well before it was asked for and is not learned after it was."""
        began = time.monotonic()
        text = asked(process, "/metrics")
        if metric(text, "duelrank_leading") != 1.0:
            return
        lag, done = metric(text, *LAGS), handled(process)
        if lag is None or done is None:
            return
        backlog = self.log.closed_before(began - STALE) - done
        self.backlog, self.lag = max(self.backlog, backlog), max(self.lag, lag)
        if lag == 0.0 and backlog > 0:
            self.log.trouble(f"lag is 0 with a backlog of at least {backlog} impressions")


def wait(condition: Callable[[], bool], patience: float) -> float | None:
    """Return the seconds until something was true, or None."""
    began = time.monotonic()
    while time.monotonic() < began + patience:
        if condition():
            return time.monotonic() - began
        time.sleep(0.05)
    return None


def drained(processes: Sequence[Process], log: Acknowledged, patience: float) -> dict[str, Any]:
    """Wait until every process says that all is learned, and complain about what took longer than it may."""
    closed = len(log.events)
    at_once = [handled(each) for each in processes]
    took = wait(lambda: all(handled(each) == closed for each in processes), patience)
    finally_ = [handled(each) for each in processes]
    if took is None or took > SOON:
        said = f"{finally_} after {patience:.0f} s" if took is None else f"all after {took:.1f} s"
        log.trouble(f"{closed} impressions were closed, learned at the end of the load {at_once}, {said}")
    found = {"closed": closed, "learned at the end of the load": at_once}
    return found | {"all learned after, s": took, "learned in the end": finally_}


def disturb(processes: Sequence[Process], log: Acknowledged, seconds: float, hang: float, seed: int) -> dict[str, Any]:
    """Kill single processes for some seconds, then stop the leader for a while; users go on."""
    chance, kills, end = random.Random(seed), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(chance.uniform(0.5, 1.5) * min(3.0, seconds / 3))
        victim = chance.choice(list(processes))
        victim.kill()
        time.sleep(chance.uniform(0.0, 1.0))
        victim.start()
        kills += 1
    if wait(lambda: len(leaders(processes)) == 1, 3 * TAKEN_OVER) is None:
        log.trouble("no process learns after the kills")
        return {"kills": kills}
    return {"kills": kills, "new leader after the old one hung, s": hang_leader(processes, log, hang)}


def hang_leader(processes: Sequence[Process], log: Acknowledged, hang: float) -> float | None:
    """Stop the leader as a hanging disk or a paused machine would, and return the seconds until another one leads."""
    old = leaders(processes)[0]
    others = [each for each in processes if each is not old]
    assert old.process is not None
    began = time.monotonic()
    old.process.send_signal(signal.SIGSTOP)
    try:
        took = wait(lambda: len(leaders(others)) == 1, hang)
        time.sleep(max(0.0, began + hang - time.monotonic()))
    finally:
        old.process.send_signal(signal.SIGCONT)
    if took is None or took > TAKEN_OVER:
        log.trouble(f"the leader hung for {hang:.0f} s, and a new one led after {took} s")
    if wait(lambda: len(leaders(processes)) == 1, TAKEN_OVER) is None:
        log.trouble(f"{len(leaders(processes))} processes lead after the one that hung woke up")
    return took


def missing(opened: Storage, ranker: str, kind: str, keys: Sequence[str]) -> list[str]:
    """Return which keys a store does not know."""
    known = opened.log.find(ranker, kind, keys)
    return [key for key in keys if key not in known]


def count(opened: Storage, ranker: str, kind: str) -> int:
    """Return how many events of a kind a ranker has."""
    after, total = 0, 0
    while events := opened.log.read(after=after, limit=1000, ranker=ranker):
        total += sum(event.kind == kind for event in events)
        after = events[-1].number
    return total


def verify(store: str, log: Acknowledged, learned: int) -> str:
    """Compare acknowledged events with the store, and the learned weights with a replay of it."""
    with open_storage(store) as opened:
        for kind, keys in (("ranked", log.impressions), ("feedback", log.events)):
            if gone := missing(opened, RANKER, kind, keys):
                log.trouble(f"{len(gone)} acknowledged events of kind {kind} are gone, such as {gone[0]}")
        impressions = count(opened, RANKER, "ranked")
    if learned != impressions:
        log.trouble(f"{impressions} impressions are in the log, and {learned} were learned from")
    done = subprocess.run(duelrank("replay", store, "--verify"), capture_output=True, text=True)
    if done.returncode:
        log.trouble(f"replay: {done.stdout[-500:]} {done.stderr[-500:]}")
    return done.stdout.strip()


@dataclass(frozen=True)
class Plan:
    """Durations of the parts."""

    processes: int = 2
    seconds: float = 60.0
    #: Seconds that the leader is stopped for; 0 leaves the round with kills out.
    hang: float = 25.0
    #: Seconds to wait for a backlog that should not be there, to report how it drains.
    patience: float = 60.0
    seed: int = 1


def full_load(store: str, folder: Path, plan: Plan) -> dict[str, Any]:
    """Run both rounds on an empty store; "what went wrong" is empty if all is well."""
    log = Acknowledged()
    with ExitStack() as stack:
        processes = []
        for number in range(plan.processes):
            (folder / f"process{number}").mkdir()
            # All users come from one address, so they would share one rate limit.
            processes.append(stack.enter_context(service(store, folder / f"process{number}", "--rate", "0")))
        create(processes[0])
        watch = Watch(processes, log)
        watch.start()
        try:
            found = rounds(processes, log, plan)
        finally:
            watch.over.set()
            watch.join()
        learned = max(handled(each) or 0 for each in processes)
    found |= {"largest lag": watch.lag, "largest backlog": watch.backlog, "retries of users": log.retries}
    return found | {"replay": verify(store, log, learned), "what went wrong": log.troubles}


def create(process: Process) -> None:
    """Create the ranker; impressions are closed by users alone."""
    spec = {"name": RANKER, "algorithm": "mgd-dsp", "features": [f"f{n}" for n in range(46)], "close_after": 86_400.0}
    body = json.dumps(spec).encode()
    request = urllib.request.Request(process.url + "/v1/rankers", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=120).close()


def rounds(processes: Sequence[Process], log: Acknowledged, plan: Plan) -> dict[str, Any]:
    """Load, then load with kills; after each all must be learned."""
    urls, began = [each.url for each in processes], time.monotonic()
    with visitors(urls, log, plan.seed):
        time.sleep(plan.seconds)
    rate = len(log.events) / (time.monotonic() - began)
    found: dict[str, Any] = {"closed per second": round(rate), "at full load": drained(processes, log, plan.patience)}
    if plan.hang:
        with visitors(urls, log, plan.seed + 1):
            found |= disturb(processes, log, plan.seconds, plan.hang, plan.seed)
        found["with kills"] = drained(processes, log, plan.patience)
    return found
