"""Pages of one impression, and documents that vanish before they are shown: only what was shown is learned from."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from duelrank.algorithms import Algorithm
from duelrank.core.errors import InvalidRecipe, InvalidValue, UnknownName
from duelrank.core.grammar import parse
from duelrank.core.randomness import stream
from duelrank.core.registry import aliases, spell
from duelrank.core.types import Feedback, Query
from duelrank.kernels.random import derive
from duelrank.service import log
from duelrank.service.http.schema import FeedbackEvent, GuardSpec, PageRequest

RECIPES = ["wmgd-dsp", "pdgd", "thompson-pairs", "nsgd", "MGD(multileaver=TeamDraft())", "curves >> wmgd-dsp"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_only_returned_pages_are_learned_from(storage, kit, recipe):
    """A list of 12 of which 4 or 8 were returned is learned from as a list of 4 or 8."""

    async def main():
        async with kit.running(storage) as service:
            for name in ("shop", "plain"):
                await service.create(kit.spec(name, recipe))
            for number in range(24):
                request = kit.request(number, 12, length=12, page=4)
                first = await service.rank("shop", request)
                assert (len(first.ids), first.prepared) == (4, 12)
                assert (await service.rank("shop", request)).ids == first.ids
                shown, length = first.ids, 4
                if number % 2:
                    second = await service.page("shop", PageRequest(request.impression_id, 5, 4))
                    assert [each.position for each in second.ranking] == [5, 6, 7, 8]
                    assert (await service.page("shop", PageRequest(request.impression_id, 5, 4))) == second
                    shown, length = [*shown, *second.ids], 8
                plain = await service.rank("plain", kit.request(number, 12, length=length))
                assert plain.ids == shown
                clicks = [shown[number % length]]
                for name in ("shop", "plain"):
                    await service.feedback(name, [kit.event(number, clicks)])
                    await kit.learned(service, number + 1, name)
            found = [service.model(name).weights.tolist() for name in ("shop", "plain")]
            assert found[0] == found[1]
            assert any(found[0])
            kinds = [event.kind for event in storage.log.read(0, 10_000, "shop")]
            assert kinds.count(log.PAGE) == 12
        kit.verified(storage)

    asyncio.run(main())


@pytest.mark.parametrize("recipe", sorted(aliases(Algorithm)))
def test_a_shorter_list_is_the_beginning_of_a_longer_one(recipe):
    """So a list of which only the first pages were shown is made again as one of their length."""
    algorithm = parse(recipe, Algorithm)
    if algorithm.per_query:
        pytest.skip("the service does not serve it")
    state = algorithm.start(3, stream(1, "start"))
    for number in range(10):
        query = Query("q", np.random.default_rng(number).random((9, 3)))
        long, short = (algorithm.rank(state, query, n, stream(2, "rank", number)).ranking for n in (9, 4))
        assert long[:4].tolist() == short.tolist(), spell(algorithm)


def test_pages_clicks_and_closing(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            await kit.until(lambda: service._rankers["shop"].machine is not None)
            await service.rank("shop", kit.request(0, 8, length=8, page=3))
            ids = (await service.page("shop", PageRequest("i0", 1, 100))).ids
            assert sorted(ids) == [f"d{row}" for row in range(8)]
            assert (await service.page("shop", PageRequest("i0", 9))).ids == []
            await service.rank("shop", kit.request(1, 8, length=8, page=3))
            whole = storage.log.find("shop", log.IMPRESSION, ["i1"])["i1"]
            listed = log.unpack(whole.body, log.StoredImpression).ids
            machine = service._rankers["shop"].machine
            await service.feedback("shop", [FeedbackEvent("i1", [listed[5]])])  # of a page that nobody has asked for
            await kit.until(lambda: kit.has_read_all(service))
            assert machine.open["i1"].length == 6
            await service.feedback("shop", [FeedbackEvent("i1", close=True)])
            last = storage.log.last_number()
            assert (await service.page("shop", PageRequest("i1", 7, 2))).ids == listed[6:]
            assert storage.log.last_number() == last, "it is closed"
            for request, message in ((PageRequest("i0", 0), "start"), (PageRequest("i0", 1, 0), "size")):
                with pytest.raises(InvalidValue, match=message):
                    await service.page("shop", request)
            with pytest.raises(UnknownName, match="not known"):
                await service.page("shop", PageRequest("i9", 1))
            with pytest.raises(InvalidValue, match="page"):
                await service.rank("shop", kit.request(2, page=0))
            plain = await service.rank("shop", kit.request(3))
            assert (await service.page("shop", PageRequest("i3", 2, 2))).ids == plain.ids[1:3]
        kit.verified(storage)

    asyncio.run(main())


def test_pages_with_placed_documents_and_a_guard(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(guard=GuardSpec(share=0.5, promote=(1.0,)), imitate=0))
            await kit.until(lambda: service._rankers["shop"].machine is not None)
            machine, kinds = service._rankers["shop"].machine, set()
            for number in range(40):
                request = kit.request(number, 9, length=10, page=2, fixed={"ad": 1, "d3": 2, "late": 5})
                first = await service.rank("shop", request)
                assert first.ids == ["ad", "d3"]
                kinds.add(first.kind)
                await kit.until(lambda: kit.has_read_all(service))
                assert machine.open[f"i{number}"].length == 0
                clicks = ["ad"]
                if number % 2:
                    second = await service.page("shop", PageRequest(f"i{number}", 3, 3))
                    assert second.ids[2] == "late"
                    await kit.until(lambda: kit.has_read_all(service))
                    assert machine.open[f"i{number}"].length == 2
                    clicks.append(second.ids[1])
                await service.feedback("shop", [kit.event(number, clicks, user_id=f"u{number}")])
            await kit.learned(service, 40)
            assert kinds == {"explored", "guard"}
            assert service.ranker("shop").updates > 0
            assert service.guard("shop").lists > 0
        kit.verified(storage)

    asyncio.run(main())


@pytest.mark.parametrize("recipe", RECIPES)
def test_removed_documents_are_not_learned_from(storage, kit, recipe):
    """A document that was sold out is not one that nobody wanted."""

    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(algorithm=recipe))
            await kit.until(lambda: service._rankers["shop"].machine is not None)
            machine, definition = service._rankers["shop"].machine, service._rankers["shop"].created
            for number in range(12):
                shown = (await service.rank("shop", kit.request(number))).ids
                await service.feedback("shop", [FeedbackEvent(f"i{number}", removed=[shown[0], shown[3], "nowhere"])])
                await kit.learned(service, number)
                before = machine.state
                await service.feedback("shop", [kit.event(number, [shown[2], shown[3]])])
                await kit.learned(service, number + 1)
                body = kit.recent(service, f"i{number}").body
                learns = derive(definition.learn_key, before.step)
                kept = [1, 2, 3, 4]  # the one at 3 was clicked, so it was there
                try:
                    made = definition.rebuild(
                        machine.state_of(body.version), f"i{number}", body.only(kept), kit.table(number)
                    )
                    feedback = Feedback([False, True, True, False])
                except InvalidRecipe:  # it learns only from lists as it has made them
                    made = definition.rebuild(machine.state_of(body.version), f"i{number}", body, kit.table(number))
                    feedback = Feedback([False, False, True, True, False])
                assert (
                    definition.algorithm.learn(before, made, feedback, learns).weights.tolist()
                    == machine.state.weights.tolist()
                )
            assert service.ranker("shop").failed == 0
            step = None if not definition.algorithm.linear else service.last_step("shop")
            assert step is None or len(step.documents) in (4, 5)
        kit.verified(storage)

    asyncio.run(main())


def test_removed_documents_shift_what_was_examined(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(actions={"click": 1.0, "cart": 5.0}))
            shown = (await service.rank("shop", kit.request(0))).ids
            events = [
                FeedbackEvent("i0", examined=4),
                FeedbackEvent("i0", removed=[shown[1]]),
                FeedbackEvent("i0", removed=[shown[4]]),
                FeedbackEvent("i0", [shown[2]], action="cart", close=True),
            ]
            counts = await service.feedback("shop", events)
            assert (counts.accepted, counts.warnings, counts.invalid) == (4, [], [])
            await kit.learned(service, 1)
            step = service.last_step("shop")
            assert [each.id for each in step.documents] == [shown[0], shown[2], shown[3]]
            assert [each.clicked for each in step.documents] == [False, True, False]
        kit.verified(storage)

    asyncio.run(main())


def test_a_list_that_vanished_as_a_whole(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            shown = (await service.rank("shop", kit.request(0))).ids
            await service.feedback("shop", [FeedbackEvent("i0", removed=shown, close=True)])
            await kit.learned(service, 1)
            info = service.ranker("shop")
            assert (info.updates, info.learned, info.no_feedback, info.model_version) == (0, 0, 1, 1)
            with pytest.raises(UnknownName, match="learned from no impression"):
                service.last_step("shop")
        kit.verified(storage)

    asyncio.run(main())
