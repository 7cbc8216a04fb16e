"""Experiments over HTTP: who may do what, every form of feedback, and what Prometheus sees."""

from __future__ import annotations

import json

import pytest
from tests.service.http.test_metrics import samples
from tests.waiting import until

from duelrank.service.http import make_key

SPRING = {"name": "spring", "systems": ["engine", "semantic"], "length": 2}
LISTS = {"engine": ["d1", "d2"], "semantic": ["d2", "d3"]}
PATH = "/v1/experiments/spring"


@pytest.fixture
def spring(bare_client):
    assert bare_client.post("/v1/experiments", json=SPRING).status_code == 201
    assert bare_client.post("/v1/experiments", json=SPRING).status_code == 200
    return bare_client


def counted(client, number: int) -> dict:
    """Return the experiment when it has counted so many lists."""
    until(lambda: client.get(PATH).json()["counted"] == number, lambda: client.get(PATH).text)
    return client.get(PATH).json()


def test_from_creation_to_deletion(spring):
    shown = spring.post(f"{PATH}/show", json={"impression_id": "s1", "lists": LISTS}).json()
    assert spring.post(f"{PATH}/show", json={"impression_id": "s1", "lists": LISTS}).json() == shown
    click = {"impression_id": "s1", "clicks": shown["documents"][:1], "close": True}
    answer = spring.post(f"{PATH}/feedback", json=click).json()
    assert (answer["accepted"], answer["invalid"]) == (1, [])
    info = counted(spring, 1)
    assert spring.get("/v1/experiments").json() == [info]
    assert info["verdict"].startswith("undecided")
    history = spring.get(f"{PATH}/history").json()
    assert history["lists"] == [1]
    assert [(each["one"], each["other"]) for each in history["pairs"]] == [("engine", "semantic")]
    assert spring.get("/v1/rankers").json() == []
    assert spring.get("/v1/rankers/spring").status_code == 404
    assert spring.post(f"{PATH}/stop").json()["stopped"] is not None
    refused = spring.post(f"{PATH}/show", json={"lists": LISTS})
    assert (refused.status_code, refused.json()["type"]) == (409, "/docs#conflict")
    assert spring.delete(PATH, params={"confirm": "other"}).status_code == 422
    assert spring.delete(PATH, params={"confirm": "spring"}).status_code == 204
    assert spring.get(PATH).status_code == 404


def test_feedback_in_all_forms(spring):
    for number in range(3):
        spring.post(f"{PATH}/show", json={"impression_id": f"s{number}", "lists": LISTS})
    ubi = {
        "action_name": "click",
        "query_id": "s0",
        "client_id": "browser-1",
        "event_attributes": {"object": {"object_id": "d2"}},
    }
    closing = {"impression_id": "s0", "close": True}
    assert spring.post(f"{PATH}/feedback", json=[ubi, closing]).json()["accepted"] == 2
    lines = "\n".join(json.dumps({"impression_id": f"s{number}", "close": True}) for number in (1, 2))
    answer = spring.post(f"{PATH}/feedback", content=lines, headers={"content-type": "application/x-ndjson"})
    assert answer.json()["accepted"] == 2
    info = counted(spring, 3)
    assert info["clicked"] == 1


def test_scopes_and_names(bare_client, monkeypatch):
    keys = bare_client.app.state.app_state.gate.keys
    storage, tokens = keys._storage, {}
    for scope, names in (("rank", ()), ("feedback", ()), ("admin", ()), ("other", ("shop",))):
        token, key = make_key(["admin" if scope == "other" else scope], names)
        storage.keys.add(key)
        tokens[scope] = {"x-api-key": token}
    keys.refresh()

    def status(method: str, path: str, scope: str, **others) -> int:
        return bare_client.request(method, path, headers=tokens[scope], **others).status_code

    assert status("POST", "/v1/experiments", "rank", json=SPRING) == 403
    assert status("POST", "/v1/experiments", "other", json=SPRING) == 403
    assert status("POST", "/v1/experiments", "admin", json=SPRING) == 201
    with_ranker = {"name": "shop", "systems": ["engine"], "rankers": ["hidden"]}
    assert status("POST", "/v1/experiments", "other", json=with_ranker) == 403
    assert status("POST", f"{PATH}/show", "feedback", json={"lists": LISTS}) == 403
    assert status("POST", f"{PATH}/show", "rank", json={"lists": LISTS}) == 200
    assert status("POST", f"{PATH}/feedback", "rank", json={"impression_id": "s1"}) == 403
    assert status("POST", f"{PATH}/feedback", "feedback", json={"impression_id": "s1"}) == 200
    assert status("GET", PATH, "rank") == 200
    assert status("GET", PATH, "other") == 403
    assert bare_client.get("/v1/experiments", headers=tokens["other"]).json() == []
    assert status("POST", f"{PATH}/stop", "rank") == 403
    assert status("DELETE", f"{PATH}?confirm=spring", "rank") == 403
    assert status("DELETE", f"{PATH}?confirm=spring", "admin") == 204


def test_metrics(spring):
    for number in range(8):
        shown = spring.post(
            f"{PATH}/show", json={"impression_id": f"s{number}", "lists": {"engine": ["a"], "semantic": ["b"]}}
        )
        click = {"impression_id": f"s{number}", "clicks": shown.json()["documents"][:1], "close": True}
        spring.post(f"{PATH}/feedback", json=click)
    info = counted(spring, 8)

    def found() -> dict:
        return samples(spring.get("/metrics").text)

    pair = ("one=engine", "other=semantic", "ranker=spring")
    until(lambda: found().get(("duelrank_experiment_wins", *pair), -1) == info["pairs"][0]["wins"])
    until(lambda: found()["duelrank_experiment_losses", *pair] == info["pairs"][0]["losses"])
    decisive = found()["duelrank_experiment_lists_total", "outcome=decisive", "ranker=spring"]
    assert decisive == info["decisive"] > 0
    assert found()["duelrank_experiment_p_value", *pair] == info["pairs"][0]["p_value"]
    spring.delete(PATH, params={"confirm": "spring"})
    assert "spring" not in spring.get("/metrics").text


def test_a_wrong_body_is_explained(spring):
    wrong = spring.post(f"{PATH}/show", json={"list": LISTS}).json()
    assert (wrong["type"], "lists" in wrong["detail"]) == ("/docs#wrong-shape", True)
    unknown = spring.post("/v1/experiments", json=SPRING | {"name": "x", "multileaver": "Teamdraft()"})
    assert (unknown.status_code, unknown.json()["type"]) == (422, "/docs#invalid-recipe")
