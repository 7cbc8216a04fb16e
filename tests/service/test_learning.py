"""What is learned, and when: exactly what a plain loop learns from the same lists, once, in the order of the log."""

from __future__ import annotations

import asyncio
import logging

import numpy as np
import pytest

from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.core.randomness import stream_key
from duelrank.core.types import Feedback
from duelrank.kernels.random import derive
from duelrank.service import Observer
from duelrank.service.definition import EXPLORED, Definition, hash63
from duelrank.service.http.schema import FeedbackCounts
from duelrank.service.log import Failed, StoredImpression, pack
from duelrank.service.replay import replay
from duelrank.storage import NewEvent, open_storage


def ids(answer):
    return [each.id for each in answer.ranking]


@pytest.mark.parametrize("algorithm", ["mgd-dsp", "nsgd", "c-mgd", "pdgd", "pairrank"])
def test_the_weights_are_those_of_a_plain_loop_to_the_bit(storage, kit, algorithm):
    spec = kit.spec(algorithm=algorithm)

    async def main():
        rounds = []
        async with kit.running(storage) as service:
            await service.create(spec)
            for number in range(25):
                answer = await service.rank("shop", kit.request(number))
                places = [number % 5, 4] if number % 3 else []
                examined = 5 if number % 2 else None
                event = kit.event(number, [ids(answer)[place] for place in places], examined=examined)
                assert await service.feedback("shop", [event]) == FeedbackCounts(accepted=1)
                rounds.append((f"i{number}", kit.table(number), None, places, examined))
                await kit.learned(service, number + 1)
            return rounds, service.model("shop").weights, service._rankers["shop"].machine.state

    rounds, weights, state = asyncio.run(main())
    expected = kit.plain(spec, rounds)
    assert expected.updates > 5
    assert state == expected
    assert np.array_equal(weights, expected.weights)
    assert kit.verified(storage).learned == 25


def test_late_feedback_is_learned_with_the_version_that_made_the_list(storage, kit):
    """All lists are made by version 1, and learned from in another order: the trace is that of version 1, the weights move on."""
    spec = kit.spec()

    async def main():
        async with kit.running(storage) as service:
            await service.create(spec)
            answers = [await service.rank("shop", kit.request(number)) for number in range(12)]
            assert {answer.model_version for answer in answers} == {1}
            order = [3, 7, 1, 0, 11, 5, 2, 10, 4, 6, 9, 8]
            for count, number in enumerate(order):
                await service.feedback("shop", [kit.event(number, ids(answers[number])[1:3])])
                await kit.learned(service, count + 1)
            start = service._rankers["shop"].created.start
            assert service.ranker("shop").model_version > 6
            return kit.plain(spec, [(f"i{n}", kit.table(n), start, (1, 2), None) for n in order]), service.model(
                "shop"
            ).weights

    expected, weights = asyncio.run(main())
    assert np.array_equal(weights, expected.weights)
    kit.verified(storage)


def test_a_restart_in_the_middle_changes_nothing(sqlite_url, kit, tmp_path):
    """Lists are open over the restart, and of two versions; the same is learned as without."""

    async def some(service, show, feed):
        """Show lists, then close some of those that are open."""
        for number in show:
            await service.rank("shop", kit.request(number))
        for number in feed:
            shown = ids(await service.rank("shop", kit.request(number)))
            await service.feedback("shop", [kit.event(number, shown[1:2])])
        await kit.until(lambda: service.ranker("shop").learned == feed.stop)

    async def main(url, restarts):
        # How many versions there are between the lists is a matter of time: here they are made on command only.
        with open_storage(url) as storage:
            async with kit.running(storage, publish_every=1e12) as service:
                await service.create(kit.spec())
                await some(service, range(10), range(5))
                await service.control("shop", "resume")
                if not restarts:
                    await some(service, range(10, 20), range(5, 15))
                    return service._rankers["shop"].machine
            async with kit.running(storage, publish_every=1e12) as service:
                assert service.ranker("shop").model_version == 2
                assert service.ranker("shop").open == 5
                await some(service, range(10, 20), range(5, 15))
                kit.verified(storage)
                return service._rankers["shop"].machine

    one, other = asyncio.run(main(sqlite_url, True)), asyncio.run(main(f"sqlite:///{tmp_path}/other.db", False))
    assert one.state == other.state
    assert one.state.updates > 5
    assert one.tally == other.tally
    assert list(one.open) == list(other.open)


