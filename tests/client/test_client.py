"""Both clients against a scripted service: requests, retries, results and errors."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import subprocess
import sys
from email.utils import formatdate
from types import SimpleNamespace

import httpx
import msgspec
import numpy as np
import pytest
from tests.service.guards import guard_info

from duelrank.client import (
    AsyncClient,
    Client,
    FeedbackEvent,
    GuardSpec,
    ServiceError,
    ServiceUnreachable,
    Start,
    protocol,
)
from duelrank.client.client import _BaseClient, _Method
from duelrank.core.errors import DataFormatError, DuelrankError, InvalidValue
from duelrank.export import LinearModel, format_options
from duelrank.export.base import export_query, options_of
from duelrank.representation import Fixed, MinMax, QueryScaled, Ramps, Unscaled
from duelrank.service.http.schema import Change, FeatureCurve, RankerSpec, RankRequest

RANKED = {
    "impression_id": "i1",
    "model_version": 17,
    "ranking": [{"id": "d7", "position": 1}, {"id": "d2", "position": 2}],
}
COUNTS = {
    "accepted": 1,
    "duplicate": 2,
    "unknown": 3,
    "expired": 4,
    "invalid": [{"index": 5, "event_id": "e", "reason": "r"}],
}
INFO = {
    "name": "shop", "algorithm": "mgd-dsp", "features": ["bm25", "price"], "impressions": 5, "learned": 3,
    "model_version": 2, "open": 2, "mode": "learn", "new_in_a_later_version": 1,
}  # fmt: skip
DOCUMENTS = {"d2": [0.5, 1.0], "d7": {"bm25": 2.0}}
MODEL = LinearModel("shop", 3, ("bm25", "price"), [0.5, -0.25])


class Script:
    """A service that gives the scripted answers, one after the other, and records the requests."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.requests = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def body(self, index=-1):
        return json.loads(self.requests[index].content)


def ok(content, status=200):
    return httpx.Response(status, json=content)


def problem(status, title="T", detail="D", **headers):
    content = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    headers = {"Content-Type": "application/problem+json", **{k.replace("_", "-"): v for k, v in headers.items()}}
    return httpx.Response(status, content=json.dumps(content), headers=headers)


def waiting(script, method, *args, base_url="http://service", api_key=None, retries=4, **kwargs):
    with Client(base_url, api_key, retries=retries, transport=httpx.MockTransport(script)) as client:
        return getattr(client, method)(*args, **kwargs)


def awaiting(script, method, *args, base_url="http://service", api_key=None, retries=4, **kwargs):
    async def main():
        transport = httpx.MockTransport(script)
        async with AsyncClient(base_url, api_key, retries=retries, transport=transport) as client:
            return await getattr(client, method)(*args, **kwargs)

    return asyncio.run(main())


@pytest.fixture(params=[waiting, awaiting])
def ask(request):
    """Make a client of one kind for a script, and call one of its methods."""
    return request.param


@pytest.fixture
def pauses(monkeypatch):
    """The pauses that a client makes, none of which takes any time."""
    made = []
    sleep = asyncio.sleep

    async def awaited(seconds):
        made.append(seconds)
        await sleep(0)

    monkeypatch.setattr("duelrank.client.client.time.sleep", made.append)
    monkeypatch.setattr(asyncio, "sleep", awaited)
    return made


