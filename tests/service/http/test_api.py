"""Every address, its answers and its refusals, on a service that only remembers."""

from typing import ClassVar

import msgspec
import numpy as np
import pytest
from tests.service.http.conftest import DOCUMENTS, SHOP

from duelrank.core.errors import NotReady, StoreCorrupt, StoreFull
from duelrank.service.http import WebSettings
from duelrank.service.http.routes import OPERATIONS

PROBLEM = "application/problem+json"


def problem(response, status, slug):
    """Check that an answer is a problem of a kind, and return what it says."""
    assert (response.status_code, response.headers["content-type"]) == (status, PROBLEM), response.text
    content = response.json()
    assert set(content) == {"type", "title", "status", "detail", "request_id"}
    assert (content["type"], content["status"]) == (f"/docs#{slug}", status)
    assert content["request_id"] == response.headers["x-request-id"]
    return content["detail"]


class TestRankers:
    def test_created_once_and_the_same_again(self, client):
        again = client.post("/v1/rankers", json=SHOP)
        assert again.status_code == 200
        assert again.json() == client.get("/v1/rankers/shop").json()
        assert again.json()["features"] == ["bm25", "price"]
        assert {"impressions", "learned", "model_version"} <= set(again.json())

    def test_another_one_of_the_same_name(self, client):
        problem(client.post("/v1/rankers", json=SHOP | {"length": 5}), 409, "conflict")

    def test_listed(self, client):
        assert [each["name"] for each in client.get("/v1/rankers").json()] == ["shop"]

    def test_unknown(self, client):
        assert "did you mean shop" in problem(client.get("/v1/rankers/shpo"), 404, "unknown-name")

    @pytest.mark.parametrize(
        "content",
        [{}, {"name": "a"}, SHOP | {"mode": "sleep"}, SHOP | {"lenght": 5}, [], SHOP | {"features": "bm25"}],
    )
    def test_wrong_shapes(self, client, content):
        problem(client.post("/v1/rankers", json=content), 422, "wrong-shape")

    @pytest.mark.parametrize("content", [b"", b"{", b"name=shop", b"\xff", b'{"name": "\xff"}'])
    def test_no_json(self, client, content):
        problem(client.post("/v1/rankers", content=content), 400, "malformed-body")


