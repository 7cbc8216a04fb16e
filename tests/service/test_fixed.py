"""Fixed positions in the service: they hold in lists of every kind, and nothing is learned from them."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest
from tests.test_placing import LISTS, check, drawn

from duelrank.core.errors import Conflict, InvalidValue
from duelrank.service.http.schema import Document, FeedbackEvent, GuardSpec, RankerSpec, RankRequest

SPEC = {"name": "shop", "algorithm": "wmgd-dsp", "features": ("bm25", "price"), "representation": "query-scaled"}


def offers(draws, n_documents=12):
    return [Document(f"d{row}", [draws.uniform(0, 20), draws.uniform(5, 90)]) for row in range(n_documents)]


@pytest.mark.parametrize("mode", ["learn", "shadow"])
def test_places_hold_in_lists_of_every_kind(storage, kit, mode):
    guard = (
        {"guard": GuardSpec(share=0.3, promote=(0.5, 1.0)), "imitate": 20} if mode == "learn" else {"mode": "shadow"}
    )

    async def main():
        async with kit.running(storage) as service:
            await service.create(RankerSpec(**SPEC, exploration=0.7, **guard))
            draws, kinds = Random(1), Counter()
            for number in range(400):
                asked = RankRequest(
                    offers(draws), f"i{number}", fixed={"d5": 1, "ad": 4, "far": 30}, below_top={"d0": 3, "d1": 6}
                )
                answer = await service.rank("shop", asked)
                shown, kinds[answer.kind] = answer.ids, kinds[answer.kind] + 1
                assert (shown[0], shown[3], len(shown)) == ("d5", "ad", 10)
                assert "far" not in shown
                assert [each.id for each in answer.ranking if each.placed] == [
                    id for id in shown if id in ("d5", "ad", "d0", "d1")
                ]
                assert "d0" not in shown[:3]
                assert "d1" not in shown[:6]
                assert (await service.rank("shop", asked)).ids == shown
                await service.feedback("shop", [kit.event(number, ["ad", shown[1]], user_id=f"u{number}")])
            await kit.learned(service, 400)
            expected = {"explored", "greedy", "guard", "baseline"} if mode == "learn" else {"shadow"}
            assert set(kinds) == expected
            assert service.ranker("shop").failed == 0
        kit.verified(storage)

    asyncio.run(main())


def made(service, name, asked):
    """Return the list that a ranker makes, without the store."""
    ranker, id = service._rankers[name], asked.impression_id
    return service._make_impression(service._reader(ranker), ranker.version, {}, id, asked, None)[2]


def test_a_list_of_any_kind_is_that_of_the_free_documents_with_the_placed_ones_between(storage, kit):
    """The property search of `tests/test_placing.py`, with the lists that a ranker makes."""

    async def main():
        async with kit.running(storage) as service:
            start, guard = {"weights": {"bm25": 0.2, "price": -0.1}}, GuardSpec(share=0.3, promote=(0.5, 1.0))
            for name, rest in {
                "guarded": {"guard": guard, "imitate": 0},
                "plain": {"exploration": 0.5},
                "shadow": {"mode": "shadow"},
            }.items():
                await service.create(
                    RankerSpec(**SPEC | {"name": name, "representation": "raw", "start": start} | rest)
                )
            draws, kinds = Random(1), Counter()
            for number in range(LISTS):
                name, (ids, length, fixed, below) = ("guarded", "guarded", "plain", "shadow")[number % 4], drawn(draws)
                documents = [Document(id, [draws.uniform(0, 20), draws.uniform(5, 90)]) for id in ids]
                asked = RankRequest(documents, f"i{number}", length, fixed=fixed, below_top=below)
                body = made(service, name, asked)
                free = [each for each in documents if each.id not in fixed and each.id not in below]
                check(body.shown, [each.id for each in free], ids, length, fixed, below)
                if body.ids:
                    alone = made(service, name, RankRequest(free, f"i{number}", len(body.ids)))
                    assert (alone.ids, alone.order, alone.kind) == (body.ids, body.order, body.kind)
                kinds[body.kind] += 1
            assert set(kinds) == {"explored", "greedy", "guard", "baseline", "shadow"}

    asyncio.run(main())


def test_weights_are_those_of_a_ranker_that_never_saw_the_placed_documents(storage, kit):
    """Everybody clicks the sponsored document, which is bad: to the bit, the weights are those without it."""

    async def main():
        async with kit.running(storage) as service:
            for name in ("shop", "plain"):
                await service.create(RankerSpec(**SPEC | {"name": name}))
            draws = Random(2)
            for number in range(60):
                documents = offers(draws)
                free = [each for each in documents if each.id not in ("d2", "d9")]
                asked = RankRequest(documents, f"i{number}", fixed={"d2": 1, "ad": 8}, below_top={"d9": 4}, length=12)
                shown = (await service.rank("shop", asked)).ids
                ordered = [id for id in shown if id not in ("d2", "d9", "ad")]
                plain = await service.rank("plain", RankRequest(free, f"i{number}", length=len(ordered)))
                assert plain.ids == ordered
                liked = [each.id for each in free if each.features[1] < 25.0 and each.id in shown]
                await service.feedback("shop", [kit.event(number, ["ad", "d2", *liked])])
                await service.feedback("plain", [kit.event(number, liked)])
                for name in ("shop", "plain"):
                    await kit.learned(service, number + 1, name)
            found = [service.model(name).weights.tolist() for name in ("shop", "plain")]
            assert found[0] == found[1]
            assert any(found[0])
        kit.verified(storage)

    asyncio.run(main())


def test_positions_of_feedback(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(RankerSpec(**SPEC))
            await kit.until(lambda: service._rankers["shop"].machine is not None)
            asked = RankRequest(offers(Random(1), 6), "i0", fixed={"ad": 3, "d1": 5})
            shown = (await service.rank("shop", asked)).ids
            machine = service._rankers["shop"].machine
            for event, clicks, examined in (
                (FeedbackEvent("i0", ["ad"]), [], None),
                (FeedbackEvent("i0", [shown[3], "d1"]), [2], None),
                (FeedbackEvent("i0", examined=4), [2], 3),
            ):
                counts = await service.feedback("shop", [event])
                assert (counts.accepted, counts.warnings) == (1, [])
                await kit.until(lambda: kit.has_read_all(service))
                found = machine.open["i0"]
                assert (found.clicks, found.examined) == (clicks, examined)
            counts = await service.feedback("shop", [FeedbackEvent("i0", ["nowhere"])])
            assert "not shown" in counts.invalid[0].reason
            explained = await service.rank("shop", RankRequest(asked.documents, "i0", fixed=asked.fixed, explain=True))
            assert [each.id for each in explained.ranking if each.score is None] == ["ad", "d1"]
            assert [each.position for each in explained.ranking] == list(range(1, 8))
            assert service.impressions("shop")[0].shown == shown
            assert service.impressions("shop")[0].clicked == [shown[3]]

    asyncio.run(main())


@pytest.mark.parametrize("recipe", ["wmgd-dsp", "pdgd"])
def test_nothing_is_left_to_decide(storage, kit, recipe):
    """All documents are placed, or all positions that are shown."""

    async def main():
        async with kit.running(storage) as service:
            await service.create(RankerSpec(**SPEC | {"algorithm": recipe}))
            documents = offers(Random(1), 2)
            for id, asked in {
                "one": RankRequest(documents[:1], "one", fixed={"d0": 1}),
                "all": RankRequest(documents, "all", fixed={"d1": 1}, below_top={"d0": 3}),
                "top": RankRequest(documents, "top", length=1, fixed={"d1": 1}),
            }.items():
                answer = await service.rank("shop", asked)
                assert (answer.ids, answer.kind) == ({"one": ["d0"], "all": ["d1", "d0"], "top": ["d1"]}[id], "greedy")
                await service.rank(
                    "shop",
                    RankRequest(asked.documents, id, asked.length, True, fixed=asked.fixed, below_top=asked.below_top),
                )
                counts = await service.feedback("shop", [FeedbackEvent(id, [answer.ids[0]], close=True, examined=1)])
                assert counts.accepted == 1
                service.compare("shop", id)
            await kit.learned(service, 3)
            assert service.ranker("shop").skipped_by_reason == {"greedy": 3}
        kit.verified(storage)

    asyncio.run(main())


def test_what_cannot_be_placed_is_refused(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(RankerSpec(**SPEC))
            documents = offers(Random(1), 3)
            for places, message in (
                ({"fixed": {"d0": 0}}, "whole number"),
                ({"fixed": {"d0": 1, "ad": 1}}, "two documents"),
                ({"fixed": {"": 1}}, "must not be empty"),
                ({"below_top": {"ad": 1}}, "not among the documents"),
            ):
                with pytest.raises(InvalidValue, match=message):
                    await service.rank("shop", RankRequest(documents, **places))
            await service.rank("shop", RankRequest(documents, "i0", fixed={"d0": 1}))
            with pytest.raises(Conflict, match="other documents"):
                await service.rank("shop", RankRequest(documents, "i0"))

    asyncio.run(main())
