"""Keys, scopes, limits: who is let in, and how far."""

import asyncio

import msgspec
import pytest
from tests.service.http.conftest import DOCUMENTS, SHOP, TestClient
from tests.service.http.test_api import problem
from tests.waiting import until

from duelrank.core.errors import InvalidValue
from duelrank.service.http import WebSettings, auth, create_app, make_key
from duelrank.service.http.auth import Caller, KeyRing
from duelrank.service.http.errors import BodyTooLarge, ClientGone, NoKey, TooBusy, TooManyRequests, WrongScope
from duelrank.service.http.limits import BodyReader, Buckets
from duelrank.service.http.routes import OPERATIONS
from duelrank.service.http.schema import GuardSpec, RankerSpec
from duelrank.service.http.server import check_exposure, is_loopback

RANK = ("/v1/rankers/shop/rank", {"documents": DOCUMENTS})


@pytest.fixture
def new_key(storage):
    """Make a key in the store; returns its text."""

    def make(*scopes):
        token, key = make_key(scopes)
        storage.keys.add(key)
        return token

    return make


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


class TestKeys:
    def test_the_secret_is_not_kept(self):
        token, key = make_key(["rank"])
        prefix, id, secret = token.split("_", 2)
        assert (prefix, id) == ("dr", key.id)
        assert len(secret) == 43  # 256 bits
        assert secret.encode() not in key.hash
        assert len(key.hash) == 32

    def test_each_is_new(self):
        assert len({make_key(["rank"])[0] for _ in range(100)}) == 100

    @pytest.mark.parametrize("scopes", [[], ["root"], ["rank", "read"], ["rank admin"]])
    def test_scopes_that_there_are_not(self, scopes):
        with pytest.raises(InvalidValue, match="rank, feedback, admin"):
            make_key(scopes)

    def test_known_and_unknown(self, storage, new_key):
        token = new_key("rank")
        ring = KeyRing(storage)
        assert ring.caller_of(token, "rank") == Caller(token.split("_")[1])
        id = token.split("_")[1]
        for number, wrong in enumerate(
            (
                token[:-1],
                token + "x",
                "",
                "dr",
                f"dr_{id}",
                f"dr_{id}_",
                f"dx{token[2:]}",
                "dr_nobody_",
                "dr__",
                "ä",
            )
        ):
            with pytest.raises(NoKey):
                ring.caller_of(wrong, "rank", address=f"10.0.0.{number}")

    def test_scopes(self, storage, new_key):
        ring_of = {scope: new_key(scope) for scope in auth.SCOPES}
        ring = KeyRing(storage)
        for scope in auth.SCOPES:
            ring.caller_of(ring_of["admin"], scope)
            ring.caller_of(ring_of[scope], scope)
        with pytest.raises(WrongScope, match="feedback"):
            ring.caller_of(ring_of["rank"], "feedback")
        with pytest.raises(WrongScope):
            ring.caller_of(ring_of["feedback"], "admin")

    def test_the_last_one_revoked_shuts_everybody_out(self, storage, new_key):
        token = new_key("rank")
        ring = KeyRing(storage)
        storage.keys.revoke(token.split("_")[1])
        ring.refresh()
        assert ring.in_force
        with pytest.raises(NoKey):
            ring.caller_of(token, "rank")


