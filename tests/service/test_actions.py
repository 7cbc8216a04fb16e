"""What users do beside clicking, with the weights that the ranker gives it."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from duelrank.core.errors import InvalidValue
from duelrank.evidence.guard import BASELINE, LEARNED
from duelrank.service.definition import unpack_teams
from duelrank.service.http.schema import Change, FeedbackEvent, GuardSpec, Start

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


def test_in_a_guard_list_a_purchase_beats_clicks(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            for name, actions in (
                ("clicks", {"click": 1.0, "purchase": 1.0}),
                ("money", {"click": 1.0, "purchase": 9.0}),
            ):
                guard = GuardSpec(share=1.0)
                await service.create(kit.spec(name, actions=actions, guard=guard, start=Start({"bm25": 1.0})))
                decided = 0
                for number in range(20):
                    shown = (await service.rank(name, kit.request(number))).ids
                    await kit.until(lambda: kit.has_read_all(service))
                    teams = unpack_teams(service._rankers[name].machine.open[f"i{number}"].teams)
                    own, other = np.flatnonzero(teams == LEARNED), np.flatnonzero(teams == BASELINE)
                    if len(own) >= 2 and len(other) >= 1:  # two clicks for the one, a purchase for the other
                        decided += 1
                        clicks, bought = [shown[each] for each in own[:2]], [shown[other[0]]]
                        both = [
                            FeedbackEvent(f"i{number}", clicks),
                            FeedbackEvent(f"i{number}", bought, action="purchase"),
                        ]
                        await service.feedback(name, both)
                    await service.feedback(name, [FeedbackEvent(f"i{number}", close=True)])
                await kit.until(lambda name=name: service.guard(name).lists == 20)
                info = service.guard(name)
                assert decided > 5
                assert (info.wins, info.losses) == ((decided, 0) if name == "clicks" else (0, decided))
                kit.verified(storage, name)

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
