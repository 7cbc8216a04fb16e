"""Rank, feedback, learn: what a client can rely on."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest

from duelrank.core.errors import (
    Conflict,
    InvalidRecipe,
    InvalidValue,
    LimitExceeded,
    NotReady,
    ShapeMismatch,
    StorageFailure,
    UnknownName,
)
from duelrank.service import Observer, Rejected, Service
from duelrank.service import service as service_module
from duelrank.service.http.schema import Document, FeedbackCounts, FeedbackEvent, RankRequest
from duelrank.service.log import unpack_features
from duelrank.storage import open_storage


def ids(answer):
    return [each.id for each in answer.ranking]


def test_the_first_learned_click(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            made, new = await service.create(kit.spec())
            assert new
            assert (made.model_version, made.impressions, made.learned, made.frozen) == (1, 0, 0, False)
            answer = await service.rank("shop", kit.request(1))
            assert (answer.impression_id, answer.model_version) == ("i1", 1)
            assert [each.position for each in answer.ranking] == [1, 2, 3, 4, 5]
            assert set(ids(answer)) <= {f"d{i}" for i in range(8)}
            counts = await service.feedback("shop", [kit.event(1, [answer.ranking[2].id])])
            assert counts == FeedbackCounts(accepted=1)
            await kit.learned(service, 1)
            now = service.ranker("shop")
            assert (now.model_version, now.impressions, now.learned, now.open, now.updates) == (2, 1, 1, 0, 1)
            assert service.model("shop").weights.any()
            assert service.rankers() == [now]

    asyncio.run(main())


def scaled(**how):
    return {"kind": "fixed", "features": {"price": how}}


class TestCreating:
    def test_the_same_again_is_the_same_and_another_is_a_conflict(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                first, _ = await service.create(kit.spec())
                assert await service.create(kit.spec()) == (first, False)
                with pytest.raises(Conflict, match="another spec"):
                    await service.create(kit.spec(seed=8))
                both = await asyncio.gather(*(service.create(kit.spec("two")) for _ in range(4)))
                assert [new for _, new in both].count(True) == 1, "one of those who came at once has created it"
                assert all(info == both[0][0] for info, _ in both)
                assert [each.name for each in service.rankers()] == ["shop", "two"]

        asyncio.run(main())

    @pytest.mark.parametrize(
        ("change", "error", "says"),
        [
            ({"name": "_rankers"}, InvalidValue, "name"),
            ({"name": "a/model"}, InvalidValue, "name"),
            ({"name": ""}, InvalidValue, "name"),
            ({"algorithm": "mdg"}, UnknownName, "mgd"),
            ({"algorithm": "cascade-ucb1"}, InvalidRecipe, "query"),
            ({"algorithm": "nsgd", "mode": "shadow"}, InvalidRecipe, "only for lists"),
            *(
                ({"features": (), "representation": each}, InvalidValue, "one feature")
                for each in ("raw", "curves", "steps")
            ),
            ({"features": ("a", "b" * 100_000)}, InvalidValue, "the name of a feature has 1 to 200 characters"),
            ({"features": ("a", "b\0")}, InvalidValue, "can be printed"),
            ({"actions": {"": 1.0}}, InvalidValue, "the name of an action has 1 to 100"),
            ({"actions": {"buy" * 400: 1.0}}, InvalidValue, "of 1,200 characters"),
            (
                {"representation": scaled(min_max={"minimum": 3, "maximum": 3})},
                InvalidValue,
                "'price'.* maps every value to 0",
            ),
            (
                {"representation": scaled(standard={"mean": 3, "standard_deviation": 0})},
                InvalidValue,
                "maps every value to 0",
            ),
            ({"features": ("a", "a")}, InvalidValue, "'a'"),
            ({"features": tuple(f"f{i}" for i in range(6000))}, LimitExceeded, "5,000"),
            ({"representation": {"kind": "zscore"}}, InvalidValue, "text of a recipe"),
            ({"representation": "query-scales"}, UnknownName, "did you mean query-scaled"),
            (
                {"representation": "raw", "algorithm": "query-scaled >> mgd"},
                InvalidRecipe,
                "given twice",
            ),
            ({"representation": "ramps", "algorithm": "pairrank"}, InvalidRecipe, "does not learn"),
            ({"length": 0}, InvalidValue, "length"),
            ({"length": 1001}, LimitExceeded, "1,000"),
            ({"exploration": 1.5}, InvalidValue, "exploration"),
            ({"exploration": math.nan}, InvalidValue, "exploration"),
            ({"close_after": 0.0}, InvalidValue, "close_after"),
            ({"seed": -1}, InvalidValue, "seed"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, storage, kit, change, error, says):
        async def main():
            async with kit.running(storage) as service:
                with pytest.raises(error, match=says):
                    await service.create(kit.spec(**change))
                assert service.rankers() == []
                assert storage.log.last_number() == 0

        asyncio.run(main())

    def test_not_before_it_is_ready(self, storage, kit):
        async def main():
            service = Service(storage, kit.fast)
            with pytest.raises(NotReady):
                await service.create(kit.spec())
            with pytest.raises(NotReady):
                service.rankers()
            async with kit.running(storage) as service:
                with pytest.raises(UnknownName, match="shop"):
                    await service.rank("shop", kit.request(1))
            with pytest.raises(NotReady):
                await service.rank("shop", kit.request(1))

        asyncio.run(main())


class TestRanking:
    def test_the_same_impression_again_is_the_same_list(self, sqlite_url, kit):
        async def main():
            orders = {}
            for life in range(2):
                with open_storage(sqlite_url) as storage:
                    async with kit.running(storage) as service:
                        await service.create(kit.spec())
                        for number in range(5):
                            together = await asyncio.gather(
                                *(service.rank("shop", kit.request(number)) for _ in range(4))
                            )
                            assert all(answer == together[0] for answer in together)
                            assert orders.setdefault(number, together[0]) == together[0]
                            other = await service.rank(
                                "shop", kit.request(number + 100, impression_id=f"i{number}", length=2)
                            )
                            assert other == together[0], "whatever else is sent with the id"
                            # what is learned in between does not matter
                            await service.feedback(
                                "shop", [kit.event(number, [ids(together[0])[0]], event_id=f"{life}-{number}")]
                            )
                        await kit.learned(service, 5)
                        assert service.ranker("shop").impressions == 5

        asyncio.run(main())

    def test_an_impression_without_an_id_gets_one(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                answers = [await service.rank("shop", kit.request(1, impression_id=None)) for _ in range(3)]
                assert len({answer.impression_id for answer in answers}) == 3
                counts = await service.feedback(
                    "shop", [FeedbackEvent(answer.impression_id, clicks=[ids(answer)[0]]) for answer in answers]
                )
                assert counts == FeedbackCounts(accepted=3)

        asyncio.run(main())

    def test_named_features_and_dense_ones_mean_the_same(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                dense = kit.request(1)
                named = RankRequest(
                    [
                        Document(d.id, dict(reversed(list(zip(kit.features, d.features, strict=True)))))
                        for d in dense.documents
                    ],
                    impression_id="named",
                )
                await service.rank("shop", dense)
                await service.rank("shop", named)
                stored = [kit.recent(service, key).attachment for key in ("i1", "named")]
                assert stored[0] == stored[1]
                assert np.array_equal(unpack_features(stored[0]), kit.table(1))

        asyncio.run(main())

    @pytest.mark.parametrize(
        ("documents", "error", "says"),
        [
            ([], InvalidValue, "documents"),
            ([Document(str(i), [0.0] * 4) for i in range(1001)], LimitExceeded, "1,000"),
            ([Document("a", [0.0] * 4), Document("a", [0.0] * 4)], InvalidValue, "'a'"),
            ([Document("", [0.0] * 4)], InvalidValue, "empty"),
            ([Document("x" * 600, [0.0] * 4)], LimitExceeded, "512"),
            ([Document("\ud800", [0.0] * 4)], InvalidValue, "Unicode"),
            ([Document("a", [0.0] * 3)], ShapeMismatch, "'a' has 3"),
            ([Document("b", [0.0] * 4), Document("a", [0, math.nan, 0, 0])], InvalidValue, "nan in document 'a', feature 'price'"),
            ([Document("a", [0.0, 0.0, -math.inf, 0.0])], InvalidValue, "-inf in document 'a', feature 'age'"),
            ([Document("a", {"bm25": 1.0, "prize": 2.0})], InvalidValue, "price"),
            ([Document("a", ["1", 0.0, 0.0, 0.0])], InvalidValue, "'a'"),
        ],
    )  # fmt: skip
    def test_documents_that_make_no_sense_are_refused(self, storage, kit, documents, error, says):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                with pytest.raises(error, match=says):
                    await service.rank("shop", RankRequest(documents))
                for request in (
                    kit.request(1, length=0),
                    kit.request(1, impression_id=""),
                    kit.request(1, impression_id="a\0"),
                ):
                    with pytest.raises(InvalidValue):
                        await service.rank("shop", request)
                assert storage.log.last_number() == 1

        asyncio.run(main())

    def test_features_in_trouble_are_counted(self, storage, kit):
        class Counting(Observer):
            def __init__(self):
                self.found = []

            def feature_trouble(self, name, kind, count):
                self.found.append((name, kind, count))

        counting = Counting()

        async def main():
            fixed = {"kind": "fixed", "features": {"price": {"min_max": {"minimum": 0, "maximum": 10}}}}
            async with kit.running(storage) as service:
                service.observer = counting
                await service.create(kit.spec(representation=fixed))
                await service.rank(
                    "shop", RankRequest([Document("a", {"price": 11.0}), Document("b", [0.0, -1.0, 5.0, 5.0])])
                )
                with pytest.raises(InvalidValue):
                    await service.rank("shop", RankRequest([Document("a", [0.0, math.nan, math.inf, math.nan])]))
            assert [each for each in counting.found if each[2]] == [
                ("shop", "missing", 3), ("shop", "out_of_range", 2), ("shop", "nan", 2), ("shop", "infinite", 1)
            ]  # fmt: skip

        asyncio.run(main())

    @pytest.mark.parametrize("representation", ["raw", "query-scaled", "ramps", "query-scaled >> curves", "steps"])
    def test_explain_adds_up_and_agrees_with_the_exported_model(self, storage, kit, representation):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(representation=representation))
                for number in range(40):
                    answer = await service.rank("shop", kit.request(number))
                    await service.feedback("shop", [kit.event(number, ids(answer)[2:4])])
                await kit.learned(service, 40)
                first = await service.rank("shop", kit.request(0, explain=True))
                assert all(each.score == 0.0 for each in first.ranking), "the version that made the list knew nothing"
                answer = await service.rank("shop", kit.request(50, explain=True))
                model = service.model("shop")
                assert model.version == answer.model_version > 1
                scores = model.score(kit.table(50))
                for each in answer.ranking:
                    assert each.score == pytest.approx(sum(each.explain.values()), rel=1e-12)
                    assert each.score == pytest.approx(scores[int(each.id[1:])], rel=1e-12)
                    assert list(each.explain) == list(kit.features)

        asyncio.run(main())

    def test_an_algorithm_with_a_belief_says_how_sure_it_is(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(algorithm="thompson-pairs"))
                await service.create(kit.spec(name="plain"))
                for number in range(64):
                    answer = await service.rank("shop", kit.request(number))
                    await service.feedback("shop", [kit.event(number, ids(answer)[2:4])])
                await kit.learned(service, 64)
                expected = service._rankers["shop"].version.state.memory["deviations"]
                assert expected.max() < 1 / math.sqrt(15.0), (
                    "after the 64th list they are smaller than before the first"
                )
                assert list(service.weights("shop").deviations.values()) == expected.tolist()
                answer = await service.rank("shop", kit.request(70, explain=True))
                for each in answer.ranking:
                    row = kit.table(70)[int(each.id[1:])]
                    assert each.deviation == pytest.approx(math.hypot(*(row * expected)))
                assert service.weights("plain").deviations is None
                plain = await service.rank("plain", kit.request(70, explain=True))
                assert {each.deviation for each in plain.ranking} == {None}

        asyncio.run(main())


class TestFeedback:
    def test_each_event_has_its_outcome(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                shown = ids(await service.rank("shop", kit.request(1)))
                hidden = next(f"d{i}" for i in range(8) if f"d{i}" not in shown)
                feed = lambda *events: service.feedback("shop", events)  # noqa: E731
                assert (await feed(kit.event(2))).unknown == 1, "before the list exists"
                counts = await feed(
                    kit.event(1, shown[:1], close=False),
                    kit.event(1, shown[:1], close=False),
                    Rejected("e9", "no JSON"),
                    kit.event(1, [hidden], close=False, event_id="a"),
                    kit.event(1, [hidden, shown[1]], close=False, event_id="b", examined=3),
                    kit.event(1, close=False, event_id="c", examined=6),
                    kit.event(1, close=False, event_id="x" * 600),
                    kit.event(1, close=False, event_id=""),
                )
                assert (counts.accepted, counts.duplicate, counts.unknown, counts.expired) == (2, 1, 0, 0)
                assert [(each.index, each.event_id) for each in counts.invalid] == [
                    (2, "e9"), (3, "a"), (4, "b"), (5, "c"), (6, "x" * 600), (7, "")
                ]  # fmt: skip
                assert hidden in counts.invalid[1].reason
                assert "from 0 to 5" in counts.invalid[3].reason
                close = kit.event(1, event_id="close")
                assert await feed(close, close, kit.event(1, shown[:1], event_id="late")) == FeedbackCounts(1, 1, 0, 1)
                assert await feed(close) == FeedbackCounts(duplicate=1), "sent again, after the list was closed"
                assert await feed(kit.event(1, shown[:1], event_id="later")) == FeedbackCounts(expired=1)
                await service.rank("shop", kit.request(2))
                assert await feed(kit.event(2)) == FeedbackCounts(accepted=1), "what was unknown may come again"
                await kit.learned(service, 2)
                assert service.ranker("shop").open == 0
            kit.verified(storage)

        asyncio.run(main())

    def test_without_an_id_the_same_counts_once(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                shown = ids(await service.rank("shop", kit.request(1)))
                event = kit.event(1, shown[:1], close=False, event_id=None)
                other = kit.event(1, shown[1:2], close=False, event_id=None)
                assert await service.feedback("shop", [event, other, event]) == FeedbackCounts(accepted=2, duplicate=1)
                assert await service.feedback("shop", [event]) == FeedbackCounts(duplicate=1)

        asyncio.run(main())

    def test_the_order_of_clicks_and_how_often_they_come_do_not_matter(self, sqlite_url, kit, tmp_path):
        """Two clicks reported at once, or each by itself, in any order, and twice."""

        async def main(url, reports):
            with open_storage(url) as storage:
                async with kit.running(storage) as service:
                    await service.create(kit.spec())
                    shown = ids(await service.rank("shop", kit.request(1)))
                    for number, places in enumerate(reports):
                        clicks = [shown[place] for place in places]
                        await service.feedback("shop", [kit.event(1, clicks, close=False, event_id=str(number))])
                    await service.feedback("shop", [kit.event(1, event_id="end")])
                    await kit.learned(service, 1)
                    return service.model("shop").weights

        one = asyncio.run(main(sqlite_url, [(1, 3)]))
        for number, reports in enumerate([[(3,), (1,)], [(1,), (3,), (1,)], [(3, 1, 3, 3)]]):
            other = asyncio.run(main(f"sqlite:///{tmp_path}/{number}.db", reports))
            assert np.array_equal(one, other)
        assert one.any()

    def test_limits(self, storage, kit):
        async def main():
            async with kit.running(storage, max_events=3) as service:
                await service.create(kit.spec())
                with pytest.raises(LimitExceeded, match="3"):
                    await service.feedback("shop", [kit.event(1)] * 4)
                strange = [kit.event(1, impression_id=key) for key in ("", "\0", "\ud800")]
                assert (await service.feedback("shop", strange)).unknown == 3

        asyncio.run(main())


def test_ten_thousand_late_events_leave_the_event_loop_to_others(storage, kit):
    """Impressions that this process no longer remembers, so that each has to be looked up in the store."""

    async def main():
        async with kit.running(storage, recent=1) as service:
            await service.create(kit.spec())
            for number in range(50):
                await service.rank("shop", kit.request(number))
            await service.feedback("shop", [kit.event(number) for number in range(50)])
            turns = [0]

            async def others():
                while True:
                    await asyncio.sleep(0)
                    turns[0] += 1

            task = asyncio.create_task(others())
            events = [kit.event(number % 50, event_id=f"late{number}") for number in range(10_000)]
            counts = await service.feedback("shop", events)
            task.cancel()
            assert counts == FeedbackCounts(expired=10_000)
            assert turns[0] >= 100, "others had their turn in between"

    asyncio.run(main())


class TestSlices:
    """Many events are taken in slices, which are in the store together."""

    def test_others_run_between_slices(self, storage, kit, monkeypatch):
        turns, taken = [0], []

        class Noting(service_module.FeedbackIntake):
            def __init__(self, *arguments):
                taken.append(turns[0])
                super().__init__(*arguments)

        async def turn():
            while True:
                turns[0] += 1
                await asyncio.sleep(0)

        async def scenario():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                for number in range(60):
                    await service.rank("shop", kit.request(number))
                turning = asyncio.create_task(turn())
                counts = await service.feedback("shop", [kit.event(number) for number in range(60)])
                turning.cancel()
                return counts

        monkeypatch.setattr(service_module, "FeedbackIntake", Noting)
        monkeypatch.setattr(service_module, "FEEDBACK_SLICE", 20)
        assert asyncio.run(scenario()).accepted == 60
        assert len(taken) == len(set(taken)) == 3

    def test_counts_are_those_of_one_slice(self, storage, kit, monkeypatch):
        async def scenario():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                for number in range(6):
                    await service.rank("shop", kit.request(number))
                events = [kit.event(number % 6) for number in range(9)]
                events += [kit.event(0, event_id="late"), kit.event(99), kit.event(1, ["nothing"], event_id="bad")]
                return await service.feedback("shop", events)

        monkeypatch.setattr(service_module, "FEEDBACK_SLICE", 2)
        counts = asyncio.run(scenario())
        assert (counts.accepted, counts.duplicate, counts.expired, counts.unknown) == (6, 3, 2, 1)

    def test_a_failed_append_closes_nothing(self, storage, kit, monkeypatch):
        async def scenario():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                for number in range(4):
                    await service.rank("shop", kit.request(number))
                events = [kit.event(number) for number in range(4)]
                with monkeypatch.context() as broken:
                    broken.setattr(storage.log, "submit", refuse)
                    with pytest.raises(StorageFailure, match="full"):
                        await service.feedback("shop", events)
                    again = asyncio.create_task(service.feedback("shop", events[:2]))
                    await asyncio.wait([again])  # the second slice was refused meanwhile, too
                    assert isinstance(again.exception(), StorageFailure), "they are open, so they are sent to the store"
                return await service.feedback("shop", events)

        def refuse(events):
            raise StorageFailure("full")

        monkeypatch.setattr(service_module, "FEEDBACK_SLICE", 2)
        assert asyncio.run(scenario()).accepted == 4


def test_recipes_are_compiled_before_it_is_ready(storage, kit, monkeypatch, caplog, tmp_path):
    from duelrank.cli.serve import WARM_UP
    from duelrank.service.definition import Definition

    warmed, warm_up = [], Definition.warm_up

    def watched(definition, learning=True):
        warmed.append(definition.spec.algorithm)
        warm_up(definition, learning)

    monkeypatch.setattr(Definition, "warm_up", watched)
    monkeypatch.setattr("duelrank.service.leader.kernel_folder", lambda: tmp_path)

    async def main():
        async with kit.running(storage, warm_up=WARM_UP):
            assert warmed == list(WARM_UP)
        async with kit.running(storage, warm_up=WARM_UP):
            assert len(warmed) == len(WARM_UP), "the second start finds them in the cache"

    asyncio.run(main())
    assert "in advance" not in caplog.text, "all of them can be compiled"
