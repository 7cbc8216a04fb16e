"""The representation of a ranker changes: its new weights give nearly the old scores, and everything else goes on."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from duelrank.core.errors import Conflict, InvalidRecipe, InvalidValue
from duelrank.core.types import State, frozen
from duelrank.kernels.random import derive
from duelrank.service import log
from duelrank.service.definition import Definition
from duelrank.service.http.schema import Change, Document, GuardSpec, LoggedImpression, RankRequest, Start
from duelrank.service.machine import Machine, Status, Tally
from duelrank.service.rankers import Version, VersionStore
from duelrank.service.refit import MIN_LISTS, _ridge, refitted

SCALES = np.array([1.0, 1000.0, 0.1, 10.0])
WEIGHTS = {"bm25": 2.0, "price": -1.0, "age": 0.5, "title": 0.0}


def table(number):
    return np.random.default_rng((3, number)).random((8, 4)) * SCALES


def request(number, **others):
    documents = [Document(f"d{row}", features) for row, features in enumerate(table(number).tolist())]
    return RankRequest(documents, **{"impression_id": f"i{number}"} | others)


async def traffic(service, kit, numbers):
    for number in numbers:
        shown = (await service.rank("shop", request(number))).ids
        await service.feedback("shop", [kit.event(number, shown[1:3])])


def spec(kit, **others):
    return kit.spec(**{"representation": "query-scaled", "start": Start(weights=WEIGHTS)} | others)


class TestChange:
    @pytest.mark.parametrize("representation", ["curves", "raw", "steps", "query-scaled >> curves"])
    def test_the_order_stays_nearly_the_same_and_learning_goes_on(self, storage, kit, representation):
        async def main():
            async with kit.running(storage) as service:
                await service.create(spec(kit))
                await traffic(service, kit, range(80))
                await service.rank("shop", request(500))  # open over the change
                await kit.learned(service, 80)
                before = service.ranker("shop")
                now = await service.change("shop", Change(representation=representation))
                assert (now.representation, now.model_version) == (representation, before.model_version + 1)
                assert now.fit.lists == 81
                assert now.fit.pairs == 17 * 28  # a fifth of the lists, of eight documents
                assert now.fit.share > (
                    0.8 if representation == "steps" else 0.9
                )  # a staircase of four levels has ties
                assert (now.learned, now.updates) == (before.learned, before.updates)
                await service.feedback("shop", [kit.event(500, (await service.rank("shop", request(500))).ids[:1])])
                await kit.until(lambda: service.ranker("shop").skipped_by_reason == {"old": 1})
                weights = service.model("shop").weights
                await traffic(service, kit, range(600, 610))
                await kit.learned(service, 91)
                assert service.ranker("shop").learned == 90
                assert not np.array_equal(service.model("shop").weights, weights)
                mark = service.history("shop").marks[-1]
                assert mark.event == "change"
                assert mark.text == f"representation: {now.fit.share:.1%} of pairs keep their order"
                assert service.ranker("shop").fit is None, "it belongs to the answer"
            kit.verified(storage)
            async with kit.running(storage) as service:
                assert service.ranker("shop").representation == representation
                await traffic(service, kit, range(700, 710))
                await kit.learned(service, 101)
                assert service.ranker("shop").failed == 0
            kit.verified(storage)

        asyncio.run(main())

    def test_a_model_that_was_refused_can_be_exported(self, storage, kit):
        from duelrank.export import Unrepresentable, export

        async def main():
            async with kit.running(storage) as service:
                assert (await service.create(spec(kit)))[0].warnings
                await traffic(service, kit, range(60))
                await kit.learned(service, 60)
                with pytest.raises(Unrepresentable):
                    export(service.model("shop"), "solr")
                assert (await service.change("shop", Change(representation="steps"))).warnings == ()
                assert b"MultipleAdditiveTreesModel" in export(service.model("shop"), "solr")

        asyncio.run(main())

    def test_lists_of_a_log_count(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(representation="query-scaled"))
                lists = [
                    LoggedImpression(f"l{number}", request(number).documents, clicks=["d3"]) for number in range(60)
                ]
                await service.backfill("shop", lists)
                await kit.until(lambda: service.ranker("shop").backfilled == 60)
                await kit.until(lambda: service.model("shop").weights.any())
                await kit.rounds(service)
                now = await service.change("shop", Change(representation="curves"))
                assert now.fit.lists == 60
                await service.backfill("shop", [LoggedImpression("l99", request(99).documents, clicks=["d3"])])
                await kit.until(lambda: service.ranker("shop").backfilled == 61)
            kit.verified(storage)

        asyncio.run(main())

    def test_the_same_again_changes_nothing(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(spec(kit))
                weights = service.model("shop").weights
                now = await service.change("shop", Change(representation="QueryScaled()"))
                assert (now.representation, now.fit) == ("query-scaled", None)
                assert np.array_equal(service.model("shop").weights, weights)

        asyncio.run(main())

    def test_weights_of_zero_need_no_lists(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(representation="query-scaled"))
                now = await service.change("shop", Change(representation="curves"))
                assert now.fit.lists == 0
                assert service.model("shop").weights.tolist() == [0.0] * 4
                await traffic(service, kit, range(20))
                await kit.learned(service, 20)
            kit.verified(storage)

        asyncio.run(main())

    def test_two_changes_at_once(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(spec(kit))
                await traffic(service, kit, range(60))
                await kit.learned(service, 60)
                changes = Change(representation="curves"), Change(add_features=("stock",), retire_features=("title",))
                await asyncio.gather(*(service.change("shop", each) for each in changes))
                now = service.ranker("shop")
                assert (now.representation, now.features) == ("curves", ("bm25", "price", "age", "stock"))
                row = dict(zip(now.features, [1.0, 2.0, 3.0, 4.0], strict=True))
                shown = await service.rank("shop", RankRequest([Document("d", row), Document("e", row)], "n1"))
                await service.feedback("shop", [kit.event(900, shown.ids[:1], impression_id="n1")])
                await kit.learned(service, 61)
                assert service.ranker("shop").failed == 0
            kit.verified(storage)

        asyncio.run(main())


class TestRefusals:
    def test_too_few_lists(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(spec(kit))
                await traffic(service, kit, range(7))
                await service.rank("shop", RankRequest([Document("one", [1.0] * 4)]))  # a list without a pair
                with pytest.raises(Conflict, match=r"at least 50 lists .* 'shop' has 7;"):
                    await service.change("shop", Change(representation="curves"))
                assert service.ranker("shop").representation == "query-scaled"

        asyncio.run(main())

    @pytest.mark.parametrize(
        ("others", "change", "error", "says"),
        [
            (
                {"algorithm": "pairrank", "start": None},
                Change(representation="raw"),
                InvalidRecipe,
                "nor their representation can change",
            ),
            ({}, Change(representation="curves", add_features=("new",)), InvalidValue, "one after the other"),
            ({}, Change(representation="curvs"), InvalidRecipe, "curves"),
            ({}, Change(representation="mgd"), InvalidRecipe, "mgd"),
            (
                {},
                Change(representation={"kind": "fixed", "features": {"no": {"min_max": {"minimum": 0, "maximum": 1}}}}),
                InvalidRecipe,
                "no feature is called 'no'",
            ),
            (
                {},
                Change(
                    representation={"kind": "fixed", "features": {"price": {"min_max": {"minimum": 1, "maximum": 1}}}}
                ),
                InvalidValue,
                "maps every value to 0",
            ),
        ],
    )
    def test_what_makes_no_sense(self, storage, kit, others, change, error, says):
        async def main():
            async with kit.running(storage) as service:
                before, _ = await service.create(spec(kit, **others))
                with pytest.raises(error, match=says):
                    await service.change("shop", change)
                assert service.ranker("shop") == before

        asyncio.run(main())

    def test_a_shadow_with_a_pinned_version(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(spec(kit, mode="shadow"))
                await traffic(service, kit, range(60))
                await kit.learned(service, 60)
                await service.control("shop", "pin", 1)
                with pytest.raises(Conflict, match=r"serves version 1, .* unpin it first"):
                    await service.change("shop", Change(representation="curves"))
                await service.control("shop", "unpin")
                await service.change("shop", Change(representation="curves"))
                with pytest.raises(InvalidValue, match="version 1 has the representation query-scaled"):
                    await service.control("shop", "pin", 1)
                assert (await service.control("shop", "pin", service.ranker("shop").model_version)).pinned
                await traffic(service, kit, range(100, 110))
            kit.verified(storage)

        asyncio.run(main())


class TestRollback:
    def test_to_a_version_of_the_other_representation(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(spec(kit))
                await traffic(service, kit, range(60))
                await kit.learned(service, 60)
                old = service.model("shop")
                await service.label("shop", old.version, "linear")
                changed = (await service.change("shop", Change(representation="curves"))).model_version
                await traffic(service, kit, range(100, 120))
                await kit.learned(service, 80)
                found = service.compare("shop", "i119", old.version, changed)
                ranked = [[each.id for each in one.ranking] for one in (found.one, found.other)]
                expected = [
                    np.argsort(-service.model("shop", each).score(table(119))) for each in (old.version, changed)
                ]
                assert ranked == _named(found, expected)
                back = await service.control("shop", "rollback", old.version)
                assert back.representation == "query-scaled"
                assert np.array_equal(service.model("shop").weights, old.weights)
                await traffic(service, kit, range(200, 210))
                await kit.learned(service, 90)
                forth = await service.control("shop", "rollback", changed)
                assert forth.representation == "curves"
                assert np.array_equal(service.model("shop").weights, service.model("shop", changed).weights)
                await traffic(service, kit, range(300, 310))
                await kit.learned(service, 100)
                assert service.ranker("shop").failed == 0
            kit.verified(storage)

        asyncio.run(main())

    @pytest.mark.parametrize("mode", ["learn", "shadow"])
    def test_fixed_scalings_of_retired_features_are_no_other_representation(self, storage, kit, mode):
        fixed = {"kind": "fixed", "features": {"price": {"min_max": {"minimum": 0, "maximum": 1000}}}}

        async def main():
            async with kit.running(storage) as service:
                await service.create(spec(kit, representation=fixed, mode=mode))
                await service.change("shop", Change(retire_features=("price",), add_features=("stock",)))
                action = "rollback" if mode == "learn" else "pin"
                now = await service.control("shop", action, 1)
                assert now.features == ("bm25", "age", "title", "stock")
                if mode == "learn":
                    assert service.model("shop").weights.tolist() == [2.0, 0.5, 0.0, 0.0]
                else:
                    assert now.pinned == 1
            kit.verified(storage)

        asyncio.run(main())


def _named(found, orders):
    """Name documents as a comparison does: the store has the ids of the shown documents only, five of eight."""
    shown = found.impression.shown
    return [[f"d{row}" if f"d{row}" in shown else f"#{row + 1}" for row in order.tolist()] for order in orders]


class TestGuard:
    def test_its_tests_start_again_on_the_same_rung(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(spec(kit, guard=GuardSpec(share=1.0, on_alarm="rollback")))
                await traffic(service, kit, range(60))
                await kit.learned(service, 60)
                before = service.guard("shop")
                assert before.decisive > 0
                await service.rank("shop", request(500))
                await service.change("shop", Change(representation="curves"))
                now = service.guard("shop")
                assert (now.decisive, now.statistic, now.rung.number) == (0, 0.0, before.rung.number)
                await service.feedback("shop", [kit.event(500, ["d0"])])
                await kit.until(lambda: service.ranker("shop").skipped_by_reason.get("old") == 1)
                assert service.guard("shop").decisive == 0, "its list was made with the old weights"
            kit.verified(storage)

        asyncio.run(main())


def test_a_machine_can_be_restored_after_any_event(storage, kit):
    """Also between the change and the version that follows it, when the served state has the old representation."""

    async def main():
        async with kit.running(storage) as service:
            await service.create(spec(kit))
            await traffic(service, kit, range(52))
            await kit.learned(service, 52)
            await service.change("shop", Change(representation="curves"))
            await traffic(service, kit, range(100, 110))
            await kit.learned(service, 62)

    asyncio.run(main())
    created = storage.log.find(log.RANKERS, log.CREATED, ["shop"])["shop"]
    definition = Definition.read(created, log.unpack(created.body, log.Created))

    def machine():
        return Machine(
            definition,
            lambda id, number: log.read_impression(storage, "shop", id)[1:],
            VersionStore(storage, definition).state,
        )

    events = list(log.read_events(storage.log, "shop", 0, storage.log.last_number()))
    change = next(place for place, event in enumerate(events) if event.kind == log.CONTROL and b"curves" in event.body)
    whole = machine()
    for event in events:
        whole.apply(event)
    for split in (change, change + 1, change + 2, len(events) - 5):
        first, second = machine(), machine()
        for event in events[:split]:
            first.apply(event)
        second.restore(first.checkpoint())
        for event in events[split:]:
            second.apply(event)
        assert second.checkpoint() == whole.checkpoint()


def test_a_service_that_only_reads_follows(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(spec(kit))
            await traffic(service, kit, range(52))
            await kit.learned(service, 52)
            async with kit.running(storage, read_only=True) as reading:
                await service.change("shop", Change(representation="curves"))
                await kit.until(lambda: reading.ranker("shop").representation == "curves")
                assert np.array_equal(reading.model("shop").weights, service.model("shop").weights)

    asyncio.run(main())


class TestScale:
    """How often explored lists differ from the best one does not depend on the representation."""

    @staticmethod
    def disagreement(definition, state, numbers=range(200)):
        """Return the share of pairs of an explored list that are in another order than in the best list."""
        wrong = []
        for number in numbers:
            query = definition.query(table(number))
            best = definition.algorithm.best(state, query, derive(7, number))
            shown = definition.algorithm.rank(state, query, 8, derive(8, number)).ranking
            places = np.argsort(best)[shown]
            wrong.append(np.mean(places[:, None] > places, where=np.triu(np.ones((8, 8), bool), 1)))
        return float(np.mean(wrong))

    @pytest.mark.parametrize("algorithm", ["mgd", "mgd-dsp", "nsgd", "pdgd"])
    @pytest.mark.parametrize("representation", ["raw", "curves", "ramps"])
    def test_exploration_keeps_its_share(self, kit, algorithm, representation):
        given = spec(kit, algorithm=algorithm, start=None, length=8)
        before = Definition(given, 0.0)
        state = State(frozen(np.array([*WEIGHTS.values()])))
        version = Version(1, 0.0, False, Status(0, Tally(), 0, 0), before, state)
        after = before.changed(Change(representation=representation))
        fitted, fit = refitted(version, after, [table(number) for number in range(1000, 1300)])
        assert fit.share > 0.9
        one, other = self.disagreement(before, state), self.disagreement(after, fitted)
        assert 0.02 < one < 0.4
        assert abs(other - one) < 0.35 * one

    def test_both_formulas_of_the_regression_agree(self):
        draws = np.random.default_rng(1)
        columns, scores = draws.normal(size=(6, 6)), draws.normal(size=6)
        wide = np.concatenate([columns, np.zeros((6, 1))], axis=1)
        assert np.allclose(_ridge(wide, scores)[:6], _ridge(columns, scores))
        assert MIN_LISTS == 50  # documented
