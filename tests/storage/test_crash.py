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
    for run, moment in enumerate((0, 3, 20, 60, 150)):
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
        assert len(promised) >= 3 * (3 + 20 + 60 + 150)
        assert promised.items() <= found.items()
        batches = {key.rpartition("-")[0] for key in found}
        assert len(found) == 3 * len(batches), "batches are whole"
        key, number = next(iter(promised.items()))
        assert store.log.append([NewEvent("shop", "x", key, 0.0, b"")]) == [Receipt(number, False)]


LEADER = """
    store = open_storage(sys.argv[1])
    sys.stdin.readline()
    lease = store.leases.acquire("learner")
    print("leads" if lease else "follows", flush=True)
    sys.stdin.readline()
"""


def test_one_of_many_processes_leads(durable_url, process):
    racers = [process(LEADER, durable_url) for _ in range(4)]
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    assert sorted(racer.stdout.readline() for racer in racers) == ["follows\n"] * 3 + ["leads\n"]


def test_a_killed_leader_is_followed(durable_url, process):
    leader = process(LEADER, durable_url)
    leader.stdin.write("go\n")
    leader.stdin.flush()
    assert leader.stdout.readline() == "leads\n"
    with open_storage(durable_url) as store:
        assert store.leases.acquire("learner") is None
        leader.kill()
        leases = []
        until(lambda: leases.append(store.leases.acquire("learner")) or leases[-1] is not None)
        assert leases[-1].held()


APPENDER = """
    with open_storage(sys.argv[1]) as store:
        for i in range(60):
            store.log.append([NewEvent("shop", "x", f"{sys.argv[2]} {i}", 0.0, b"")])
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


@pytest.mark.parametrize("how", ["close", "exit"])
def test_the_writers_thread_does_not_keep_a_process_alive(durable_url, process, how):
    code = """
        store = open_storage(sys.argv[1])
        store.log.append([NewEvent("shop", "x", "k", 0.0, b"")])
        if sys.argv[2] == "close":
            store.close()
    """
    assert process(code, durable_url, how).wait(60) == 0
    with open_storage(durable_url) as store:
        assert store.log.last_number() == 1
