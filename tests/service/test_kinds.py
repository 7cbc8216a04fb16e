"""The kind of each list in the answer, and the reasons why closed lists were not learned from."""

import asyncio

import pytest

from duelrank.service import Observer
from duelrank.service.http.schema import Change, GuardSpec, Start

START = Start(weights={"bm25": 1.0})
WATCHED = {"start": START, "guard": GuardSpec(share=1.0)}
OWN_ORDER = {"start": START, "guard": GuardSpec(share=0.01, promote=(0.01, 1.0))}


class Reasons(Observer):
    def __init__(self) -> None:
        self.told: list[str] = []

    def skipped(self, name, reason):
        self.told.append(reason)


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ({}, "explored"),
        ({"exploration": 0.0}, "greedy"),
        ({"mode": "frozen"}, "frozen"),
        ({"mode": "shadow"}, "shadow"),
        (WATCHED, "guard"),
        (OWN_ORDER, "baseline"),
    ],
)
def test_a_list_has_one_kind_whenever_it_is_requested(storage, kit, spec, kind):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(**spec))
            first = await service.rank("shop", kit.request(1))
            assert first.kind == kind
            if kind == "frozen":
                await service.control("shop", "resume")
            assert await service.rank("shop", kit.request(1)) == first
            assert [each.kind for each in service.impressions("shop")] == [kind]
        async with kit.running(storage) as service:
            assert await service.rank("shop", kit.request(1)) == first
            assert (await service.rank("shop", kit.request(1, explain=True))).kind == kind

    asyncio.run(main())


@pytest.mark.parametrize(
    ("spec", "meanwhile", "reason"),
    [
        ({"exploration": 0.0}, None, "greedy"),
        (WATCHED, None, "guard"),
        (OWN_ORDER, None, "baseline"),
        (WATCHED | {"mode": "frozen"}, None, "guard"),
        ({"mode": "frozen"}, None, "frozen"),
        ({}, "freeze", "frozen"),
        ({}, Change(add_features=("stock",)), "old"),
    ],
)
def test_the_reason_of_a_skipped_list(storage, kit, spec, meanwhile, reason):
    observer = Reasons()

    async def main():
        async with kit.running(storage) as service:
            service.observer = observer
            await service.create(kit.spec(**spec))
            shown = (await service.rank("shop", kit.request(1))).ids
            if isinstance(meanwhile, Change):
                await service.change("shop", meanwhile)
            elif meanwhile:
                await service.control("shop", meanwhile)
            await service.feedback("shop", [kit.event(1, shown[:1])])
            await kit.until(lambda: service.ranker("shop").skipped == 1)
            assert service.ranker("shop").skipped_by_reason == {reason: 1}
            await kit.until(lambda: observer.told == [reason])
        async with kit.running(storage) as service:
            assert service.ranker("shop").skipped_by_reason == {reason: 1}

    asyncio.run(main())


def test_lists_without_feedback_are_not_skipped(storage, kit):
    clock = kit.clock()

    async def main():
        async with kit.running(storage, clock=clock) as service:
            await service.create(kit.spec(exploration=0.0))
            await service.rank("shop", kit.request(1))
            clock.advance(10_000.0)
            await kit.until(lambda: service.ranker("shop").no_feedback == 1)
            assert service.ranker("shop").skipped_by_reason == {}

    asyncio.run(main())