class TestAsking:
    """What the calls send and read; they are the same for both clients."""

    @pytest.fixture
    def ask(self):
        return waiting

    def test_rank(self, ask):
        script = Script(ok(RANKED))
        answer = ask(script, "rank", "shop", DOCUMENTS, length=2)
        assert answer.ids == ["d7", "d2"]
        assert [each.position for each in answer.ranking] == [1, 2]
        assert (answer.impression_id, answer.model_version) == ("i1", 17)
        assert (script.requests[0].method, script.requests[0].url.path) == ("POST", "/v1/rankers/shop/rank")
        assert script.requests[0].headers["Content-Type"] == "application/json"
        body = script.body()
        assert body["documents"] == [
            {"id": "d2", "features": [0.5, 1.0]},
            {"id": "d7", "features": {"bm25": 2.0}},
        ]
        assert body["length"] == 2
        assert "explain" not in body

    def test_documents_as_the_service_has_them(self, ask):
        script = Script(ok(RANKED))
        documents = [{"id": "d1", "features": (1, 2)}]
        ask(script, "rank", "shop", documents, impression_id="i1", explain=True)
        assert script.body() == {
            "impression_id": "i1",
            "documents": [{"id": "d1", "features": [1, 2]}],
            "explain": True,
        }

    def test_places_pages_context_and_what_vanished(self, ask):
        given = {"fixed": {"ad": 1}, "below_top": {"d7": 3}, "context": {"mobile": 1}, "page": 10}
        script = Script(ok(RANKED), ok(RANKED), ok(COUNTS))
        ask(script, "rank", "shop", {"d1": [1, None]}, impression_id="i1", **given)
        assert script.body() == {
            "impression_id": "i1",
            "documents": [{"id": "d1", "features": [1, None]}],
            **given,
        }
        ask(script, "page", "shop", "i1", start=11)
        assert script.requests[1].url.path == "/v1/rankers/shop/page"
        assert json.loads(script.requests[1].content) == {"impression_id": "i1", "start": 11, "size": 10}
        ask(script, "close_impression", "shop", "i1", removed=["d9"])
        (event,) = json.loads(script.requests[2].content)
        assert (event["removed"], event["close"]) == (["d9"], True)

    def test_features_may_be_arrays_of_any_kind_of_number(self, ask):
        script = Script(ok(RANKED))
        rows = np.array([[0.5, 2.0]], np.float32)
        ask(script, "rank", "shop", {"d1": rows[0], "d2": {"bm25": np.float32(0.25), "price": np.int64(3)}})
        features = [each["features"] for each in script.body()["documents"]]
        assert features == [[0.5, 2.0], {"bm25": 0.25, "price": 3}]

    def test_a_score_and_its_parts(self, ask):
        ranking = [{"id": "d7", "position": 1, "score": 1.5, "explain": {"bm25": 1.5}}]
        answer = ask(Script(ok(RANKED | {"ranking": ranking})), "rank", "shop", DOCUMENTS, explain=True)
        assert (answer.ranking[0].score, answer.ranking[0].explain) == (1.5, {"bm25": 1.5})

    @pytest.mark.parametrize(
        "features",
        [[0.5, float("nan")], {"bm25": 0.5, "price": np.float32("nan")}, np.array([0.5, np.nan]), [0.5, None]],
    )
    def test_a_feature_that_is_nan_is_missing(self, ask, features):
        script = Script(ok(RANKED))
        ask(script, "rank", "shop", {"d1": features})
        sent = script.body()["documents"][0]["features"]
        assert list(sent.values() if isinstance(sent, dict) else sent) == [0.5, None]
        with pytest.raises(InvalidValue, match="nan is not a number"):
            ask(Script(), "rank", "shop", {"d1": features}, context={"mobile": float("nan")})

    @pytest.mark.parametrize("number", [float("inf"), -np.float32("inf"), object(), 1j])
    def test_what_is_no_number_is_refused_before_it_is_sent(self, ask, number):
        script = Script()
        with pytest.raises(InvalidValue, match="cannot be sent"):
            ask(script, "rank", "shop", {"d1": [number]})

    @pytest.mark.parametrize(
        ("rows", "kind"),
        [
            (np.array([[0.5, 2.0], [1.0, 0.1]], np.float32), "float32"),
            (np.array([[0.5, 2.0], [1.0, 0.1]]), "float64"),
            (np.array([[0.5, 2.0], [1.0, 0.1]], ">f8"), "float64"),
            (np.array([[1, 2], [3, 4]]), "float64"),
            (np.array([[0.5, 1.0], [2.0, 0.1]]).T, "float64"),
            ([[0.5, 2.0], (1, 0.1)], "float64"),
        ],
    )
    def test_ids_and_an_array_travel_as_bytes(self, ask, rows, kind):
        script = Script(ok(RANKED))
        ask(script, "rank", "shop", (np.array(["d1", "d2"]), rows), impression_id="i1", length=3)
        (request,) = script.requests
        assert request.headers["Content-Type"] == "application/msgpack"
        sent = msgspec.msgpack.decode(request.content, type=RankRequest)
        assert (sent.impression_id, sent.length, sent.documents.ids) == ("i1", 3, ["d1", "d2"])
        assert sent.documents.type == kind
        numbers = np.frombuffer(sent.documents.features, "<f4" if kind == "float32" else "<f8")
        assert numbers.reshape(2, 2).tolist() == np.array(rows).tolist()

    @pytest.mark.parametrize(
        ("documents", "reason"),
        [
            ((["d1"], np.zeros((2, 3))), "one row of features: 1 and 2 given"),
            ((["d1", "d2"], np.zeros(2)), "2-D array, got shape"),
            ((["d1", "d2"], [[1.0], [1.0, 2.0]]), "same number of features"),
            ((["d1"], [["x"]]), "rows of numbers"),
            ((["d1"], 7), "rows of numbers"),
            ((["d1"], np.array([["x"]])), "cannot be sent"),
        ],
    )
    def test_a_table_that_is_none(self, ask, documents, reason):
        with pytest.raises(InvalidValue, match=reason):
            ask(Script(), "rank", "shop", documents)

    def test_a_pair_of_documents_is_not_a_table(self, ask):
        script = Script(ok(RANKED))
        pair = ({"id": "d1", "features": [1.0]}, {"id": "d2", "features": [2.0]})
        ask(script, "rank", "shop", pair)
        assert script.body()["documents"] == list(pair)

    def test_every_call_has_an_impression_id_of_its_own(self, ask):
        script = Script(ok(RANKED), ok(RANKED))
        for _ in range(2):
            ask(script, "rank", "shop", DOCUMENTS)
        assert script.body(0)["impression_id"] != script.body(1)["impression_id"]

    def test_feedback(self, ask):
        script = Script(ok(COUNTS))
        ubi = {"action_name": "click", "query_id": "i2", "timestamp": "2024-01-01T00:00:00Z"}
        counts = ask(script, "feedback", "shop", [FeedbackEvent("i1", ["d7"], examined=5, event_id="e1"), ubi])
        assert script.requests[0].url.path == "/v1/rankers/shop/feedback"
        assert script.body() == [
            {"event_id": "e1", "impression_id": "i1", "clicks": ["d7"], "examined": 5},
            ubi,
        ]
        assert (counts.accepted, counts.duplicate, counts.unknown, counts.expired) == (1, 2, 3, 4)
        assert [(each.index, each.event_id, each.reason) for each in counts.invalid] == [(5, "e", "r")]

    def test_one_event_alone(self, ask):
        script = Script(ok(COUNTS), ok(COUNTS))
        event = FeedbackEvent("i1", "d7")
        ask(script, "feedback", "shop", event)
        assert script.body() == [{"impression_id": "i1", "clicks": ["d7"]}], "the service makes an id from the content"
        ask(script, "close_impression", "shop", "i1", ["d7"], examined=3)
        (closing,) = script.body()
        assert (closing["close"], closing["clicks"], closing["examined"]) == (True, ["d7"], 3)

    def test_rankers(self, ask):
        script = Script(ok(INFO, 201), ok([INFO]), ok(INFO))
        made = ask(script, "create_ranker", "shop", "mgd-dsp", ("bm25", "price"), length=5)
        assert script.body() == {
            "name": "shop",
            "algorithm": "mgd-dsp",
            "features": ["bm25", "price"],
            "length": 5,
        }
        assert (made.impressions, made.learned, made.model_version, made.open) == (5, 3, 2, 2)
        assert ask(script, "rankers") == (made,)
        assert ask(script, "ranker", "shop") == made

    @pytest.mark.parametrize(
        ("start", "sent"),
        [
            ({"weights": {"bm25": 1.0}}, {"weights": {"bm25": 1.0}}),
            ({"from": "shop", "version": 40}, {"from": "shop", "version": 40}),
            (Start(ranker="shop"), {"from": "shop"}),
            (MODEL, {"model": json.loads(MODEL.to_json())}),
        ],
    )
    def test_first_weights(self, ask, start, sent):
        script = Script(ok(INFO | {"start": sent}, 201))
        made = ask(script, "create_ranker", "shop", "mgd", ["bm25"], start=start, precision="float32")
        assert (script.body()["start"], script.body()["precision"]) == (sent, "float32")
        assert made.start == msgspec.convert(sent, Start)

    @pytest.mark.parametrize(
        ("given", "sent"),
        [
            ("query-scaled >> ramps", "query-scaled >> ramps"),
            (QueryScaled() >> Ramps(), "query-scaled >> ramps"),
            ({"kind": "fixed", "features": {}}, {"kind": "fixed", "features": {}}),
            (
                Fixed((Unscaled(), MinMax(0, 9))),
                {"kind": "fixed", "features": {"price": {"min_max": {"minimum": 0.0, "maximum": 9.0}}}},
            ),
        ],
    )
    def test_a_representation_may_be_a_text_an_object_or_a_part(self, ask, given, sent):
        script = Script(ok(INFO, 201))
        ask(script, "create_ranker", "shop", "mgd", iter(("bm25", "price")), representation=given)
        assert script.body()["representation"] == sent
        assert script.body()["features"] == ["bm25", "price"]

    def test_a_representation_of_a_wrong_kind(self, ask):
        with pytest.raises(InvalidValue, match="a representation is"):
            ask(Script(), "create_ranker", "shop", "mgd", ["bm25"], representation=7)

    def test_first_weights_of_a_wrong_kind(self, ask):
        with pytest.raises(InvalidValue, match="start is"):
            ask(Script(), "create_ranker", "shop", "mgd", ["bm25"], start=7)

    def test_change(self, ask):
        script = Script(ok(INFO), ok(INFO))
        ask(
            script, "change_ranker", "shop", exploration=0.5, length=5, add_features=["age"], retire_features=("price",)
        )
        assert (script.requests[0].method, script.requests[0].url.path) == ("PATCH", "/v1/rankers/shop")
        changed = {"exploration": 0.5, "length": 5, "add_features": ["age"], "retire_features": ["price"]}
        assert script.body() == changed
        ask(script, "change_ranker", "shop", mode="shadow", close_after=60, add_features="age")
        assert script.body() == {"mode": "shadow", "close_after": 60, "add_features": ["age"]}

    def test_a_guard(self, ask):
        script = Script(ok(INFO | {"guard": {"share": 0.2}}), ok(INFO), ok(INFO), ok(INFO))
        made = ask(script, "create_ranker", "shop", "mgd", ["bm25"], guard={"share": 0.2})
        assert (made.guard, script.body()["guard"]) == (GuardSpec(share=0.2), {"share": 0.2})
        ask(script, "create_ranker", "shop", "mgd", ["bm25"], guard={})
        assert script.body()["guard"] == {}, "the defaults, and not no guard"
        ask(script, "create_ranker", "shop", "mgd", ["bm25"], guard=GuardSpec(on_alarm="tell"))
        assert script.body()["guard"]["on_alarm"] == "tell"
        ask(script, "create_ranker", "shop", "mgd", ["bm25"], guard=None)
        assert "guard" not in script.body()

    def test_a_guard_is_changed_taken_away_or_left_alone(self, ask):
        script = Script(*[ok(INFO)] * 4)
        ask(script, "change_ranker", "shop", length=5)
        assert script.body() == {"length": 5}
        ask(script, "change_ranker", "shop", guard=None)
        assert script.body() == {"guard": None}
        ask(script, "change_ranker", "shop", guard={"share": 0.5}, length=5)
        assert script.body() == {"length": 5, "guard": {"share": 0.5}}
        ask(script, "change_ranker", "shop", guard=GuardSpec(share=0.5))
        assert msgspec.convert(script.body()["guard"], GuardSpec) == GuardSpec(share=0.5)

    def test_how_a_guard_does(self, ask):
        info = guard_info(state="alarm")
        script = Script(ok(msgspec.to_builtins(info) | {"new_in_a_later_version": 1}))
        assert ask(script, "guard", "shop") == info
        assert (script.requests[0].method, script.requests[0].url.path) == ("GET", "/v1/rankers/shop/guard")

    def test_who_it_was(self, ask):
        script = Script(ok(COUNTS), ok(COUNTS))
        ask(script, "feedback", "shop", FeedbackEvent("i1", ["d7"], user_id="u1"))
        assert script.body() == [{"impression_id": "i1", "clicks": ["d7"], "user_id": "u1"}]
        ask(script, "close_impression", "shop", "i1", "d7", user_id="u1")
        assert script.body() == [{"impression_id": "i1", "clicks": ["d7"], "close": True, "user_id": "u1"}]

    def test_delete(self, ask):
        script = Script(httpx.Response(204))
        assert ask(script, "delete_ranker", "shop", confirm="shop") is None
        assert (script.requests[0].method, script.requests[0].url.path) == ("DELETE", "/v1/rankers/shop")
        assert script.requests[0].url.params["confirm"] == "shop"
        with pytest.raises(ServiceError, match="404"):
            ask(Script(problem(404)), "delete_ranker", "shop", confirm="shop")

    def test_a_deletion_whose_answer_was_lost_has_happened(self, ask, pauses):
        script = Script(httpx.ReadTimeout("slow"), problem(404))
        assert ask(script, "delete_ranker", "shop", confirm="shop") is None

    def test_creating_waits_longer_than_other_calls(self, ask):
        script = Script(ok(INFO), ok(INFO))
        ask(script, "create_ranker", "shop", "mgd", ["bm25"])
        ask(script, "ranker", "shop")
        assert [each.extensions["timeout"]["read"] for each in script.requests] == [60, 10]
        assert {each.extensions["timeout"]["connect"] for each in script.requests} == {10}

    @pytest.mark.parametrize("name", ["a/b", "ä ö", "..x", "a?b#c%"])
    def test_a_name_stays_one_part_of_the_path(self, ask, name):
        script = Script(ok(INFO))
        ask(script, "ranker", name, base_url="http://service/behind/a/proxy")
        path = script.requests[0].url.raw_path.decode()
        assert path.startswith("/behind/a/proxy/v1/rankers/")
        assert path.count("/") == 6
        assert httpx.URL("http://x" + path).path.endswith("/" + name)

    @pytest.mark.parametrize("name", ["", ".", "..", None])
    def test_a_name_that_would_lead_elsewhere(self, ask, name):
        with pytest.raises(InvalidValue, match="has a name"):
            ask(Script(), "ranker", name)

    def test_model_and_versions(self, ask):
        fixed = {"kind": "fixed", "features": {"price": {"min_max": {"minimum": 0, "maximum": 900}}}}
        model = {"name": "shop", "model_version": 3, "weights": {"bm25": 0.1, "price": -0.25}, "representation": fixed}
        script = Script(ok(model), ok([{"version": 3, "time": 1.5, "number": 9, "current": True}]))
        assert ask(script, "model", "shop", version=3) == LinearModel(
            "shop", 3, ("bm25", "price"), [0.1, -0.25], Fixed((Unscaled(), MinMax(0, 900)))
        )
        assert script.requests[0].url.params["version"] == "3"
        (version,) = ask(script, "versions", "shop")
        assert (version.version, version.time, version.current) == (3, 1.5, True)

    def test_a_model_with_curves(self, ask):
        curves = {
            "name": "shop",
            "model_version": 3,
            "weights": {"bm25": [0.1, 0.2], "price": [0.3, 0.4]},
            "representation": "ramps",
            "knots": {"bm25": [0, 1, 2], "price": [5, 20, 900]},
        }
        found = ask(Script(ok(curves)), "model", "shop")
        assert found.score([[1.0, 20.0]]).tolist() == pytest.approx([0.1 + 0.3])
        assert found.score([[2.0, 900.0]]).tolist() == pytest.approx([1.0])

    def test_curves(self, ask):
        curve = {"name": "price", "domain": "value", "values": [5, 900], "heights": [0, -2], "shape": "ramps"}
        script = Script(ok({"name": "shop", "model_version": 3, "curves": [curve | {"importance": 0.5}]}))
        found = ask(script, "curves", "shop", 3)
        assert (script.requests[0].url.path, script.requests[0].url.params["version"]) == (
            "/v1/rankers/shop/curves",
            "3",
        )
        assert found.curves == [FeatureCurve("price", "value", [5, 900], [0, -2], "ramps", 0.5)]

    def test_history(self, ask):
        script = Script(ok({}))
        with pytest.raises(DataFormatError, match="history"):
            ask(script, "history", "shop", "hour", end=1.5)
        assert script.requests[0].url.path == "/v1/rankers/shop/history"
        assert dict(script.requests[0].url.params) == {"step": "hour", "end": "1.5"}

    def test_control(self, ask):
        script = Script(*[ok(INFO)] * 5)
        ask(script, "freeze", "shop")
        ask(script, "resume", "shop")
        ask(script, "unpin", "shop")
        ask(script, "rollback", "shop", 2)
        ask(script, "pin", "shop", 3)
        assert [each.url.path for each in script.requests] == [
            f"/v1/rankers/shop/{action}" for action in ("freeze", "resume", "unpin", "rollback", "pin")
        ]
        assert [script.body(place) for place in (3, 4)] == [{"version": 2}, {"version": 3}]

    def test_label(self, ask):
        script = Script(ok({"version": 3, "time": 1.5, "number": 70, "current": False, "label": "before the sale"}))
        assert ask(script, "label", "shop", 3, "before the sale").label == "before the sale"
        assert script.requests[0].url.path == "/v1/rankers/shop/label"
        assert script.body(0) == {"version": 3, "label": "before the sale"}

    def test_export_gives_bytes(self, ask):
        script = Script(httpx.Response(200, content=b"\x08\x00"))
        assert ask(script, "export", "shop", "opensearch", allow_negative=True) == b"\x08\x00"
        assert dict(script.requests[0].url.params) == {"format": "opensearch", "allow_negative": "true"}

    def test_the_options_of_an_export_are_those_of_python(self, ask):
        script = Script(httpx.Response(200, content=b"profile"))
        features = {"bm25": "bm25(title)", "price": "attribute(price)"}
        ask(script, "export", "shop", "vespa", 3, rank_features=features, rerank_count=50, weights=None)
        params = script.requests[0].url.params
        assert params.get_list("rank_feature") == ["bm25=bm25(title)", "price=attribute(price)"]
        assert (params["version"], params["rerank_count"], "weights" in params) == ("3", "50", False)
        sent = {key: params.get_list(key) if key == "rank_feature" else params[key] for key in params}
        decoded = msgspec.convert(sent, export_query(), strict=False)
        assert options_of(decoded) == {"rank_features": features, "rerank_count": 50}

    @pytest.mark.parametrize("option", [each.name for each in format_options() if each.is_mapping])
    def test_the_service_understands_every_mapping(self, ask, option):
        script, given = Script(httpx.Response(200, content=b"")), {"bm25": '{"a": "b=c"}', "price": "x"}
        ask(script, "export", "shop", "json", **{option: given})
        params = script.requests[0].url.params
        sent = {key: params[key] if key == "format" else params.get_list(key) for key in params}
        assert options_of(msgspec.convert(sent, export_query(), strict=False)) == {option: given}