class TestClosing:
    def test_by_time_even_if_the_clock_jumps(self, storage, kit):
        clock = kit.clock()

        async def main():
            async with kit.running(storage, clock=clock) as service:
                await service.create(kit.spec(close_after=100.0))
                shown = {number: ids(await service.rank("shop", kit.request(number))) for number in range(3)}
                await service.feedback("shop", [kit.event(0, shown[0][1:2], close=False)])
                await service.feedback("shop", [kit.event(1, close=False, examined=2)])
                await kit.until(lambda: service.ranker("shop").open == 3)
                clock.now -= 1e6  # as when somebody sets the clock
                await service.rank("shop", kit.request(3))
                await kit.until(lambda: service.ranker("shop").open == 4)
                clock.advance(99.0)
                await kit.rounds(service)
                assert service.ranker("shop").open == 4
                clock.advance(1.5)
                await kit.learned(service, 4)
                now = service.ranker("shop")
                assert (now.open, now.learned, now.no_feedback, now.updates) == (0, 2, 2, 1)
                late = await service.feedback("shop", [kit.event(0, shown[0][:1], event_id="late")])
                assert late == FeedbackCounts(expired=1)
                clock.now += 5e6
                await service.rank("shop", kit.request(5))
                await kit.rounds(service)
                assert service.ranker("shop").open == 1, "made after the jump, so not old"
            assert kit.verified(storage).learned == 2

        asyncio.run(main())

    def test_what_was_open_at_a_restart_is_closed_in_time(self, storage, kit):
        clock = kit.clock()

        async def main():
            async with kit.running(storage, clock=clock) as service:
                await service.create(kit.spec(close_after=100.0))
                await service.rank("shop", kit.request(1))
            clock.advance(60.0)
            async with kit.running(storage, clock=clock) as service:
                clock.advance(30.0)
                await kit.rounds(service)
                assert service.ranker("shop").open == 1
                clock.advance(11.0)
                await kit.until(lambda: service.ranker("shop").open == 0)
                assert await service.feedback("shop", [kit.event(1)]) == FeedbackCounts(expired=1)

        asyncio.run(main())

    def test_the_oldest_early_if_there_are_too_many(self, storage, kit):
        async def main():
            async with kit.running(storage, max_open=10) as service:
                await service.create(kit.spec())
                for number in range(30):
                    await service.rank("shop", kit.request(number))
                await kit.until(lambda: service.ranker("shop").open == 10 and service.ranker("shop").impressions == 30)
                await kit.rounds(service)
                assert service.ranker("shop").open == 10
                counts = await service.feedback("shop", [kit.event(number) for number in range(30)])
                assert counts == FeedbackCounts(accepted=10, expired=20)
            kit.verified(storage)

        asyncio.run(main())


