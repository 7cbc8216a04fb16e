"""Moments at which two things happen at once, or one of them only by half: none of these may lose or damage anything."""

from __future__ import annotations

import asyncio
import logging

import pytest

from duelrank.core.errors import InvalidValue, NotReady, StoreUnavailable
from duelrank.service import log
from duelrank.service.http.schema import Change, ExperimentSpec
from duelrank.service.leader import Leader
from duelrank.service.log import CREATED, RANKERS, Created, ImpressionCache, StoredSpec, Tail, pack
from duelrank.service.rankers import Rankers
from duelrank.service.replay import _Replay, replay
from duelrank.service.settings import Clock
from duelrank.storage import NewEvent


def ids(answer):
    return [each.id for each in answer.ranking]


async def traffic(service, kit, numbers, name="shop"):
    for number in numbers:
        shown = ids(await service.rank(name, kit.request(number)))
        await service.feedback(name, [kit.event(number, shown[2:3])])


async def tidy(service, kit):
    """Have the leader clean up now."""
    learner = service._background._term
    learner._tidied = -1e9
    service._background.wake()
    await kit.until(lambda: learner._tidied > -1e8)


class Held:
    """A learner that comes to nothing more until it is let go, as one that is a moment behind."""

    def __init__(self, service):
        self.tail = service._background._term._tail
        self.tail.read = lambda log, after, limit: []

    def let_go(self):
        del self.tail.read


class TestDeletion:
    @pytest.mark.parametrize("times", [1, 2])
    def test_a_restart_leaves_a_ranker_alone_that_was_created_again(self, storage, kit, times):
        async def main():
            async with kit.running(storage, tidy_every=3600.0) as service:
                for _ in range(times):
                    await service.create(kit.spec())
                    await service.delete("shop")
                await service.create(kit.spec())
                await kit.until(lambda: kit.has_read_all(service))
                for round in range(4):
                    await traffic(service, kit, range(10 * round, 10 * round + 10))
                    await kit.learned(service, 10 * round + 10)
                    if times == 2:
                        await tidy(service, kit)
                versions, before = service.versions("shop"), service.ranker("shop")
            async with kit.running(storage, tidy_every=3600.0) as service:
                assert [each.version for each in service.versions("shop")] == [each.version for each in versions]
                assert service.ranker("shop") == before
            assert kit.verified(storage).learned == 40

        asyncio.run(main())

    def test_events_of_a_ranker_that_another_process_has_just_created_again_stay(self, storage, kit):
        async def main():
            async with kit.running(storage, tidy_every=3600.0) as service:
                await service.create(kit.spec())
                await traffic(service, kit, range(2))
                await service.delete("shop")
                await kit.until(lambda: kit.has_read_all(service))
                held = Held(service)
                storage.log.append(
                    [NewEvent(RANKERS, CREATED, "shop", 1.0, pack(Created(StoredSpec.of(kit.spec(imitate=0)))))]
                )
                storage.log.append([NewEvent("shop", "feedback", "acknowledged", 1.0, b"...")])
                await tidy(service, kit)
                assert [event.key for event in storage.log.read(0, 10, "shop")] == ["acknowledged"]
                storage.log.delete("shop", storage.log.last_number())  # which is no real event
                held.let_go()

        asyncio.run(main())

    def test_a_name_is_free_even_if_the_deletion_was_interrupted(self, storage, kit, monkeypatch):
        def fail(*arguments):
            raise StoreUnavailable("no answer")

        async def main():
            async with kit.running(storage, tidy_every=3600.0) as service:
                await service.create(kit.spec())
                monkeypatch.setattr("duelrank.service.service.remove_creation", fail)
                with pytest.raises(StoreUnavailable):
                    await service.delete("shop")
                monkeypatch.undo()
                await kit.until(lambda: not storage.log.find(RANKERS, CREATED, ["shop"]))
                await kit.until(lambda: service.rankers() == [])
                assert (await service.create(kit.spec()))[1]

        asyncio.run(main())

    def test_the_leader_continues_before_it_has_read_the_deletion(self, storage, kit):
        async def main():
            async with kit.running(storage, tidy_every=3600.0) as service:
                for name in ("shop", "other"):
                    await service.create(kit.spec(name))
                    await traffic(service, kit, range(3), name)
                    await kit.learned(service, 3, name)
                learner, held = service._background._term, Held(service)
                await service.delete("shop")
                await tidy(service, kit)
                held.let_go()
                service._background.wake()
                await kit.until(lambda: kit.has_read_all(service))
                assert service._background._term is learner, "it still leads"
                assert service.failure is None

        asyncio.run(main())


