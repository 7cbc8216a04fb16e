"""Several processes on one store: the leader keeps up with all of them, followers tell the same, a hanging leader is replaced."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
from contextlib import AsyncExitStack, ExitStack

import pytest
from msgspec.structs import replace

from duelrank.core.errors import Conflict, StoreLocked
from duelrank.service import Observer, Service
from duelrank.service.http.schema import Document, ExperimentSpec, FeedbackEvent, RankRequest, ShowRequest
from duelrank.service.replay import replay
from duelrank.storage import open_storage

pytestmark = pytest.mark.processes


def ids(answer):
    return [each.id for each in answer.ranking]


async def traffic(service, kit, numbers, **event):
    for number in numbers:
        shown = ids(await service.rank("shop", kit.request(number)))
        counts = await service.feedback("shop", [kit.event(number, shown[1:2], **event)])
        assert counts.accepted == 1


class Lags(Observer):
    """Remembers how far the learner said it was behind."""

    def __init__(self):
        self.events = []

    def lag(self, events, seconds):
        self.events.append(events)


def test_a_leader_that_is_woken_once_learns_all_that_others_have_appended(postgres_url, kit):
    async def main():
        with open_storage(postgres_url) as one, open_storage(postgres_url) as two:
            # Nobody polls: whatever the leader does, it does because of the one request that it gets at the end. And it publishes
            # nothing more, so that no list is of a version too long ago.
            slow = {"poll_every": 3600.0, "publish_every": 3600.0}
            async with kit.running(one, **slow) as leader, kit.running(two, **slow) as other:
                assert (leader.leads, other.leads) == (True, False)
                await leader.create(kit.spec())
                await traffic(other, kit, range(100, 200))
                await leader.rank("shop", kit.request(1))
                await kit.until(lambda: leader.ranker("shop").learned == 100, lambda: leader.ranker("shop"))
            assert kit.verified(one).learned == 100

    asyncio.run(main())


def test_a_label_that_a_follower_is_given_is_known_everywhere(postgres_url, kit):
    async def main():
        with open_storage(postgres_url) as one, open_storage(postgres_url) as two:
            async with kit.running(one) as leader, kit.running(two) as other:
                assert (leader.leads, other.leads) == (True, False)
                await leader.create(kit.spec())
                await traffic(leader, kit, range(30))
                await kit.learned(leader, 30)
                labelled = await other.label("shop", 1, "the beginning")
                for service in (leader, other):
                    assert labelled in [replace(each, current=False) for each in service.versions("shop")]
            assert kit.verified(one).learned == 30

    asyncio.run(main())


def test_an_experiment_is_shown_by_all_processes_and_counted_by_the_leader(postgres_url, kit):
    async def main():
        with open_storage(postgres_url) as one, open_storage(postgres_url) as two:
            async with kit.running(one) as leader, kit.running(two) as other:
                assert (leader.leads, other.leads) == (True, False)
                await leader.create_experiment(ExperimentSpec("spring", ("a", "b"), length=2))
                for number in range(40):
                    service, answering = (leader, other)[:: 1 if number % 2 else -1]
                    request = ShowRequest({"a": ["d1", "d2"], "b": ["d3"]}, f"i{number}")
                    shown = await service.show("spring", request)
                    assert await answering.show("spring", request) == shown
                    event = FeedbackEvent(f"i{number}", shown.documents[:1], close=True)
                    counts = await answering.experiment_feedback("spring", [event, event])
                    assert (counts.accepted, counts.duplicate) == (1, 1)
                await kit.until(lambda: other.experiment("spring").counted == 40, lambda: other.experiment("spring"))
                assert other.experiment("spring") == leader.experiment("spring")
                await other.stop_experiment("spring")
                await kit.until(lambda: leader.experiment("spring").stopped is not None)
                with pytest.raises(Conflict):
                    await leader.show("spring", ShowRequest({"a": ["d1"], "b": []}))
            result = replay(one, "spring")
            assert (result.difference, result.learned) == (None, 40)

    asyncio.run(main())


def test_four_processes_that_append_at_once_are_all_learned_from(postgres_url, kit):
    async def main():
        with ExitStack() as stores:
            storages = [stores.enter_context(open_storage(postgres_url)) for _ in range(4)]
            async with AsyncExitStack() as running:
                services = [await running.enter_async_context(kit.running(each)) for each in storages]
                await services[0].create(kit.spec())
                shares = [range(100 * place, 100 * place + 50) for place in range(4)]
                await asyncio.gather(*(traffic(each, kit, share) for each, share in zip(services, shares, strict=True)))
                await kit.until(lambda: all(each.ranker("shop").learned == 200 for each in services))
            assert kit.verified(storages[0]).learned == 200

    asyncio.run(main())


def test_the_lag_is_what_the_log_has_and_the_learner_has_not(postgres_url, kit, monkeypatch):
    async def main():
        with open_storage(postgres_url) as one, open_storage(postgres_url) as two:
            async with kit.running(one, poll_every=0.02) as leader, kit.running(two) as other:
                await leader.create(kit.spec())
                await traffic(other, kit, range(5))
                await kit.learned(leader, 5)
                lags = leader.observer = Lags()
                await kit.until(lambda: lags.events and lags.events[-1] == 0)
                # The learner comes to nothing more, as where each event takes it long; the log goes on.
                monkeypatch.setattr("duelrank.service.log.Tail.read", lambda tail, log, after, limit: [])
                await traffic(other, kit, range(5, 10))
                await kit.until(lambda: lags.events[-1] == 15)
                monkeypatch.undo()
                await kit.learned(leader, 10)
                await kit.until(lambda: lags.events[-1] == 0)

    asyncio.run(main())


def test_followers_report_the_counts_of_the_leader_without_a_new_version(postgres_url, kit):
    async def main():
        with open_storage(postgres_url) as one, open_storage(postgres_url) as two:
            async with kit.running(one) as leader, kit.running(two) as follower:
                await leader.create(kit.spec(close_after=1e6))
                for number in range(10):
                    await follower.rank("shop", kit.request(number))
                await traffic(leader, kit, range(10, 15), close=False)
                await kit.until(lambda: follower.ranker("shop").open == 15, lambda: follower.ranker("shop"))
                assert follower.ranker("shop") == leader.ranker("shop")
                assert leader.ranker("shop").model_version == 1

    asyncio.run(main())


def test_changes_and_deletions_reach_all_processes(postgres_url, kit):
    from duelrank.service.http.schema import Change

    documents = [Document(f"old{i}", [0.0] * 5) for i in range(3)]

    async def main():
        with open_storage(postgres_url) as one, open_storage(postgres_url) as two:
            async with kit.running(one) as leader, kit.running(two) as follower:
                await follower.create(kit.spec())
                now = await follower.change("shop", Change(add_features=("stock",), length=3))
                assert now.features[-1] == "stock"
                await kit.until(lambda: leader.ranker("shop").features == now.features)
                await follower.rank("shop", RankRequest(documents, "i0"))
                await leader.delete("shop")
                await kit.until(lambda: leader.rankers() == follower.rankers() == [])
                assert (await leader.create(kit.spec(seed=3)))[1]
                await traffic(follower, kit, range(3))  # the first has an id that was used in the earlier life
                await kit.until(lambda: follower.ranker("shop").learned == 3)
            kit.verified(one)

    asyncio.run(main())


SERVER = """
    import asyncio, sys

    from duelrank.service import Service, Settings
    from duelrank.storage import open_storage

    async def main(url):
        with open_storage(url) as storage:
            service = Service(storage, Settings(publish_every=0.05, poll_every=0.05))
            await service.start()
            await service.wait_ready()
            print("ready", flush=True)
            while line := await asyncio.to_thread(sys.stdin.readline):
                print("leads" if service.leads else "follows", flush=True)
            await service.stop()

    asyncio.run(main(sys.argv[1]))
