"""Processes that are killed under load, and who takes over: nothing that was promised is lost, nothing is learned twice."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import textwrap
from threading import Event

import numpy as np
import pytest
from tests.effort import SOAK

from duelrank.service.log import IMPRESSION
from duelrank.service.replay import replay
from duelrank.storage import open_storage

ROUNDS = 3 * SOAK

pytestmark = pytest.mark.processes


# Serves itself as fast as it can; a line is printed for each promise, never before. Arguments: address, name of this life,
# and whether the ranker is guarded, so nervously that there are alarms all the time, which somebody ends.
SERVER = """
    import asyncio, sys, numpy as np
    from duelrank.service.http.schema import GuardSpec
    from duelrank.service import Service, Settings
    from duelrank.service.http.schema import Document, FeedbackEvent, RankerSpec, RankRequest
    from duelrank.storage import open_storage

    RECIPE = "remember(queries=5, documents=6) >> mgd-dsp"  # some queries leave
    GUARD = GuardSpec(share=0.5, false_alarm_every=10.0, promote=(0.5, 1.0), on_alarm="rollback")

    def say(*words):
        sys.stdout.write(" ".join(map(str, words)) + "\\n")
        sys.stdout.flush()

    async def user(service, life, who):
        for number in range(1_000_000):
            key, rng = f"{life}-{who}-{number}", np.random.default_rng((who, number))
            documents = [Document(f"d{i}", row) for i, row in enumerate(rng.random((8, 4)).tolist())]
            request = RankRequest(documents, impression_id=key, query=f"query {number % 7}")
            answer = await service.rank("shop", request)
            say("ranked", key, ",".join(each.id for each in answer.ranking))
            if number % 4 < 3:
                clicks = [answer.ranking[number % 5].id]
                closes = number % 4 < 2
                event = FeedbackEvent(key, clicks, None, closes, f"e-{key}", user_id=f"{life}-{who}-{number // 2}")
                counts = await service.feedback("shop", [event])
                assert counts.accepted == 1
                say("fed", f"e-{key}", key if closes else "-")
            if number % 20 == 19 and service.ranker("shop").guard is not None:
                await service.control("shop", "resume")

    async def main(url, life, guarded=""):
        with open_storage(url) as storage:
            # Guard lists that nobody closes would hold up the others, so only few may be open.
            max_open = 20 if guarded else 100_000
            service = Service(storage, Settings(publish_every=0.05, poll_every=0.05, max_open=max_open))
            await service.start()
            await service.wait_ready()
            guard, imitate = (GUARD, 20) if guarded else (None, 0)
            named = {"length": 5, "seed": 7, "guard": guard, "imitate": imitate}
            await service.create(RankerSpec("shop", RECIPE, ("a", "b", "c", "d"), **named))
            say("leads" if service.leads else "follows")
            if life != "idle":
                await asyncio.gather(*(user(service, life, who) for who in range(4)))
            await asyncio.to_thread(sys.stdin.readline)
            await service.stop()

    asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def process():
    """Start a server; ended after the test at the latest."""
    started = []

    def start(url, life, *more):
        command = [sys.executable, "-c", textwrap.dedent(SERVER), url, str(life), *more]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for each in started:
        with each:
            each.kill()


def promises(output: str):
    """Split the lines that were printed whole: lists by id, events by id, and lists that were closed."""
    lines = [line.split() for line in output.splitlines(keepends=True) if line.endswith("\n")]
    ranked = {words[1]: words[2].split(",") for words in lines if words[0] == "ranked"}
    fed = {words[1] for words in lines if words[0] == "fed"}
    return ranked, fed, {words[2] for words in lines if words[0] == "fed" and words[2] != "-"}


def check(storage, kit, ranked, fed, closed):
    """Hold all promises against the store, and the store against a replay."""
    from duelrank.service.log import StoredImpression, unpack

    for key, order in ranked.items():
        shown = unpack(storage.log.find("shop", "ranked", [key])[key].body, StoredImpression)
        assert shown.shown == order
    assert fed <= storage.log.find("shop", "feedback", fed).keys()
    events = storage.log.read(limit=10_000_000)
    ends = [event.key for event in events if event.kind == "closed"]
    numbers = {str(event.number) for event in storage.log.find("shop", "ranked", closed).values()}
    assert len(numbers) == len(closed)
    assert numbers <= set(ends)
    assert len(ends) == len(set(ends))
    result = kit.verified(storage)
    assert result.learned + result.skipped + result.no_feedback == len(ends), "each closed list was done with once"
    if not any(event.kind == "control" for event in events):
        assert result.learned == len(ends), "and learned from"
    assert result.impressions == sum(event.kind == "ranked" for event in events)
    return result


