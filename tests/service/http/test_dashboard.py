"""The dashboard's page and files, the live stream, and lists that are ranked again."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from contextlib import contextmanager

import httpx
import msgspec
import pytest
from tests.service.http import test_openapi
from tests.service.http.served import FAST, SPEC, Served, serving
from tests.waiting import FOR_EVER, until

from duelrank.service import Service, log
from duelrank.service.definition import EXPLORED
from duelrank.service.http import WebSettings
from duelrank.service.http.auth import make_key
from duelrank.service.http.dashboard import FILES, POLICY, read_file, render
from duelrank.service.http.schema import Change, Document, FeedbackEvent, GuardSpec, RankRequest, Start
from duelrank.service.log import CHECKPOINT, VERSION, StoredImpression, pack, read_impression
from duelrank.service.viewer import Viewer
from duelrank.storage import NewEvent, open_storage

MOST_BYTES = 165_000


class TestPageItself:
    def test_together_with_all_that_it_loads_it_is_small(self):
        files = sum(len(read_file(name)) for name in FILES)
        assert files + len(render("shop", False, False)) < MOST_BYTES

    def test_nothing_is_in_line_and_no_other_machine_is_asked(self, client):
        answer = client.get("/dashboard")
        reader = test_openapi.TestPage.Reader()
        reader.feed(answer.text)
        policy = answer.headers["content-security-policy"]
        assert reader.inline == []
        assert not re.search(r"\son\w+=|\sstyle=|javascript:", answer.text)
        assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy
        assert "unsafe" not in policy
        assert policy == dict(POLICY)[b"content-security-policy"].decode()
        links = [link for link in reader.links if not link.startswith(("data:", "#")) and link != "/dashboard"]
        assert len(links) == 7
        for link in links:
            assert link.startswith("/dashboard/files/")
            assert client.get(link).headers["content-type"].startswith(("text/css", "text/javascript"))

    def test_it_is_the_same_for_a_ranker(self, client):
        assert 'data-name="shop"' in client.get("/dashboard/shop").text

    def test_a_name_is_only_text(self, client):
        name = '"><img src=x onerror=alert(1)>'
        text = client.get(f"/dashboard/{httpx.QueryParams({'q': name})['q']}").text
        assert "<img" not in text
        assert "&lt;img src=x onerror=alert(1)&gt;" in text

    def test_files_that_there_are_not(self, client):
        for path in ("/dashboard/files/other.js", "/dashboard/files/..%2fapp.py", "/dashboard/files/dashboard.html"):
            assert client.get(path).status_code == 404

    def test_the_licence_of_what_is_not_ours_comes_with_it(self, client):
        assert "MIT License" in client.get("/dashboard/files/uplot.LICENSE").text

    def test_with_keys_it_contains_no_data(self, serve, service, storage, client):
        _, kept = make_key(["admin"])
        storage.keys.add(kept)
        asked = serve(service)
        page = asked.get("/dashboard").text
        assert 'data-keys="yes"' in page
        assert "shop" not in page  # it exists
        assert asked.get("/v1/rankers/shop/live").status_code == 401

    def test_without_keys_it_is_for_this_machine(self, client):
        assert client.get("/dashboard", headers={"Host": "evil.example"}).status_code == 403
        assert client.get("/dashboard", headers={"X-Forwarded-For": "10.0.0.1"}).status_code == 403


@pytest.fixture
def served(storage):
    """A real service on a socket, with a ranker called shop."""
    with serving(Service(storage, FAST), settings=WebSettings(max_streams=3)) as found:
        found.do(found.service.create(SPEC))
        yield found


@contextmanager
def following(served: Served, name: str = "shop", **headers: str):
    """Open a live stream, and give what reads its next message."""
    with (
        httpx.Client(timeout=FOR_EVER) as client,
        client.stream("GET", f"{served.url}/v1/rankers/{name}/live", headers=headers) as answer,
    ):
        lines = answer.iter_lines()

        def message():
            for line in lines:
                if line.startswith("data: "):
                    return json.loads(line[6:])
            return None

        yield answer, message


class TestLive:
    def test_messages_follow_what_happens(self, served):
        with following(served) as (answer, message):
            assert answer.headers["content-type"] == "text/event-stream"
            first = message()
            assert (first["ranker"]["impressions"], first["events_per_second"], first["guard"]) == (0, None, None)
            served.lists("shop", range(3))
            found = [first]
            until(lambda: found.append(message()) or found[-1]["ranker"]["learned"] == 3)
            assert sum(sum(each) for each in found[-1]["history"]["lists"].values()) == 3
            assert any(each["events_per_second"] for each in found[1:])
            assert found[-1]["lag"] == 0

    def test_it_names_other_rankers_with_an_alarm(self, served):
        guard = GuardSpec(share=1.0, false_alarm_every=10.0, promote=(1.0,))
        start = Start(weights={"bm25": 1.0})
        served.do(served.service.create(msgspec.structs.replace(SPEC, name="other", guard=guard, start=start)))
        with following(served) as (_, message), following(served, "other") as (_, own):
            assert message()["alarms"] == []
            served.lists("other", range(60), lambda number, ids: [min(ids)])
            until(lambda: message()["alarms"] == ["other"])
            assert own()["alarms"] == []

    def test_it_ends_with_the_service(self, storage):
        with serving(Service(storage, FAST)) as served:
            served.do(served.service.create(SPEC))
            with following(served) as (_, message):
                assert message() is not None
                stopping = threading.Thread(target=served.stop)
                stopping.start()
                while message() is not None:
                    pass
                stopping.join(FOR_EVER)
                assert not stopping.is_alive()

    def test_a_client_that_goes_leaves_nothing_behind(self, served):
        desk = served.state
        with following(served) as (_, message):
            assert message() is not None
            assert (desk.streams, desk.requests) == (1, 0)
        until(lambda: desk.streams == 0)

    def test_a_key_for_some_rankers_sees_the_alarms_of_these(self, storage):
        (every, first), (some, second) = make_key(["admin"]), make_key(["admin"], ["shop", "one"])
        storage.keys.add(first)
        storage.keys.add(second)
        with serving(Service(storage, FAST)) as served:
            for name in ("shop", "one", "two"):
                served.do(served.service.create(msgspec.structs.replace(SPEC, name=name)))
            served.service.alarms = lambda: ["one", "shop", "two"]
            for key, names in ((every, ["one", "two"]), (some, ["one"])):
                with following(served, **{"X-API-Key": key}) as (_, message):
                    assert message()["alarms"] == names

    def test_their_number_is_limited(self, served):
        with following(served), following(served), following(served):
            refused = httpx.get(f"{served.url}/v1/rankers/shop/live", timeout=FOR_EVER)
            assert refused.status_code == 503
            assert refused.json()["type"] == "/docs#too-busy"
            assert httpx.get(f"{served.url}/v1/rankers", timeout=FOR_EVER).status_code == 200
        until(lambda: served.state.streams == 0)
        with following(served) as (_, message):
            assert message() is not None

    def test_what_is_wrong_is_said_at_once(self, served):
        for path, status in (("nobody/live", 404), ("shop/live?step=year", 422)):
            assert httpx.get(f"{served.url}/v1/rankers/{path}", timeout=FOR_EVER).status_code == status

    def test_a_ranker_that_is_deleted_ends_it(self, served):
        with following(served) as (_, message):
            assert message() is not None
            served.do(served.service.delete("shop"))
            while message() is not None:
                pass

    def test_a_revoked_key_ends_it(self, storage):
        key, kept = make_key(["admin"])
        storage.keys.add(kept)
        with serving(Service(storage, FAST)) as served:
            served.do(served.service.create(SPEC))
            with following(served) as (answer, _):
                assert answer.status_code == 401
            with following(served, **{"X-API-Key": key}) as (_, message):
                assert message() is not None
                storage.keys.revoke(kept.id)
                while message() is not None:
                    pass

    def test_a_reader_that_stands_still_holds_up_nobody(self, served, monkeypatch):
        monkeypatch.setattr("duelrank.service.http.dashboard.LIVE_SECONDS", 0.0)
        made = []
        monkeypatch.setattr(
            "duelrank.service.http.dashboard._live", lambda *others: made.append(1) or {"filler": "x" * 100_000}
        )
        with socket.create_connection(("127.0.0.1", served.port)) as slow:
            slow.sendall(b"GET /v1/rankers/shop/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")

            def stands():
                """What it has not taken is in the buffers of the connection, and no more is made for a while."""
                count = len(made)
                time.sleep(0.5)
                return count > 3 and len(made) == count

            until(stands, lambda: f"{len(made)} messages, and {slow.recv(300)!r}")
            assert len(made) < 200
            assert httpx.get(f"{served.url}/healthz", timeout=FOR_EVER).status_code == 200
        until(lambda: served.state.streams == 0)


class TestComparing:
    @pytest.fixture
    def learned(self, served):
        served.lists("shop", range(30), lambda number, ids: [min(ids)])
        until(lambda: served.service.ranker("shop").learned == 30 and served.service.ranker("shop").model_version > 1)
        return served

    def get(self, served, path, **query):
        return httpx.get(f"{served.url}/v1/rankers/shop/{path}", params=query, timeout=FOR_EVER)

    def test_lists_with_their_clicks(self, learned):
        found = self.get(learned, "impressions").json()
        assert [each["impression_id"] for each in found][:2] == ["i29", "i28"]
        assert found[0]["clicked"] == [min(found[0]["shown"])]
        assert (found[0]["documents"], len(found[0]["shown"]), found[0]["kind"]) == (8, 5, "explored")

    def test_a_list_by_two_versions(self, learned):
        def current():
            return learned.service.ranker("shop").model_version

        before = current()
        found = self.get(learned, "compare", impression="i7").json()
        assert found["one"]["model_version"] == 1
        assert before <= found["other"]["model_version"] <= current()  # one may be published meanwhile
        for side in ("one", "other"):
            ranking = found[side]["ranking"]
            assert [each["position"] for each in ranking] == list(range(1, 9))
            shown = set(found["impression"]["shown"])
            assert shown < {each["id"] for each in ranking}
            assert sum(each["id"].startswith("#") for each in ranking) == 3
            assert [each["score"] for each in ranking] == sorted((each["score"] for each in ranking), reverse=True)
        assert {each["score"] for each in found["one"]["ranking"]} == {0.0}

    def test_what_is_not_there(self, learned):
        assert self.get(learned, "compare", impression="nothing").status_code == 404
        assert self.get(learned, "compare", impression="i1", one=10_000).status_code == 404
        assert self.get(learned, "compare").status_code == 422

    def test_features_that_were_added_meanwhile(self, learned):
        learned.do(learned.service.change("shop", Change(add_features=("new",))))
        found = self.get(learned, "compare", impression="i7").json()
        assert len(found["other"]["ranking"]) == 8
        assert any(each["score"] for each in found["other"]["ranking"])

    def replace_a_feature(self, learned):
        """Let another feature come for one that goes, and all versions but the newest; return a list of between."""
        service, change = learned.service, lambda **words: learned.do(learned.service.change("shop", Change(**words)))
        change(retire_features=("price",), add_features=("stock",))
        learned.lists("shop", range(100, 102))
        change(retire_features=("stock",), add_features=("colour",))
        until(lambda: service.ranker("shop").features == ("bm25", "rating", "colour"))
        learned.lists("shop", range(200, 230), lambda number, ids: [min(ids)])
        until(lambda: service.ranker("shop").open == 0)
        learned.storage.snapshots.prune("shop", VERSION, 1)
        return "i100"

    def test_as_many_features_are_not_the_same_features(self, learned):
        """A list of features that no version at hand has is refused, and not scored by the wrong ones."""
        answer = self.get(learned, "compare", impression=self.replace_a_feature(learned))
        assert answer.status_code == 404
        assert "the names of its features" in answer.json()["detail"]
        assert self.get(learned, "compare", impression="i7").status_code == 200  # the features of version 1
        assert self.get(learned, "compare", impression="i229").status_code == 200

    def test_a_list_without_feature_names_needs_the_version_that_made_it(self, learned, monkeypatch):
        """As lists do that were stored by earlier versions of duelrank."""
        read = log.read_impression

        def older(*given):
            event, body, raw = read(*given)
            return event, msgspec.structs.replace(body, names=b""), raw

        monkeypatch.setattr(log, "read_impression", older)
        assert self.get(learned, "compare", impression="i7").status_code == 200
        assert self.get(learned, "compare", impression=self.replace_a_feature(learned)).status_code == 404

    def test_what_others_do_in_between_does_not_matter(self, served):
        """Neither for the newest lists of a ranker nor for the clicks of one: the store may be full of other rankers."""
        noise = [NewEvent("noise", "any", str(number), 0.0, b"") for number in range(30_000)]
        documents = [Document(f"d{row}", [row / 8, 0.5, 1 - row / 8]) for row in range(8)]
        shown = served.do(served.service.rank("shop", RankRequest(documents, impression_id="i1"))).ids
        served.storage.log.append(noise[:6000])
        served.do(served.service.feedback("shop", [FeedbackEvent("i1", shown[1:2], close=True)]))
        served.storage.log.append(noise[6000:])
        assert self.get(served, "compare", impression="i1").json()["impression"]["clicked"] == shown[1:2]
        found = self.get(served, "impressions").json()
        assert [(each["impression_id"], each["clicked"]) for each in found] == [("i1", shown[1:2])]

    @pytest.mark.parametrize("window", [1, 4, 50])
    def test_events_backwards(self, storage, monkeypatch, window):
        """Bursts and long silences of a ranker, and whatever is between them: each event is found once."""
        monkeypatch.setattr(log, "READ_EVENTS", window)
        names = (
            ["shop"] * 30 + ["noise"] * 300 + ["shop", "noise"] * 10 + ["noise"] * 70 + ["shop"] * 25 + ["noise"] * 90
        )
        storage.log.append([NewEvent(name, "any", str(place), 0.0, b"") for place, name in enumerate(names)])
        found = [event.number for event in log.read_backwards(storage, "shop")]
        assert found == [place for place, name in enumerate(names, 1) if name == "shop"][::-1]


class TestOnlyLooking:
    @pytest.fixture
    def looked(self, tmp_path):
        """What a service that only looks says of a store that another one has filled, and the store."""
        url = f"sqlite:///{tmp_path}/store.db"
        with open_storage(url) as storage, serving(Service(storage, FAST)) as served:
            served.do(served.service.create(SPEC))
            served.lists("shop", range(12))
            until(lambda: served.service.ranker("shop").learned == 12)
            served.do(served.service.control("shop", "freeze"))
            told = served.service.ranker("shop"), served.service.history("shop")
        with open_storage(url) as storage, serving(Service(storage, FAST, read_only=True)) as served:
            yield served, told, tmp_path / "store.db"

    def test_it_shows_what_was(self, looked):
        served, (info, history), _ = looked
        service = served.service
        assert (service.ranker("shop"), service.history("shop")) == (info, history)
        assert [each.version for each in service.versions("shop")]
        assert service.model("shop").version == info.model_version
        assert service.compare("shop", "i3").impression.impression_id == "i3"
        assert 'data-read-only="yes"' in httpx.get(f"{served.url}/dashboard", timeout=FOR_EVER).text

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("POST", "/v1/rankers/shop/rank", {"documents": [{"id": "d1", "features": [1, 2, 3]}]}),
            ("POST", "/v1/rankers/shop/feedback", {"impression_id": "i1", "close": True}),
            ("POST", "/v1/rankers/shop/freeze", None),
            ("POST", "/v1/rankers/shop/rollback", {"version": 1}),
            ("POST", "/v1/rankers/shop/label", {"version": 1, "label": "x"}),
            ("PATCH", "/v1/rankers/shop", {"exploration": 0.5}),
            ("POST", "/v1/rankers", {"name": "new", "algorithm": "mgd", "features": ["a"]}),
            ("DELETE", "/v1/rankers/shop?confirm=shop", None),
        ],
    )
    def test_it_refuses_to_change_anything(self, looked, method, path, body):
        served, *_ = looked
        answer = httpx.request(method, served.url + path, json=body, timeout=FOR_EVER)
        assert (answer.status_code, answer.json()["type"]) == (403, "/docs#read-only")
        assert "read-only" in answer.json()["detail"]

    def test_the_store_stays_as_it_is(self, tmp_path):
        url, file = f"sqlite:///{tmp_path}/store.db", tmp_path / "store.db"
        with open_storage(url) as storage, serving(Service(storage, FAST)) as served:
            served.do(served.service.create(SPEC))
            served.lists("shop", range(12))
            until(lambda: served.service.ranker("shop").learned == 12)
        before = file.read_bytes()
        with open_storage(url) as storage, serving(Service(storage, FAST, read_only=True)) as served:
            for path in ("", "/history", "/model/versions", "/impressions", "/compare?impression=i3", "/curves"):
                assert httpx.get(f"{served.url}/v1/rankers/shop{path}", timeout=FOR_EVER).status_code == 200
            with following(served) as (_, message):
                assert message() is not None
        assert file.read_bytes() == before
        assert (
            not (tmp_path / "store.db.learner.lock").exists()
            or (tmp_path / "store.db.learner.lock").stat().st_size == 0
        )

    def test_it_follows_a_running_service(self, tmp_path):
        url = f"sqlite:///{tmp_path}/store.db"
        with open_storage(url) as one, serving(Service(one, FAST)) as served:
            served.do(served.service.create(SPEC))
            with open_storage(url) as other, serving(Service(other, FAST, read_only=True)) as looking:
                served.lists("shop", range(5))
                until(lambda: looking.service.ranker("shop").learned == 5)
                until(
                    lambda: looking.service.ranker("shop").model_version == served.service.ranker("shop").model_version
                )
                assert looking.service.model("shop").weights.tolist() == served.service.model("shop").weights.tolist()

    @pytest.fixture
    def beside(self, tmp_path, monkeypatch):
        """A service, one that only looks at its store, and the names of the rankers that the latter has begun to follow."""
        begun, begin = [], Viewer._begin
        monkeypatch.setattr(
            Viewer, "_begin", lambda self, name, ranker: begun.append(name) or begin(self, name, ranker)
        )
        url = f"sqlite:///{tmp_path}/store.db"
        with open_storage(url) as one, serving(Service(one, FAST)) as served:
            served.do(served.service.create(SPEC))
            with open_storage(url) as other, serving(Service(other, FAST, read_only=True)) as looking:
                until(lambda: begun == ["shop"])
                yield served, looking, begun

    def looks(self, looking, count=5):
        """Wait until it has looked some more times."""
        seen, viewer = [], looking.service._background
        look, viewer._advance_all = viewer._advance_all, lambda: seen.append(1) or look()
        until(lambda: len(seen) > count)

    def test_what_nobody_can_learn_from_is_no_reason_to_begin_anew(self, beside):
        served, looking, begun = beside
        served.do(
            served.service.create(
                msgspec.structs.replace(SPEC, name="team", algorithm="mgd-dsp(multileaver=TeamDraft())")
            )
        )
        served.lists("team", range(1))
        _, body, _ = read_impression(served.storage, "team", "i0")
        number = served.storage.log.find("team", "ranked", ["i0"])["i0"].number
        features = served.storage.log.attachment("team", number)
        wrong = StoredImpression.of(1, [f"d{row}" for row in range(8)], body.order[::-1], EXPLORED)
        served.storage.log.append([NewEvent("team", "ranked", "odd", time.time(), pack(wrong), features)])
        shown = wrong.shown
        served.do(served.service.feedback("team", [FeedbackEvent("odd", shown[1:2], close=True)]))
        until(lambda: any(each.name == "team" and each.failed == 1 for each in looking.service.rankers()))
        self.looks(looking)
        assert begun == ["shop", "team"]

    def test_what_was_missed_is_mended_by_the_next_checkpoint(self, beside, monkeypatch):
        served, looking, _ = beside
        with monkeypatch.context() as gone:
            gone.setattr("duelrank.service.viewer.ListReader.impression", lambda *given: None)
            served.lists("shop", range(3))
            until(lambda: looking.service.ranker("shop").failed == 3)
            self.looks(looking)
        machine = served.service._rankers["shop"].machine
        until(lambda: machine.tally.learned == 3 and not machine.changed)
        served.storage.snapshots.save("shop", CHECKPOINT, machine.number, time.time(), machine.checkpoint())
        until(lambda: looking.service.ranker("shop").learned == 3)
        assert looking.service.ranker("shop").failed == 0

    def test_a_ranker_that_was_deleted_is_let_go(self, beside):
        served, looking, _ = beside
        viewer = looking.service._background
        until(lambda: list(viewer._machines) == ["shop"])
        served.do(served.service.delete("shop"))
        until(lambda: not viewer._machines)
