"""Experiments: lists are merged, stored and counted in the order of showing; everything follows from the log."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from duelrank.core.errors import Conflict, InvalidRecipe, InvalidValue, LimitExceeded, UnknownName
from duelrank.evidence.interleaving import Tally, WinHistory
from duelrank.service.experiments import ExperimentDefinition
from duelrank.service.experiments import ExperimentSpec as Spec
from duelrank.service.http.schema import Document, ExperimentSpec, FeedbackEvent, ShowRequest
from duelrank.service.replay import replay
from duelrank.service.views import UNFAIR_WARNING
from duelrank.storage import open_storage

LISTS = {"a": ["d1", "d2", "d3", "d4"], "b": ["d4", "d5", "d1"], "c": []}


def spec(**others) -> ExperimentSpec:
    return ExperimentSpec(**{"name": "spring", "systems": ("a", "b", "c"), "length": 3} | others)


def request(number: int, lists=LISTS, **others) -> ShowRequest:
    return ShowRequest(lists, impression_id=f"i{number}", **others)


def click(number: int, *documents: str, **others) -> FeedbackEvent:
    return FeedbackEvent(**{"impression_id": f"i{number}", "close": True} | others, clicks=list(documents))


async def settled(kit, service, name="spring") -> None:
    """Wait until the learner has read the whole log."""
    await service._appender.settled()
    last = service.storage.log.last_number()
    await kit.until(
        lambda: service._rankers.experiment(name).newest_status().number >= last or kit.has_read_all(service)
    )


def by_hand(shown: list[tuple[str, dict[str, list[str]], list[str]]], kit, **others) -> Tally:
    """Count lists in the order in which they were shown: (id, lists, clicked documents)."""
    definition = ExperimentDefinition(Spec("spring", ("a", "b", "c"), **{"length": 3} | others), salt=kit.fast.salt)
    tally = Tally.empty(3)
    for id, lists, clicked in shown:
        impression, documents = definition.merge(id, list(lists.values()), definition.spec.length)
        gains = np.array([documents[place] in clicked for place in impression.ranking], np.float64)
        tally.add(definition.preferences(id, impression, gains), bool(clicked))
    return tally


def random_lists(rng: np.random.Generator) -> dict[str, list[str]]:
    """Lists of different lengths; one system may return nothing."""
    return {name: [f"d{each}" for each in rng.permutation(9)[: rng.integers(0, 6)]] for name in "abc"}


class TestCounting:
    def test_counts_are_those_of_a_comparison_by_hand(self, kit, storage):
        rng, done = np.random.default_rng(1), []

        async def main() -> None:
            async with kit.running(storage) as service:
                await service.create_experiment(spec())
                for number in range(60):
                    lists = random_lists(rng) | {"a": ["d1", f"d{number}x"]}
                    answer = await service.show("spring", request(number, lists))
                    clicked = [each for each in answer.documents if rng.random() < 0.4]
                    await service.experiment_feedback("spring", [click(number, *clicked)])
                    done.append((f"i{number}", lists, clicked))
                await settled(kit, service)
                expected = by_hand(done, kit)
                info = service.experiment("spring")
                assert (info.lists, info.counted, info.open, info.waiting) == (60, 60, 0, 0)
                assert info.clicked == expected.clicked
                result = expected.result(("a", "b", "c"), WinHistory(), "anytime")
                for pair in info.pairs:
                    row, column = "abc".index(pair.one), "abc".index(pair.other)
                    assert (pair.wins, pair.losses) == (expected.wins[row, column], expected.wins[column, row])
                    assert pair.ties == 60 - pair.wins - pair.losses
                    assert (pair.low, pair.high) == result.interval(pair.one, pair.other)
                    assert pair.p_value == result.p_values[row, column]
                assert info.verdict == result.verdict()
                history = service.experiment_history("spring")
                assert history.lists[-1] == 60
                assert len(history.time) == len(history.lists) == len(history.pairs[0].win_rate)
                assert history.pairs[0].low[-1] == info.pairs[0].low

        asyncio.run(main())
        assert replay(storage, "spring").difference is None

    def test_a_system_gets_nothing_for_a_document_that_it_did_not_return(self, kit, storage):
        async def main() -> None:
            async with kit.running(storage) as service:
                await service.create_experiment(spec())
                for number in range(20):
                    answer = await service.show("spring", request(number))
                    assert set(answer.documents) <= {"d1", "d2", "d3", "d4", "d5"}
                    await service.experiment_feedback("spring", [click(number, *answer.documents)])
                await settled(kit, service)
                pairs = {(each.one, each.other): each for each in service.experiment("spring").pairs}
                assert pairs["a", "c"].losses == pairs["b", "c"].losses == 0
                assert pairs["a", "c"].wins > 0

        asyncio.run(main())

    def test_fixed_positions_are_in_no_system_and_clicks_on_them_count_for_nobody(self, kit, storage):
        async def main() -> None:
            async with kit.running(storage) as service:
                await service.create_experiment(spec())
                fixed = {"ad": 1, "d4": 3, "far": 9}
                for number in range(20):
                    answer = await service.show("spring", request(number, fixed=fixed))
                    assert (answer.documents[0], answer.documents[2], len(answer.documents)) == ("ad", "d4", 3)
                    assert await service.show("spring", request(number, fixed=fixed)) == answer
                    counts = await service.experiment_feedback("spring", [click(number, "ad", "d4")])
                    assert (counts.accepted, counts.invalid) == (1, [])
                    plain = {name: [each for each in ids if each != "d4"] for name, ids in LISTS.items()}
                    made, documents = service._rankers.experiment("spring").created.merge(
                        f"i{number}", list(plain.values()), 1
                    )
                    assert answer.documents[1] == documents[made.ranking[0]]
                await settled(kit, service)
                info = service.experiment("spring")
                assert (info.counted, info.clicked, {each.wins for each in info.pairs}) == (20, 0, {0})
                for wrong, message in (
                    ({"ad": 0}, "whole number"),
                    ({"": 1}, "must not be empty"),
                    ({"ad": 1, "other": 2, "more": 3}, "leave no position"),
                ):
                    with pytest.raises(InvalidValue, match=message):
                        await service.show("spring", request(99, fixed=wrong))

        asyncio.run(main())
        assert replay(storage, "spring").difference is None

    def test_lists_count_in_the_order_of_showing(self, kit, storage):
        async def main() -> None:
            async with kit.running(storage) as service:
                await service.create_experiment(spec())
                shown = [await service.show("spring", request(number)) for number in range(3)]
                for number in (2, 1):
                    await service.experiment_feedback("spring", [click(number, shown[number].documents[0])])
                await settled(kit, service)
                info = service.experiment("spring")
                assert (info.counted, info.waiting, info.open) == (0, 2, 1)
                await service.experiment_feedback("spring", [click(0)])
                await settled(kit, service)
                info = service.experiment("spring")
                assert (info.counted, info.waiting, info.clicked) == (3, 0, 2)

        asyncio.run(main())

    def test_a_list_that_nobody_closes_holds_up_others_until_its_time_is_over(self, kit, storage):
        clock = kit.clock()

        async def main() -> None:
            async with kit.running(storage, clock=clock) as service:
                await service.create_experiment(spec(close_after=10.0))
                await service.show("spring", request(0))
                second = await service.show("spring", request(1))
                await service.experiment_feedback("spring", [click(1, second.documents[0])])
                await settled(kit, service)
                assert service.experiment("spring").waiting == 1
                clock.advance(11.0)
                await kit.until(lambda: service.experiment("spring").counted == 1)
                info = service.experiment("spring")
                assert (info.no_feedback, info.waiting, info.open) == (1, 0, 0)

        asyncio.run(main())

    @pytest.mark.parametrize("with_list", [True, False])
    def test_a_user_has_one_vote_a_day(self, kit, storage, with_list):
        clock = kit.clock()

        async def main() -> None:
            async with kit.running(storage, clock=clock) as service:
                await service.create_experiment(spec(systems=("a", "b"), length=1))
                number = 0
                for user in ("u1", "u1", "u2"):
                    for _ in range(2):
                        given = {"user_id": user}
                        lists = {"a": ["d1"], "b": ["d2"]}  # one position: a click always has a winner
                        answer = await service.show("spring", request(number, lists, **given if with_list else {}))
                        event = click(number, *answer.documents, **{} if with_list else given)
                        await service.experiment_feedback("spring", [event])
                        number += 1
                await settled(kit, service)
                info = service.experiment("spring")
                assert (info.decisive, info.repeated, info.anonymous) == (2, 4, 0)
                clock.advance(86400.0)
                answer = await service.show("spring", request(number, {"a": ["d1"], "b": ["d2"]}, user_id="u1"))
                await service.experiment_feedback("spring", [click(number, *answer.documents)])
                await settled(kit, service)
                assert service.experiment("spring").decisive == 3

        asyncio.run(main())
        assert replay(storage, "spring").difference is None


class TestRequests:
    def test_the_same_request_is_the_same_list(self, kit, storage):
        async def main() -> None:
            async with kit.running(storage) as service:
                await service.create_experiment(spec())
                one, again = [await service.show("spring", request(0)) for _ in range(2)]
                assert one == again
                with pytest.raises(Conflict, match="other documents"):
                    await service.show("spring", request(0, LISTS | {"c": ["d77"]}))
                event = click(0, one.documents[0], close=False)
                counts = await service.experiment_feedback("spring", [event, event])
                assert (counts.accepted, counts.duplicate) == (1, 1)
                unknown = await service.experiment_feedback("spring", [click(9, "d1")])
                assert unknown.unknown == 1
                assert service.experiment("spring").warnings

        asyncio.run(main())

    @pytest.mark.parametrize(
        ("lists", "message"),
        [
            ({"a": [], "b": [], "c": []}, "nothing to show"),
            ({"a": ["d1"]}, "the ranking of 'b' is missing"),
            (LISTS | {"d": []}, "system of this experiment"),
            (LISTS | {"a": ["d1", "d1"]}, "contains 'd1' twice"),
            (LISTS | {"a": [""]}, "from 1 to"),
        ],
    )
    def test_what_is_refused(self, kit, storage, lists, message):
        async def main() -> None:
            async with kit.running(storage) as service:
                await service.create_experiment(spec())
                with pytest.raises(InvalidValue, match=message):
                    await service.show("spring", request(0, lists))

        asyncio.run(main())

    @pytest.mark.parametrize(
        ("others", "fair"),
        [
            ({}, True),
            ({"multileaver": "TeamDraft()"}, False),
            ({"multileaver": "TeamDraft()", "systems": ("a", "b")}, True),
            ({"multileaver": "Balanced()", "systems": ("a", "b")}, False),
        ],
    )
    def test_a_warning_says_that_wins_are_not_fair(self, kit, storage, others, fair):
        async def main() -> None:
            async with kit.running(storage) as service:
                info, _ = await service.create_experiment(spec(**others))
                assert info.warnings == (() if fair else (UNFAIR_WARNING,))

        asyncio.run(main())

    @pytest.mark.parametrize(
        ("others", "error", "message"),
        [
            ({"systems": ("a",)}, InvalidValue, "from 2 to 10 systems"),
            ({"systems": tuple("abcdefghijk")}, InvalidValue, "from 2 to 10 systems"),
            ({"systems": ("a", "a")}, InvalidValue, "must be unique"),
            ({"rankers": ("shop",)}, InvalidValue, "'shop'"),
            ({"name": "a b"}, InvalidValue, "an experiment's name"),
            ({"level": 1.0}, InvalidValue, "level"),
            ({"length": 0}, InvalidValue, "length"),
            ({"length": 10_000}, LimitExceeded, "1,000"),
            ({"multileaver": "OptimizedInterleaving()"}, InvalidRecipe, "compares 2 rankers"),
            ({"multileaver": "Nonsense()"}, UnknownName, "Nonsense"),
            ({"actions": {"click": -1.0}}, InvalidValue, "weight of an action"),
            ({"close_after": 0.0}, InvalidValue, "close_after"),
        ],
    )
    def test_what_cannot_be_created(self, kit, storage, others, error, message):
        async def main() -> None:
            async with kit.running(storage) as service:
                with pytest.raises(error, match=message):
                    await service.create_experiment(spec(**others))
                assert service.experiments() == []

        asyncio.run(main())

    def test_names_are_of_one_ranker_or_one_experiment(self, kit, storage):
        async def main() -> None:
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                _, new = await service.create_experiment(spec())
                assert new
                assert not (await service.create_experiment(spec()))[1]
                with pytest.raises(Conflict, match="another spec"):
                    await service.create_experiment(spec(length=4))
                with pytest.raises(Conflict, match="there is a ranker"):
                    await service.create_experiment(spec(name="shop"))
                with pytest.raises(Conflict, match="there is an experiment"):
                    await service.create(kit.spec("spring"))
                with pytest.raises(UnknownName, match="is an experiment"):
                    service.ranker("spring")
                with pytest.raises(UnknownName, match="is a ranker"):
                    service.experiment("shop")
                assert [each.name for each in service.rankers()] == ["shop"]

        asyncio.run(main())

    def test_stop_and_delete(self, kit, storage):
        async def main() -> None:
            async with kit.running(storage) as service:
                await service.create_experiment(spec())
                open_one = await service.show("spring", request(0))
                stopped = (await service.stop_experiment("spring")).stopped
                assert stopped is not None
                assert (await service.stop_experiment("spring")).stopped == stopped
                with pytest.raises(Conflict, match="was stopped"):
                    await service.show("spring", request(1))
                assert await service.show("spring", request(0)) == open_one
                await service.experiment_feedback("spring", [click(0, open_one.documents[0])])
                await settled(kit, service)
                assert service.experiment("spring").counted == 1
                await service.delete_experiment("spring")
                with pytest.raises(UnknownName):
                    service.experiment("spring")
                await service.create_experiment(spec())
                info = service.experiment("spring")
                assert (info.lists, info.stopped) == (0, None)
                assert (await service.show("spring", request(0))).impression_id == "i0"

        asyncio.run(main())


class TestRankersAsSystems:
    def test_a_ranker_shows_its_best_list_and_does_not_learn_from_it(self, kit, storage):
        documents = [Document(f"d{row}", values) for row, values in enumerate(kit.table(1).tolist())]

        async def main() -> None:
            async with kit.running(storage) as service:
                await service.create(kit.spec(start={"weights": {"bm25": 1.0}}))
                await service.create_experiment(spec(systems=("engine",), rankers=("shop",), length=8))
                engine = [each.id for each in documents]
                best = sorted(engine, key=lambda id: -documents[int(id[1:])].features[0])
                for number in range(8):
                    given = ShowRequest({"engine": engine}, f"i{number}", None, documents)
                    answer = await service.show("spring", given)
                    assert answer.documents[0] in (engine[0], best[0])
                    assert answer == await service.show("spring", given)
                    await service.experiment_feedback("spring", [click(number, best[0])])
                await settled(kit, service)
                info = service.experiment("spring")
                assert [(each.one, each.other) for each in info.pairs] == [("engine", "shop")]
                assert service.ranker("shop").impressions == 0
                with pytest.raises(InvalidValue, match="send the documents"):
                    await service.show("spring", request(99, {"engine": engine}))
                with pytest.raises(InvalidValue, match="is a ranker of this service"):
                    await service.show("spring", ShowRequest({"engine": engine, "shop": []}, "i99", None, documents))

        asyncio.run(main())

    def test_a_ranker_stays_while_it_is_compared(self, kit, storage):
        documents = [Document("d1", kit.table(1)[0].tolist())]

        async def main() -> None:
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                await service.create_experiment(spec(systems=("engine",), rankers=("shop",)))
                shown = await service.show("spring", ShowRequest({"engine": ["d1"]}, "i1", None, documents))
                with pytest.raises(Conflict, match="'spring' compares the ranker 'shop'"):
                    await service.delete("shop")
                assert shown == await service.show("spring", ShowRequest({"engine": ["d1"]}, "i1", None, documents))
                await service.stop_experiment("spring")
                await service.delete("shop")
                with pytest.raises(Conflict, match="was stopped"):
                    await service.show("spring", ShowRequest({"engine": ["d1"]}, "i2", None, documents))

        asyncio.run(main())

    def test_rankers_with_different_features(self, kit, storage):
        both = [Document(f"d{row}", {"x": float(row), "y": float(-row)}) for row in range(4)]

        async def main() -> None:
            async with kit.running(storage) as service:
                for name, feature in (("one", "x"), ("two", "y")):
                    start = {"weights": {feature: 1.0}}
                    await service.create(kit.spec(name, features=(feature,), start=start))
                await service.create_experiment(spec(systems=(), rankers=("one", "two"), length=1))
                shown = [
                    (await service.show("spring", ShowRequest({}, f"i{n}", None, both))).documents for n in range(20)
                ]
                assert {each[0] for each in shown} == {"d0", "d3"}
                odd = [Document("d0", {"x": 1.0, "z": 1.0})]
                with pytest.raises(InvalidValue, match="'z'"):
                    await service.show("spring", ShowRequest({}, "i99", None, odd))

        asyncio.run(main())


class TestStore:
    def test_a_restart_continues_exactly(self, kit, sqlite_url):
        rng = np.random.default_rng(3)

        async def use(service, first: int) -> None:
            for number in range(first, first + 30):
                lists = random_lists(rng) | {"b": ["d1", "d2"]}
                answer = await service.show("spring", request(number, lists, user_id=f"u{rng.integers(40)}"))
                if number % 4:
                    clicked = [each for each in answer.documents if rng.random() < 0.5]
                    await service.experiment_feedback("spring", [click(number, *clicked)])

        async def main() -> None:
            with open_storage(sqlite_url) as storage:
                async with kit.running(storage) as service:
                    await service.create_experiment(spec())
                    await use(service, 0)
                    await settled(kit, service)
                    before = service.experiment("spring")
                    assert before.waiting > 0
                    assert before.open > 0
            with open_storage(sqlite_url) as storage:
                async with kit.running(storage, read_only=True) as viewer:
                    assert viewer.experiment("spring") == before
                async with kit.running(storage) as service:
                    assert service.experiment("spring") == before
                    await use(service, 30)
                    await service.experiment_feedback("spring", [click(number) for number in range(0, 60, 4)])
                    await settled(kit, service)
                    after = service.experiment("spring")
                    assert (after.lists, after.open, after.waiting) == (60, 0, 0)
                result = replay(storage, "spring")
                assert (result.difference, result.impressions, result.learned) == (None, 60, 60)
                assert result.snapshots_compared > 0

        asyncio.run(main())

    def test_attachments_leave_the_disk_and_late_feedback_is_recognized(self, kit, storage):
        async def main() -> None:
            async with kit.running(storage) as service:
                await service.create_experiment(spec())
                answer = await service.show("spring", request(0))
                await service.experiment_feedback("spring", [click(0, answer.documents[0])])
                await settled(kit, service)
                number = service._recent.get(service._rankers.experiment("spring").created.number, "i0").number
                assert storage.log.attachment("spring", number) is not None
                for more in range(1, 5):  # a checkpoint needs something new
                    await service.show("spring", request(more))
                    await settled(kit, service)
                    service._background._term.tidy()
                assert storage.log.attachment("spring", number) is None
                late = await service.experiment_feedback("spring", [click(0, answer.documents[0], event_id="late")])
                assert late.expired == 1

        asyncio.run(main())

    def test_a_list_that_cannot_be_made_again_is_counted_as_failed(self, kit, storage, monkeypatch):
        async def main() -> None:
            async with kit.running(storage) as service:
                await service.create_experiment(spec())
                for number in range(2):
                    await service.show("spring", request(number))
                made = ExperimentDefinition.merge

                def another(self, id, lists, length):
                    return made(self, id, lists[::-1] if id == "i0" else lists, length)

                monkeypatch.setattr(ExperimentDefinition, "merge", another)
                await service.experiment_feedback("spring", [click(0), click(1)])
                await settled(kit, service)
                monkeypatch.undo()
                info = service.experiment("spring")
                assert (info.failed, info.counted) == (1, 1)

        asyncio.run(main())
        result = replay(storage, "spring")
        assert (result.difference, result.failed) == (None, 1)
