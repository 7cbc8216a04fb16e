"""Context: the user, the device, the time; products of it with features of documents are features of the ranker."""

from __future__ import annotations

import asyncio
from random import Random

import msgspec
import numpy as np
import pytest

from duelrank.core.errors import Conflict, InvalidValue, ShapeMismatch
from duelrank.export import export
from duelrank.representation import Interactions
from duelrank.service import log
from duelrank.service.http.decoding import decode_rank
from duelrank.service.http.schema import (
    Change,
    Document,
    ExperimentSpec,
    LoggedImpression,
    RankerSpec,
    RankRequest,
    ShowRequest,
)

NAN = float("nan")
SPEC = {"name": "shop", "algorithm": "wmgd-dsp", "features": ("bm25", "price"), "representation": "query-scaled"}


def request(number, context, draws):
    rows = [[draws.uniform(0, 20), draws.uniform(5, 90)] for _ in range(8)]
    return RankRequest([Document(f"d{row}", each) for row, each in enumerate(rows)], f"i{number}", context=context)


def test_phones_and_desktops_learn_different_orders(storage, kit):
    """Users with a phone click what is cheap, others what is dear."""

    async def main():
        async with kit.running(storage) as service:
            await service.create(RankerSpec(**SPEC, context={"mobile": ["price"]}))
            draws = Random(1)
            for number in range(300):
                mobile = number % 2
                asked = request(number, {"mobile": mobile} if mobile or number % 4 else {}, draws)
                prices = {each.id: each.features[1] for each in asked.documents}
                shown = (await service.rank("shop", asked)).ids
                liked = [id for id in shown if (prices[id] < 30.0 if mobile else prices[id] > 60.0)]
                await service.feedback("shop", [kit.event(number, liked)])
            await kit.learned(service, 300)
            await service.change("shop", Change(exploration=0.0))
            offers = [Document("cheap", [9.0, 10.0]), Document("dear", [9.0, 80.0])]
            for mobile, first in ((0, "dear"), (1, "cheap")):
                answer = await service.rank(
                    "shop", RankRequest(offers, f"m{mobile}", context={"mobile": mobile}, explain=True)
                )
                assert answer.ids[0] == first
                assert any((each.explain or {})["mobile*price"] for each in answer.ranking) == bool(mobile)
            assert service.ranker("shop").features == ("bm25", "price", "mobile*price")
            assert b'"mobile*price"' in export(service.model("shop"), "json")
        kit.verified(storage)

    asyncio.run(main())