class TestBothClients:
    def test_every_method_has_both_forms(self, ask):
        script = Script(ok(RANKED), ok(COUNTS), ok([INFO]))
        assert ask(script, "rank", "shop", DOCUMENTS).ids == ["d7", "d2"]
        assert ask(script, "close_impression", "shop", "i1").accepted == 1
        assert [each.name for each in ask(script, "rankers")] == ["shop"]

    def test_a_service_that_is_not_ready_is_an_answer(self, ask, pauses):
        assert ask(Script(ok({})), "ready") is True
        assert ask(Script(problem(503, Retry_After="1")), "ready") is False
        assert ask(Script(ok({})), "health") is True
        assert pauses == []

    def test_the_key_travels_as_a_bearer_token(self, ask):
        script = Script(ok(INFO), ok(INFO))
        ask(script, "ranker", "shop", api_key="id.secret")
        ask(script, "ranker", "shop")
        assert script.requests[0].headers["Authorization"] == "Bearer id.secret"
        assert "Authorization" not in script.requests[1].headers


class TestTryingAgain:
    @pytest.mark.parametrize("status", [429, 502, 503, 504])
    def test_a_busy_service_is_asked_the_very_same_again(self, ask, pauses, status):
        script = Script(problem(status), httpx.Response(status), ok(RANKED))
        assert ask(script, "rank", "shop", DOCUMENTS).ids == ["d7", "d2"]
        assert len({each.content for each in script.requests}) == 1
        assert len({each.headers["X-Request-ID"] for each in script.requests}) == 1
        assert len(pauses) == 2

    @pytest.mark.parametrize(
        "error", [httpx.ConnectError("refused"), httpx.ReadTimeout("slow"), httpx.RemoteProtocolError("gone")]
    )
    def test_so_is_one_that_did_not_answer(self, ask, pauses, error):
        script = Script(error, ok(COUNTS))
        assert ask(script, "feedback", "shop", FeedbackEvent("i1", ["d7"])).accepted == 1
        assert len(script.requests) == 2
        assert len({each.content for each in script.requests}) == 1

    def test_until_the_retries_are_used_up(self, ask, pauses):
        script = Script(*[httpx.ConnectError("refused")] * 9)
        with pytest.raises(ServiceUnreachable, match=r"no answer to GET /v1/rankers: refused"):
            ask(script, "rankers", retries=3)
        assert len(script.requests) == 4
        script = Script(*[problem(503, "Busy")] * 9)
        with pytest.raises(ServiceError, match="503 Busy: D"):
            ask(script, "rankers", retries=0)
        assert len(script.requests) == 1

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 500, 501])
    def test_a_refusal_is_final(self, ask, pauses, status):
        script = Script(problem(status))
        with pytest.raises(ServiceError):
            ask(script, "rankers")
        assert pauses == []

    def test_a_wrong_address_is_final(self, ask, pauses):
        with pytest.raises(ServiceUnreachable):
            ask(Script(httpx.UnsupportedProtocol("no")), "rankers")
        assert pauses == []

    def test_retry_after_is_the_least_pause(self, ask, pauses, monkeypatch):
        monkeypatch.setattr(protocol, "time", SimpleNamespace(time=lambda: 1_000_000.0))
        date = formatdate(1_000_020, usegmt=True)
        script = Script(problem(429, Retry_After="7"), problem(503, Retry_After=date), ok([]))
        ask(script, "rankers")
        assert 7 <= pauses[0] <= 7 + 2 * protocol.FIRST_PAUSE
        assert 20 <= pauses[1] <= 20 + 4 * protocol.FIRST_PAUSE

    def test_an_hour_is_for_the_caller_to_wait(self, ask, pauses):
        with pytest.raises(ServiceError) as caught:
            ask(Script(problem(429, Retry_After="3600")), "rankers")
        assert caught.value.retry_after == 3600
        assert pauses == []

    @pytest.mark.parametrize("value", ["soon", "-1", "²", ""])
    def test_a_retry_after_that_is_none(self, ask, pauses, value):
        headers = [(b"Retry-After", value.encode("latin-1"))]
        script = Script(httpx.Response(503, headers=headers), ok([]))
        ask(script, "rankers")
        assert pauses[0] <= 2 * protocol.FIRST_PAUSE

    def test_pauses_double_and_are_spread(self):
        failed = httpx.ConnectError("refused")
        for attempt in range(12):
            most = min(protocol.LONGEST_PAUSE, protocol.FIRST_PAUSE * 2 ** (attempt + 1))
            drawn = [protocol.pause(failed, attempt, 99) for _ in range(200)]
            assert all(0 <= each <= most for each in drawn)
            # All 200 below half, or all above, has probability 2 · 2^-200.
            assert min(drawn) < most / 2 < max(drawn)


