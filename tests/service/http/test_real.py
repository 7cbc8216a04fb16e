"""The web layer on the real service and a file: rank, feedback, learn, export."""

import json

import numpy as np
from tests.service.http.conftest import SHOP, TestClient
from tests.waiting import until

from duelrank.service import Service, Settings
from duelrank.service.http import KeyRing, create_app
from duelrank.storage import open_storage


def documents(rng, n=10):
    features = rng.random((n, 2))
    return [{"id": f"d{i}", "features": row} for i, row in enumerate(features.tolist())], features


def test_it_learns_what_is_clicked(real_client):
    rng = np.random.default_rng(5)
    for number in range(200):
        candidates, features = documents(rng)
        shown = real_client.post(
            "/v1/rankers/shop/rank", json={"impression_id": f"i{number}", "documents": candidates}
        ).json()["ranking"]
        assert [each["position"] for each in shown] == list(range(1, 11))
        best = max(shown, key=lambda each: features[int(each["id"][1:]), 0] - features[int(each["id"][1:]), 1])
        event = {"impression_id": f"i{number}", "clicks": [best["id"]], "close": True}
        assert real_client.post("/v1/rankers/shop/feedback", json=event).json()["accepted"] == 1
    until(lambda: real_client.get("/v1/rankers/shop").json()["learned"] == 200)
    until(lambda: real_client.get("/v1/rankers/shop").json()["model_version"] > 1)

    def learned():
        curves = real_client.get("/v1/rankers/shop/curves").json()["curves"]
        rise = {each["name"]: each["heights"][-1] - each["heights"][0] for each in curves}
        return rise["bm25"] > 0.0 > rise["price"]

    until(learned)
    text = real_client.get("/metrics").text
    assert 'duelrank_learned_impressions_total{ranker="shop"} 200.0' in text
    assert 'duelrank_click_through_rate{ranker="shop"} 1.0' in text
    assert 'duelrank_model_version{ranker="shop"}' in text


def test_the_same_list_again_also_after_a_restart(tmp_path):
    candidates, _ = documents(np.random.default_rng(1))
    body = {"impression_id": "i1", "documents": candidates}
    answers = []
    for _ in range(2):
        with open_storage(f"sqlite:///{tmp_path}/shop.db") as storage:
            app = create_app(Service(storage, Settings(publish_every=0.02, salt=b"tests")), KeyRing(storage))
            with TestClient(app, "http://127.0.0.1", client=("127.0.0.1", 5)) as client:
                until(lambda: client.get("/readyz").status_code == 200)
                client.post("/v1/rankers", json=SHOP)
                answers += [client.post("/v1/rankers/shop/rank", json=body).json() for _ in range(2)]
    assert answers == [answers[0]] * 4
    assert set(answers[0]["ranking"][0]) == {"id", "position"}


def test_freeze_and_roll_back(real_client):
    assert real_client.post("/v1/rankers/shop/freeze").json()["frozen"]
    assert not real_client.post("/v1/rankers/shop/resume").json()["frozen"]
    before = real_client.get("/v1/rankers/shop").json()["model_version"]
    after = real_client.post("/v1/rankers/shop/rollback", json={"version": 1})
    assert after.json()["model_version"] > before
    assert real_client.post("/v1/rankers/shop/rollback", json={"version": 999}).status_code in (404, 422)
    assert real_client.get("/v1/rankers/shop/export?format=json").json()["name"] == "shop"


def test_a_shadow_serves_the_version_that_is_pinned(real_client):
    real_client.post(
        "/v1/rankers", json=SHOP | {"name": "shadow", "algorithm": "query-scaled >> pdgd", "mode": "shadow"}
    )
    candidates = [{"id": f"d{i}", "features": [i / 9, 0.5]} for i in range(10)]
    sent = [each["id"] for each in candidates]

    def shown():
        answer = real_client.post("/v1/rankers/shadow/rank", json={"documents": candidates}).json()
        clicks = {"impression_id": answer["impression_id"], "clicks": ["d9"], "close": True}
        assert real_client.post("/v1/rankers/shadow/feedback", json=clicks).json()["accepted"] == 1
        return [each["id"] for each in answer["ranking"]]

    assert all(shown() == sent for _ in range(20))  # a click on the last, with the largest bm25
    until(lambda: real_client.get("/v1/rankers/shadow/model").json()["weights"]["bm25"] > 0.0)
    version = real_client.get("/v1/rankers/shadow").json()["model_version"]
    assert real_client.post("/v1/rankers/shadow/pin", json={"version": 999}).status_code == 404
    assert real_client.post("/v1/rankers/shadow/pin", json={"version": version}).json()["pinned"] == version
    assert shown() == sent[::-1]
    until(lambda: real_client.get("/v1/rankers/shadow").json()["learned"] == 21)
    assert real_client.post("/v1/rankers/shadow/unpin").json()["pinned"] is None
    assert shown() == sent


def test_only_a_shadow_can_be_pinned(real_client):
    for refused in (
        real_client.post("/v1/rankers/shop/pin", json={"version": 1}),
        real_client.post("/v1/rankers/shop/unpin"),
    ):
        assert refused.status_code == 422
        assert "'shop' is not a shadow" in refused.json()["detail"]
        assert "freeze" in refused.json()["detail"]


def test_an_algorithm_that_there_is_not(real_client):
    refused = real_client.post("/v1/rankers", json=SHOP | {"name": "b", "algorithm": "mgd-dps"})
    assert refused.status_code == 422
    assert "mgd-dsp" in refused.json()["detail"]


def test_lists_of_a_log_teach_before_the_first_live_one(real_client):
    rng, lines = np.random.default_rng(8), []
    for number in range(120):
        candidates, features = documents(rng)
        best = int(np.argmax(features[:, 0] - features[:, 1]))
        lines.append({"impression_id": f"log-{number}", "documents": candidates, "clicks": [f"d{best}"]})
    where, ndjson = "/v1/rankers/shop/impressions", {"Content-Type": "application/x-ndjson"}
    rest = {"invalid": [], "known_for": 7 * 86_400.0}
    assert real_client.post(where, json=lines[0]).json() == {"accepted": 1, "duplicate": 0} | rest
    assert real_client.post(where, json=lines[:60]).json() == {"accepted": 59, "duplicate": 1} | rest
    text = "\n".join([*map(json.dumps, lines[60:]), "{", '{"impression_id": "x", "documents": [], "click": []}'])
    found = real_client.post(where, content=text, headers=ndjson).json()
    assert (found["accepted"], found["duplicate"]) == (60, 0)
    assert [(each["index"], each["event_id"]) for each in found["invalid"]] == [(60, None), (61, "x")]
    assert "did you mean `clicks`?" in found["invalid"][1]["reason"]
    until(lambda: real_client.get("/v1/rankers/shop").json()["backfilled"] == 120)

    def learned():
        curves = real_client.get("/v1/rankers/shop/curves").json()["curves"]
        rise = {each["name"]: each["heights"][-1] - each["heights"][0] for each in curves}
        return rise["bm25"] > 0.0 > rise["price"]

    until(learned)
    assert 'duelrank_backfilled_lists_total{outcome="accepted",ranker="shop"} 120.0' in real_client.get("/metrics").text
    assert real_client.post(where, content="{").status_code == 400
    assert real_client.get(where).json() == [], "those are its own"