def test_what_is_not_declared_is_refused(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(RankerSpec(**SPEC, context={"mobile": ["price"]}))
            draws = Random(1)
            for context, message in (
                ({"mobil": 1.0}, "did you mean mobile"),
                ({"mobile": float("nan")}, "finite"),
                ({"mobile": 1e308}, "too large"),
            ):
                with pytest.raises(InvalidValue, match=message):
                    await service.rank("shop", request(0, context, draws))
            offers = [Document("small", [1.0, 0.5]), Document("large", [1.0, 90.0])]
            with pytest.raises(InvalidValue, match="features of document 'large' too large"):
                await service.rank("shop", RankRequest(offers, context={"mobile": 1e308}))
            with pytest.raises(ShapeMismatch, match="2 features, document 'd' has 3"):
                await service.rank("shop", RankRequest([Document("d", [1.0, 2.0, 3.0])]))
            with pytest.raises(InvalidValue, match=r"mobile\*price"):
                await service.rank("shop", RankRequest([Document("d", {"mobile*price": 3.0})]))
            await service.create(RankerSpec("plain", "mgd", ("bm25", "price")))
            with pytest.raises(InvalidValue, match="has no context"):
                await service.rank("plain", request(0, {"mobile": 1.0}, draws))
            for context, message in (
                ({"mobile": ["prise"]}, "price"),
                ({"m": [f"f{n}" for n in range(201)]}, "at most 200"),
            ):
                with pytest.raises(InvalidValue, match=message):
                    await service.create(
                        RankerSpec("other", "mgd", ("price", *(f"f{n}" for n in range(201))), context=context)
                    )

    asyncio.run(main())


def test_creating_again_and_changing(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            spec = RankerSpec(**SPEC, context={"mobile": ["price"]})
            assert (await service.create(spec))[1]
            assert not (await service.create(spec))[1]
            with pytest.raises(Conflict):
                await service.create(RankerSpec(**SPEC))
            info = await service.change("shop", Change(context={"mobile": ("bm25",), "night": ("price",)}))
            assert info.features == ("bm25", "price", "mobile*bm25", "night*price")
            info = await service.change("shop", Change(retire_features=("bm25",), add_features=("stock",)))
            assert info.features == ("price", "night*price", "stock")
            assert info.context == {"mobile": (), "night": ("price",)}
            with pytest.raises(InvalidValue, match="change context"):
                await service.change("shop", Change(retire_features=("night*price",)))
            documents = [Document("a", [1.0, 2.0]), Document("b", {"price": 1.0, "stock": 3.0})]
            await service.rank("shop", RankRequest(documents, "i0", context={"night": 0.5, "mobile": 1.0}))
            event = storage.log.find("shop", log.IMPRESSION, ["i0"])["i0"]
            raw = log.read_features(storage, "shop", event.number)
            assert raw is not None
            assert raw.tolist() == [[1.0, 0.5, 2.0], [1.0, 0.5, 3.0]]

    asyncio.run(main())


def test_missing_values_and_logged_lists(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            spec = {**SPEC, "representation": "raw", "features": ("bm25", "price"), "missing": {"price": 10.0}}
            await service.create(RankerSpec(**spec, context={"mobile": ["price"]}))
            documents = [Document("a", [1.0, None]), Document("b", [2.0, 4.0])]
            logged = LoggedImpression("l1", documents, clicks=["a"], context={"mobile": 2.0})
            assert (await service.backfill("shop", [logged])).accepted == 1
            await service.rank("shop", RankRequest(documents, "i0", context={"mobile": 2.0}))
            for kind, id in ((log.IMPRESSION, "i0"), (log.LOGGED, "l1")):
                event = storage.log.find("shop", kind, [id])[id]
                raw = log.read_features(storage, "shop", event.number)
                assert raw is not None
                assert raw.tolist() == [[1.0, 10.0, 20.0], [2.0, 4.0, 8.0]]

    asyncio.run(main())


def test_names():
    shop = Interactions(("bm25", "mobile*price", "price", "stock"), {"mobile": ("price", "stock")})
    assert shop.names == ("bm25", "mobile*price", "price", "stock", "mobile*stock")
    assert shop.given == ("bm25", "price", "stock")
    assert shop.query("q", [[1.0, 2.0, 3.0]], {"mobile": 2.0}).features.tolist() == [[1.0, 4.0, 2.0, 3.0, 6.0]]
    with pytest.raises(ShapeMismatch, match="bm25, price, stock"):
        shop.query("q", [[1.0, 2.0]], {})
    with pytest.raises(InvalidValue, match=r"has no \*, got 'a\*b'"):
        Interactions(("b*c", "c"), {"a": ["b*c"], "a*b": ["c"]})


def test_missing_values_of_products_are_those_of_the_service():
    """A number counts before it is multiplied; a product with a neutral value is neutral."""
    given = [[1.0, NAN, NAN], [2.0, 4.0, 7.0]]
    shop = Interactions(("bm25", "price", "age"), {"mobile": ("price", "age")}, {"price": 10.0, "age": "neutral"})
    query = shop.query("q", given, {"mobile": 2.0})
    np.testing.assert_array_equal(query.features, [[1.0, 10.0, NAN, 20.0, NAN], [2.0, 4.0, 7.0, 8.0, 14.0]])
    with pytest.raises(InvalidValue, match="'bm25' may not be missing"):
        shop.query("q", [[NAN, 1.0, 1.0]], {})
    with pytest.raises(InvalidValue, match="did you mean price"):
        Interactions(("bm25", "price"), {}, {"prise": 1.0})


def test_rankers_of_an_experiment_know_the_context(storage, kit):
    """Each takes its own names; the other ranker has no context."""

    async def main():
        async with kit.running(storage) as service:
            start = {"weights": {"price": 1.0, "mobile*price": -2.0}}
            await service.create(RankerSpec(**SPEC, context={"mobile": ["price"]}, start=start))
            plain = {"name": "plain", "start": {"weights": {"price": 1.0}}}
            await service.create(RankerSpec(**SPEC | plain))
            offers = [Document("cheap", [9.0, 10.0]), Document("dear", [9.0, 80.0])]
            await service.create_experiment(ExperimentSpec("spring", (), ("shop", "plain"), length=1))

            async def firsts(context):
                asked = [ShowRequest({}, f"{context}{n}", None, offers, context=context) for n in range(20)]
                return {(await service.show("spring", each)).documents[0] for each in asked}

            assert await firsts({"mobile": 1.0}) == {"cheap", "dear"}
            assert await firsts({"mobile": 0.0}) == {"dear"}
            with pytest.raises(InvalidValue, match="did you mean mobile"):
                await firsts({"mobil": 1.0})

    asyncio.run(main())


def test_a_flag_is_a_number():
    with pytest.raises(msgspec.ValidationError, match="write 1 for true and 0 for false"):
        decode_rank(b'{"documents":[],"context":{"mobile":true}}', b"", False)
