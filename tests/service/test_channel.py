"""A service whose learner is another process: here a thread with its own connection to the store."""

from __future__ import annotations

import asyncio
import multiprocessing
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from threading import Event, Thread

import pytest
from tests.waiting import FOR_EVER, until

from duelrank.core.errors import NotReady, StoreCorrupt, StoreLocked, UnknownName
from duelrank.service import Observer, Service, log
from duelrank.service.channel import MAX_BYTES, Beat, Close, FrontChannel, Inbox, LearnerChannel, Look
from duelrank.service.http.schema import Change
from duelrank.service.leader import LEASE, learn
from duelrank.service.log import CachedImpression, ImpressionCache
from duelrank.storage import open_storage


@pytest.fixture
def inboxes():
    found = Inbox(), Inbox()
    yield found
    for inbox in found:
        inbox.close()


@contextmanager
def learner(url, kit, inboxes, **changes):
    """Learn in another thread; yields what it returns."""
    stopped, unsaved = Event(), []

    def work():
        with open_storage(url) as storage:
            channel = LearnerChannel(inboxes[0], [inboxes[1]])
            unsaved.append(learn(storage, replace(kit.fast, **changes), channel, Observer(), stopped.wait))

    thread = Thread(target=work)
    thread.start()
    try:
        yield unsaved
    finally:
        stopped.set()
        thread.join()


@asynccontextmanager
async def front(storage, kit, inboxes, clock=None, **changes):
    """Serve, and let another process learn."""
    channel = FrontChannel(inboxes[1], inboxes[0])
    service = Service(storage, replace(kit.fast, **changes), clock, channel=channel)
    await service.start()
    try:
        await service.wait_ready(FOR_EVER)
        yield service
    finally:
        await service.stop()


async def visit(service, kit, numbers, **event):
    for number in numbers:
        shown = [each.id for each in (await service.rank("shop", kit.request(number))).ranking]
        assert (await service.feedback("shop", [kit.event(number, shown[1:2], **event)])).accepted == 1


async def learned(service, kit, count):
    await kit.until(lambda: service.ranker("shop").learned == count, lambda: service.ranker("shop"))


class TestInbox:
    def test_messages_arrive_in_order_and_once(self, inboxes):
        sent = [Look(), Close("shop", 3, {"i1": 4}, 5.0), Beat()]
        assert all(map(inboxes[0].send, sent))
        assert inboxes[0].receive() == sent
        assert inboxes[0].receive() == []

    def test_a_full_inbox_drops_messages_and_nobody_waits(self, inboxes):
        while inboxes[0].send(Look()):
            pass
        assert inboxes[0].receive()
        assert inboxes[0].send(Look())

    def test_it_wakes_another_process(self, inboxes):
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=inboxes[0].send, args=(Look(),))
        process.start()
        inboxes[0].wait(FOR_EVER)
        assert inboxes[0].receive() == [Look()]
        process.join()

    def test_many_closings_are_several_messages_to_all_in_turns(self):
        one, two, own = Inbox(), Inbox(), Inbox()
        channel = LearnerChannel(own, [one, two])
        due = {f"{number:0500}": number for number in range(200)}
        channel.close_impressions("shop", 1, due, 2.0)
        found = [one.receive(), two.receive()]
        assert all(found)
        messages = [*found[0], *found[1]]
        assert {id: number for each in messages for id, number in each.impressions.items()} == due
        assert all(0 < sum(map(len, each.impressions)) < MAX_BYTES for each in messages)
        for inbox in (one, two, own):
            inbox.close()