class TestGuard:
    GUARD: ClassVar = {"share": 0.2, "on_alarm": "rollback", "promote": [0.5, 1.0]}
    KNOWN: ClassVar = {"false_alarm_every": 1e6, "margin": 0.0, "webhook": None, "anonymous": "count"}

    @pytest.fixture
    def guarded(self, client):
        assert client.post("/v1/rankers", json=SHOP | {"name": "guarded", "guard": self.GUARD}).status_code == 201
        return client

    def test_made_with_one(self, guarded):
        assert guarded.get("/v1/rankers/guarded").json()["guard"] == self.GUARD | self.KNOWN
        assert guarded.get("/v1/rankers/shop").json()["guard"] is None

    def test_shown(self, guarded):
        answer = guarded.get("/v1/rankers/guarded/guard")
        assert answer.status_code == 200
        shown = answer.json()
        assert (shown["name"], shown["state"], shown["rung"]["number"]) == ("guarded", "watching", 2)
        assert shown["guard"] == self.GUARD | self.KNOWN
        assert list(shown)[:4] == ["name", "model_version", "state", "summary"], "what a person wants first"

    def test_not_there(self, client):
        assert "has no guard" in problem(client.get("/v1/rankers/shop/guard"), 422, "invalid-value")
        assert "did you mean shop" in problem(client.get("/v1/rankers/shpo/guard"), 404, "unknown-name")

    def test_changed_and_taken_away(self, guarded):
        def change(**fields):
            answer = guarded.patch("/v1/rankers/guarded", json=fields)
            assert answer.status_code == 200, answer.text
            return answer.json()["guard"]

        assert change(length=5)["share"] == 0.2, "what is not given stays"
        assert change(guard={"share": 0.3}) == {
            "share": 0.3, "on_alarm": "baseline", "promote": [0.5, 1.0], **self.KNOWN,
        }  # fmt: skip
        assert change(guard=None) is None

    @pytest.mark.parametrize("method", ["POST", "PATCH"])
    @pytest.mark.parametrize(
        ("guard", "detail"),
        [
            ({"share": "much"}, "Expected `float`, got `str` - at `$.guard.share`"),
            ({"false_alarm_every": [1]}, "at `$.guard.false_alarm_every`"),
            ({"margin": None}, "Expected `float`, got `null` - at `$.guard.margin`"),
            ({"on_alarm": "panic"}, "at `$.guard.on_alarm`; it is one of baseline, rollback, tell"),
            ({"promote": 0.5}, "Expected `array`, got `float` - at `$.guard.promote`"),
            ({"promote": [0.5, "1"]}, "at `$.guard.promote[1]`"),
            ({"webhook": 5}, "at `$.guard.webhook`"),
            ({"shares": 0.1}, "unknown field `shares` - at `$.guard`; did you mean `share`?"),
            ({"zzz": 0.1}, "known: share, false_alarm_every, margin, on_alarm, promote, webhook, anonymous"),
            ("on", "at `$.guard`"),
        ],
    )
    def test_wrong_shapes_name_the_field(self, client, method, guard, detail):
        path, body = (
            ("/v1/rankers", SHOP | {"guard": guard}) if method == "POST" else ("/v1/rankers/shop", {"guard": guard})
        )
        assert detail in problem(client.request(method, path, json=body), 422, "wrong-shape")


class TestRank:
    def test_the_shapes_that_clients_rely_on(self, client):
        answer = client.post("/v1/rankers/shop/rank", json={"impression_id": "i1", "documents": DOCUMENTS})
        assert answer.status_code == 200
        assert set(answer.json()) == {"impression_id", "model_version", "ranking", "kind"}
        assert answer.json()["impression_id"] == "i1"
        assert answer.json()["ranking"][0] == {"id": "d0", "position": 1}

    def test_features_by_name(self, client):
        named = [{"id": "a", "features": {"bm25": 1, "price": 2.5}}]
        assert client.post("/v1/rankers/shop/rank", json={"documents": named}).status_code == 200

    def test_content_type_does_not_matter(self, client):
        content = msgspec.json.encode({"documents": DOCUMENTS})
        headers = {"content-type": "application/x-www-form-urlencoded"}  # curl -d
        assert client.post("/v1/rankers/shop/rank", content=content, headers=headers).status_code == 200

    @pytest.mark.parametrize(
        ("documents", "slug"),
        [
            ([], "invalid-value"),
            ([{"id": "a", "features": [1.0]}], "shape-mismatch"),
            ([{"id": "a"}], "wrong-shape"),
            ([{"id": 5, "features": [1.0, 2.0]}], "wrong-shape"),
            ([{"id": "a", "features": ["x", 2.0]}], "wrong-shape"),
            ([{"id": str(i), "features": [0, 0]} for i in range(1001)], "limit-exceeded"),
        ],
    )
    def test_refused(self, client, documents, slug):
        problem(client.post("/v1/rankers/shop/rank", json={"documents": documents}), 422, slug)

    def test_not_a_number_is_no_json(self, client):
        content = b'{"documents": [{"id": "a", "features": [NaN, 1.0]}]}'
        problem(client.post("/v1/rankers/shop/rank", content=content), 400, "malformed-body")

    @pytest.mark.parametrize(
        ("body", "detail"),
        [
            ({"documents": DOCUMENTS, "impresion_id": "i1"}, "did you mean `impression_id`?"),
            ({"documents": [DOCUMENTS[0] | {"feature": 1}]}, "did you mean `features`?"),
            ({"documents": DOCUMENTS, "zzz": 1}, "known: documents, impression_id, length, explain"),
            ({"documents": {"id": ["a"]}}, "did you mean `ids`?"),
        ],
    )
    @pytest.mark.parametrize("heavy", [1, 1 << 20])
    def test_unknown_fields_have_a_near_miss(self, serve, service, body, detail, heavy):
        client = serve(service, WebSettings(heavy=heavy))
        client.post("/v1/rankers", json=SHOP)
        assert detail in problem(client.post("/v1/rankers/shop/rank", json=body), 422, "wrong-shape")


