"""Documents that lack values of some features: null, NaN, or left out."""

from __future__ import annotations

import asyncio

import msgspec
import numpy as np
import pytest

from duelrank.core.errors import Conflict, InvalidRecipe, InvalidValue, UnknownName
from duelrank.service.http.decoding import decode_rank
from duelrank.service.http.errors import MalformedBody
from duelrank.service.http.schema import Change, Document, DocumentTable, LoggedImpression, RankerSpec, RankRequest

NAN = float("nan")
SPEC = {"name": "shop", "algorithm": "wmgd-dsp", "features": ("bm25", "price"), "seed": 7}


def offers(missing, number=0):
    """Return documents, some of which have no price; it is given as this, or left out for "out"."""
    rows = np.random.default_rng(number).uniform(5.0, 90.0, (8, 2)).tolist()
    found = []
    for row, (bm25, price) in enumerate(rows):
        known = {"bm25": bm25} if row % 3 == 0 and missing == "out" else {"bm25": bm25, "price": price}
        if row % 3 == 0 and missing != "out":
            known["price"] = missing
        found.append(Document(f"d{row}", list(known.values()) if number % 2 and len(known) == 2 else known))
    return found


@pytest.mark.parametrize("missing", [["price"], {"price": 35.0}], ids=str)
def test_null_nan_and_left_out_are_the_same_and_a_replay_too(storage, kit, missing):
    async def main():
        async with kit.running(storage) as service:
            await service.create(RankerSpec(**SPEC, missing=missing))
            for number in range(24):
                request = RankRequest(offers(NAN, number), impression_id=f"i{number}")
                shown = await service.rank("shop", request)
                for other in (None, "out"):
                    again = RankRequest(offers(other, number), impression_id=f"i{number}", explain=True)
                    assert (await service.rank("shop", again)).ids == shown.ids
                await service.feedback("shop", [kit.event(number, shown.ids[:1])])
            await kit.learned(service, 24)
            assert service.ranker("shop").updates > 0
            values = missing if isinstance(missing, dict) else {"price": "neutral"}
            expected = {"kind": "missing", "features": values, "then": "curves"}
            assert service.ranker("shop").representation == expected
        kit.verified(storage)

    asyncio.run(main())


def test_what_is_not_declared_is_refused_as_before(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(RankerSpec(**SPEC, missing=["price"]))
            for features in ({"bm25": None, "price": 1.0}, [NAN, 1.0], {"bm25": float("inf"), "price": None}):
                with pytest.raises(InvalidValue, match="feature 'bm25'"):
                    await service.rank("shop", RankRequest([Document("d", features)]))
            with pytest.raises(InvalidValue, match="found inf in document 'd', feature 'price'"):
                await service.rank("shop", RankRequest([Document("d", [1.0, float("inf")])]))
            await service.create(RankerSpec("plain", "mgd", ("bm25", "price")))
            with pytest.raises(
                InvalidValue, match=r"found null in document 'd', feature 'price'; .* declared in missing"
            ):
                await service.rank("plain", RankRequest([Document("d", [1.0, None])]))
            with pytest.raises(InvalidValue, match="found nan in document 'd', feature 'price'"):
                await service.rank("plain", RankRequest([Document("d", [1.0, NAN])]))

    asyncio.run(main())


def test_tables_and_logged_lists(storage, kit):
    table = np.array([[1.0, NAN], [2.0, 9.0], [3.0, 4.0]], "<f4")

    async def main():
        async with kit.running(storage) as service:
            await service.create(RankerSpec(**SPEC, missing=["price"]))
            logged = LoggedImpression("l1", DocumentTable(["a", "b", "c"], table.tobytes()), clicks=["b"])
            assert (await service.backfill("shop", [logged])).accepted == 1
            shown = await service.rank("shop", RankRequest(logged.documents, impression_id="i0"))
            assert sorted(shown.ids) == ["a", "b", "c"]
            await kit.until(lambda: kit.has_read_all(service))
            assert service.ranker("shop").backfilled == 1
        kit.verified(storage)

    asyncio.run(main())


def test_creating_again_changing_and_starting_from_it(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            spec = RankerSpec(**SPEC, missing=["price"])
            assert (await service.create(spec))[1]
            assert not (await service.create(spec))[1]
            assert not (await service.create(RankerSpec(**SPEC)))[1]  # it does not say
            with pytest.raises(Conflict):
                await service.create(RankerSpec(**SPEC, missing=["bm25"]))
            with pytest.raises(InvalidRecipe, match="given twice"):
                await service.create(RankerSpec("x", "missing >> mgd", ("bm25",), missing=["bm25"]))
            with pytest.raises(UnknownName, match="prise"):
                await service.create(RankerSpec("x", "mgd", ("bm25",), missing=["prise"]))
            info = await service.change("shop", Change(add_features=("stock",), retire_features=("bm25",)))
            assert info.representation["features"] == {"price": "neutral"}
            await service.rank("shop", RankRequest([Document("d", {"stock": 1.0}), Document("e", {"price": 1.0})]))
            written = {**info.representation, "features": {"price": 9.0, "stock": "neutral"}}
            assert (await service.change("shop", Change(representation=written))).representation == written
            again = await service.change("shop", Change(missing=("stock",)))
            assert again.representation == {"kind": "missing", "features": {"stock": "neutral"}, "then": "curves"}
            assert (await service.change("shop", Change(missing=()))).representation == "curves"
            with pytest.raises(InvalidValue, match="found null"):
                await service.rank("shop", RankRequest([Document("d", {"stock": None})]))

    asyncio.run(main())


def test_json_has_null():
    body = b'{"documents":[{"id":"a","features":[1.5,null]},{"id":"b","features":{"price":null}}]}'
    assert [each.features for each in decode_rank(body, b"", False).documents] == [[1.5, None], {"price": None}]
    for wrong in (b'["1"]', b'{"price":true}'):
        with pytest.raises(msgspec.ValidationError, match="features must be numbers, found"):
            decode_rank(b'{"documents":[{"id":"a","features":%b}]}' % wrong, b"", False, lambda: ["price"])
    for large in (False, True):
        with pytest.raises(MalformedBody, match="JSON has no NaN, send null"):
            decode_rank(b'{"documents":[{"id":"a","features":[1.5,NaN]}]}', b"", large)
