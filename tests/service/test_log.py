"""The small parts: what is remembered of recent lists and events, and how events get into the store."""

from __future__ import annotations

import asyncio

import pytest

from duelrank.algorithms import LogPairs
from duelrank.core.errors import StoreFull
from duelrank.service.definition import Definition
from duelrank.service.http.schema import FeedbackEvent
from duelrank.service.intake import content_id
from duelrank.service.log import Appender, CachedImpression, ImpressionCache, StoredImpression, Tail
from duelrank.storage import NewEvent, Receipt, open_storage


def new(key, body=b""):
    return NewEvent("shop", "ranked", str(key), 0.0, body)


class TestRecent:
    def test_the_oldest_goes_first(self):
        recent = ImpressionCache(3)
        for number in range(5):
            recent.put(1, f"i{number}", CachedImpression(number, None))
        assert [recent.get(1, f"i{number}") is not None for number in range(5)] == [False, False, True, True, True]
        assert recent.get(2, "i4") is None
        first = recent.get(1, "i3")
        assert recent.put(1, "i3", CachedImpression(99, None)) is first
        assert len(recent) == 3

    def test_bytes_count_too(self):
        recent = ImpressionCache(1000, max_bytes=10_000)
        for number in range(50):
            recent.put(1, f"i{number}", CachedImpression(number, StoredImpression.of(1, ["a"], [0], 0), bytes(4000)))
        assert len(recent) == 2


class TestTail:
    def take(self, tail, store, after=0, limit=100):
        return [event.key for event in tail.read(store.log, after, limit)]

    def append(self, store, tail, *keys, tell=True):
        events = [new(key) for key in keys]
        receipts = store.log.append(events)
        if tell:
            tail.add(events, receipts)

    def test_returns_every_event_once_and_in_order(self):
        with open_storage("sqlite://") as store:
            tail = Tail()
            self.append(store, tail, "a")  # before anybody wants it
            tail.enabled = True
            self.append(store, tail, "b", "c", "b")
            self.append(store, tail, "d", tell=False)  # as by another process
            self.append(store, tail, "e")
            assert self.take(tail, store, limit=1) == ["a"]
            assert self.take(tail, store, 1, limit=1) == ["b"]
            assert self.take(tail, store, 2) == ["c"]
            assert self.take(tail, store, 3) == ["d", "e"], "the store is read as far as it goes"
            assert self.take(tail, store, 4) == ["e"]
            assert self.take(tail, store, 5) == []
            assert self.take(tail, store, 2) == ["c", "d", "e"]

    def test_is_bounded(self):
        tail = Tail()
        tail.enabled = True
        for number in range(1, Tail.max_events + 100):
            tail.add([new(number)], [Receipt(number, True)])
        assert len(tail._events) == Tail.max_events
        for number in range(6):
            tail.add([new(number, bytes(Tail.max_bytes // 4))], [Receipt(number, True)])
        assert len(tail._events) <= 4


def test_a_new_leader_takes_on_rankers_that_it_had_not_heard_of(kit):
    """As when another process makes one between two looks."""
    from duelrank.service.definition import normalized
    from duelrank.service.leader import Term
    from duelrank.service.log import RANKERS, Created, StoredSpec, pack
    from duelrank.service.rankers import Rankers
    from duelrank.service.settings import Clock

    with open_storage("sqlite://") as store:
        rankers = Rankers(store)
        learner = Term(store, kit.fast, rankers, Clock(), ImpressionCache(10), Tail(), None, None)
        store.log.append(
            [NewEvent(RANKERS, "created", "shop", 0.0, pack(Created(StoredSpec.of(normalized(kit.spec())))))]
        )
        learner.restore()
        assert rankers["shop"].machine is not None
        store.log.append(
            [NewEvent(RANKERS, "created", "late", 0.0, pack(Created(StoredSpec.of(normalized(kit.spec("late"))))))]
        )
        learner.step()
        assert rankers["late"].machine is not None


class TestAppender:
    def test_what_comes_together_goes_together_and_each_gets_its_own(self):
        async def main(store):
            sizes = []
            submit = store.log.submit
            store.log.submit = lambda events: (sizes.append(len(events)), submit(events))[1]
            told, tail = [], Tail()
            tail.add = lambda events, receipts: told.extend(receipts)
            appender = Appender(store.log, tail, ImpressionCache(10))
            await appender.settled()
            found = await asyncio.gather(
                appender.append([new(1), new(2)]), appender.append([]), appender.append([new(1)])
            )
            assert found == [[Receipt(1, True), Receipt(2, True)], [], [Receipt(1, False)]]
            assert sizes == [3]
            assert told == [Receipt(1, True), Receipt(2, True), Receipt(1, False)]
            gone = appender.append([new(3)])
            gone.cancel()
            await appender.append([new(4)])
            assert store.log.last_number() == 4, "who went away has still appended"

        with open_storage("sqlite://") as store:
            asyncio.run(main(store))

    def test_failures_reach_everybody(self):
        async def main(store):
            appender = Appender(store.log, Tail(), ImpressionCache(10))

            def fail(events):
                raise StoreFull("no room")

            store._writer._insert, insert = fail, store._writer._insert
            futures = [appender.append([new(1)]), appender.append([new(2)])]
            for future in futures:
                with pytest.raises(StoreFull, match="no room"):
                    await future
            await appender.settled()
            store._writer._insert = insert
            assert await appender.append([new(1)]) == [Receipt(1, True)]

        with open_storage("sqlite://") as store:
            asyncio.run(main(store))


def test_the_key_of_an_event_without_an_id_is_that_of_earlier_versions():
    """An event that was sent before an update, and again after it, still counts once."""
    assert content_id(FeedbackEvent("i1", ["d3"], 5, True)) == "=ebd1c83b40db9b6fe548ae72a7731e60"


@pytest.mark.parametrize("mode", ["learn", "shadow"])
@pytest.mark.parametrize("recipe", ["mgd-dsp", "wmgd-dsp", "pdgd", "query-scaled >> curves >> mgd-dsp"])
def test_a_ranker_is_warmed_up_until_a_step_was_taken(recipe, mode, kit, monkeypatch):
    """Else the learner compiles the kernels of a step beside all who ask, which took minutes under load."""
    definition = Definition(kit.spec(algorithm=recipe, mode=mode), 0.0)
    states, learn = [], type(definition.algorithm).learn
    monkeypatch.setattr(type(definition.algorithm), "learn", lambda *given: states.append(learn(*given)) or states[-1])
    definition.warm_up()
    start = definition.start.weights
    assert any(state.weights.shape != start.shape or (state.weights != start).any() for state in states)


@pytest.mark.parametrize("recipe", ["mgd-dsp", "query-scaled >> curves >> mgd-dsp", "pairrank"])
def test_a_ranker_is_warmed_up_for_lists_of_other_systems(recipe, kit, monkeypatch):
    """Where its algorithm can take over what they teach: else the first backfill compiles beside all who ask."""
    taught, learn = [], LogPairs.update
    monkeypatch.setattr(LogPairs, "update", lambda *given: taught.append(1) or learn(*given))
    Definition(kit.spec(algorithm=recipe), 0.0).warm_up()
    assert bool(taught) == (recipe != "pairrank")
