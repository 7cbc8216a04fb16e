"""Rankers whose curves grow while they serve: what they see of features is theirs, written down, replayed and taken back."""

from __future__ import annotations

import asyncio
import json
from contextlib import nullcontext
from unittest.mock import patch

import numpy as np
import pytest

from duelrank.core.errors import Conflict, InvalidRecipe, InvalidValue
from duelrank.core.memory import flatten
from duelrank.representation import curves as learning
from duelrank.representation.base import knots_of
from duelrank.service.definition import Definition
from duelrank.service.http.schema import Change, Document, RankerSpec, RankRequest, Start
from duelrank.service.leader import Term
from duelrank.service.log import CREATED, RANKERS, Created, unpack
from duelrank.service.machine import learned_state
from duelrank.service.rankers import VersionStore, newest_checkpoint
from duelrank.storage import open_storage

CURVES = ["ramps", "query-scaled >> ramps", "query-scaled >> curves", "steps", "distribution"]


def ids(answer):
    return [each.id for each in answer.ranking]


def table(number):
    """Documents whose features have scales of their own, which drift: knots have to move."""
    rows = np.random.default_rng((2, number)).lognormal(size=(8, 4))
    return rows * [1.0, 100.0, 0.01, 1.0] + [0.0, 3.0 * number, 0.0, 0.0]


def request(number, **others):
    documents = [Document(f"d{row}", features) for row, features in enumerate(table(number).tolist())]
    return RankRequest(documents, **{"impression_id": f"i{number}"} | others)


async def traffic(service, kit, numbers, name="shop"):
    for number in numbers:
        shown = ids(await service.rank(name, request(number)))
        await service.feedback(name, [kit.event(number, shown[1:3])])


def state_of(service, name="shop"):
    return service._rankers[name].version.state


def learned(service, name="shop"):
    """The state of the learner, which has a sample of documents; versions have none."""
    return service._rankers[name].machine.state


def seen(state):
    return state.memory["representation"]


class TestSpecs:
    def test_the_default_is_written_down_and_a_later_one_changes_nothing(self, storage, kit):
        spec = kit.spec(representation=None)

        async def main():
            async with kit.running(storage) as service:
                made, _ = await service.create(spec)
                assert made.representation == "curves"
                with patch("duelrank.service.definition.DEFAULT_REPRESENTATION", "query-scaled >> ramps"):
                    again, new = await service.create(spec)
                    assert (again.representation, new) == ("curves", False)
                    other, _ = await service.create(kit.spec("other", representation=None))
                    assert other.representation == "query-scaled >> ramps"
                    follows, _ = await service.create(kit.spec("exact", "pairrank", representation=None))
                    assert follows.representation == "query-scaled", "what it sees must never change"
            created = unpack(storage.log.find(RANKERS, CREATED, ["shop"])["shop"].body, Created)
            assert created.spec.representation == "curves"

        asyncio.run(main())

    def test_fixed_scalings_go_by_name(self, storage, kit):
        fixed = {"kind": "fixed", "features": {"price": {"min_max": {"minimum": 0, "maximum": 900}}}}

        async def main():
            async with kit.running(storage) as service:
                names = kit.spec().features
                await service.create(kit.spec(representation=fixed))
                more = (*names[::-1], "new")
                heir, _ = await service.create(
                    kit.spec("heir", representation=None, features=more, start=Start(ranker="shop"))
                )
                assert heir.representation == fixed
                with pytest.raises(Conflict):
                    await service.create(kit.spec(representation=None, features=more))
                by_position = f"Fixed(({', '.join('MinMax(0.0, 9.0)' for _ in names)},)) >> curves"
                with pytest.raises(InvalidRecipe, match="by position"):
                    await service.create(kit.spec("other", representation=by_position))

        asyncio.run(main())

    def test_initial_weights_need_a_representation(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                weights = Start(weights={"price": -2.0})
                with pytest.raises(InvalidValue, match='"raw" for the values of the request'):
                    await service.create(kit.spec(representation=None, start=weights))
                await service.create(kit.spec(representation="raw", start=weights))
                heir, _ = await service.create(kit.spec("heir", representation=None, start=Start(ranker="shop")))
                assert heir.representation == "raw", "that of what it starts from"

        asyncio.run(main())

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            ({"algorithm": "query-scaled >> ramps(pieces=8) >> mgd-dsp"}, "query-scaled >> ramps(pieces=8)"),
            ({"representation": "query-scaled>>ramps(pieces=8)"}, "query-scaled >> ramps(pieces=8)"),
        ],
    )
    def test_it_can_be_said_in_several_ways(self, storage, kit, given, text):
        async def main():
            async with kit.running(storage) as service:
                made, _ = await service.create(kit.spec(**given))
                assert (made.algorithm, made.representation) == ("mgd-dsp", text)
                _, new = await service.create(kit.spec(representation=text))
                assert not new, "it means the same"
                with pytest.raises(Conflict):
                    await service.create(kit.spec(representation="query-ranks"))

        asyncio.run(main())

    def test_a_representation_within_a_recipe_is_refused(self):
        with pytest.raises(InvalidRecipe, match="before the whole algorithm"):
            Definition(RankerSpec("shop", "Projected(base=query-scaled >> mgd)", ("a",), representation="raw"), 0.0)

    def test_fixed_scalings_lose_what_is_retired(self, storage, kit):
        def scaled(*names):
            return {
                "kind": "fixed",
                "features": {name: {"min_max": {"minimum": 0.0, "maximum": 9.0}} for name in names},
            }

        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(representation=scaled("bm25", "price")))
                now = await service.change("shop", Change(retire_features=("price",), add_features=("stock",)))
                assert now.representation == scaled("bm25")
            kit.verified(storage)

        asyncio.run(main())