class TestBrokenRankers:
    TINY = {"kind": "fixed", "features": {"age": {"min_max": {"minimum": 0, "maximum": 5e-324}}}}  # noqa: RUF012

    def test_what_cannot_rank_does_not_get_into_the_log(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                with pytest.raises(InvalidValue, match="beyond the largest"):
                    await service.create(kit.spec(representation=self.TINY))
                assert storage.log.last_number() == 0

        asyncio.run(main())

    def test_one_that_cannot_be_made_is_set_aside_and_can_be_deleted(self, storage, kit, caplog):
        """As a recipe of an extension that is not loaded any more."""
        spec = kit.spec("odd", algorithm="nobody-knows-it", imitate=0)
        storage.log.append([NewEvent(RANKERS, CREATED, "odd", 0.0, pack(Created(spec)))])

        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                await traffic(service, kit, range(3))
                await kit.learned(service, 3)
                with pytest.raises(NotReady, match="nobody-knows-it"):
                    await service.rank("odd", kit.request(1))
                await service.delete("odd")
                assert (await service.create(kit.spec("odd")))[1]

        with caplog.at_level(logging.ERROR):
            asyncio.run(main())
        assert "'odd' cannot be served" in caplog.text


def test_a_follower_that_could_not_read_a_version_reads_it_later(storage, kit, monkeypatch):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            await traffic(service, kit, range(5))
            await kit.learned(service, 5)
            rankers = Rankers(storage)
            follower = Leader(storage, kit.fast, rankers, Clock(), ImpressionCache(1), Tail())
            follower._follow()
            frozen = await service.control("shop", "freeze")

            def fail(*arguments):
                raise StoreUnavailable("no answer")

            monkeypatch.setattr(storage.snapshots, "load", fail)
            with pytest.raises(StoreUnavailable):
                follower._follow()
            monkeypatch.undo()
            follower._follow()
            assert rankers["shop"].version.version == frozen.model_version
            assert rankers["shop"].version.frozen

    asyncio.run(main())


def test_a_rollback_that_meets_a_change_of_features_keeps_weights_at_their_names(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            await traffic(service, kit, range(30))
            await kit.learned(service, 30)
            before = dict(zip(kit.features, service.model("shop").weights.tolist(), strict=True))
            version, held = service.ranker("shop").model_version, Held(service)
            change = Change(add_features=("stock",), retire_features=("bm25",))  # as many features as before
            last = storage.log.last_number()
            changing = asyncio.create_task(service.change("shop", change))
            await kit.until(lambda: storage.log.last_number() == last + 1)
            rolling = asyncio.create_task(service.control("shop", "rollback", version))
            await kit.until(lambda: storage.log.last_number() == last + 2)
            held.let_go()
            service._background.wake()
            await asyncio.gather(changing, rolling)
            model = service.model("shop")
            after = dict(zip(model.features, model.weights.tolist(), strict=True))
            assert after == {name: before[name] for name in ("price", "age", "title")} | {"stock": 0.0}
        kit.verified(storage)

    asyncio.run(main())


class TestClosing:
    def test_a_change_of_close_after_holds_for_open_impressions_and_for_new_ones(self, storage, kit):
        clock = kit.clock()

        async def main():
            async with kit.running(storage, clock=clock) as service:
                await service.create(kit.spec(close_after=86400.0))
                await service.rank("shop", kit.request(1))
                await service.change("shop", Change(close_after=10.0))
                await service.rank("shop", kit.request(2))
                await kit.until(lambda: service.ranker("shop").open == 2)
                clock.advance(11.0)
                await kit.until(lambda: service.ranker("shop").open == 0)

        asyncio.run(main())

    def test_a_closing_that_failed_is_asked_for_again_before_younger_ones(self, storage, kit, monkeypatch):
        clock = kit.clock()

        async def main():
            async with kit.running(storage, clock=clock) as service:
                await service.create(kit.spec(close_after=100.0))
                await service.rank("shop", kit.request(1))
                clock.advance(60.0)
                await service.rank("shop", kit.request(2))
                await kit.until(lambda: service.ranker("shop").open == 2)
                submit, failed = storage.log.submit, []

                def failing(events):
                    if any(event.kind == "closed" for event in events):
                        failed.append(True)
                        raise StoreUnavailable("no answer")
                    return submit(events)

                monkeypatch.setattr(storage.log, "submit", failing)
                clock.advance(50.0)
                await kit.until(lambda: failed)
                monkeypatch.undo()
                clock.advance(6.0)  # the second one's time is not over yet
                await kit.until(lambda: list(service._rankers["shop"].machine.open) == ["i2"])

        asyncio.run(main())


def test_a_replay_during_a_service_that_cleans_up(storage, kit):
    async def main():
        async with kit.running(storage, tidy_every=3600.0, keep_versions=2) as service:
            await service.create(kit.spec())
            await traffic(service, kit, range(20))
            await kit.learned(service, 20)
            begun = _Replay(storage, "shop", None)
            for round in range(2, 6):
                await traffic(service, kit, range(10 * round, 10 * round + 10))
                await kit.learned(service, 10 * round + 10)
                await tidy(service, kit)
            begun.run()
            assert begun.overtaken, "so it is begun anew"
            assert replay(storage, "shop").difference is None

    asyncio.run(main())


def test_explaining_a_large_request_is_done_in_a_thread(storage, kit, monkeypatch):
    from threading import current_thread, main_thread

    threads = []

    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            import duelrank.service.views as module

            explained = module.explained_answer
            monkeypatch.setattr(
                module, "explained_answer", lambda *a: (threads.append(current_thread()), explained(*a))[1]
            )
            answer = await service.rank("shop", kit.request(1, explain=True))
            assert answer.ranking[0].score is not None

    asyncio.run(main())
    assert threads
    assert main_thread() not in threads


@pytest.mark.parametrize("then", ["ranker", "experiment"])
def test_a_follower_reads_nothing_of_a_deleted_ranker_with_the_same_name(storage, kit, then):
    """The learner may remove its snapshots later than the name is used again."""
    kinds = (log.VERSION, log.STATUS, log.MEMORY_CHANGES)

    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(algorithm="remember >> wmgd-dsp"))
            for number in range(20):
                shown = (await service.rank("shop", kit.request(number, query="red shoes"))).ids
                await service.feedback("shop", [kit.event(number, shown[:1])])
            await kit.learned(service, 20)
            status = log.pack(service._rankers["shop"].newest_status())
            storage.snapshots.save("shop", log.STATUS, 40, 0.0, status)  # as a learner in another process does
        old = {kind: storage.snapshots.load("shop", kind) for kind in kinds}
        async with kit.running(storage) as service:
            await service.delete("shop")
            if then == "ranker":
                await service.create(kit.spec(algorithm="remember >> wmgd-dsp"))
            else:
                await service.create_experiment(ExperimentSpec("shop", ("a", "b")))
            await kit.rounds(service)
        for kind, each in old.items():
            storage.snapshots.save("shop", kind, each.number, each.time, each.body)
        rankers = Rankers(storage)
        Leader(storage, kit.fast, rankers, Clock(), ImpressionCache(1), Tail())._follow()
        if then == "ranker":
            assert rankers["shop"].followed[0] == {}
        assert rankers.get("shop").status.number == rankers.get("shop").created.number

    asyncio.run(main())


def test_an_experiment_that_was_deleted_a_moment_ago_is_not_reported(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create_experiment(ExperimentSpec("spring", ("a", "b")))
            await kit.rounds(service)
            term = service._background._term
            progress = term._progress["spring"]
            del service._rankers.experiments["spring"]  # by the request, before the learner has read of it
            progress.reported, progress.reported_at = -1, -1e9
            term._report_experiment("spring", progress)

    asyncio.run(main())