class TestWebhooks:
    """Who may have the service send messages to an address: the operator, at the start or with an admin key."""

    HOOK = "https://us:pw@hooks.example/T0/secret"
    GUARDED = SHOP | {"name": "guarded", "guard": {"webhook": HOOK}}

    def test_not_without_keys(self, client, service):
        for answer in (
            client.post("/v1/rankers", json=self.GUARDED),
            client.patch("/v1/rankers/shop", json={"guard": {"webhook": self.HOOK}}),
        ):
            assert "--webhook" in problem(answer, 403, "no-webhook")
        assert list(service.specs) == ["shop"]
        assert service.specs["shop"].guard is None
        assert client.patch("/v1/rankers/shop", json={"guard": {"webhook": None}}).status_code == 200

    def test_nor_from_another_machine_without_keys(self, service, storage):
        """Its address is an id, too, and yet no key."""
        app = create_app(service, KeyRing(storage), WebSettings(insecure=True))
        with TestClient(app, "http://10.0.0.1", client=("10.0.0.2", 50000)) as client:
            problem(client.post("/v1/rankers", json=self.GUARDED), 403, "no-webhook")

    def test_with_an_admin_key(self, serve, service, new_key):
        admin = bearer(new_key("admin"))
        client = serve(service)
        made = client.post("/v1/rankers", json=self.GUARDED, headers=admin)
        assert (made.status_code, made.json()["guard"]["webhook"]) == (201, self.HOOK)
        changed = client.patch("/v1/rankers/guarded", json={"guard": {"webhook": "http://other/x"}}, headers=admin)
        assert changed.json()["guard"]["webhook"] == "http://other/x"

    def test_not_with_an_admin_key_for_some_rankers(self, serve, service, storage, new_key):
        """Its holder is no operator: the address could be one of the service's own network."""
        token, key = make_key(["admin"], ["guarded"])
        storage.keys.add(key)
        admin, some, client = bearer(new_key("admin")), bearer(token), serve(service)
        refused = client.post("/v1/rankers", json=self.GUARDED, headers=some)
        assert "for all rankers" in problem(refused, 403, "no-webhook")
        client.post("/v1/rankers", json=self.GUARDED, headers=admin)
        other = {"guard": {"webhook": "http://169.254.169.254/x"}}
        problem(client.patch("/v1/rankers/guarded", json=other, headers=some), 403, "no-webhook")
        kept = {"guard": {"share": 0.5, "webhook": self.HOOK}}
        assert client.patch("/v1/rankers/guarded", json=kept, headers=some).json()["guard"]["share"] == 0.5
        assert service.specs["guarded"].guard.webhook == self.HOOK

    def test_in_the_overview_only_operators_see_it_and_keys_for_some_rankers_see_these(
        self, serve, service, storage, new_key
    ):
        service.specs["other"] = msgspec.convert(self.GUARDED | {"name": "other"}, RankerSpec)
        service.specs["guarded"] = msgspec.convert(self.GUARDED, RankerSpec)
        hidden = [each["guard"]["guard"]["webhook"] for each in serve(service).get("/v1/overview").json()]
        assert self.HOOK not in hidden
        token, key = make_key(["admin"], ["guarded"])
        storage.keys.add(key)
        admin, rank = new_key("admin"), new_key("rank")
        client = serve(service)
        (seen,) = client.get("/v1/overview", headers=bearer(token)).json()
        assert seen["ranker"]["name"] == "guarded"
        found = client.get("/v1/overview", headers=bearer(admin)).json()
        assert [each["ranker"]["name"] for each in found] == ["other", "guarded"]
        assert {each["guard"]["guard"]["webhook"] for each in found} == {self.HOOK}
        problem(client.get("/v1/overview", headers=bearer(rank)), 403, "wrong-scope")

    def test_not_while_keys_come_into_force(self, serve, service, new_key):
        """Who was let in without a key has none, even when there are keys by the time that the body has arrived."""
        client = serve(service)
        keys = client.app.state.app_state.gate.keys

        def slow_body():
            yield b'{"name": "guarded", "algorithm": "mgd", "features": ["a"], '
            new_key("admin")
            keys.refresh()
            yield b'"guard": {"webhook": "http://host/x"}}'

        problem(client.post("/v1/rankers", content=slow_body()), 403, "no-webhook")

    def test_the_address_is_a_secret(self, serve, service, new_key):
        admin, other = bearer(new_key("admin")), bearer(new_key("rank"))
        client = serve(service)
        client.post("/v1/rankers", json=self.GUARDED, headers=admin)
        for path in ("/v1/rankers/guarded", "/v1/rankers/guarded/guard"):
            assert client.get(path, headers=other).json()["guard"]["webhook"] == "https://hooks.example/…"
            assert client.get(path, headers=admin).json()["guard"]["webhook"] == self.HOOK
        assert "secret" not in client.get("/v1/rankers", headers=other).text

    def test_without_keys_it_is_nobodys(self, client, service):
        service.specs["guarded"] = RankerSpec("guarded", "mgd", ("a",), guard=GuardSpec(webhook=self.HOOK))
        answers = [client.get(f"/v1/rankers/guarded{rest}") for rest in ("", "/guard")]
        answers += [client.post(f"/v1/rankers/guarded/{action}") for action in ("freeze", "resume", "unpin")]
        answers += [client.patch("/v1/rankers/guarded", json={"length": 5}), client.get("/v1/rankers")]
        for answer in answers:
            assert answer.status_code == 200
            assert "secret" not in answer.text
            assert "https://hooks.example/" in answer.text