class TestCompact:
    """All documents as one table, in JSON or MessagePack, are the same documents."""

    FEATURES = np.arange(10.0).reshape(5, 2)
    IDS = tuple(f"d{i}" for i in range(5))

    def table(self, type="float32"):
        return {
            "ids": self.IDS,
            "features": self.FEATURES.astype("<f4" if type == "float32" else "<f8").tobytes(),
            "type": type,
        }

    def listed(self):
        return [{"id": id, "features": row} for id, row in zip(self.IDS, self.FEATURES.tolist(), strict=True)]

    @pytest.mark.parametrize("form", ["json", "msgpack"])
    @pytest.mark.parametrize("documents", ["table", "float64", "listed"])
    @pytest.mark.parametrize("heavy", [1, 1 << 20])
    def test_all_forms_have_the_same_meaning(self, serve, service, form, documents, heavy):
        client = serve(service, WebSettings(heavy=heavy))
        client.post("/v1/rankers", json=SHOP)
        given = {"table": self.table, "float64": lambda: self.table("float64"), "listed": self.listed}[documents]()
        body = {"impression_id": "i1", "documents": given}
        content = getattr(msgspec, form).encode(body)
        headers = {"content-type": f"application/{form}"}
        answer = client.post("/v1/rankers/shop/rank", content=content, headers=headers)
        assert [each["id"] for each in answer.json()["ranking"]] == list(self.IDS)
        assert [document.features for document in service.seen] == self.FEATURES.tolist()
        packed = client.post(
            "/v1/rankers/shop/rank", content=content, headers=headers | {"accept": "application/msgpack"}
        )
        assert packed.headers["content-type"] == "application/msgpack"
        assert msgspec.msgpack.decode(packed.content) == answer.json()

    @pytest.mark.parametrize("heavy", [0, 1 << 20])
    def test_no_messagepack(self, serve, service, heavy):
        client = serve(service, WebSettings(heavy=heavy))
        headers = {"content-type": "application/msgpack"}
        refused = client.post("/v1/rankers/shop/rank", content=b"\xc1", headers=headers)
        assert "MessagePack" in problem(refused, 400, "malformed-body")

    @pytest.mark.parametrize(
        "documents",
        [
            [{"id": "a", "features": [1.0, 2.0]}, {"id": 5, "features": []}],
            [{"id": "a", "features": ["x"]}],
            [1],
            [{}],
            7,
        ],
    )
    def test_a_large_body_is_refused_in_the_same_words(self, serve, service, documents):
        said = []
        for heavy in (1, 1 << 20):
            client = serve(service, WebSettings(heavy=heavy))
            said.append(
                problem(client.post("/v1/rankers/shop/rank", json={"documents": documents}), 422, "wrong-shape")
            )
        places = [each.replace("[...]", "[0]").replace("[1]", "[0]") for each in said]
        assert places[0] == places[1]