@pytest.mark.parametrize(("kind", "guarded"), [("sqlite", ()), ("sqlite", ("guarded",)), ("postgres", ())])
def test_killed_under_load_again_and_again(request, kind, guarded, process, kit):
    url = request.getfixturevalue(f"{kind}_url")
    ranked, fed, closed = {}, set(), set()
    moments = np.random.default_rng(5).integers(10, 300, ROUNDS)
    for life in range(ROUNDS if kind == "sqlite" else max(2, ROUNDS // 2)):
        server = process(url, life, *guarded)
        assert server.stdout.readline() == "leads\n"
        kept = [server.stdout.readline() for _ in range(moments[life])]
        assert all(kept)
        server.kill()  # while it goes on promising
        more = promises("".join(kept) + server.stdout.read())
        server.wait()
        ranked, fed, closed = ranked | more[0], fed | more[1], closed | more[2]
    assert ranked
    assert closed

    async def main(storage):
        async with kit.running(storage) as service:
            await kit.learned(service, 0)
            return service._rankers["shop"].machine.checkpoint()

    with open_storage(url) as storage:
        check(storage, kit, ranked, fed, closed)
        restored = asyncio.run(main(storage))
        check(storage, kit, ranked, fed, closed)
        assert storage.snapshots.load("shop", "checkpoint").body == restored
        noted = [event.key.partition("/")[0] for event in storage.log.read(limit=10_000_000) if event.kind == "control"]
        assert ("alarm" in noted) == bool(guarded)


def test_one_of_two_processes_learns_and_the_other_takes_over(postgres_url, process, kit):
    def ids(answer):
        return [each.id for each in answer.ranking]

    async def some(service, numbers):
        for number in numbers:
            answer = await service.rank("shop", kit.request(number))
            counts = await service.feedback("shop", [kit.event(number, ids(answer)[1:3])])
            assert counts.accepted == 1

    async def main(leader):
        with open_storage(postgres_url) as storage:
            async with kit.running(storage, poll_every=0.1) as service:
                assert not service.leads
                await some(service, range(10))
                assert not service.leads
                # What the other has learned is served here.
                await kit.until(lambda: service.ranker("shop").learned == 10)
                assert service.model("shop").weights.any()
                assert replay(storage, "shop").model_version >= service.ranker("shop").model_version > 1
                frozen = await service.control("shop", "freeze")
                assert frozen.frozen
                await service.control("shop", "resume")
                late = await service.feedback("shop", [kit.event(3, event_id="late"), kit.event(4)])
                assert (late.expired, late.duplicate) == (1, 1), "what the other has closed is closed here"
                await some(service, range(10, 20))
                leader.kill()
                await some(service, range(20, 30))
                await kit.until(lambda: service.leads)
                await some(service, range(30, 40))
                await kit.learned(service, 40)
                assert service.ranker("shop").learned == 40
            assert kit.verified(storage).learned == 40

    leader = process(postgres_url, "idle")
    assert leader.stdout.readline() == "leads\n"
    asyncio.run(main(leader))


def test_two_services_answer_alike(postgres_url, kit):
    async def main():
        with open_storage(postgres_url) as one, open_storage(postgres_url) as two:
            async with kit.running(one) as first, kit.running(two) as second:
                assert (first.leads, second.leads) == (True, False)
                await first.create(kit.spec())
                assert (await second.rank("shop", kit.request(0))).model_version == 1, "also right after it was made"
                for number in range(5):
                    both = await asyncio.gather(
                        *(each.rank("shop", kit.request(number)) for each in (first, second) * 2)
                    )
                    assert all(answer == both[0] for answer in both)
                    event = kit.event(number, [both[0].ranking[2].id])
                    counts = await asyncio.gather(*(each.feedback("shop", [event]) for each in (first, second) * 2))
                    assert sum(each.accepted for each in counts) == 1
                    assert sum(each.duplicate for each in counts) == 3
                await kit.learned(first, 5)
                version = first.ranker("shop").model_version
                await kit.until(lambda: second.ranker("shop").model_version == version)
                assert np.array_equal(first.model("shop").weights, second.model("shop").weights)
            assert kit.verified(one).learned == 5

    asyncio.run(main())


async def equal_in_the_end(storage, kit, *services):
    """Wait until all services have a machine that has read the whole log, and hold that they are equal to the bit."""

    def machines():
        return [service._rankers["shop"].machine for service in services]

    await kit.until(lambda: all(each and each.number == storage.log.last_number() for each in machines()))
    one, *others = [each.checkpoint() for each in machines()]
    assert all(other == one for other in others)


def test_two_leaders_at_once_do_no_harm(storage, kit, monkeypatch):
    """As when a lease is lost and nobody has noticed: all that a leader does follows from the log, so it is only done twice."""
    from duelrank.storage.sqlite import _MemoryLease

    monkeypatch.setattr(storage.leases, "acquire", lambda name: _MemoryLease())

    async def main():
        clock = kit.clock()
        async with kit.running(storage, clock=clock) as first, kit.running(storage, clock=clock) as second:
            assert first.leads
            assert second.leads
            await first.create(kit.spec(close_after=50.0))
            await kit.until(lambda: bool(second.rankers()))
            for number in range(40):
                service = (first, second)[number % 2]
                answer = await service.rank("shop", kit.request(number))
                clicks = [answer.ranking[number % 5].id]
                await service.feedback("shop", [kit.event(number, clicks, close=number % 4 < 2)])
                clock.advance(2.0)
            clock.advance(100.0)
            for service in (first, second):
                await kit.learned(service, 40)
            await equal_in_the_end(storage, kit, first, second)
        result = kit.verified(storage)
        assert (result.learned, result.open) == (40, 0)

    asyncio.run(main())


def test_a_leader_that_hung_continues_from_the_checkpoint_of_another(storage, kit, monkeypatch):
    """What the other one has learned from is gone from the store by then."""
    from duelrank.storage.sqlite import _MemoryLease

    monkeypatch.setattr(storage.leases, "acquire", lambda name: _MemoryLease())

    async def main():
        clock = kit.clock()
        async with kit.running(storage, clock=clock) as first, kit.running(storage, clock=clock) as second:
            await first.create(kit.spec())
            await kit.until(lambda: bool(second.rankers()) and second._rankers["shop"].machine is not None)
            await kit.until(lambda: kit.has_read_all(second))
            hung, going_on = second._background._term, Event()
            monkeypatch.setattr(hung, "step", lambda: going_on.wait() and type(hung).step(hung))
            for number in range(12):
                answer = await first.rank("shop", kit.request(number))
                await first.feedback("shop", [kit.event(number, [answer.ranking[number % 5].id])])
                await kit.learned(first, number + 1)
                clock.advance(100.0)  # long enough to write a checkpoint, and to remove what it does not need
                await kit.rounds(first)
            assert storage.log.attachment("shop", storage.log.find("shop", IMPRESSION, ["i0"])["i0"].number) is None
            going_on.set()
            await kit.until(lambda: second.leads and second._background._term is not hung)
            await kit.learned(second, 12)
            await equal_in_the_end(storage, kit, first, second)
        kit.verified(storage)

    asyncio.run(main())


def test_a_database_server_that_restarts_under_load(server, postgres_url, kit):
    from duelrank.core.errors import StorageFailure

    async def user(service, who, promised, failures, enough):
        for key in itertools.count(100_000 * who):
            while True:  # as a client does: again, until it is answered
                try:
                    answer = await service.rank("shop", kit.request(key))
                    await service.feedback("shop", [kit.event(key, [answer.ranking[1].id])])
                except StorageFailure as error:
                    failures.append(error)
                    await asyncio.sleep(0.05)
                else:
                    promised.append(f"i{key}")
                    break
            if enough.is_set():
                return
            await asyncio.sleep(0.005)

    async def main():
        promised, failures, enough = [], [], asyncio.Event()
        with open_storage(postgres_url) as storage:
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                users = [asyncio.create_task(user(service, who, promised, failures, enough)) for who in range(4)]
                await kit.until(lambda: len(promised) >= 40)
                await asyncio.to_thread(server.stop)
                try:
                    await kit.until(lambda: len(failures) >= 4)
                finally:
                    await asyncio.to_thread(server.start)
                before = len(promised)
                await kit.until(lambda: len(promised) >= before + 40)
                enough.set()
                await asyncio.gather(*users)
                assert all(error.retryable for error in failures)
                await kit.until(lambda: service.leads and service.ranker("shop").learned == len(promised))
            assert len(set(promised)) == len(promised)
            assert kit.verified(storage).learned == len(promised)

    asyncio.run(main())