class TestModes:
    def test_frozen_serves_the_best_and_learns_nothing(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                for number in range(10):
                    shown = ids(await service.rank("shop", kit.request(number)))
                    await service.feedback("shop", [kit.event(number, shown[2:3])])
                await service.rank("shop", kit.request(98))
                await kit.learned(service, 10)
                frozen = await service.control("shop", "freeze")
                assert frozen.frozen
                weights = service.model("shop").weights
                shown = ids(await service.rank("shop", kit.request(99)))
                scores = service.model("shop").score(kit.table(99))
                assert shown == [f"d{i}" for i in np.argsort(-scores)[:5]]
                old = ids(await service.rank("shop", kit.request(98)))
                await service.feedback("shop", [kit.event(99, shown[3:]), kit.event(98, old[3:])])
                await kit.until(lambda: service.ranker("shop").skipped == 2)
                assert np.array_equal(service.model("shop").weights, weights)
                resumed = await service.control("shop", "resume")
                assert not resumed.frozen
                assert resumed.model_version > frozen.model_version
                shown = ids(await service.rank("shop", kit.request(100)))
                await service.feedback("shop", [kit.event(100, shown[3:])])
                await kit.learned(service, 13)
                assert (
                    service.ranker("shop").learned == 11
                )  # what the click teaches, if anything, is a matter of versions
                with pytest.raises(InvalidValue, match="melt"):
                    await service.control("shop", "melt")
            kit.verified(storage)

        asyncio.run(main())

    def test_frozen_from_the_beginning(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                assert (await service.create(kit.spec(mode="frozen")))[0].frozen
                shown = ids(await service.rank("shop", kit.request(1)))
                await service.feedback("shop", [kit.event(1, shown[3:])])
                await kit.until(lambda: service.ranker("shop").skipped == 1)
                assert service.ranker("shop").model_version == 1

        asyncio.run(main())

    @pytest.mark.parametrize("algorithm", ["mgd-dsp", "pdgd", "pairrank"])
    def test_shadow_shows_the_clients_order_and_learns(self, storage, kit, algorithm):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(algorithm=algorithm, mode="shadow"))
                for number in range(60):
                    answer = await service.rank("shop", kit.request(number))
                    assert ids(answer) == ["d0", "d1", "d2", "d3", "d4"]
                    wanted = max(
                        range(5), key=lambda row: kit.table(number)[row, 1]
                    )  # users like the price, wherever it is
                    await service.feedback("shop", [kit.event(number, [f"d{wanted}"], examined=5)])
                    await kit.learned(service, number + 1)  # so that each list is made by the version that is due
                assert service.ranker("shop").updates > 30
                assert np.argmax(service.model("shop").weights) == 1
            kit.verified(storage)

        asyncio.run(main())

    def test_a_shadow_may_serve_a_version_while_it_continues_to_learn(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(mode="shadow"))
                for number in range(10):
                    await service.rank("shop", kit.request(number))
                    await service.feedback("shop", [kit.event(number, ["d3"])])
                await kit.learned(service, 10)
                old = service.model("shop")
                assert (await service.control("shop", "pin", old.version)).pinned == old.version
                for number in range(10, 30):
                    shown = ids(await service.rank("shop", kit.request(number)))
                    assert shown == [f"d{i}" for i in np.argsort(-old.score(kit.table(number)))[:5]]
                    await service.feedback("shop", [kit.event(number, shown[3:])])
                await kit.learned(service, 30)
                assert not np.array_equal(service.model("shop").weights, old.weights)
            async with kit.running(storage) as service:
                assert service.ranker("shop").pinned == old.version
                assert (await service.control("shop", "unpin")).pinned is None
                assert ids(await service.rank("shop", kit.request(50))) == ["d0", "d1", "d2", "d3", "d4"]
                await service.create(kit.spec("other"))
                with pytest.raises(InvalidValue, match="not a shadow"):
                    await service.control("other", "pin", 1)
            kit.verified(storage)

        asyncio.run(main())

    def test_the_exploration_rate_is_the_share_of_lists_that_explore(self, storage, kit):
        """Of 400 lists a share of 1/4 explores: 100, with a standard deviation of √(400 · 3/16) < 9; 4 of these are 36."""

        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(exploration=0.25))
                answers = await asyncio.gather(*(service.rank("shop", kit.request(number)) for number in range(400)))
                events = [kit.event(number, ids(answer)[4:]) for number, answer in enumerate(answers)]
                await service.feedback("shop", events)
                await kit.learned(service, 400)
                assert abs(service.ranker("shop").learned - 100) <= 36
                assert service.ranker("shop").skipped == 400 - service.ranker("shop").learned
            kit.verified(storage)

        asyncio.run(main())