class TestErrors:
    def test_a_problem_carries_its_parts(self, ask):
        answer = problem(404, "Unknown ranker", "no ranker is called 'shop'", X_Request_ID="r1")
        with pytest.raises(ServiceError) as caught:
            ask(Script(answer), "ranker", "shop")
        error = caught.value
        assert isinstance(error, DuelrankError)
        assert (error.status, error.title, error.detail) == (404, "Unknown ranker", "no ranker is called 'shop'")
        assert error.request_id == "r1"
        assert str(error) == "404 Unknown ranker: no ranker is called 'shop'"

    @pytest.mark.parametrize(
        ("content", "kind"),
        [(b"<html>", "text/html"), (b"{", "application/problem+json"), (b"[]", "application/json"), (b"", "")],
    )
    def test_an_error_of_something_in_between(self, ask, content, kind):
        response = httpx.Response(500, content=content, headers={"Content-Type": kind})
        with pytest.raises(ServiceError) as caught:
            ask(Script(response), "rankers")
        assert str(caught.value) == "500 Internal Server Error"

    @pytest.mark.parametrize(
        ("method", "content"),
        [
            ("ranker", b"<html>"),
            ("ranker", b"[]"),
            ("ranker", b"{}"),
            ("model", b"{}"),
            ("model", b"[]"),
            ("rank", b'{"impression_id": "i"}'),
        ],
    )
    def test_another_kind_of_service(self, ask, method, content):
        arguments = ("shop", DOCUMENTS) if method == "rank" else ("shop",)
        with pytest.raises(DataFormatError):
            ask(Script(httpx.Response(200, content=content)), method, *arguments)

    def test_the_message_names_the_address_and_what_is_wrong(self, ask):
        with pytest.raises(
            DataFormatError, match=r"the answer to http://service/v1/rankers/shop is not that of a duelrank"
        ):
            ask(Script(ok({"name": "shop"})), "ranker", "shop")

    def test_a_list_where_an_object_was_expected(self, ask):
        with pytest.raises(DataFormatError, match="array"):
            ask(Script(ok({"other": 1})), "rankers")

    @pytest.mark.parametrize("address", ["service", "ftp://service", "http://", "", "http://x:port", None])
    def test_a_wrong_address(self, address):
        for kind in (Client, AsyncClient):
            with pytest.raises(InvalidValue, match="address"):
                kind(address)

    @pytest.mark.parametrize("options", [{"retries": -1}, {"retries": 1.5}, {"retries": True}])
    def test_wrong_options(self, options):
        with pytest.raises(InvalidValue, match="retries"):
            Client("http://service", **options)

    @pytest.mark.parametrize("key", ["", "two words", "line\nbreak", "ключ"])
    def test_a_wrong_key_is_never_shown(self, key):
        with pytest.raises(InvalidValue) as caught:
            Client("http://service", key)
        assert not key or key not in str(caught.value)


