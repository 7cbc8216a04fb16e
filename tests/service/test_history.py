"""The history of a ranker: counts per minute, hour and day, which survive restarts, stay small, and come out of a replay again."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.evidence import ConfidenceSequence
from duelrank.service import history
from duelrank.service.history import STEPS, Block, Recorder, StepEnd, block_kind
from duelrank.service.http.schema import Change, GuardSpec, RankerSpec, Start
from duelrank.service.log import unpack
from duelrank.service.replay import replay
from duelrank.service.views import history_answer
from duelrank.storage import open_storage

MINUTE, HOUR, DAY = (STEPS[step][0] for step in ("minute", "hour", "day"))
NAMES = (("a", "b"), b"a, b")
END = StepEnd(3, NAMES[1] + np.array([0.5, -1.0], "<f4").tobytes(), (6, 2, 1.5, 0.5))


def ids(answer):
    return [each.id for each in answer.ranking]


async def traffic(service, kit, numbers, place=0, **event):
    for number in numbers:
        shown = ids(await service.rank("shop", kit.request(number)))
        await service.feedback("shop", [kit.event(number, shown[place : place + 1], **event)])


def test_minutes_have_what_happened_in_them(storage, kit):
    async def main():
        clock = kit.clock()
        clock.now = 10_000_000 * 60.0
        async with kit.running(storage, clock=clock) as service:
            await service.create(kit.spec(exploration=0.5))
            await traffic(service, kit, range(20), place=1)
            await service.rank("shop", kit.request(20))
            await kit.learned(service, 20)
            clock.advance(60.0)
            await traffic(service, kit, range(30, 35))
            await service.feedback("shop", [kit.event(20, close=True)])
            await service.rank("shop", kit.request(40))
            await kit.learned(service, 26)
            clock.advance(5.0)
            await service.control("shop", "freeze")
            found = service.history("shop")
            assert found.time == [10_000_000 * 60.0, 10_000_001 * 60.0]
            assert [sum(each) for each in zip(*found.lists.values(), strict=True)] == [21, 6]
            assert found.lists["explored"][0] > 3
            assert found.lists["greedy"][0] > 3
            assert [sum(each) for each in zip(*found.closed.values(), strict=True)] == [20, 6]
            assert [sum(each) for each in zip(*found.clicked.values(), strict=True)] == [20, 5]
            assert found.reciprocal_rank["explored"][0] == 0.5
            assert found.learned[0] + found.learned[1] == service.ranker("shop").learned
            assert found.positions_shown == [26] * 5
            assert found.positions_clicked == [5, 20, 0, 0, 0]
            assert [(mark.event, mark.time) for mark in found.marks] == [("freeze", clock.now)]
            assert found.guard is None
            assert found.model_version[-1] == service.ranker("shop").model_version
            weights = service.model("shop").weights.astype(np.float32)
            assert [found.weights[name][-1] for name in kit.features] == weights.tolist()
            assert sum(found.events) == len(storage.log.read(limit=10_000, ranker="shop"))
            hours, days = service.history("shop", "hour"), service.history("shop", "day")
            for longer in (hours, days):
                assert len(longer.time) == 1
                assert sum(longer.events) == sum(found.events)
                assert longer.positions_clicked == found.positions_clicked
                assert len(longer.marks) == 1
            later = service.history("shop", start=10_000_001 * 60.0)
            assert later.time == found.time[1:]
            assert service.history("shop", end=10_000_000 * 60.0).time == found.time[:1]
            with pytest.raises(InvalidValue, match="step"):
                service.history("shop", "week")
            with pytest.raises(UnknownName):
                service.history("shoes")
            return found

    found = asyncio.run(main())
    kit.verified(storage)

    async def again():
        async with kit.running(storage) as service:
            await kit.until(lambda: service.history("shop").marks[-1].event == "start")
            return service.history("shop", end=10_000_002 * 60.0)

    after = asyncio.run(again())
    assert (after.time, after.lists, after.marks) == (found.time, found.lists, found.marks)


def test_the_guard_and_troubles_are_in_it(storage, kit):
    from tests.service.test_guard import LEARNED, votes

    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(start=Start(weights={"bm25": 1.0}), guard=GuardSpec(share=1.0)))
            await votes(service, kit, range(8), LEARNED)
            request = kit.request(100)
            request = RankRequestWithout(request)
            await service.rank("shop", request)
            await kit.learned(service, 8)
            found = service.history("shop")
            band = ConfidenceSequence(8, 0)
            assert (sum(found.guard.wins), sum(found.guard.losses)) == (8, 0)
            assert (found.guard.win_rate[-1], found.guard.low[-1], found.guard.high[-1]) == (1.0, *band.interval)
            assert found.guard.learned_share[-1] == 0.5
            assert sum(found.trouble["missing"]) == 8
            await service.change("shop", Change(add_features=("new",), length=4))
            assert service.history("shop").marks[-1].text == "length, add_features"

    def RankRequestWithout(request):
        import msgspec

        documents = [
            msgspec.structs.replace(each, features=dict(zip(kit.features[1:], each.features[1:], strict=True)))
            for each in request.documents
        ]
        return msgspec.structs.replace(request, documents=documents)

    asyncio.run(main())
    kit.verified(storage)


def test_days_of_minutes_leave_it_as_blocks_and_it_stays_small(storage, kit):
    """A list every quarter of an hour for six days."""

    async def main():
        clock = kit.clock()
        clock.now = 20_000 * float(DAY)
        async with kit.running(storage, clock=clock, keep_features=1e9, retention=1e9) as service:
            await service.create(kit.spec())
            size = 0
            for number in range(6 * 24 * 4):
                await traffic(service, kit, [number])
                clock.advance(900.0)
                if number % 200 == 199:
                    await kit.learned(service, number + 1)
                    size = max(size, len(service._rankers["shop"].machine.checkpoint()))
            await kit.learned(service, 576)
            minutes, hours, days = (service.history("shop", step) for step in ("minute", "hour", "day"))
            assert [sum(map(bool, each.lists["explored"])) for each in (minutes, hours, days)] == [576, 144, 6]
            for each in (minutes, hours, days):
                assert each.time == sorted(set(each.time))
                assert sum(sum(kind) for kind in each.lists.values()) == 576
                assert each.positions_clicked[0] == 576
            assert hours.lists["explored"][:144] == [4] * 144  # the last version may be published later
            assert days.lists["explored"][:6] == [96] * 6
            assert size < 60_000
            for start in (minutes.time[0] - 1.0, minutes.time[300], minutes.time[301] + 30.0, minutes.time[-1]):
                part = service.history("shop", "minute", start)
                assert part.time == [time for time in minutes.time if time + MINUTE > start]
            return minutes

    found = asyncio.run(main())
    kept = storage.snapshots.list("shop", block_kind("minute"))
    assert kit.verified(storage).snapshots_compared > len(kept) > 25
    one = storage.snapshots.load("shop", block_kind("minute"), kept[-1].number)
    storage.snapshots.save("shop", block_kind("minute"), one.number, one.time, one.body[:-1] + b"\x01")
    assert "history" in replay(storage, "shop").difference
    storage.snapshots.save("shop", block_kind("minute"), one.number, one.time, one.body)
    blocks = [
        storage.snapshots.load("shop", block_kind("minute"), each.number)
        for each in storage.snapshots.list("shop", block_kind("minute"))
    ]
    assert sum(len(unpack(each.body, Block).points) for each in blocks) > 550
    assert found.seconds == 60


def test_the_number_of_points_in_an_answer_is_limited(monkeypatch):
    recorder, blocks = Recorder(0), []
    for minute in range(5000):
        recorder.begin_event(60.0 * minute, lambda: END)
        recorder.made(1, 0, 0)
        recorder.count_event()
        blocks += [block for step, block in recorder.done if step == "minute"]
        recorder.done.clear()
    found = history_answer("shop", "minute", blocks, recorder.copy(END), *NAMES)
    assert len(found.time) == history.MAX_POINTS
    assert found.time[-1] == 60.0 * 4999
    assert found.weights == {"a": [0.5] * 2000, "b": [-1.0] * 2000}
    assert found.guard.win_rate == [0.75] * 2000


def test_clocks_may_go_back_and_stand_still():
    recorder = Recorder(0)
    for time in (600.0, 660.0, 30.0, 659.0, 720.0):
        recorder.begin_event(time, lambda: END)
        recorder.made(0, 1, 2)
        recorder.count_event()
    found = history_answer("shop", "minute", [], recorder.copy(END), *NAMES)
    assert found.time == [600.0, 660.0, 720.0]
    assert found.lists["greedy"] == [1, 3, 1]
    assert found.trouble == {"missing": [1, 3, 1], "out_of_range": [2, 6, 2]}


def test_time_continues_after_a_clock_had_jumped_ahead():
    recorder = Recorder(0)
    for time in (600.0, 8_000_000.0, 660.0, 720.0, 720.0):
        recorder.begin_event(time, lambda: END)
        recorder.made(0, 0, 0)
        recorder.count_event()
    for step, found in (("minute", [1, 1, 2, 1]), ("hour", [4, 1]), ("day", [4, 1])):
        told = history_answer("shop", step, [], recorder.copy(END), *NAMES)
        assert told.lists["greedy"] == found
        assert told.time == sorted(set(told.time))


def test_marks_are_bounded_and_outlive_their_minute():
    recorder = Recorder(0)
    for number in range(history.MAX_MARKS + 50):
        recorder.begin_event(60.0, lambda: END)
        recorder.mark(60.0, "freeze", str(number), 1)
        recorder.count_event()
    recorder.begin_event(86_400.0 * 3, lambda: END)
    recorder.count_event()
    found = history_answer("shop", "day", [], recorder.copy(END), *NAMES)
    assert len(found.marks) == history.MAX_MARKS
    assert found.marks[-1].text == str(history.MAX_MARKS + 49)
    assert len(found.time) == 2


def test_a_recorder_continues_from_its_state():
    def play(recorder, minutes):
        for minute in minutes:
            recorder.begin_event(60.0 * minute, lambda: END)
            recorder.made(minute % 5, 0, 0)
            recorder.closed(minute % 5, 3, [minute % 3], "learned")
            recorder.voted("win")
            recorder.count_event()

    one, two = Recorder(7), Recorder(0)
    play(one, range(0, 4000, 7))
    before = Recorder(7)
    play(before, range(0, 2100, 7))
    two.restore(before.copy(END), 0)
    play(two, range(2100, 4000, 7))
    assert two.state == one.state
    assert two.since == 7


def test_features_of_other_names_have_no_weights():
    recorder = Recorder(0)
    recorder.begin_event(0.0, lambda: END)
    recorder.count_event()
    state = recorder.copy(replace(END, weights=b"a, c" + np.zeros(2, "<f4").tobytes()))
    assert history_answer("shop", "minute", [], state, *NAMES).weights == {"a": [None], "b": [None]}


def test_the_weight_of_a_curve_is_its_rise(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(RankerSpec("shop", "mgd-dsp", kit.features, "query-scaled >> curves", 5))
            await traffic(service, kit, range(60), place=2)
            await kit.learned(service, 60)
            curves = {each.name: each for each in service.curves("shop").curves}
            told = service.history("shop").weights
            for name in kit.features:
                assert told[name][-1] == pytest.approx(curves[name].heights[-1] - curves[name].heights[0], rel=1e-6)

    asyncio.run(main())


@pytest.mark.parametrize("representation", ["raw", "query-scaled >> curves"])
def test_weights_have_deviations_if_there_is_a_belief(storage, kit, representation):
    async def main():
        async with kit.running(storage) as service:
            await service.create(RankerSpec("shop", "thompson-pairs", kit.features, representation, 5))
            await traffic(service, kit, range(64), place=2)
            await kit.learned(service, 64)
            curves = {each.name: each for each in service.curves("shop").curves}
            history = service.history("shop")
            assert set(history.deviations) == set(kit.features)
            for name in kit.features:
                rise = curves[name].heights[-1] - curves[name].heights[0]
                assert history.weights[name][-1] == pytest.approx(rise, rel=1e-6)
                assert history.deviations[name][-1] == pytest.approx(curves[name].deviation, rel=1e-6)
                assert curves[name].uncertainty > 0.0

    asyncio.run(main())


def test_without_a_belief_there_are_no_deviations(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            await traffic(service, kit, range(3), place=2)
            await kit.learned(service, 3)
            assert service.history("shop").deviations == {}
            assert {each.deviation for each in service.curves("shop").curves} == {None}

    asyncio.run(main())


def test_a_follower_reports_it_too(postgres_url, kit):
    async def main():
        with open_storage(postgres_url) as one, open_storage(postgres_url) as two:
            async with kit.running(one) as leader, kit.running(two) as follower:
                await leader.create(kit.spec())
                await traffic(follower, kit, range(10))
                await kit.learned(leader, 10)

                def told(service):
                    return sum(sum(each) for each in service.history("shop").closed.values())

                assert told(leader) == 10
                await kit.until(lambda: told(follower) == 10, lambda: told(follower))
            kit.verified(one)

    asyncio.run(main())