class TestVersions:
    def test_rollback_is_a_new_version_with_the_old_weights(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                weights = {1: service.model("shop").weights}
                for number in range(6):
                    shown = ids(await service.rank("shop", kit.request(number)))
                    await service.feedback("shop", [kit.event(number, shown[2:4])])
                    await kit.learned(service, number + 1)
                    weights[service.ranker("shop").model_version] = service.model("shop").weights
                listed = service.versions("shop")
                assert [each.version for each in listed] == sorted({each.version for each in listed})
                assert [each.version for each in listed if each.current] == [max(weights)]
                assert set(weights) <= {each.version for each in listed}
                for version in (3, 1):
                    assert np.array_equal(service.model("shop", version).weights, weights[version])
                    before = service.ranker("shop").model_version
                    after = await service.control("shop", "rollback", version)
                    assert after.model_version > before
                    assert np.array_equal(service.model("shop").weights, weights[version])
                shown = ids(await service.rank("shop", kit.request(50)))
                await service.feedback("shop", [kit.event(50, shown[2:4])])
                await kit.learned(service, 7)
                assert service._rankers["shop"].machine.state.step == 7, "counts go on"
                with pytest.raises(UnknownName, match="version 77"):
                    await service.control("shop", "rollback", 77)
                with pytest.raises(InvalidValue, match="version"):
                    await service.control("shop", "rollback")
                with pytest.raises(UnknownName):
                    service.model("shop", 0)
            kit.verified(storage)
            async with kit.running(storage) as service:
                assert service._rankers["shop"].machine.state.step == 7

        asyncio.run(main())

    def test_not_more_often_than_configured(self, storage, kit):
        clock = kit.clock()

        async def main():
            async with kit.running(storage, clock=clock, publish_every=10.0) as service:
                await service.create(kit.spec())
                for number in range(6):
                    shown = ids(await service.rank("shop", kit.request(number)))
                    await service.feedback("shop", [kit.event(number, shown[2:4])])
                    await kit.until(lambda count=number + 1: service.ranker("shop").learned == count)
                assert service.ranker("shop").model_version == 2
                clock.advance(10.0)
                await kit.until(lambda: service.ranker("shop").model_version == 3)
                clock.advance(30.0)
                await kit.rounds(service)
                assert service.ranker("shop").model_version == 3, "nothing new was learned"

        asyncio.run(main())


class TestTrouble:
    @staticmethod
    async def odd_list(kit, service, storage, algorithm, at=0.0):
        """Make a list in another order than the version would show, as after an update of a library, with a click."""
        await service.create(kit.spec(algorithm=algorithm))
        honest = (
            await service.rank("shop", kit.request(1)),
            kit.recent(service, "i1"),
        )[1]
        odd = StoredImpression.of(1, [f"d{i}" for i in range(8)], honest.body.order[::-1], EXPLORED)
        storage.log.append([NewEvent("shop", "ranked", "odd", at, pack(odd), honest.attachment)])
        await service.feedback("shop", [kit.event(1, odd.shown[1:2], impression_id="odd", examined=5)])
        return odd

    @pytest.mark.parametrize("algorithm", ["mgd-dsp", "pdgd", "pairrank", "curves >> wmgd-dsp"])
    def test_a_list_that_comes_out_differently_is_learned_from_as_it_was_shown(self, storage, kit, algorithm):
        async def main():
            async with kit.running(storage) as service:
                odd = await self.odd_list(kit, service, storage, algorithm)
                await kit.learned(service, 1)
                definition = service._rankers["shop"].created
                observed = definition.algorithm.observe_list(
                    definition.start,
                    definition.query(kit.table(1)),
                    np.array(odd.order),
                    derive(stream_key(7, "rank"), definition._stream_number("odd")),
                )
                clicks = Feedback(np.arange(5) == 1, 5)
                fresh = derive(stream_key(7, "learn"), 0)
                expected = definition.algorithm.learn(definition.start, observed, clicks, fresh)
                assert np.array_equal(service.model("shop").weights, expected.weights)
                assert service.last_step("shop").impression_id == "odd"

        asyncio.run(main())
        assert kit.verified(storage).learned == 1

    def test_what_cannot_be_learned_from_is_in_the_log(self, storage, kit, caplog, monkeypatch):
        """A team draft gives credit only for a list that it has made itself. Where it comes out right again, as on a machine of the
        same kind as the first, all go on as if it did not."""
        told = []

        class Watching(Observer):
            def failed(self, name, what):
                told.append((name, what))

        async def main():
            async with kit.running(storage) as service:
                service.observer = Watching()
                await self.odd_list(kit, service, storage, "mgd-dsp(multileaver=TeamDraft())")
                await kit.until(lambda: service.ranker("shop").failed == 1)
                for number in range(2, 6):
                    shown = (await service.rank("shop", kit.request(number))).ids
                    await service.feedback("shop", [kit.event(number, shown[1:3])])
                await kit.learned(service, 4)
                await kit.until(lambda: told == [("shop", "learn")])  # told a moment after it is counted
            assert [event.kind for event in storage.log.read(0, 1000, "shop")].count("failed") == 1

        with caplog.at_level(logging.ERROR):
            asyncio.run(main())
        assert "odd" in caplog.text
        rebuild = Definition.rebuild

        def repaired(self, state, id, stored, raw, remembered):
            made = self.algorithm.rank(state, self.query(raw), 5, derive(self._rank_key, hash63(id)))
            return made if id == "odd" else rebuild(self, state, id, stored, raw, remembered)

        monkeypatch.setattr(Definition, "rebuild", repaired)
        result = replay(storage, "shop")
        assert (result.difference, result.learned, result.failed) == (None, 4, 1)

    def test_leaders_that_cannot_learn_record_it_once(self, storage, kit):
        async def main():
            for _ in range(2):
                async with kit.running(storage) as service:
                    if not storage.log.find("shop", "ranked", ["odd"]):
                        await self.odd_list(kit, service, storage, "mgd-dsp(multileaver=TeamDraft())")
                    await kit.until(lambda: service.ranker("shop").failed == 1)
                    await kit.until(lambda: kit.has_read_all(service))
                storage.snapshots.delete("shop")  # the next leader begins at the beginning

        asyncio.run(main())
        assert [event.kind for event in storage.log.read(0, 1000, "shop")].count("failed") == 1

    def test_the_failure_record_of_a_leader_that_hung_has_no_effect(self, storage, kit):
        """Another one has published what it learned from the same list before."""

        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                shown = (await service.rank("shop", kit.request(1))).ids
                await service.feedback("shop", [kit.event(1, shown[1:3])])
                await kit.learned(service, 1)

        asyncio.run(main())
        closed = next(event for event in storage.log.read(0, 1000, "shop") if event.kind == "closed")
        storage.log.append([NewEvent("shop", "failed", str(closed.number), 0.0, pack(Failed(1, "it hung")))])
        assert kit.verified(storage).learned == 1

    def test_weights_that_would_overflow_are_not_learned(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(algorithm="PDGD(step=Step(learning_rate=1e6))"))
                huge = kit.request(1)
                for document in huge.documents:
                    document.features[:] = [value * 1e307 for value in document.features]
                shown = ids(await service.rank("shop", huge))
                await service.feedback("shop", [kit.event(1, shown[3:])])
                await kit.until(lambda: service.ranker("shop").failed == 1)
                assert np.isfinite(service.model("shop").weights).all()

        asyncio.run(main())
