"""Feedback in all forms; one bad event never keeps out its neighbours. Features that are no numbers are named."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.http.conftest import DOCUMENTS

from duelrank.core.errors import LimitExceeded
from duelrank.service import Rejected
from duelrank.service.http.decoding import decode_events, decode_logged, decode_rank
from duelrank.service.http.errors import MalformedBody
from duelrank.service.http.schema import FeedbackEvent

NATIVE = {"event_id": "e1", "impression_id": "i1", "clicks": ["d3"], "examined": 5, "close": True}
UBI = {
    "action_name": "click",
    "timestamp": "2026-01-02T03:04:05Z",
    "query_id": "i1",
    "client_id": "browser-5",
    "message": "a message",
    "event_attributes": {
        "position": {"ordinal": 3},
        "object": {"object_id": "d3", "object_id_field": "sku", "extra": [1]},
        "anything": {"else": True},
    },
}

LEAVES = st.none() | st.integers() | st.text()


def decode(content, media_type=b"application/json", most=100):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return list(decode_events(body, media_type, most))


class TestForms:
    def test_one_event_an_array_and_lines_are_equivalent(self):
        lines = b"\n".join(json.dumps(each).encode() for each in (NATIVE, UBI))
        expected = decode(NATIVE) + decode(UBI)
        assert decode([NATIVE, UBI]) == expected
        for media_type in (b"application/x-ndjson", b"Application/X-NDJSON; charset=utf-8", b"application/ndjson"):
            assert decode(lines, media_type) == decode(lines + b"\r\n\n", media_type) == expected

    def test_native(self):
        assert decode(NATIVE) == [FeedbackEvent("i1", ["d3"], 5, True, "e1")]

    def test_white_space_before_an_array(self):
        assert decode(b" \r\n\t" + json.dumps([NATIVE]).encode()) == decode([NATIVE])

    def test_nothing_is_fine(self):
        assert decode([]) == decode(b"", b"application/x-ndjson") == []

    @pytest.mark.parametrize("body", [b"", b"{", b"[{}", b"[1,]", b'"\\ud800"', b"\xff", b"[" * 100_000, b"clicks=d3"])
    def test_no_json(self, body):
        with pytest.raises(MalformedBody, match="not valid JSON"):
            decode(body)

    def test_lines_that_are_no_json_stand_alone(self):
        found = decode(
            b'{"impression_id": "i1"}\nnonsense\n[1]\n\xff\n{"impression_id": "i2"}', b"application/x-ndjson"
        )
        assert [type(each) for each in found] == [FeedbackEvent, Rejected, Rejected, Rejected, FeedbackEvent]

    def test_too_many(self):
        for body, media_type in (
            ([{}] * 101, b""),
            (b"{}\n" * 101, b"application/x-ndjson"),
            (b"\n" * 1001, b"application/x-ndjson"),
        ):
            with pytest.raises(LimitExceeded, match="100 events"):
                decode(body, media_type)


class TestBadNeighbours:
    BAD = (
        5,
        None,
        [],
        {},
        {"impression_id": 5},
        NATIVE | {"clicks": "d3"},
        NATIVE | {"close": "yes"},
        UBI | {"query_id": [7]},
    )

    @pytest.mark.parametrize("bad", BAD)
    def test_each_stands_alone(self, bad):
        first, rejected, last = decode([NATIVE, bad, UBI])
        assert [first, last] == decode([NATIVE, UBI])
        assert isinstance(rejected, Rejected)
        assert rejected.reason

    def test_the_id_of_an_invalid_event_is_returned(self):
        assert decode([{"event_id": "e7"}])[0].event_id == "e7"
        assert decode([{"event_id": 7}])[0].event_id is None

    @given(
        st.lists(st.recursive(LEAVES, lambda x: st.lists(x) | st.dictionaries(st.text(), x), max_leaves=5), max_size=5)
    )
    def test_whatever_comes_has_a_place(self, content):
        assert len(decode(content, most=10_000)) == len(content)

    @pytest.mark.parametrize(
        ("bad", "hint"),
        [
            ({"impression_id": "i1", "click": ["d1"]}, "did you mean `clicks`?"),
            ({"impresion_id": "i1"}, "did you mean `impression_id`?"),
            ({"impression_id": "i1", "Closed": True}, "did you mean `close`?"),
        ],
    )
    def test_unknown_fields_have_a_near_miss(self, bad, hint):
        first, rejected, last = decode([NATIVE, bad, UBI])
        assert [first, last] == decode([NATIVE, UBI])
        assert hint in rejected.reason


class TestUbi:
    @pytest.mark.parametrize(
        ("given", "meant"),
        [(12, "12"), (12.0, "12"), (-3, "-3"), (1e3, "1000"), (12.5, "12.5"), (10**30, str(10**30)), ("12.0", "12.0")],
    )
    def test_numbers_as_object_id(self, given, meant):
        (event,) = decode(UBI | {"event_attributes": {"object": {"object_id": given}}})
        assert event.clicks == [meant]

    @pytest.mark.parametrize(("given", "meant"), [(12, "12"), (12.0, "12"), ("12.0", "12.0")])
    def test_numbers_as_query_id(self, given, meant):
        for action in ("click", "impression", "page_exit"):
            (event,) = decode(UBI | {"action_name": action, "query_id": given})
            assert event.impression_id == meant

    def test_a_click(self):
        (event,) = decode(UBI)
        assert (event.impression_id, event.clicks, event.close) == ("i1", ["d3"], False)

    def test_the_same_content_is_the_same_event(self):
        backwards = dict(reversed(UBI.items()))
        assert decode(UBI)[0].event_id == decode(backwards)[0].event_id
        assert decode(UBI)[0].event_id != decode(UBI | {"timestamp": "2026-01-02T03:04:06Z"})[0].event_id

    def test_an_id_of_its_own(self):
        assert decode(UBI | {"event_id": "mine"})[0].event_id == "mine"

    @pytest.mark.parametrize("action", ["add_to_cart", "purchase", "watch", "view", "my_own"])
    def test_what_was_done_with_a_document_has_its_name(self, action):
        (event,) = decode(UBI | {"action_name": action})
        assert (event.impression_id, event.action, event.clicks, event.examined) == ("i1", action, ["d3"], None)

    @pytest.mark.parametrize("attributes", [None, {}, {"object": {}, "position": {}}, {"position": {"ordinal": 3}}])
    def test_actions_without_a_document_are_taken_and_teach_nothing(self, attributes):
        (event,) = decode(UBI | {"action_name": "page_exit", "event_attributes": attributes})
        assert (event.impression_id, event.clicks, event.examined, event.close) == ("i1", [], None, False)

    @pytest.mark.parametrize(
        ("action", "document"), [("impression", "d3"), ("impression", None), ("scroll", None), ("view", None)]
    )
    def test_how_far_somebody_looked(self, action, document):
        attributes = {"object": {"object_id": document}, "position": {"ordinal": 3}}
        (event,) = decode(UBI | {"action_name": action, "event_attributes": attributes})
        assert (event.clicks, event.examined, event.close) == ([], 3, False)
        assert getattr(event, "document", None) == document

    @pytest.mark.parametrize(
        ("position", "meant"),
        [
            ({"ordinal": 4.0}, 4),
            ({"ordinal": 0}, None),
            ({"ordinal": -1}, None),
            ({"ordinal": 1.5}, None),
            ({"ordinal": True}, None),
            ({"ordinal": "3"}, None),
            ({"ordinal": None}, None),
            ({"xy": {"x": 3, "y": 4}, "scroll_depth": 900}, None),
            ({}, None),
            (None, None),
            (5, None),
        ],
    )
    def test_positions_of_all_kinds(self, position, meant):
        (event,) = decode(UBI | {"action_name": "scroll", "event_attributes": {"position": position}})
        assert event.examined == meant

    @pytest.mark.parametrize(
        ("given", "meant"),
        [
            ({}, "browser-5"),
            ({"client_id": None}, None),
            ({"user_id": "u1", "client_id": "c1"}, "u1"),
            ({"client_id": "c1"}, "c1"),
            ({"user_id": None, "client_id": "c1"}, "c1"),
            ({"user_id": "", "client_id": "c1"}, "c1"),
            ({"user_id": 7.0, "client_id": "c1"}, "7"),
            ({"user_id": 0}, "0"),
            ({"client_id": ""}, None),
            ({"user_id": {"name": "u1"}, "client_id": "c1"}, "c1"),
            ({"user_id": True, "client_id": ["c1"]}, None),
        ],
    )
    @pytest.mark.parametrize("action", ["click", "add_to_cart"])
    def test_who_it_was(self, given, meant, action):
        (event,) = decode(UBI | {"action_name": action} | given)
        assert event.user_id == meant

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"query_id": None}, "without query_id"),
            ({"event_attributes": None}, "object_id"),
            ({"event_attributes": {"position": {"ordinal": 1}}}, "object_id"),
            ({"event_attributes": {"object": {}}}, "object_id"),
            ({"event_attributes": 5}, "Expected"),
        ],
    )
    def test_what_cannot_be_used(self, change, reason):
        (event,) = decode(UBI | change)
        assert isinstance(event, Rejected)
        assert reason in event.reason


class TestOverHttp:
    @pytest.fixture(autouse=True)
    def _shown(self, client):
        client.post("/v1/rankers/shop/rank", json={"impression_id": "i1", "documents": DOCUMENTS})

    def test_the_shape_that_clients_rely_on(self, client):
        answer = client.post("/v1/rankers/shop/feedback", json=NATIVE)
        assert answer.json() == {
            "accepted": 1,
            "duplicate": 0,
            "unknown": 0,
            "expired": 0,
            "invalid": [],
            "warnings": [],
        }

    def test_counted_apart(self, client):
        events = [NATIVE, NATIVE, {"impression_id": "nobody"}, {"event_id": "e9"}, UBI]
        answer = client.post("/v1/rankers/shop/feedback", json=events).json()
        (invalid,) = answer.pop("invalid")
        assert answer == {"accepted": 2, "duplicate": 1, "unknown": 1, "expired": 0, "warnings": []}
        assert (invalid["index"], invalid["event_id"]) == (3, "e9")
        assert "impression_id" in invalid["reason"]

    def test_lines(self, client):
        body = json.dumps(NATIVE) + "\n{broken\n" + json.dumps(UBI) + "\n"
        answer = client.post(
            "/v1/rankers/shop/feedback", content=body, headers={"content-type": "application/x-ndjson"}
        )
        assert (answer.json()["accepted"], answer.json()["invalid"][0]["index"]) == (2, 1)

    def test_refused(self, client):
        assert client.post("/v1/rankers/shop/feedback", content=b"{").status_code == 400
        assert client.post("/v1/rankers/nobody/feedback", json=NATIVE).status_code == 404
        assert client.post("/v1/rankers/shop/feedback", json=[{}] * 10_001).status_code == 422


class TestFeaturesThatAreNoNumbers:
    FORMS = ((msgspec.json, b"application/json"), (msgspec.msgpack, b"application/msgpack"))

    @pytest.mark.parametrize("large", [False, True])
    @pytest.mark.parametrize(("codec", "media_type"), FORMS)
    @pytest.mark.parametrize(
        ("features", "found", "name"),
        [
            ([1.0, [2]], "[2]", "price"),
            ({"bm25": None, "price": {}}, "{}", "price"),
            (["1.0", 2], "'1.0'", "bm25"),
            ({"price": True}, "True", "price"),
            ([1, 2, ""], "''", "#3"),
        ],
    )
    def test_the_error_names_document_and_feature(self, large, codec, media_type, features, found, name):
        documents = [{"id": "d0", "features": [1.0, 2.0]}, {"id": "d1", "features": features}]
        body = codec.encode({"documents": documents})
        with pytest.raises(msgspec.ValidationError) as error:
            decode_rank(body, media_type, large, lambda: ("bm25", "price"))
        assert str(error.value) == f"features must be numbers, found {found} in document 'd1', feature {name!r}"

    @pytest.mark.parametrize("features", ["null", "[1e999]", "[[1]", "7", "[null}"])
    def test_other_mistakes_are_told_as_before(self, features):
        with pytest.raises((msgspec.ValidationError, MalformedBody)) as error:
            decode_rank(b'{"documents": [{"id": "d", "features": %s}]}' % features.encode(), b"", False)
        assert "must be numbers" not in str(error.value)

    def test_of_a_log(self):
        lists = [{"impression_id": "i1", "documents": [{"id": "d", "features": [[]]}]}]
        (found,) = decode_logged(json.dumps(lists).encode(), b"", 10, lambda: ("bm25",))
        assert found == Rejected("i1", "features must be numbers, found [] in document 'd', feature 'bm25'")

    def test_over_http(self, client):
        documents = [{"id": "d1", "features": ["", *DOCUMENTS[0]["features"][1:]]}]
        answer = client.post("/v1/rankers/shop/rank", json={"documents": documents})
        assert answer.status_code == 422
        name = client.get("/v1/rankers/shop").json()["features"][0]
        assert answer.json()["detail"] == f"features must be numbers, found '' in document 'd1', feature {name!r}"