class TestLearning:
    @pytest.mark.parametrize("representation", CURVES)
    @pytest.mark.parametrize("algorithm", ["mgd-dsp", "pdgd"])
    def test_curves_grow_over_restarts_and_are_replayed_to_the_bit(self, sqlite_url, kit, representation, algorithm):
        """Some lists are open while knots move, and learned from with those that they were made with."""
        spec, rounds, late = kit.spec(algorithm=algorithm, representation=representation), [], {}

        async def life(storage, numbers):
            async with kit.running(storage) as service:
                await service.create(spec)
                for number in numbers:
                    made_by = state_of(service)
                    shown = ids(await service.rank("shop", request(number)))
                    if number % 10 == 7:
                        late[number] = made_by, shown
                        continue
                    await service.feedback("shop", [kit.event(number, shown[1:3])])
                    rounds.append((f"i{number}", table(number), made_by, [1, 2], None))
                    if number % 10 == 5 and number - 18 in late:
                        made_by, shown = late.pop(number - 18)
                        await service.feedback("shop", [kit.event(number - 18, shown[:1])])
                        rounds.append((f"i{number - 18}", table(number - 18), made_by, [0], None))
                    await kit.learned(service, len(rounds))
                return learned(service)

        for begin in range(0, 75, 25):
            killed = begin == 25  # the log is there, and nothing was written down at the end
            with open_storage(sqlite_url) as storage, patch.object(Term, "finish") if killed else nullcontext():
                state = asyncio.run(life(storage, range(begin, begin + 25)))
        kept_open = [made for _, _, made, places, _ in rounds if places == [0]]
        assert any(not np.array_equal(knots_of(seen(made)), knots_of(seen(state))) for made in kept_open)
        by_hand = kit.plain(spec, rounds)
        assert by_hand == state
        with open_storage(sqlite_url) as storage:
            assert kit.verified(storage).learned == len(rounds)

    def test_a_late_list_is_learned_with_the_knots_it_was_made_with(self, storage, kit):
        """And not with those of today, which would have made another list."""

        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(representation="ramps", algorithm="pdgd"))
                await traffic(service, kit, range(10))
                await kit.learned(service, 10)
                before, shown = state_of(service), ids(await service.rank("shop", request(90)))
                await traffic(service, kit, range(10, 35))
                await kit.learned(service, 35)
                definition, now = service._rankers["shop"].version.definition, state_of(service)
                assert len(before.weights) < len(now.weights)
                await service.feedback("shop", [kit.event(90, shown[2:3])])
                await kit.learned(service, 36)
                after = state_of(service)
                moved = definition.distance(now, after)
                assert 0.0 < moved < 1.0
                one = definition.rebuild(before, "i90", kit.recent(service, "i90").body, table(90))
                other = definition.rebuild(now, "i90", kit.recent(service, "i90").body, table(90))
                assert one.trace["knots"].shape != other.trace["knots"].shape
            kit.verified(storage)

        asyncio.run(main())

    def test_a_version_with_other_knots_is_restored_with_them(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(representation="query-scaled >> ramps", algorithm="pdgd"))
                await traffic(service, kit, range(20))
                await kit.learned(service, 20)
                old, version = state_of(service), service.ranker("shop").model_version
                curves = service.curves("shop").curves
                await traffic(service, kit, range(20, 40))
                await kit.learned(service, 40)
                grown = learned(service)
                assert len(grown.weights) > len(old.weights)
                await service.control("shop", "rollback", version)
                now = learned(service)
                assert np.array_equal(now.weights, old.weights)
                assert np.array_equal(knots_of(seen(now)), knots_of(seen(old)))
                assert (now.step, now.updates) == (grown.step, grown.updates)
                assert np.array_equal(seen(now)["sample"], seen(grown)["sample"]), "what was seen stays"
                back = {each.name: each.heights for each in service.curves("shop").curves}
                assert back == {each.name: each.heights for each in curves}
                await traffic(service, kit, range(40, 70))
                await kit.learned(service, 70)
                assert service.ranker("shop").failed == 0
                assert len(state_of(service).weights) > len(old.weights), "it grows again"
                await service.control("shop", "rollback", 1)
                assert not state_of(service).weights.any()
            kit.verified(storage)

        asyncio.run(main())

    def test_versions_leave_out_what_only_learning_needs(self, storage, kit):
        """Checkpoints have it; a process that does not learn shows the documents of the newest checkpoint with the curves."""

        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(algorithm="mgd-dsp(step=Momentum())", representation="curves"))
                await traffic(service, kit, range(40))
                await kit.learned(service, 40)
                version = service.ranker("shop").model_version
                stored = VersionStore(storage, service._rankers["shop"].created).load(version)
                full, lean = learned(service), stored.state
                assert {"sample", "seen", "ends"} <= seen(full).keys()
                assert full.memory["base"]["step"]["velocity"].any()
                assert flatten(lean.memory).keys() == {"representation/knots"}
                assert np.array_equal(lean.weights, full.weights)
                shown = service.curves("shop")
            _, saved = learned_state(newest_checkpoint(storage, "shop"), service._rankers["shop"].created)
            assert saved == full
            async with kit.running(storage) as service:
                service._rankers["shop"].machine = None
                assert service.curves("shop") == shown
                assert sum(shown.curves[0].shares) == pytest.approx(1.0)

        asyncio.run(main())

    def test_after_going_back_to_another_representation_it_learns_on(self, storage, kit):
        """The version has no sample of documents, and that of the present representation is of other values: it begins again."""

        async def main():
            async with kit.running(storage, keep_features=1e9) as service:
                await service.create(kit.spec(representation="curves"))
                await traffic(service, kit, range(60))
                await kit.learned(service, 60)
                version = service.ranker("shop").model_version
                await service.change("shop", Change(representation="query-scaled"))
                await service.control("shop", "rollback", version)
                assert len(seen(learned(service))["sample"]) == 0
                await traffic(service, kit, range(60, 100))
                await kit.learned(service, 100)
                assert service.ranker("shop").failed == 0
                assert len(seen(learned(service))["sample"]) == 200
            kit.verified(storage)

        asyncio.run(main())

    def test_a_shadow_serves_a_pinned_version_with_its_own_knots(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(representation="ramps", algorithm="pdgd", mode="shadow"))
                await traffic(service, kit, range(20))
                await kit.learned(service, 20)
                old, version = service.model("shop"), service.ranker("shop").model_version
                await service.control("shop", "pin", version)
                await traffic(service, kit, range(20, 40))
                await kit.learned(service, 40)
                assert service.model("shop").knots.shape != old.knots.shape
                best = np.argsort(-old.score(table(50)), kind="stable")[:5]
                assert ids(await service.rank("shop", request(50))) == [f"d{i}" for i in best]
            kit.verified(storage)

        asyncio.run(main())


