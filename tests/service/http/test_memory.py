"""The memory of queries over HTTP, with the client: rank, click, look, export, forget."""

import json
from xml.etree import ElementTree

import pytest
from tests.waiting import until

REMEMBERING = {"name": "shop", "algorithm": "remember >> wmgd-dsp", "features": ["bm25", "price"], "length": 5}
SAME = [{"id": f"d{i}", "features": [0.5, 0.5]} for i in range(6)]


def visited(client, numbers, wanted="d3", **query):
    for number in numbers:
        body = {"impression_id": f"i{number}", "documents": SAME} | query
        shown = client.post("/v1/rankers/shop/rank", json=body).json()["ranking"]
        clicks = [each["id"] for each in shown if each["id"] == wanted]
        event = {"event_id": f"e{number}", "impression_id": f"i{number}", "clicks": clicks, "close": True}
        assert client.post("/v1/rankers/shop/feedback", json=event).json()["accepted"] == 1
    done = len(numbers) + numbers[0]
    until(lambda: client.get("/v1/rankers/shop").json()["learned"] == done)


@pytest.fixture
def shop(bare_client):
    assert bare_client.post("/v1/rankers", json=REMEMBERING).status_code == 201
    return bare_client


def memory(client, **query):
    answer = client.get("/v1/rankers/shop/memory", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_what_was_chosen_is_seen_exported_and_forgotten(shop):
    visited(shop, range(20), query="Red  Shoes")
    visited(shop, range(20, 23), query_key="Key")
    assert {each["query"]: each["lists"] for each in memory(shop)["remembered"]} == {"red shoes": 20, "Key": 3}
    (found,) = memory(shop, query="RED shoes")["remembered"]
    assert found["documents"][0]["id"] == "d3"
    exported = shop.get("/v1/rankers/shop/memory/export", params={"format": "solr", "evidence": 5})
    assert exported.headers["content-type"] == "application/xml"
    assert exported.headers["content-disposition"] == 'attachment; filename="elevate.xml"'
    (query,) = ElementTree.fromstring(exported.content)
    assert (query.get("text"), [each.get("id") for each in query]) == ("red shoes", ["d3"])
    less = shop.get("/v1/rankers/shop/memory/export", params={"evidence": 0, "queries": 1, "documents": 1}).json()
    assert [(each["query"], len(each["documents"])) for each in less["queries"]] == [("red shoes", 1)]
    for asked, left in (({"query": "red shoes"}, ["Key"]), ({"query_key": "Key"}, [])):
        assert shop.delete("/v1/rankers/shop/memory", params=asked).json()["name"] == "shop"
        assert [each["query"] for each in memory(shop)["remembered"]] == left


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({}, 422),
        ({"confirm": "other"}, 422),
        ({"query": "a", "query_key": "b"}, 422),
        ({"query": "a", "document": "d1"}, 422),
        ({"query": " ", "confirm": "shop"}, 422),
        ({"document": "", "confirm": "shop"}, 422),
        ({"query": " "}, 422),
        ({"document": "d1"}, 200),
        ({"confirm": "shop"}, 200),
    ],
)
def test_to_forget_everything_the_name_is_repeated(shop, asked, status):
    assert shop.delete("/v1/rankers/shop/memory", params=asked).status_code == status


@pytest.mark.parametrize(
    "asked",
    [
        {"format": "csv"},
        {"queries": 0},
        {"queries": 10_001},
        {"documents": 101},
        {"evidence": -1},
        {"evidence": "nan"},
        {"more": 1},
    ],
)
def test_an_export_that_does_not_exist(shop, asked):
    assert shop.get("/v1/rankers/shop/memory/export", params=asked).status_code == 422


def test_a_ranker_that_remembers_nothing_says_so(real_client):
    for path in ("memory", "memory/export"):
        answer = real_client.get(f"/v1/rankers/shop/{path}")
        assert answer.status_code == 422
        assert "remember >> mgd-dsp" in answer.json()["detail"]


def test_the_query_is_read_from_every_kind_of_body(shop):
    import msgspec

    table = {"ids": ["d1", "d2"], "features": b"\x00" * 16, "type": "float32"}
    packed = msgspec.msgpack.encode({"impression_id": "p1", "documents": table, "query": "packed"})
    answer = shop.post("/v1/rankers/shop/rank", content=packed, headers={"content-type": "application/msgpack"})
    assert answer.status_code == 200, answer.text
    plain = {"impression_id": "p2", "documents": SAME, "query": "plain"}
    assert shop.post("/v1/rankers/shop/rank", content=json.dumps(plain, indent=1)).status_code == 200
    for number in (1, 2):
        event = {"impression_id": f"p{number}", "clicks": ["d1"] if number == 1 else [], "close": True}
        assert shop.post("/v1/rankers/shop/feedback", json=event).json()["accepted"] == 1
    until(lambda: {each["query"] for each in memory(shop)["remembered"]} == {"packed", "plain"})
    both = plain | {"impression_id": "p3", "query_key": "x"}
    assert shop.post("/v1/rankers/shop/rank", json=both).status_code == 422
