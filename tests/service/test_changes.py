"""A ranker starts from what one has, changes without losing what it has learned, and is deleted with all that belongs to it."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest

from duelrank.core.errors import Conflict, InvalidRecipe, InvalidValue, ShapeMismatch, UnknownName
from duelrank.export import LinearModel
from duelrank.service.http.schema import Change, Document, DocumentTable, RankRequest, Start
from duelrank.storage import open_storage

BOUNDED = "mgd-dsp(step=NonNegative())"
BELOW_0 = json.loads(LinearModel("shop", 3, ("bm25",), [-2.0]).to_json())


def ids(answer):
    return [each.id for each in answer.ranking]


async def traffic(service, kit, numbers, name="shop", place=2):
    """Impressions, each with a click at a place, and closed."""
    for number in numbers:
        shown = ids(await service.rank(name, kit.request(number)))
        await service.feedback(name, [kit.event(number, shown[place : place + 1])])


class TestStart:
    WEIGHTS = {"bm25": 5.0, "title": -1.0}  # noqa: RUF012

    def test_the_first_impressions_are_those_of_the_given_weights(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(mode="frozen", start=Start(weights=self.WEIGHTS)))
                weights = np.array([5.0, 0.0, 0.0, -1.0])
                assert np.array_equal(service.model("shop").weights, weights)
                for number in range(5):
                    best = np.argsort(-(kit.table(number) @ weights))[:5]
                    assert ids(await service.rank("shop", kit.request(number))) == [f"d{i}" for i in best]
                assert service.ranker("shop").start == Start(weights=self.WEIGHTS)
                await service.create(kit.spec(mode="frozen", start=Start(weights=self.WEIGHTS)))
                with pytest.raises(Conflict):
                    await service.create(kit.spec(mode="frozen", start=Start(weights={"bm25": 4.0})))

        asyncio.run(main())

    def test_a_learner_continues_from_a_shadow(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec("shadow", mode="shadow"))
                await traffic(service, kit, range(10), "shadow")
                await kit.learned(service, 10, "shadow")
                before = service.ranker("shadow").model_version
                learned = service.model("shadow").weights
                await service.create(kit.spec(start=Start(ranker="shadow", version=before)))
                await service.create(
                    kit.spec("exported", start=Start(model=json.loads(service.model("shadow").to_json())))
                )
                for name in ("shop", "exported"):
                    assert np.array_equal(service.model(name).weights, learned)
                await traffic(service, kit, range(100, 110))
                await kit.learned(service, 10)
                assert not np.array_equal(service.model("shop").weights, learned)
                assert np.array_equal(service.model("shop", 1).weights, learned), "version 1 is where it started"
            for name in ("shop", "shadow", "exported"):
                kit.verified(storage, name)
            async with kit.running(storage) as service:
                assert np.array_equal(service.model("shop", 1).weights, learned), "also after a restart"

        asyncio.run(main())

    @pytest.mark.parametrize(
        ("change", "error", "says"),
        [
            ({"start": Start()}, InvalidValue, "exactly one"),
            ({"start": Start(weights={"bm25": 1.0}, ranker="other")}, InvalidValue, "exactly one"),
            ({"start": Start(weights={"bm25": 1.0}, version=2)}, InvalidValue, "version"),
            ({"start": Start(weights={"bm26": 1.0})}, InvalidValue, "did you mean bm25"),
            ({"start": Start(weights={"bm25": float("nan")})}, InvalidValue, "finite"),
            ({"start": Start(ranker="nobody")}, UnknownName, "nobody"),
            ({"start": Start(ranker="other", version=7)}, UnknownName, "version 7"),
            ({"start": Start(ranker="other"), "representation": "query-scaled"}, InvalidValue, "representation"),
            ({"start": Start(ranker="other"), "features": ("bm25",)}, InvalidValue, "no feature is called"),
            ({"start": Start(weights={"bm25": 1.0}), "algorithm": "pairrank"}, InvalidRecipe, "cannot start"),
            ({"start": Start(weights={"bm25": -0.5}), "algorithm": BOUNDED}, InvalidValue, "the weight -0.5 of 'bm25'"),
            ({"start": Start(model=BELOW_0), "algorithm": BOUNDED}, InvalidValue, "the weight -2 of 'bm25'"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, storage, kit, change, error, says):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec("other"))
                with pytest.raises(error, match=says):
                    await service.create(kit.spec(**change))
                assert len(service.rankers()) == 1

        asyncio.run(main())


class TestChange:
    def test_settings_change_and_the_weights_stay(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                await traffic(service, kit, range(10))
                await kit.learned(service, 10)
                weights = service.model("shop").weights
                now = await service.change("shop", Change(exploration=0.0, length=2, close_after=60.0))
                assert (now.exploration, now.length, now.close_after, now.mode) == (0.0, 2, 60.0, "learn")
                best = np.argsort(-(kit.table(50) @ weights))[:2]
                assert ids(await service.rank("shop", kit.request(50))) == [f"d{i}" for i in best]
                now = await service.change("shop", Change(mode="frozen"))
                assert (now.frozen, now.length) == (True, 2)
                now = await service.change("shop", Change(mode="shadow"))
                assert (now.frozen, now.mode) == (False, "shadow")
                assert ids(await service.rank("shop", kit.request(51))) == ["d0", "d1"]
                assert now.warnings, "a shadow warns of position bias"
                assert np.array_equal(service.model("shop").weights, weights)
            kit.verified(storage)
            async with kit.running(storage) as service:
                assert service.ranker("shop").mode == "shadow"
                assert service.ranker("shop").length == 2
                _, new = await service.create(kit.spec())
                assert not new, "the definition with which it was created is still known"

        asyncio.run(main())

    def test_features_come_and_go_and_the_other_weights_stay(self, storage, kit):
        def documents(names, number):
            rows = np.random.default_rng(number).random((8, len(names)))
            return [Document(f"d{i}", dict(zip(names, row, strict=True))) for i, row in enumerate(rows.tolist())]

        async def click(service, names, number):
            answer = await service.rank("shop", RankRequest(documents(names, number), f"n{number}"))
            event = kit.event(number, ids(answer)[2:3], impression_id=f"n{number}", event_id=f"n{number}")
            await service.feedback("shop", [event])

        async def main():
            names = list(kit.features)
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                await traffic(service, kit, range(10))
                await service.rank("shop", kit.request(98))  # open over the change
                await kit.learned(service, 10)
                before = dict(zip(names, service.model("shop").weights, strict=True))
                now = await service.change("shop", Change(add_features=("stock",), retire_features=("price",)))
                assert now.features == ("bm25", "age", "title", "stock")
                assert now.retired == ("price",)
                after = dict(zip(now.features, service.model("shop").weights, strict=True))
                assert after == {"bm25": before["bm25"], "age": before["age"], "title": before["title"], "stock": 0.0}
                again = await service.change("shop", Change(add_features=("stock",), retire_features=("price",)))
                assert again.features == now.features, "a request whose answer was lost may be sent again"
                with pytest.raises(ShapeMismatch):
                    await service.rank("shop", RankRequest([Document("d", [1.0] * 5)]))
                for number in range(10):
                    await click(service, [*names, "stock"], number)  # the retired one may still come, by name
                await kit.learned(service, 20)
                assert service.model("shop").weights[3] != 0.0
                shown = ids(await service.rank("shop", RankRequest(documents(names, 0)[:8], "i98")))
                await service.feedback("shop", [kit.event(98, shown[:1])])
                await kit.until(lambda: service.ranker("shop").skipped == 1)
                rolled = await service.control("shop", "rollback", 1)
                assert not service.model("shop", rolled.model_version).weights.any()
            kit.verified(storage)
            async with kit.running(storage) as service:
                assert service.ranker("shop").features == ("bm25", "age", "title", "stock")
                await click(service, ["stock"], 50)
                await kit.learned(service, 22)
            kit.verified(storage)

        asyncio.run(main())

    @pytest.mark.parametrize(
        ("change", "error", "says"),
        [
            (Change(exploration=2.0), InvalidValue, "exploration"),
            (Change(length=0), InvalidValue, "length"),
            (Change(add_features=("new",), retire_features=("new",)), InvalidValue, "at once"),
            (Change(retire_features=("bm26",)), UnknownName, "did you mean bm25"),
            (Change(retire_features=("bm25", "price", "age", "title")), InvalidValue, "at least one feature"),
            (Change(add_features=("a\0b",)), InvalidValue, "can be printed"),
            (Change(actions={"": 1.0}), InvalidValue, "the name of an action has"),
        ],
    )
    def test_what_makes_no_sense_is_refused_and_changes_nothing(self, storage, kit, change, error, says):
        async def main():
            async with kit.running(storage) as service:
                before, _ = await service.create(kit.spec(representation="curves"))
                with pytest.raises(error, match=says):
                    await service.change("shop", change)
                assert service.ranker("shop") == before

        asyncio.run(main())

    def test_two_changes_at_once_do_not_undo_each_other(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                await asyncio.gather(
                    service.change("shop", Change(exploration=0.5)),
                    service.change("shop", Change(length=3)),
                    service.change("shop", Change(add_features=("stock",))),
                    service.change("shop", Change(add_features=("stock",))),
                )
                now = service.ranker("shop")
                assert (now.exploration, now.length, now.features[-1]) == (0.5, 3, "stock")
                assert now.features.count("stock") == 1
            kit.verified(storage)

        asyncio.run(main())


class TestDelete:
    def test_nothing_is_left_and_the_name_is_free(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                await service.create(kit.spec("other"))
                await traffic(service, kit, range(10))
                await traffic(service, kit, range(10), "other")
                await kit.learned(service, 10)
                await kit.learned(service, 10, "other")
                await service.delete("shop")
                with pytest.raises(UnknownName, match="shop"):
                    await service.rank("shop", kit.request(1))
                with pytest.raises(UnknownName):
                    await service.delete("shop")
                await kit.until(lambda: not storage.log.read(0, 10, "shop"))
                await kit.until(lambda: not storage.snapshots.list("shop", "version"))
                assert not storage.snapshots.list("shop", "checkpoint")
                _, new = await service.create(kit.spec(seed=9))
                assert new, "the name is free"
                assert service.ranker("shop").impressions == 0
                await traffic(service, kit, range(5))  # ids of the earlier life count as new ones
                await kit.learned(service, 5)
                assert service.ranker("shop").learned == 5
                assert service.ranker("other").learned == 10
            for name in ("shop", "other"):
                kit.verified(storage, name)
            async with kit.running(storage) as service:
                assert service.ranker("shop").learned == 5

        asyncio.run(main())

    def test_what_a_leader_left_undone_the_next_one_does(self, sqlite_url, kit, monkeypatch):
        async def first(storage):
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                await traffic(service, kit, range(5))
                await kit.learned(service, 5)
            # As if killed: the deletion is in the log, and nobody has come to it.
            from duelrank.service.log import DELETED, RANKERS, Deleted, pack
            from duelrank.storage import NewEvent

            number = storage.log.find(RANKERS, "created", ["shop"])["shop"].number
            storage.log.append([NewEvent(RANKERS, DELETED, f"shop/{number}", 0.0, pack(Deleted("shop", number)))])

        async def second(storage):
            async with kit.running(storage) as service:
                assert service.rankers() == []
                assert not storage.log.read(0, 10, "shop")
                assert not storage.snapshots.list("shop", "version")
                assert (await service.create(kit.spec()))[1]

        with open_storage(sqlite_url) as storage:
            asyncio.run(first(storage))
        with open_storage(sqlite_url) as storage:
            asyncio.run(second(storage))


class TestCompactDocuments:
    @pytest.mark.parametrize("kind", ["float32", "float64"])
    def test_a_table_means_the_same_as_documents(self, storage, kit, kind):
        table = kit.table(1).astype(kind)

        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                documents = [Document(f"d{i}", row) for i, row in enumerate(table.astype(float).tolist())]
                one = await service.rank("shop", RankRequest(documents, "i1"))
                compact = DocumentTable([f"d{i}" for i in range(8)], table.tobytes(), kind)
                assert await service.rank("shop", RankRequest(compact, "i1")) == one
                other = await service.rank("shop", RankRequest(compact, "i2"))
                assert set(ids(other)) <= {f"d{i}" for i in range(8)}
                stored = [kit.recent(service, id).attachment for id in ("i1", "i2")]
                assert stored[0] == stored[1]
                with pytest.raises(ShapeMismatch, match="bytes"):
                    await service.rank("shop", RankRequest(DocumentTable(["d0"], table.tobytes(), kind)))

        asyncio.run(main())

    def test_single_precision_is_ranked_as_it_is_kept(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(precision="float32"))
                await traffic(service, kit, range(10))
                await kit.learned(service, 10)
                with pytest.raises(InvalidValue, match="float32"):
                    await service.rank("shop", RankRequest([Document("d", [1e300, 0.0, 0.0, 0.0])]))
            kit.verified(storage)

        asyncio.run(main())


def test_an_impression_id_that_comes_again_with_other_documents_is_a_conflict(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            first = await service.rank("shop", kit.request(1))
            with pytest.raises(Conflict, match="other documents"):
                await service.rank("shop", kit.request(1, n_documents=7))
            shuffled = kit.request(1)
            assert await service.rank("shop", RankRequest(shuffled.documents[::-1], "i1")) == first
        async with kit.running(storage) as service:
            with pytest.raises(Conflict, match="other documents"):
                await service.rank("shop", kit.request(1, n_documents=7))

    asyncio.run(main())


def test_an_event_id_that_was_used_for_another_impression_does_nothing(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            shown = {number: ids(await service.rank("shop", kit.request(number))) for number in (1, 2)}
            await service.feedback("shop", [kit.event(1, shown[1][:1], event_id="e")])
            again = await service.feedback("shop", [kit.event(2, shown[2][:1], event_id="e")])
            assert (again.accepted, again.duplicate) == (0, 1)
            await kit.learned(service, 1)
            assert service.ranker("shop").open == 1, "it was not closed"
            real = await service.feedback("shop", [kit.event(2, shown[2][:1])])
            assert real.accepted == 1
            await kit.learned(service, 2)
            assert service.ranker("shop").learned == 2
        kit.verified(storage)

    asyncio.run(main())