class TestFeatures:
    @pytest.mark.parametrize("representation", [*CURVES, "raw", "query-scaled"])
    def test_features_come_and_go_and_the_other_curves_stay(self, storage, kit, representation):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(representation=representation, algorithm="pdgd"))
                await traffic(service, kit, range(40))
                await kit.learned(service, 40)
                version = service.ranker("shop").model_version
                before = {each.name: each for each in service.curves("shop").curves}
                await service.change("shop", Change(add_features=("stock",), retire_features=("price",)))
                after = {each.name: each for each in service.curves("shop").curves}
                for name in ("bm25", "age", "title"):
                    assert (after[name].values, after[name].heights) == (before[name].values, before[name].heights)
                assert set(after["stock"].heights) == {0.0}
                for number in range(40, 80):
                    rows = np.column_stack([table(number)[:, [0, 2, 3]], table(number + 1000)[:, 1]])
                    documents = [Document(f"d{i}", row) for i, row in enumerate(rows.tolist())]
                    shown = ids(await service.rank("shop", RankRequest(documents, f"i{number}")))
                    await service.feedback("shop", [kit.event(number, shown[1:2])])
                await kit.learned(service, 80)
                assert service.ranker("shop").failed == 0
                assert any({each.name: each for each in service.curves("shop").curves}["stock"].heights)
                await service.control("shop", "rollback", version)
                back = {each.name: each for each in service.curves("shop").curves}
                assert back["bm25"].heights == before["bm25"].heights, "a version of other features, by name"
                assert set(back["stock"].heights) == {0.0}
            kit.verified(storage)
            async with kit.running(storage) as service:
                assert service.ranker("shop").features == ("bm25", "age", "title", "stock")

        asyncio.run(main())


