"""Off-policy evaluation on the lists of a live ranker: what else might have been shown, and what other lists were worth."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from numpy.testing import assert_allclose

from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.evaluation import ClientOrder, Lists, OwnBest, Scores
from duelrank.evaluation.sources import drawn, evaluate_store, stored_candidate, stored_lists
from duelrank.service import log
from duelrank.service.http.schema import FeedbackEvent, GuardSpec, Start

FOR_EVER = 1e9


async def served(service, kit, n_lists, n_documents=8, first=0, seed=1, **others):
    """Users click on what they see with P = their first feature, and look as far as each position with P = 0.8 more."""
    rng = np.random.default_rng(seed)
    for number in range(first, first + n_lists):
        shown = await service.rank("shop", kit.request(number, n_documents, **others))
        rows = kit.table(number, n_documents)[[int(id[1:]) for id in shown.ids]]
        seen = np.cumprod(np.concatenate(([1.0], rng.random(len(rows) - 1) < 0.8)))
        clicks = [id for id, look, row in zip(shown.ids, seen, rows, strict=True) if look * row[0] > rng.random()]
        await service.feedback("shop", [kit.event(number, clicks)])


class TestPropensities:
    """What is drawn from the log again is as likely as it is live."""

    @pytest.mark.parametrize(
        "changes",
        [
            {},
            {"exploration": 0.4},
            {"guard": GuardSpec(share=0.5), "imitate": 0},
            {"guard": GuardSpec(), "imitate": 100_000},
            {"algorithm": "pdgd", "exploration": 0.8},
            {"algorithm": "thompson-pairs"},
        ],
        ids=["explored", "greedy too", "guarded", "imitating", "pdgd", "thompson-pairs"],
    )
    def test_draws_are_as_likely_as_live_lists(self, storage, kit, changes):
        n_lists = 1_500

        async def main():
            async with kit.running(storage, keep_features=FOR_EVER) as service:
                await service.create(kit.spec(**{"length": 3} | changes))
                await served(service, kit, 60, 5)
                await kit.learned(service, 60)
                version = service._rankers["shop"].version
                live = []
                for number in range(n_lists):  # the same documents again and again, without feedback
                    answer = await service.rank("shop", kit.request(7, 5, impression_id=f"same {number}"))
                    live.append([int(id[1:]) for id in answer.ids])
                return version, np.array(live)

        version, live = asyncio.run(main())
        _, stored, raw = log.read_impression(storage, "shop", "same 0")
        assert stored.version == version.version
        again = drawn(version, "same 0", raw, stored, n_lists)
        for place in range(3):
            shares = [np.bincount(each[:, place], minlength=5) / n_lists for each in (live, again)]
            assert_allclose(*shares, atol=5 * np.sqrt(0.5 / n_lists))


class TestStore:
    def test_better_and_worse_candidates(self, storage, kit):
        async def main():
            async with kit.running(storage, keep_features=FOR_EVER) as service:
                await service.create(kit.spec(algorithm="pdgd(learning_rate=0.001)"))
                wrong = Start({"bm25": -3.0, "price": 1.0})
                await service.create(kit.spec("rival", algorithm="pdgd", start=wrong))
                await served(service, kit, 1_200)
                await kit.learned(service, 1_200)

        asyncio.run(main())
        candidates = ["client", "feature:bm25", "feature:-bm25", "ranker:rival"]
        found = evaluate_store(storage, "shop", candidates)
        verdicts = {each.name: each.verdict for each in found.candidates}
        assert verdicts["feature:bm25"] == "better"
        assert verdicts["feature:-bm25"] == "worse"
        assert verdicts["rival"] == "worse"
        assert verdicts["client"] == "unknown"  # a random order, as that which was shown
        assert (found.lists, found.varied > 1_100) == (1_200, True)
        assert found == evaluate_store(storage, "shop", candidates)

    def test_lists_are_those_that_were_shown(self, storage, kit):
        async def main():
            async with kit.running(storage, keep_features=FOR_EVER) as service:
                await service.create(kit.spec(actions={"click": 1.0, "purchase": 10.0}))
                fixed = await service.rank("shop", kit.request(1, 8, length=4, fixed={"d5": 1}))
                paged = await service.rank("shop", kit.request(2, 8, length=8, page=3))
                await service.rank("shop", kit.request(3, 8, length=2))
                await service.rank("shop", kit.request(4, 8, length=2))  # stays open
                await service.feedback("shop", [kit.event(1, [fixed.ids[2]]), kit.event(3)])
                bought = FeedbackEvent(paged.impression_id, [paged.ids[1]], action="purchase")
                await service.feedback("shop", [bought, kit.event(2, removed=[paged.ids[0]])])
                await kit.learned(service, 3)
                return [[int(id[1:]) for id in each.ids] for each in (fixed, paged)]

        fixed, paged = asyncio.run(main())
        first, third, second = sorted(stored_lists(storage, "shop", [ClientOrder()]), key=lambda each: -len(each.shown))
        assert first.shown.tolist() == [row - (row > 5) for row in fixed[1:]]  # without the placed document
        assert first.gains.tolist() == [0.0, 1.0, 0.0]
        assert second.shown.tolist() == paged[1:]
        assert second.gains.tolist() == [10.0, 0.0]
        assert third.gains.tolist() == [0.0, 0.0]
        for each in (first, second, third):
            assert each.sampled.shape == (31, len(each.shown))
            assert each.candidates.tolist() == [list(range(len(each.shown)))]

    def test_versions_are_those_that_made_the_lists(self, storage, kit):
        """Greedy lists are the best lists of their versions, and nothing else was possible."""

        async def main():
            async with kit.running(storage, keep_features=FOR_EVER) as service:
                await service.create(kit.spec())
                await served(service, kit, 40)
                await kit.learned(service, 40)
                await service.control("shop", "freeze")
                await served(service, kit, 20, first=40)
                await kit.learned(service, 60)

        asyncio.run(main())
        greedy = list(stored_lists(storage, "shop", [OwnBest()]))[40:]
        assert len(greedy) == 20
        for each in greedy:
            assert each.candidates.tolist() == [each.shown.tolist()]
            assert (each.sampled == each.shown).all()

    def test_it_begins_where_the_features_begin(self, storage, kit):
        async def main():
            for first in (0, 30):
                async with kit.running(
                    storage, keep_features=FOR_EVER
                ) as service:  # a service that stops saves a checkpoint
                    if not first:
                        await service.create(kit.spec())
                    await served(service, kit, 30, first=first)
                    await kit.learned(service, first + 30)

        asyncio.run(main())
        every = list(stored_lists(storage, "shop", [OwnBest()]))
        storage.log.drop_attachments("shop", storage.snapshots.list("shop", log.CHECKPOINT)[0].number)
        later = list(stored_lists(storage, "shop", [OwnBest()]))
        assert (len(every), len(later)) == (60, 30)
        for one, other in zip(every[30:], later, strict=True):
            assert all(np.array_equal(*both) for both in zip(one, other, strict=True))

    def test_without_features(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())

        asyncio.run(main())
        with pytest.raises(InvalidValue, match="--keep-features 30d"):
            evaluate_store(storage, "shop", ["client"])

    @pytest.mark.parametrize(
        ("given", "error", "message"),
        [
            ("ranker:shpo", UnknownName, "did you mean shop"),
            ("ranker:shop@99", UnknownName, "no version of shop is called '99'"),
            ("ranker:shop@new", InvalidValue, "a version of a ranker is a number"),
            ("feature:", InvalidValue, "a candidate is client, best"),
        ],
    )
    def test_unknown_candidates(self, storage, kit, given, error, message):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())

        asyncio.run(main())
        with pytest.raises(error, match=message):
            stored_candidate(storage, given)


def test_a_store_that_is_evaluated_does_not_change(storage, kit):
    async def main():
        async with kit.running(storage, keep_features=FOR_EVER) as service:
            await service.create(kit.spec())
            await served(service, kit, 10)
            await kit.learned(service, 10)

    asyncio.run(main())
    before = storage.log.last_number()
    Lists.of(stored_lists(storage, "shop", [Scores("none", lambda documents: np.zeros(documents.query.n_documents))]))
    assert storage.log.last_number() == before
    kit.verified(storage)