class TestChanges:
    def test_changed_and_deleted(self, client, service):
        assert client.patch("/v1/rankers/shop", json={"exploration": 0.5, "length": 3}).json()["length"] == 3
        assert service.specs["shop"].exploration == 0.5
        assert "exploration" in problem(client.patch("/v1/rankers/shop", json={"explore": 1}), 422, "wrong-shape")
        problem(client.patch("/v1/rankers/nobody", json={}), 404, "unknown-name")

    def test_deleted_by_name_only(self, client, service):
        problem(client.delete("/v1/rankers/shop"), 422, "wrong-shape")
        assert "'shop'" in problem(client.delete("/v1/rankers/shop?confirm=shoe"), 422, "invalid-value")
        assert "shop" in service.specs
        gone = client.delete("/v1/rankers/shop?confirm=shop")
        assert (gone.status_code, gone.content) == (204, b"")
        problem(client.delete("/v1/rankers/shop?confirm=shop"), 404, "unknown-name")


class TestModel:
    def test_weights_by_feature(self, client):
        found = client.get("/v1/rankers/shop/model").json()
        assert found["weights"] == {"bm25": 1.0, "price": 2.0}
        assert (found["model_version"], found["representation"]) == (1, "raw")
        assert "knots" not in found

    def test_curves_by_feature(self, client):
        found = client.get("/v1/rankers/shop/curves?version=1").json()
        assert [(each["name"], each["heights"]) for each in found["curves"]] == [
            ("bm25", [0.0, 1.0]),
            ("price", [0.0, 2.0]),
        ]
        problem(client.get("/v1/rankers/shop/curves?version=9"), 404, "unknown-name")
        problem(client.get("/v1/rankers/nobody/curves"), 404, "unknown-name")

    def test_a_version_that_is_not_there(self, client):
        problem(client.get("/v1/rankers/shop/model?version=9"), 404, "unknown-name")
        problem(client.get("/v1/rankers/shop/model?version=x"), 422, "wrong-shape")
        problem(client.get("/v1/rankers/shop/model?wersion=1"), 422, "wrong-shape")

    def test_versions(self, client):
        assert client.get("/v1/rankers/shop/model/versions").json()[0]["version"] == 1

    def test_a_label(self, client):
        labelled = client.post("/v1/rankers/shop/label", json={"version": 1, "label": "before the sale"})
        assert (labelled.status_code, labelled.json()["label"]) == (200, "before the sale")
        problem(client.post("/v1/rankers/shop/label", json={"version": 7, "label": "x"}), 404, "unknown-name")
        problem(client.post("/v1/rankers/shop/label", json={"version": 1}), 422, "wrong-shape")

    @pytest.mark.parametrize("action", ["freeze", "resume", "unpin"])
    def test_control(self, client, action):
        assert client.post(f"/v1/rankers/shop/{action}").json()["name"] == "shop"

    @pytest.mark.parametrize("action", ["rollback", "pin"])
    def test_control_with_a_version(self, client, action):
        assert client.post(f"/v1/rankers/shop/{action}", json={"version": 1}).status_code == 200
        problem(client.post(f"/v1/rankers/shop/{action}", json={"version": 7}), 404, "unknown-name")
        problem(client.post(f"/v1/rankers/shop/{action}", json={}), 422, "wrong-shape")

    @pytest.mark.parametrize(
        "format",
        [
            "solr",
            "solr-features",
            "elasticsearch",
            "elasticsearch-features",
            "opensearch",
            "ranklib",
            "vespa",
            "onnx",
            "json",
        ],
    )
    def test_export(self, client, format):
        options = {"vespa": [("rank_feature", "bm25=bm25(title)"), ("rank_feature", "price=attribute(price)")]}
        options["elasticsearch"] = options["opensearch"] = [("allow_negative", "true")]
        answer = client.get("/v1/rankers/shop/export", params=[("format", format), *options.get(format, [])])
        assert answer.status_code == 200, answer.text
        assert "shop_000001" in answer.headers["content-disposition"]

    def test_export_refused_with_the_reason(self, client):
        client.post("/v1/rankers", json=SHOP | {"name": "other", "representation": "query-scaled"})
        assert "per query" in problem(client.get("/v1/rankers/other/export?format=solr"), 422, "invalid-value")
        problem(client.get("/v1/rankers/shop/export?format=solr&offset=1"), 422, "invalid-value")
        problem(client.get("/v1/rankers/shop/export"), 422, "wrong-shape")
        problem(client.get("/v1/rankers/shop/export?format=xml"), 422, "wrong-shape")