class TestStart:
    @pytest.mark.parametrize("representation", CURVES)
    def test_another_ranker_and_an_exported_model_give_their_curves(self, storage, kit, representation):
        given = {"representation": representation, "algorithm": "pdgd"}

        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec("other", **given))
                await traffic(service, kit, range(40), "other")
                await kit.learned(service, 40, "other")
                model = service.model("other")
                await service.create(kit.spec(start=Start(ranker="other"), **given))
                await service.create(kit.spec("told", start=Start(model=json.loads(model.to_json())), **given))
                for name in ("shop", "told"):
                    own = service.model(name)
                    assert np.array_equal(own.weights, model.weights)
                    assert np.array_equal(own.knots, model.knots)
                more = (*kit.features, "stock")
                await service.create(kit.spec("more", start=Start(ranker="other"), **given | {"features": more}))
                scores = model.score(table(5))
                with_stock = service.model("more").score(np.column_stack([table(5), np.arange(8.0)]))
                assert with_stock == pytest.approx(scores)
                with pytest.raises(InvalidValue, match=r"has the representation .*, and this ranker raw"):
                    await service.create(kit.spec("else", start=Start(ranker="other")))
                with pytest.raises(InvalidValue, match="no feature is called"):
                    await service.create(
                        kit.spec("less", start=Start(ranker="other"), **given | {"features": ("bm25",)})
                    )
                await traffic(service, kit, range(200, 220))
                await kit.learned(service, 20)
            for name in ("shop", "told", "more"):
                kit.verified(storage, name)
            async with kit.running(storage) as service:
                assert np.array_equal(service.model("shop", 1).knots, model.knots), "also after a restart"

        asyncio.run(main())

    @pytest.mark.parametrize("representation", [*CURVES, "query-scaled >> steps", "query-scaled >> distribution"])
    def test_lines_over_the_range_of_a_query_can_begin_to_bend(self, storage, kit, representation):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec("other", "pdgd", representation="query-scaled"))
                await traffic(service, kit, range(20), "other")
                await kit.learned(service, 20, "other")
                await service.create(
                    kit.spec(start=Start(ranker="other"), algorithm="pdgd", representation=representation)
                )
                scores = service.model("other").score(table(5))
                assert service.model("shop").score(table(5)) == pytest.approx(scores, abs=1e-12)
                await traffic(service, kit, range(200, 240))
                await kit.learned(service, 40)
                with pytest.raises(InvalidValue, match="has the representation"):
                    await service.create(
                        kit.spec("back", start=Start(ranker="shop"), algorithm="pdgd", representation="query-scaled")
                    )
                with pytest.raises(InvalidValue, match="has the representation query-scaled"):
                    await service.create(
                        kit.spec("else", start=Start(ranker="other"), representation="query-ranks >> ramps")
                    )
            kit.verified(storage)

        asyncio.run(main())

    def test_weights_by_name_are_lines(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(
                    kit.spec(
                        representation="query-scaled >> ramps", mode="frozen", start=Start(weights={"price": -2.0})
                    )
                )
                found = service.curves("shop").curves[0]
                assert (found.name, found.values, found.heights) == ("price", [0.0, 1.0], [0.0, -2.0])
                cheapest = np.argsort(table(1)[:, 1])[:5]
                assert ids(await service.rank("shop", request(1))) == [f"d{i}" for i in cheapest]

        asyncio.run(main())


@pytest.mark.parametrize("representation", ["ramps", "steps"])
def test_curves_agree_with_explain(storage, kit, representation):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(representation=representation, algorithm="pdgd"))
            before = service.curves("shop")
            assert {each.domain for each in before.curves} == {"query range"}
            await traffic(service, kit, range(40))
            await kit.learned(service, 40)
            found = service.curves("shop")
            assert [each.importance for each in found.curves] == sorted(
                (e.importance for e in found.curves), reverse=True
            )
            assert all(sum(each.shares) == pytest.approx(1.0) for each in found.curves)
            assert {each.domain for each in found.curves} == {"value"}
            answer = await service.rank("shop", request(50, explain=True))
            shown = {each.name: each for each in service._rankers["shop"].version.definition.curves(state_of(service))}
            for each in answer.ranking:
                values = dict(zip(kit.features, table(50)[int(each.id[1:])], strict=True))
                for name, height in each.explain.items():
                    assert height == pytest.approx(float(shown[name].curve.at(values[name])), abs=1e-12)
            assert service.curves("shop", 1).model_version == 1

    asyncio.run(main())


def test_knots_that_move_at_every_check_survive_restarts(storage, kit):
    async def main():
        with patch.object(learning, "FIRST", 1), patch.object(learning, "EVERY", 3):
            async with kit.running(storage) as service:
                await service.create(kit.spec(representation="ramps"))
                await traffic(service, kit, range(12))
                await kit.learned(service, 12)
            assert kit.verified(storage).learned == 12

    asyncio.run(main())