#: The struct that each parameter of a method is a field of, with those fields that no parameter sets.
SCHEMA = {
    "create_ranker": (RankerSpec, {"retired"}),
    "change_ranker": (Change, set()),
    "rank": (RankRequest, set()),
    "close_impression": (FeedbackEvent, {"close", "event_id", "time", "action"}),
}


class TestShape:
    METHODS = tuple(name for name, value in vars(_BaseClient).items() if isinstance(value, _Method))

    @pytest.mark.parametrize("name", METHODS)
    def test_both_clients_have_every_method_with_its_parameters_described(self, name):
        blocking, awaiting = getattr(Client, name), getattr(AsyncClient, name)
        assert inspect.signature(blocking) == inspect.signature(awaiting)
        assert blocking.__doc__ == awaiting.__doc__
        assert "Call" not in str(inspect.signature(blocking).return_annotation)
        assert (inspect.iscoroutinefunction(blocking), inspect.iscoroutinefunction(awaiting)) == (False, True)
        parameters = list(inspect.signature(blocking).parameters)
        assert re.findall(r"^(\w+)\n    \S", blocking.__doc__, re.MULTILINE) == parameters[1:]

    @pytest.mark.parametrize("name", SCHEMA)
    def test_its_parameters_are_those_of_the_schema(self, name):
        struct, unset = SCHEMA[name]
        parameters = set(inspect.signature(getattr(Client, name)).parameters) - {"self", "name"}
        assert parameters == set(struct.__struct_fields__) - unset - {"name"}

    def test_the_descriptions_are_those_of_the_schema(self):
        (described,) = re.findall(r"^    close_after\n((?:        .+\n)+)", RankerSpec.__doc__, re.MULTILINE)
        for name in ("create_ranker", "change_ranker"):
            assert " ".join(described.split()) in " ".join(getattr(Client, name).__doc__.split())

    def test_a_client_can_be_closed_twice(self):
        client = Client("http://service")
        client.close()
        client.close()

    def test_importing_is_light_and_a_visit_works_without_numpy(self):
        code = """
            import sys
            sys.modules |= dict.fromkeys(["numpy", "scipy", "numba"])
            import duelrank
            print([name for name in ("httpx", "msgspec") if name in sys.modules])
            import duelrank.client
            print([name for name in ("httpx", "asyncio") if name in sys.modules])
            import httpx
            from duelrank.client import Client, FeedbackEvent
            ranked = {"impression_id": "i1", "model_version": 1, "ranking": [{"id": "d7", "position": 1}]}
            answers = iter([ranked, ranked, {"accepted": 1}])
            with Client("http://s", transport=httpx.MockTransport(lambda _: httpx.Response(200, json=next(answers)))) as client:
                client.rank("shop", {"d7": [0.5, 1.0]})
                shown = client.rank("shop", (["d7"], [[0.5, 1.0]]))
                print(client.feedback("shop", FeedbackEvent(shown.impression_id, ["d7"])).accepted)
            """
        assert run(code) == ["[]", "[]", "1"]

    def test_without_its_packages_the_extra_is_named(self):
        code = """
            import sys
            for package in ("httpx", "msgspec"):
                for name in [each for each in sys.modules if each.startswith(("duelrank.", package))]:
                    del sys.modules[name]
                sys.modules[package] = None
                try:
                    import duelrank.client
                except ImportError as error:
                    print(type(error).__name__, error)
                del sys.modules[package]
            """
        expected = "MissingExtra duelrank.client needs httpx and msgspec: pip install 'duelrank[client]'"
        assert [line.partition(" (")[0] for line in run(code)] == [expected] * 2


def run(code):
    """Run code in a process of its own, and return the lines that it prints."""
    command = [sys.executable, "-c", inspect.cleandoc(code)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