class TestOperations:
    def test_alive_while_it_is_being_restored(self, client, service):
        service.is_ready = False
        assert client.get("/healthz").json() == {"status": "ok"}
        problem(client.get("/readyz"), 503, "not-ready")
        problem(client.post("/v1/rankers/shop/rank", json={"documents": DOCUMENTS}), 503, "not-ready")
        assert client.get("/v1/rankers").headers["retry-after"] == "1"
        service.is_ready = True
        assert client.get("/readyz").json() == {"status": "ready", "learning": True}

    def test_not_ready_while_the_store_fails(self, client, service):
        service.trouble = StoreFull("no room in /secret/place")
        assert "/secret" not in problem(client.get("/readyz"), 503, "not-ready")

    def test_addresses_that_lead_nowhere(self, client):
        for path in ("/", "/v1", "/v1/rankers/", "/v1/rankers/shop/rank/", "/v1/rankers/a/b", "/docs/x", "/%00"):
            problem(client.get(path), 404, "no-such-page")

    def test_methods_that_are_not_there(self, client):
        refused = client.delete("/v1/rankers")
        assert "DELETE" in problem(refused, 405, "wrong-method")
        assert refused.headers["allow"] == "GET, HEAD, POST"
        problem(client.get("/v1/rankers/shop/rank"), 405, "wrong-method")

    def test_head(self, client):
        assert (client.head("/healthz").status_code, client.head("/healthz").content) == (200, b"")

    def test_every_operation_answers_without_a_server_error(self, client):
        for one in OPERATIONS:
            assert client.request(one.method, one.path.replace("{name}", "shop")).status_code < 500

    def test_stopped_with_the_application(self, serve, service):
        client = serve(service)
        assert not service.stopped
        client.__exit__()
        assert service.stopped


class TestRequestIds:
    def test_the_clients_own_id_is_returned(self, client):
        for path in ("/healthz", "/nowhere", "/v1/rankers/nobody"):
            assert client.get(path, headers={"X-Request-ID": "abc-1.2"}).headers["x-request-id"] == "abc-1.2"

    @pytest.mark.parametrize("given", ["", "a b", "x" * 129, "ä", '"'])
    def test_a_strange_one_does_not(self, client, given):
        found = client.get("/healthz", headers={"X-Request-ID": given.encode()}).headers["x-request-id"]
        assert found != given
        assert found

    def test_each_request_has_its_own(self, client):
        assert len({client.get("/healthz").headers["x-request-id"] for _ in range(10)}) == 10


class TestOwnFaults:
    def ask(self, client, service, error):
        service.raised = error
        return client.post("/v1/rankers/shop/rank", json={"documents": DOCUMENTS})

    def test_an_exception_that_nobody_expected(self, client, service, caplog):
        refused = self.ask(client, service, ZeroDivisionError("secret"))
        detail = problem(refused, 500, "internal-error")
        assert "secret" not in refused.text
        assert "log" in detail
        assert refused.headers["x-request-id"] in caplog.text
        assert "ZeroDivisionError: secret" in caplog.text

    def test_a_store_that_may_come_back(self, client, service, caplog):
        refused = self.ask(client, service, StoreFull("no room in /var/secret.db"))
        problem(refused, 503, "store-full")
        assert "secret" not in refused.text
        assert refused.headers["retry-after"] == "1"
        assert "no room in /var/secret.db" in caplog.text

    def test_a_store_that_does_not(self, client, service, caplog):
        problem(self.ask(client, service, StoreCorrupt("row 5")), 500, "store-failed")
        assert "row 5" in caplog.text

    def test_stopping(self, client, service):
        problem(self.ask(client, service, NotReady("was stopped")), 503, "not-ready")