"""


def asked(server):
    server.stdin.write("?\n")
    server.stdin.flush()
    return server.stdout.readline().strip()


def test_a_leader_that_hangs_is_replaced_and_steps_down_when_it_wakes(postgres_url, kit):
    async def main(hanging):
        with open_storage(postgres_url) as storage:
            async with kit.running(storage) as service:
                assert not service.leads
                await service.create(kit.spec())
                await traffic(service, kit, range(10))
                await kit.until(lambda: service.ranker("shop").learned == 10)
                hanging.send_signal(signal.SIGSTOP)
                await traffic(service, kit, range(10, 20))
                await kit.until(lambda: service.leads)
                await traffic(service, kit, range(20, 30))
                await kit.learned(service, 30)
                hanging.send_signal(signal.SIGCONT)
                await kit.until(lambda: asked(hanging) == "follows")
                await traffic(service, kit, range(30, 40))
                await kit.learned(service, 40)
                assert service.leads
            assert kit.verified(storage).learned == 40

    command = [sys.executable, "-c", textwrap.dedent(SERVER), postgres_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as hanging:
        try:
            assert hanging.stdout.readline() == "ready\n"
            assert asked(hanging) == "leads"
            asyncio.run(main(hanging))
        finally:
            hanging.kill()


def test_a_second_process_on_one_sqlite_file_is_refused(sqlite_url, kit):
    async def main():
        with open_storage(sqlite_url) as one, open_storage(sqlite_url) as two:
            async with kit.running(one):
                with pytest.raises(StoreLocked, match="another process serves"):
                    await Service(two, kit.fast).start()
            async with kit.running(two) as service:
                assert service.leads, "free again"

    asyncio.run(main())