class TestFront:
    def test_a_click_is_learned_elsewhere_and_comes_back_as_a_version(self, sqlite_url, storage, kit, inboxes):
        async def main():
            async with front(storage, kit, inboxes, poll_every=3600.0) as service:  # only messages wake it
                assert (service.leads, service.learning) == (False, False)
                await service.create(kit.spec())
                await visit(service, kit, range(3))  # nobody learns yet, and everything is acknowledged
                with learner(sqlite_url, kit, inboxes) as unsaved:
                    await learned(service, kit, 3)
                    await kit.until(lambda: service.learning)
                    await visit(service, kit, range(3, 10))
                    await learned(service, kit, 10)
                    assert service.ranker("shop").model_version > 1
                    assert (await service.change("shop", Change(length=3))).length == 3
                    assert (await service.label("shop", 1, "first")).label == "first"
                    assert service.history("shop").learned
                assert unsaved == [None]

        asyncio.run(main())
        assert kit.verified(storage).learned == 10

    def test_the_last_step_is_that_of_the_learner(self, sqlite_url, storage, kit, inboxes, monkeypatch):
        async def main():
            async with front(storage, kit, inboxes) as service:
                with learner(sqlite_url, kit, inboxes):
                    await service.create(kit.spec())
                    with pytest.raises(UnknownName, match="has learned from no impression"):
                        await asyncio.to_thread(service.last_step, "shop")
                    await visit(service, kit, range(3))
                    await learned(service, kit, 3)
                    step = await asyncio.to_thread(service.last_step, "shop")
                    assert (step.impression_id, step.step, len(step.documents)) == ("i2", 3, 5)
                    await kit.until(lambda: service.model("shop").weights.tolist() == list(step.weights_after.values()))
                monkeypatch.setattr("duelrank.service.service.STEP_TIMEOUT", 0.05)
                with pytest.raises(NotReady, match="does not answer"):  # nobody learns any more
                    await asyncio.to_thread(service.last_step, "shop")

        asyncio.run(main())

    def test_overdue_impressions_are_closed_by_the_process_that_takes_feedback(self, sqlite_url, storage, kit, inboxes):
        async def main():
            async with front(storage, kit, inboxes) as service:
                with learner(sqlite_url, kit, inboxes):
                    await service.create(kit.spec(close_after=0.2))
                    await visit(service, kit, range(5), close=False)
                    await learned(service, kit, 5)
                    assert all(kit.recent(service, f"i{number}").closed for number in range(5))
                    late = await service.feedback("shop", [kit.event(1, ["d1"], event_id="late")])
                    assert (late.accepted, late.expired) == (0, 1)

        asyncio.run(main())
        assert kit.verified(storage).learned == 5

    def test_closings_for_a_ranker_that_is_gone_are_ignored(self, storage, kit, inboxes):
        async def main():
            async with front(storage, kit, inboxes) as service:
                await service.create(kit.spec())
                number = service._rankers["shop"].created.number
                await service.rank("shop", kit.request(1))
                known = kit.recent(service, "i1")
                for name, created, id in (("shop", number + 1, "a"), ("other", number, "b"), ("shop", number, "i1")):
                    assert not known.closed
                    inboxes[1].send(Close(name, created, {id: known.number}, 0.0))
                await kit.until(lambda: known.closed)
                await service._appender.settled()
                assert storage.log.read(known.number)[0].body == log.pack("i1")

        asyncio.run(main())

    def test_a_learner_that_falls_silent_is_noticed(self, storage, kit, inboxes):
        async def main():
            clock = kit.clock()
            async with front(storage, kit, inboxes, clock) as service:
                inboxes[1].send(Beat())
                await kit.until(lambda: service.learning)
                clock.advance(4.0)
                assert service.learning
                clock.advance(2.0)
                assert not service.learning
                assert service.ready

        asyncio.run(main())

    def test_a_store_that_is_gone_is_a_failure_and_comes_back(self, storage, kit, inboxes, tmp_path):
        async def main():
            async with front(storage, kit, inboxes) as service:
                here, there = storage.path, tmp_path / "elsewhere.db"
                here.rename(there)
                await kit.until(lambda: service.failure is not None)
                there.rename(here)
                await kit.until(lambda: service.failure is None)

        asyncio.run(main())


@pytest.mark.parametrize("other_learns", [False, True])
def test_two_processes_that_serve_one_sqlite_file(sqlite_url, storage, kit, inboxes, other_learns):
    async def main():
        async with front(storage, kit, inboxes):
            with open_storage(sqlite_url) as second:
                channel = None if other_learns else FrontChannel(*inboxes)
                with pytest.raises(StoreLocked, match="another process serves"):
                    await Service(second, kit.fast, channel=channel).start()

    asyncio.run(main())


def test_a_learner_waits_until_the_other_one_has_ended(sqlite_url, storage, kit, inboxes):
    async def main():
        async with front(storage, kit, inboxes) as service:
            other = storage.leases.acquire(LEASE)
            with learner(sqlite_url, kit, inboxes):
                await service.create(kit.spec())
                await visit(service, kit, range(2))
                other.release()
                await learned(service, kit, 2)

    asyncio.run(main())


def test_a_damaged_store_ends_the_learner(sqlite_url, storage, kit, inboxes, monkeypatch):
    def damaged(*given):
        raise StoreCorrupt("damaged")

    monkeypatch.setattr("duelrank.service.leader.Term.restore", damaged)
    with pytest.raises(StoreCorrupt, match="damaged"):
        learn(storage, kit.fast, LearnerChannel(inboxes[0], [inboxes[1]]), Observer(), Event().wait)
    until(lambda: storage.leases.acquire("learner") is not None)  # it has released it


def test_an_impression_that_was_being_read_while_it_was_closed():
    cache = ImpressionCache(10)
    cache.note_closed(1, {"i1": 7})
    assert cache.put(1, "i1", CachedImpression(7, None)).closed
    assert not cache.put(1, "i2", CachedImpression(8, None)).closed
