"""Processes that are killed, and who takes over."""

from __future__ import annotations

import pytest
from tests.waiting import until

from duelrank.storage import NewEvent, Receipt, open_storage

pytestmark = pytest.mark.processes

# Four threads append as fast as they can; a line is printed for each batch that was acknowledged, never before.
WRITER = """
    import threading
    store = open_storage(sys.argv[1])
    print("ready", flush=True)
    def write(thread):
        for i in range(100_000):
            batch = [NewEvent("shop", "x", f"{sys.argv[2]}-{thread}-{i}-{j}", 0.0, b"x" * 700) for j in range(3)]
            numbers = [receipt.number for receipt in store.log.append(batch)]
            sys.stdout.write(f"{thread} {i} {numbers[0]} {numbers[1]} {numbers[2]}\\n")
            sys.stdout.flush()
    threads = [threading.Thread(target=write, args=(thread,)) for thread in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
"""


def acknowledged(output: str, run: int):
    """Yield (key, number) of every event whose line was printed whole."""
    for line in output.splitlines(keepends=True):
        if line.endswith("\n"):
            thread, i, *numbers = line.split()
            for j, number in enumerate(numbers):
                yield f"{run}-{thread}-{i}-{j}", int(number)


def test_a_writer_that_is_killed_loses_nothing_that_it_acknowledged(durable_url, process):
    promised = {}
    for run, moment in enumerate((0, 20, 150)):
        writer = process(WRITER, durable_url, run)
        assert writer.stdout.readline() == "ready\n"
        kept = [writer.stdout.readline() for _ in range(moment)]
        writer.kill()  # while it goes on writing
        promised |= dict(acknowledged("".join(kept) + writer.stdout.read(), run))
    with open_storage(durable_url) as store:
        events = store.log.read(limit=1_000_000)
        found = {event.key: event.number for event in events}
        assert len(found) == len(events), "none is there twice"
        assert [event.number for event in events] == list(range(1, len(events) + 1))
        assert len(promised) >= 3 * (20 + 150)
        assert promised.items() <= found.items()
        batches = {key.rpartition("-")[0] for key in found}
        assert len(found) == 3 * len(batches), "batches are whole"
        key, number = next(iter(promised.items()))
        assert store.log.append([NewEvent("shop", "x", key, 0.0, b"")]) == [Receipt(number, False)]


LEADER = """
    store = open_storage(sys.argv[1])
    print("opened", flush=True)
    sys.stdin.readline()
    lease = store.leases.acquire("learner")
    print("leads" if lease else "follows", flush=True)
    sys.stdin.readline()
"""


def test_one_of_many_processes_leads_and_is_followed_when_it_is_killed(durable_url, process):
    racers = [process(LEADER, durable_url) for _ in range(3)]  # all open a store that does not exist yet
    assert [racer.stdout.readline() for racer in racers] == ["opened\n"] * 3
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    found = [racer.stdout.readline() for racer in racers]
    assert sorted(found) == ["follows\n", "follows\n", "leads\n"]
    with open_storage(durable_url) as store:
        assert store.leases.acquire("learner") is None
        racers[found.index("leads\n")].kill()
        leases = []
        until(lambda: leases.append(store.leases.acquire("learner")) or leases[-1] is not None)
        assert leases[-1].held()


# The first one ends without closing its store, which its writing thread must not keep alive.
APPENDER = """
    store = open_storage(sys.argv[1])
    for i in range(60):
        store.log.append([NewEvent("shop", "x", f"{sys.argv[2]} {i}", 0.0, b"")])
    if sys.argv[2] != "0":
        store.close()
    assert ("psycopg" in sys.modules) == sys.argv[1].startswith("postgresql"), "the driver is imported if it is needed"
"""


def test_processes_that_append_together_never_show_a_smaller_number_later(durable_url, process):
    with open_storage(durable_url) as store:
        running = [process(APPENDER, durable_url, name) for name in range(3)]
        seen = [0]
        while len(seen) < 181 and any(each.poll() is None for each in running):
            seen += [event.number for event in store.log.read(after=seen[-1])]
        seen += [event.number for event in store.log.read(after=seen[-1])]
        assert [each.wait(60) for each in running] == [0, 0, 0]
        assert seen == list(range(181))
