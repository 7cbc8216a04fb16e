"""A guarded ranker without start weights first shows the order that the client sends, and learns to imitate it."""

from __future__ import annotations

import asyncio
import logging

import msgspec
import numpy as np
import pytest

from duelrank import Learner, Query
from duelrank.adapters.backfill import IMITATE, LogLearner
from duelrank.core.errors import Conflict, InvalidRecipe, InvalidValue
from duelrank.core.randomness import stream_key
from duelrank.evidence import GuardSpec
from duelrank.kernels.random import derive
from duelrank.service.definition import BASELINE, GUARD, RankerSpec, Start, normalized
from duelrank.service.http import schema
from duelrank.service.http.schema import Change, Document, LoggedImpression, RankRequest
from duelrank.service.log import CREATED, FAILED, IMPRESSION, RANKERS, StoredImpression, pack, unpack
from duelrank.service.replay import replay
from duelrank.storage import NewEvent

ALL = GuardSpec(share=1.0)


def rows(kit, number: int) -> list[list[float]]:
    """The documents of a list in the order of the client, which sorts by the first feature."""
    table = kit.table(number)
    return table[np.argsort(-table[:, 0])].tolist()


def request(kit, number: int) -> RankRequest:
    documents = [Document(f"d{place}", features) for place, features in enumerate(rows(kit, number))]
    return RankRequest(documents, impression_id=f"i{number}")


async def show(service, kit, numbers) -> list[list[str]]:
    """Rank lists, click on the last document of each, and wait until they are closed."""
    shown = []
    for number in numbers:
        ids = (await service.rank("shop", request(kit, number))).ids
        await service.feedback("shop", [kit.event(number, ids[-1:])])
        await kit.until(lambda: service._rankers["shop"].machine is not None)
        shown.append(ids)
    await kit.learned(service, numbers[-1] + 1)
    return shown


def kinds(storage) -> list[int]:
    events = storage.log.read(0, 10_000, "shop")
    return [unpack(each.body, StoredImpression).list_kind for each in events if each.kind == IMPRESSION]


OWN = [f"d{place}" for place in range(5)]


@pytest.mark.parametrize("representation", ["raw", "curves"])
def test_users_see_the_own_order_until_it_is_imitated(storage, kit, representation):
    async def main():
        spec = kit.spec(guard=ALL, imitate=60, representation=representation)
        async with kit.running(storage) as service:
            assert (await service.create(spec))[0].warnings == (), "it is no cold start"
            info = service.guard("shop")
            assert (info.phase, info.imitated, info.imitate, info.learned_share) == ("imitating", 0, 60, 0.0)
            assert await show(service, kit, range(25)) == [OWN] * 25
            info = service.guard("shop")
            assert (info.phase, info.imitated, info.lists) == ("imitating", 25, 0)
            assert "25 of 60 lists" in info.summary
        async with kit.running(storage) as service:  # the next process continues
            assert await show(service, kit, range(25, 60)) == [OWN] * 35
            info = service.guard("shop")
            assert (info.phase, info.imitated, info.learned_share) == ("climbing", 60, 0.5)
            ranker = service.ranker("shop")
            assert (ranker.skipped, ranker.learned, ranker.imitated, ranker.updates) == (60, 0, 60, 0)
            definition, state = (version := service._rankers["shop"].version).definition, version.state
            agree = [
                np.mean(np.argsort(definition.best(state, "", np.array(rows(kit, number)))) == np.arange(8))
                for number in range(200, 240)
            ]
            assert np.mean(agree) > 0.5, "one in eight by chance"
            await show(service, kit, range(60, 70))
            assert service.guard("shop").lists == 10
        assert kinds(storage) == [BASELINE] * 60 + [GUARD] * 10
        kit.verified(storage)

    asyncio.run(main())


def test_the_log_says_when_it_ends(storage, kit, caplog):
    caplog.set_level(logging.INFO, "duelrank.service")

    def said() -> list[str]:
        return [each.getMessage() for each in caplog.records if "imitated" in each.getMessage()]

    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(guard=ALL, imitate=3))
            await show(service, kit, range(2))
            assert said() == []
            await show(service, kit, range(2, 3))
            await kit.until(said)
        assert said() == ["'shop' has imitated your order for 3 lists, and decides lists from here on"]

    asyncio.run(main())


@pytest.mark.parametrize("representation", ["raw", "curves"])
def test_the_service_imitates_as_the_library_does(storage, kit, representation):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(guard=ALL, imitate=30, representation=representation))
            await show(service, kit, range(30))
            return service.model("shop").weights

    learner = Learner(f"{representation} >> mgd-dsp", n_features=4, seed=7)
    teacher, key = LogLearner(learner.algorithm), stream_key(7, "log")
    logged = teacher.start(learner.state)
    for number in range(30):
        logged = teacher.imitate(logged, Query("", rows(kit, number)), np.arange(8), derive(key, number))
    assert np.array_equal(asyncio.run(main()), teacher.handed_over(learner.state, logged).weights)


def test_who_imitates_and_how_long():
    def resolved(algorithm="mgd-dsp", **given) -> int:
        return normalized(RankerSpec("shop", algorithm, ("a", "b"), **given)).imitate

    assert resolved(guard=GuardSpec()) == IMITATE
    assert resolved(guard=GuardSpec(), start=Start({"a": 1.0})) == 0
    assert resolved(guard=GuardSpec(), mode="frozen") == 0
    assert resolved() == 0, "without a guard, the order of the client may mean nothing"
    assert resolved(imitate=7) == 7
    assert resolved("pairrank", guard=GuardSpec()) == 0, "it could not take over the weights"