class TestAsking:
    def test_every_operation_has_its_scope(self, serve, service, new_key):
        tokens = {scope: new_key(scope) for scope in auth.SCOPES}
        client = serve(service)
        client.post("/v1/rankers", json=SHOP, headers=bearer(tokens["admin"]))
        for one in (one for one in OPERATIONS if not one.hidden):
            path = one.path.replace("{name}", "shop")
            without = client.request(one.method, path)
            if one.needs is None:
                assert without.status_code < 400
                continue
            problem(without, 401, "no-key")
            assert without.headers["www-authenticate"].startswith("Bearer")
            for scope, token in tokens.items():
                allowed = scope in (one.needs, "admin")
                for headers in (bearer(token), {"X-API-Key": token}):
                    status = client.request(one.method, path, headers=headers).status_code
                    assert (status not in (401, 403)) == allowed, (one, scope, status)

    def test_what_needs_no_key(self):
        assert {one.path for one in OPERATIONS if one.needs is None} == {
            "/healthz",
            "/readyz",
            "/docs",
            "/docs/{file}",
            "/openapi.json",
            "/dashboard",
            "/dashboard/{name}",
            "/dashboard/files/{file}",
            "/duelrank.js",
        }

    @pytest.mark.parametrize("value", ["Basic abc", "Bearer", "Bearer ", "bearer x", "Token x", "Bearer \u00e4"])
    def test_other_headers_are_no_keys(self, serve, service, new_key, value):
        new_key("rank")
        refused = serve(service).get("/v1/rankers", headers={"Authorization": value.encode("latin-1")})
        problem(refused, 401, "no-key")

    def test_a_key_never_gets_into_the_log(self, serve, service, new_key, caplog):
        token = new_key("admin")
        client = serve(service)
        client.post("/v1/rankers", json=SHOP, headers=bearer(token))
        service.raised = RuntimeError("oh")
        assert client.post(RANK[0], json=RANK[1], headers=bearer(token)).status_code == 500
        assert "oh" in caplog.text
        assert token.split("_", 2)[2] not in caplog.text

    def test_made_and_revoked_while_it_runs(self, serve, service, storage, new_key, monkeypatch):
        monkeypatch.setattr(auth, "REFRESH", 0.02)
        client = serve(service)
        assert client.get("/v1/rankers").status_code == 200
        token = new_key("rank")
        until(lambda: client.get("/v1/rankers").status_code == 401)
        assert client.get("/v1/rankers", headers=bearer(token)).status_code == 200
        storage.keys.revoke(token.split("_")[1])
        until(lambda: client.get("/v1/rankers", headers=bearer(token)).status_code == 401)


