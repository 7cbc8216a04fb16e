"""What users do beside clicking, with the weights that the ranker gives it."""

from __future__ import annotations

import asyncio

import pytest

from duelrank.api import Change, FeedbackEvent
from duelrank.errors import InvalidValue

SHOP = {"click": 1.0, "cart": 3.0, "purchase": 10.0, "hover": 0.25}


def test_the_heaviest_action_on_a_document_counts(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(actions=SHOP))
            shown = (await service.rank("shop", kit.request(0))).ids
            done = [("click", 0), ("purchase", 1), ("click", 1), ("hover", 2), ("cart", 0), ("hover", 3), ("click", 3)]
            for action, place in [*done, ("gift", 4)]:
                counts = await service.feedback("shop", [FeedbackEvent("i0", [shown[place]], action=action)])
                assert counts.accepted == 1, "also what weighs nothing"
            await kit.until(lambda: kit.has_read_all(service))
            found = service._rankers["shop"].machine.open["i0"]
            assert found.clicks == [0, 1, 2, 3]
            assert found.weights == {0: 3.0, 1: 10.0, 2: 0.25}
            await service.feedback("shop", [kit.event(0)])
            await kit.learned(service, 1)
        kit.verified(storage)

    asyncio.run(main())


def test_the_same_action_again_is_the_same_event_another_is_not(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(actions=SHOP))
            shown = (await service.rank("shop", kit.request(0))).ids
            events = [
                FeedbackEvent("i0", [shown[0]], action=action) for action in ("cart", "cart", "purchase", "click")
            ]
            counts = await service.feedback("shop", events)
            assert (counts.accepted, counts.duplicate) == (3, 1)

    asyncio.run(main())


def test_a_list_on_which_only_unweighed_things_happened_has_no_click(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            shown = (await service.rank("shop", kit.request(0))).ids
            await service.feedback("shop", [FeedbackEvent("i0", [shown[1]], action="gift", close=True)])
            await kit.learned(service, 1)
            assert service.ranker("shop").updates == 0

    asyncio.run(main())


def test_weights_change_for_what_comes_from_then_on(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(actions=SHOP))
            shown = (await service.rank("shop", kit.request(0))).ids
            await service.feedback("shop", [FeedbackEvent("i0", [shown[0]], action="cart")])
            info = await service.change("shop", Change(actions={"click": 1.0, "cart": 2.0}))
            assert info.actions == {"click": 1.0, "cart": 2.0}
            await service.feedback("shop", [FeedbackEvent("i0", [shown[1]], action="cart")])
            await kit.until(lambda: kit.has_read_all(service))
            assert service._rankers["shop"].machine.open["i0"].weights == {0: 3.0, 1: 2.0}
        kit.verified(storage)

    asyncio.run(main())


@pytest.mark.parametrize("actions", [{"click": 0.0}, {"click": -1.0}, {"click": float("nan")}, {"click": 1e9}])
def test_a_weight_that_makes_no_sense_is_refused(storage, kit, actions):
    async def main():
        async with kit.running(storage) as service:
            with pytest.raises(InvalidValue, match="weight of an action"):
                await service.create(kit.spec(actions=actions))

    asyncio.run(main())


@pytest.mark.parametrize("action", ["", "x" * 101, "a\nb"])
def test_an_action_without_a_proper_name_is_reported(storage, kit, action):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            shown = (await service.rank("shop", kit.request(0))).ids
            counts = await service.feedback("shop", [FeedbackEvent("i0", [shown[0]], action=action)])
            assert counts.accepted == 0
            assert "action" in counts.invalid[0].reason

    asyncio.run(main())