def test_what_cannot_imitate_is_refused(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            with pytest.raises(InvalidRecipe, match=r"pairrank .* cannot imitate your order first; give imitate=0"):
                await service.create(kit.spec(algorithm="pairrank", imitate=10))
            with pytest.raises(InvalidValue, match="imitate"):
                await service.create(kit.spec(imitate=-1))
            await service.create(kit.spec(imitate=3))  # without a guard, if it is asked to
            assert (await show(service, kit, range(3))) == [OWN] * 3
            await show(service, kit, range(3, 13))
            assert service.ranker("shop").learned == 10

    asyncio.run(main())


def test_the_lists_of_a_log_count(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(guard=ALL, imitate=20))
            log = [LoggedImpression(f"l{n}", request(kit, n).documents, clicks=["d0"]) for n in range(15)]
            await service.backfill("shop", log)
            await kit.until(lambda: service.ranker("shop").backfilled == 15)
            assert service.guard("shop").imitated == 15
            await show(service, kit, range(8))
            info = service.guard("shop")
            assert (info.phase, info.imitated) == ("climbing", 20)
            await service.backfill("shop", [LoggedImpression("late", log[0].documents, clicks=["d0"])])
            await kit.until(lambda: service.ranker("shop").backfilled == 16)
            assert service.guard("shop").imitated == 20
        kit.verified(storage)

    asyncio.run(main())


def test_a_ranker_that_neither_imitates_nor_has_a_log_is_a_cold_start(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            info, _ = await service.create(kit.spec(guard=ALL, imitate=0))
            assert "let it imitate your order first" in info.warnings[0]
            await service.backfill("shop", [LoggedImpression("l1", request(kit, 1).documents, clicks=["d0"])])
            await kit.until(lambda: service.ranker("shop").backfilled == 1)
            assert service.ranker("shop").warnings == ()
            assert service.ranker("shop").imitated == 0

    asyncio.run(main())


def test_frozen_it_shows_the_own_order_and_learns_nothing(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(guard=ALL, imitate=20))
            await show(service, kit, range(5))
            await service.control("shop", "freeze")
            assert await show(service, kit, range(5, 30)) == [OWN] * 25
            assert service.guard("shop").imitated == 5
            await service.control("shop", "resume")
            await show(service, kit, range(30, 45))
            assert service.guard("shop").phase == "climbing"
        kit.verified(storage)

    asyncio.run(main())


def test_other_features_and_a_list_that_fails(storage, kit):
    """What was learned is kept by name; a list from which nothing can be learned counts, so that the phase ends."""

    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(guard=ALL, imitate=20))
            await show(service, kit, range(5))
            await service.change("shop", Change(add_features=("new",)))
            before = service.model("shop").weights
            assert before[0] > 0.0 == before[4]
            machine = service._rankers["shop"].machine
            learner = machine.definition.log_learner
            learner.imitate = lambda *_: (_ for _ in ()).throw(ArithmeticError("broken"))
            documents = [Document(f"d{place}", [*each, 0.0]) for place, each in enumerate(rows(kit, 5))]
            await service.rank("shop", RankRequest(documents, impression_id="i5"))
            await kit.until(lambda: service.guard("shop").imitated == 6)
            del learner.imitate
            assert service.ranker("shop").failed == 1
            assert np.array_equal(service.model("shop").weights, before)
        assert [each.kind for each in storage.log.read(0, 1000, "shop")].count(FAILED) == 1
        assert (replayed := replay(storage, "shop")).difference is None
        assert replayed.failed == 1

    asyncio.run(main())


OLD_GUARD = {"share": 0.1, "false_alarm_every": 1e6, "margin": 0.0, "on_alarm": "baseline", "promote": [0.1, 0.5, 1.0],
             "webhook": None, "anonymous": "count"}  # fmt: skip


def test_a_guarded_ranker_of_an_earlier_version_keeps_its_settings(storage, kit):
    """It was created with other defaults, and without a phase of imitation; its creation can be repeated as it was."""
    spec = {
        "name": "shop",
        "algorithm": "mgd-dsp",
        "features": list(kit.features),
        "representation": "raw",
        "guard": OLD_GUARD,
    }
    storage.log.append([NewEvent(RANKERS, CREATED, "shop", 1.0, pack([spec]))])

    async def main():
        async with kit.running(storage) as service:
            info = service.ranker("shop")
            assert msgspec.to_builtins(info.guard) == OLD_GUARD | {"promote": (0.1, 0.5, 1.0)}
            assert (info.imitate, service.guard("shop").phase, service.guard("shop").learned_share) == (
                0,
                "climbing",
                0.1,
            )
            same = schema.RankerSpec("shop", "mgd-dsp", kit.features, representation="raw", guard=schema.GuardSpec())
            assert (await service.create(same))[1] is False
            for other in (schema.GuardSpec(share=0.3), schema.GuardSpec(promote=(1.0,)), None):
                with pytest.raises(Conflict, match="another spec"):
                    await service.create(msgspec.structs.replace(same, guard=other))

    asyncio.run(main())