class TestWithoutKeys:
    @pytest.mark.parametrize("url", ["http://localhost:8000", "http://127.0.0.1", "http://[::1]:8000"])
    def test_this_machine_is_answered(self, serve, service, url):
        assert serve(service, base_url=url).get("/v1/rankers").status_code == 200

    @pytest.mark.parametrize(
        "headers",
        [
            {"Host": "evil.example:8000"},
            {"Host": ""},
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://127.0.0.1:3000"},
            {"Origin": "https://127.0.0.1"},
            {"Origin": "http://localhost"},
            {"Sec-Fetch-Site": "cross-site"},
        ],
    )
    def test_web_pages_are_not(self, client, service, headers):
        problem(client.get("/v1/rankers", headers=headers), 403, "from-a-web-page")
        problem(client.get("/metrics", headers=headers), 403, "from-a-web-page")

    @pytest.mark.parametrize("url", ["http://localhost:8000", "http://127.0.0.1", "http://[::1]:8000"])
    @pytest.mark.parametrize("site", ["same-origin", "same-site", "none"])
    def test_its_own_pages_are(self, serve, service, url, site):
        client = serve(service, base_url=url)
        assert client.get("/v1/rankers", headers={"Origin": url, "Sec-Fetch-Site": site}).status_code == 200

    def test_insecure_answers_everybody(self, serve, service):
        client = serve(service, WebSettings(insecure=True), base_url="http://shop.example")
        assert client.get("/v1/rankers").status_code == 200

    @pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost"])
    def test_loopback(self, host, storage):
        assert is_loopback(host)
        check_exposure(host, KeyRing(storage), insecure=False)

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])
    def test_the_network_needs_a_key_or_a_word(self, host, storage, new_key):
        with pytest.raises(InvalidValue, match="--insecure"):
            check_exposure(host, KeyRing(storage), insecure=False)
        check_exposure(host, KeyRing(storage), insecure=True)
        new_key("rank")
        check_exposure(host, KeyRing(storage), insecure=False)


