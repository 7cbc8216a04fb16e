"""The playground over HTTP: its search, its rankers and its simulated users."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
from tests.playground.conftest import HARM
from tests.waiting import until

from duelrank.playground import Playground
from duelrank.playground.app import MINE, own_ranker
from duelrank.playground.search import FEATURES
from duelrank.storage import open_storage

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # deprecation of httpx
    from starlette.testclient import TestClient


@pytest.fixture
def client(search) -> Iterator[TestClient]:
    with open_storage("sqlite://") as storage:
        playground = Playground(storage, search)
        with TestClient(playground.app, base_url="http://127.0.0.1", client=("127.0.0.1", 1)) as found:
            until(lambda: found.get("/readyz").status_code == 200)
            yield found


class TestTheReferenceIntegration:
    def test_search_rank_click_learn(self, client):
        """What the page does, call by call."""
        setup = client.get("/play/setup").json()
        assert (setup["ranker"], list(setup["features"])) == (MINE, list(FEATURES))
        found = client.get("/play/search", params={"q": "read file"}).json()
        documents = [{"id": each["id"], "features": each["features"]} for each in found["candidates"]]
        answer = client.post(f"/v1/rankers/{MINE}/rank", json={"documents": documents}).json()
        shown = [each["id"] for each in answer["ranking"]]
        assert len(shown) == 10
        event = {"impression_id": answer["impression_id"], "clicks": [shown[3]], "close": True}
        assert client.post(f"/v1/rankers/{MINE}/feedback", json=event).json()["accepted"] == 1
        until(lambda: client.get(f"/v1/rankers/{MINE}").json()["model_version"] > answer["model_version"])
        step = client.get(f"/v1/rankers/{MINE}/last-step").json()
        assert step["impression_id"] == answer["impression_id"]
        assert [each["id"] for each in step["documents"] if each["clicked"]] == [shown[3]]
        assert [each["examined"] for each in step["documents"]] == [True] * 5 + [False] * 5
        assert step["weights_before"]["name"] == 0.5
        assert step["weights_after"] != step["weights_before"]

        assert client.post("/play/forget").status_code == 204
        assert client.get(f"/v1/rankers/{MINE}").json()["model_version"] == 1

    def test_what_was_chosen_for_a_query_rises_for_it_at_once(self, client):
        setup = client.get("/play/setup").json()
        assert setup["remembers"]
        found = client.get("/play/search", params={"q": "read file"}).json()
        documents = [{"id": each["id"], "features": each["features"]} for each in found["candidates"]]

        def rank(query):
            body = {"documents": documents, "query": query, "explain": True}
            return client.post(f"/v1/rankers/{MINE}/rank", json=body).json()

        answer = rank("read file")
        chosen = answer["ranking"][7]["id"]
        event = {"impression_id": answer["impression_id"], "clicks": [chosen], "close": True}
        client.post(f"/v1/rankers/{MINE}/feedback", json=event)
        until(lambda: client.get(f"/v1/rankers/{MINE}").json()["model_version"] > answer["model_version"])
        again = rank("Read  file")["ranking"]
        (risen,) = (each for each in again if each["id"] == chosen)
        assert risen["position"] <= 3
        boosted = [each["id"] for each in again if each.get("memory", 0.0) > 0.0]
        assert chosen in boosted
        assert len(boosted) <= 2, "now and then another one is raised once, to be tried"
        assert all("memory" not in each for each in rank("file")["ranking"])  # another query

    def test_a_docstring(self, client):
        found = client.get("/play/document", params={"id": "harm.harm"}).json()
        assert (found["kind"], found["text"]) == ("function", f"Harm a file {HARM}.")
        assert client.get("/play/document", params={"id": "nothing"}).status_code == 404

    def test_the_page_may_load_nothing_from_elsewhere(self, client):
        page = client.get("/play")
        assert page.headers["content-type"].startswith("text/html")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "<style" not in page.text
        assert "style=" not in page.text
        sizes = [len(page.content)]
        for name in ("play.js", "play.css"):
            found = client.get(f"/play/assets/{name}")
            assert found.status_code == 200
            assert "http://" not in found.text.replace("http://www.w3.org/", "")
            assert "https://" not in found.text
            sizes.append(len(found.content))
        assert sum(sizes) < 60_000
        assert client.get("/play/assets/../app.py").status_code == 404
        assert client.get("/play/assets/app.py").status_code == 404

    def test_it_is_not_part_of_the_documented_api(self, client):
        paths = client.get("/openapi.json").json()["paths"]
        assert not any(path.startswith("/play") for path in paths)
        assert "/v1/rankers/{name}/last-step" in paths

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ({"algorithms": ["mgd", "mdg"]}, "the second recipe: "),
            ({"algorithms": ["query-scaled >> nothing", "mgd"]}, "the first recipe: "),
            ({"algorithms": ["cascade-kl-ucb", "mgd"]}, "the first recipe: "),
            ({"rate": 5000}, "from 1 to 1,000"),
            ({"taste": {"smell": 1.0}}, "smell"),
            ({"taste": {"depth": 2.0}}, "from -1"),
            ({"noise": "loud"}, "noise"),
        ],
    )
    def test_wishes_that_make_no_sense_are_answered_with_a_sentence(self, client, body, said):
        answer = client.post("/play/users", json=body)
        assert answer.status_code in (404, 422)
        assert said in answer.json()["detail"]
        assert not client.get("/play/users").json()["running"]


@pytest.mark.parametrize("algorithm", ["remember >> wmgd-dsp", "wmgd-dsp", "pairrank", "curves >> mgd-dsp", "pdgd"])
def test_any_recipe_may_be_taught_by_hand(algorithm):
    from duelrank.service.definition import Definition

    definition = Definition(own_ranker(algorithm), 0.0)
    assert definition.spec.features == tuple(FEATURES)


@pytest.mark.parametrize(
    ("algorithm", "representation", "starts"),
    [
        ("remember >> wmgd-dsp", "query-scaled", True),
        ("remember >> pairrank", "query-scaled", False),
        ("curves >> remember >> mgd-dsp", None, False),
    ],
)
def test_a_memory_is_no_representation(algorithm, representation, starts):
    spec = own_ranker(algorithm)
    assert (spec.representation, spec.start is not None) == (representation, starts)