class TestRates:
    def test_a_bucket_empties_and_fills(self):
        buckets = Buckets(rate=10.0, size=3.0)
        assert [buckets.wait("a", 0.0) for _ in range(4)] == [0.0, 0.0, 0.0, pytest.approx(0.1)]
        assert buckets.wait("b", 0.0) == 0.0
        assert buckets.wait("a", 0.05) == pytest.approx(0.05)
        assert buckets.wait("a", 0.1) == 0.0
        assert [buckets.wait("a", 100.0) == 0.0 for _ in range(4)] == [True, True, True, False]

    def test_a_clock_that_jumps_back_does_no_harm(self):
        buckets = Buckets(rate=10.0, size=1.0)
        assert buckets.wait("a", 100.0) == 0.0
        assert 0.0 < buckets.wait("a", 0.0) <= 0.1

    def test_the_table_is_bounded(self):
        buckets = Buckets(rate=1.0, size=1.0, max_callers=10)
        for i in range(1000):
            buckets.wait(f"caller {i}", float(i))
        assert len(buckets) == 10

    def test_over_http_each_key_has_its_own(self, serve, service, new_key):
        first, second = new_key("rank"), new_key("rank")
        client = serve(service, WebSettings(rate=0.01, burst=200.0))
        statuses = [client.get("/v1/rankers", headers=bearer(first)).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        assert client.get("/v1/rankers", headers=bearer(second)).status_code == 200
        refused = client.get("/v1/rankers", headers=bearer(first))
        assert "requests per second" in problem(refused, 429, "too-many-requests")
        assert 1 <= int(refused.headers["retry-after"]) <= 100
        assert client.get("/healthz").status_code == 200

    def test_this_machine_without_keys_has_no_limit(self, serve, service):
        client = serve(service, WebSettings(rate=0.01, burst=200.0))
        assert {client.get("/v1/rankers").status_code for _ in range(5)} == {200}


class TestBodies:
    def test_a_large_one(self, serve, service):
        client = serve(service, WebSettings(max_body=1000))
        refused = client.post("/v1/rankers", content=b" " * 1001)
        assert "1,000 bytes" in problem(refused, 413, "body-too-large")
        assert refused.headers["connection"] == "close"
        problem(client.post("/v1/rankers", content=b" " * 1000), 400, "malformed-body")

    @staticmethod
    def read(reader, *pieces, gone=False):
        messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
        messages[-1]["more_body"] = gone
        messages.append({"type": "http.disconnect"})

        async def receive():
            return messages.pop(0)

        return asyncio.run(reader.read({}, receive))

    def test_in_pieces(self):
        reader = BodyReader(max_bytes=1000, max_waiting=1500)
        assert self.read(reader, b"ab", b"", b"c") == b"abc"
        assert len(self.read(reader, *[b" " * 100] * 10)) == 1000
        with pytest.raises(BodyTooLarge):
            self.read(reader, *[b" " * 100] * 11)
        with pytest.raises(BodyTooLarge):
            self.read(reader, b" " * 1001)
        assert reader.waiting == 0

    def test_the_client_vanishes(self):
        reader = BodyReader(max_bytes=1000, max_waiting=1500)
        with pytest.raises(ClientGone):
            self.read(reader, b"a", b"b", gone=True)
        assert reader.waiting == 0

    def test_too_much_of_all_at_once(self):
        reader = BodyReader(max_bytes=1000, max_waiting=1500, waiting=1000)
        assert len(self.read(reader, *[b" " * 100] * 5)) == 500
        with pytest.raises(TooBusy):
            self.read(reader, *[b" " * 100] * 6)
        assert reader.waiting == 1000

    def test_a_length_that_is_no_number(self, client):
        problem(client.post("/v1/rankers", content=b"{}", headers={"Content-Length": "x"}), 400, "malformed-body")

    def test_too_many_requests_at_once(self, serve, service):
        client = serve(service, WebSettings(max_requests=0))
        refused = client.get("/healthz")
        problem(refused, 503, "too-busy")
        assert refused.headers["retry-after"] == "1"
        assert client.app.state.app_state.requests == 0


class TestBadKeys:
    """Each bad key costs its address; nobody else, and no good key, pays for that."""

    def test_an_address_runs_out_of_patience_without_hashing(self, storage, new_key, monkeypatch):
        good = new_key("rank")
        ring = KeyRing(storage)
        ring.caller_of(good, "rank", "10.0.0.1")
        hashed = []
        monkeypatch.setattr(auth, "_hash", lambda secret: hashed.append(secret) or bytes(32))
        for _ in range(10):
            with pytest.raises(NoKey):
                ring.caller_of("dr_unknown_x", "rank", "10.0.0.1")
        with pytest.raises(TooManyRequests, match="unknown API keys"):
            ring.caller_of("dr_unknown_x", "rank", "10.0.0.1")
        with pytest.raises(NoKey):
            ring.caller_of("dr_unknown_x", "rank", "10.0.0.2")
        ring.caller_of(good, "rank", "10.0.0.1")
        assert hashed == []

    def test_guesses_at_the_secret_of_a_known_id(self, storage, new_key, monkeypatch):
        good, other = new_key("rank"), new_key("rank")
        ring = KeyRing(storage)
        ring.caller_of(good, "rank", "10.0.0.1")
        for _ in range(10):
            with pytest.raises(NoKey):
                ring.caller_of(good[:-1], "rank", "10.0.0.1")
        hashed = []
        hash = auth._hash
        monkeypatch.setattr(auth, "_hash", lambda secret: hashed.append(secret) or hash(secret))
        with pytest.raises(TooManyRequests):
            ring.caller_of(good[:-1], "rank", "10.0.0.1")
        assert hashed == []
        ring.caller_of(good, "rank", "10.0.0.1")  # verified before: it is recognised
        ring.caller_of(other, "rank", "10.0.0.1")
        assert len(hashed) == 1

    def test_a_verified_key_that_is_revoked_is_refused(self, storage, new_key):
        token = new_key("rank")
        ring = KeyRing(storage)
        ring.caller_of(token, "rank")
        storage.keys.revoke(token.split("_")[1])
        ring.refresh()
        with pytest.raises(NoKey):
            ring.caller_of(token, "rank")

    def test_over_http(self, serve, service, new_key):
        good = new_key("rank")
        client = serve(service)
        statuses = [client.get("/v1/rankers", headers=bearer("dr_nobody_x")).status_code for _ in range(12)]
        assert statuses[:10] == [401] * 10
        assert statuses[-1] == 429
        refused = client.get("/v1/rankers", headers=bearer("dr_nobody_x"))
        problem(refused, 429, "too-many-requests")
        assert int(refused.headers["retry-after"]) >= 1
        assert client.get("/v1/rankers", headers=bearer(good)).status_code == 200


class TestProxies:
    HEADERS = ({"X-Forwarded-For": "203.0.113.5"}, {"Forwarded": "for=203.0.113.5"}, {"X-Real-IP": "203.0.113.5"},
        {"X-Forwarded-Host": "shop.example"}, {"Via": "1.1 proxy"})  # fmt: skip

    @pytest.mark.parametrize("headers", HEADERS)
    def test_without_keys_what_came_through_a_proxy_is_refused(self, client, headers):
        assert "proxy" in problem(client.get("/v1/rankers", headers=headers), 403, "forwarded")
        problem(client.post(RANK[0], json=RANK[1], headers=headers), 403, "forwarded")

    @pytest.mark.parametrize("headers", HEADERS)
    def test_with_keys_or_on_purpose_it_is_not(self, serve, service, new_key, headers):
        assert serve(service, WebSettings(insecure=True)).get("/v1/rankers", headers=headers).status_code == 200
        token = new_key("rank")
        assert serve(service).get("/v1/rankers", headers=headers | bearer(token)).status_code == 200


class TestPerRanker:
    """A key that is limited to rankers may not see or touch others."""

    @pytest.fixture
    def tokens(self, storage):
        found = {}
        for name, scopes, rankers in (
            ("all", ["admin"], []),
            ("shop", ["rank", "feedback"], ["shop"]),
            ("shop admin", ["admin"], ["shop", "new"]),
        ):
            found[name], key = make_key(scopes, rankers)
            storage.keys.add(key)
        return found

    @pytest.fixture
    def ask(self, serve, service, tokens):
        client = serve(service)
        for name in ("shop", "other"):
            made = client.post("/v1/rankers", json=SHOP | {"name": name}, headers=bearer(tokens["all"]))
            assert made.status_code == 201
        return lambda who, method, path, **content: client.request(method, path, headers=bearer(tokens[who]), **content)

    def test_its_own(self, ask):
        assert ask("shop", "POST", RANK[0], json=RANK[1]).status_code == 200
        assert [each["name"] for each in ask("shop", "GET", "/v1/rankers").json()] == ["shop"]
        assert [each["name"] for each in ask("all", "GET", "/v1/rankers").json()] == ["other", "shop"]

    @pytest.mark.parametrize("name", ["other", "nobody"])
    def test_others_whether_they_exist_or_not(self, ask, name):
        for one in OPERATIONS:
            if "{name}" in one.path and one.needs is not None:
                path = one.path.replace("{name}", name)
                assert "shop" in problem(ask("shop admin", one.method, path), 403, "wrong-scope")

    def test_an_admin_of_some(self, ask, service):
        changed = ask("shop admin", "PATCH", "/v1/rankers/shop", json={"exploration": 0.25})
        assert changed.json()["exploration"] == 0.25
        assert ask("shop admin", "POST", "/v1/rankers", json=SHOP | {"name": "new"}).status_code == 201
        problem(ask("shop admin", "POST", "/v1/rankers", json=SHOP | {"name": "third"}), 403, "wrong-scope")
        copied = SHOP | {"name": "new", "start": {"from": "other"}}
        problem(ask("shop admin", "POST", "/v1/rankers", json=copied), 403, "wrong-scope")
        problem(ask("shop admin", "GET", "/metrics"), 403, "wrong-scope")
        assert ask("all", "GET", "/metrics").status_code == 200
        assert ask("shop admin", "DELETE", "/v1/rankers/shop?confirm=shop").status_code == 204
        assert set(service.specs) == {"other", "new"}

    def test_its_scopes_hold_too(self, ask):
        problem(ask("shop", "PATCH", "/v1/rankers/shop", json={"length": 5}), 403, "wrong-scope")
