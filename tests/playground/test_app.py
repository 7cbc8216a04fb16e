"""The playground over HTTP: a search beside the API, and users who search through it."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator

import pytest
from tests.playground.conftest import HARM
from tests.waiting import until, until_async

from duelrank.core.errors import InvalidRecipe, InvalidValue, UnknownName
from duelrank.playground import Playground
from duelrank.playground.app import MINE, own_ranker
from duelrank.playground.crowd import NAMES, Crowd, CrowdWish
from duelrank.playground.search import FEATURES
from duelrank.service import Service, Settings
from duelrank.storage import open_storage

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have a successor of httpx
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
        assert step["weights_before"]["name match"] == 0.5
        assert step["weights_after"] != step["weights_before"]

        assert client.post("/play/forget").status_code == 204
        assert client.get(f"/v1/rankers/{MINE}").json()["model_version"] == 1

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


@pytest.mark.parametrize("algorithm", ["wmgd-dsp", "pairrank", "curves >> mgd-dsp", "pdgd"])
def test_any_recipe_may_be_taught_by_hand(algorithm):
    from duelrank.service.definition import Definition

    definition = Definition(own_ranker(algorithm), 0.0)
    assert definition.spec.features == tuple(FEATURES)


def crowded(search, work):
    """Run something with a crowd on a service of its own."""

    async def main():
        with open_storage("sqlite://") as storage:
            service = Service(storage, Settings(publish_every=0.0, poll_every=0.02))
            await service.start()
            try:
                await service.wait_ready(300)
                crowd = Crowd(service, search)
                try:
                    return await work(crowd, service)
                finally:
                    await crowd.stop()
            finally:
                await service.stop()

    return asyncio.run(main())


class TestCrowd:
    def test_users_teach_both_rankers_what_they_like(self, search):
        async def work(crowd, service):
            wish = CrowdWish(running=True, rate=1000.0, taste={"depth": -1.0}, algorithms=("mgd", "wmgd-dsp"))
            await crowd.change(wish)
            await until_async(lambda: crowd.lists >= 400)
            state = await crowd.change(CrowdWish(running=False, taste={"depth": -1.0}, algorithms=("mgd", "wmgd-dsp")))
            await until_async(lambda: all(service.ranker(name).learned == state.lists for name in NAMES))
            return state, [service.ranker(name) for name in NAMES], service.model(NAMES[1]).weights

        state, infos, weights = crowded(search, work)
        assert not state.running
        assert [each.algorithm for each in state.sides] == ["mgd", "wmgd-dsp"]
        for side, info in zip(state.sides, infos, strict=True):
            assert (info.impressions, info.failed) == (state.lists, 0)
            assert len(side.curve) == state.lists // state.per_point
        assert weights[list(FEATURES).index("depth")] < 0.0
        assert state.sides[1].lately > state.sides[1].curve[0]

    def test_they_stop_go_on_and_begin_anew(self, search):
        async def work(crowd, service):
            assert not (await crowd.change(CrowdWish())).running
            assert (await crowd.change(CrowdWish(running=True, rate=500.0))).running
            await until_async(lambda: crowd.lists >= 20)
            stopped = await crowd.change(CrowdWish(running=False))
            await asyncio.sleep(0.1)
            assert crowd.lists == stopped.lists
            await crowd.change(CrowdWish(running=True, rate=500.0))
            await until_async(lambda: crowd.lists > stopped.lists)
            await crowd.change(CrowdWish(running=False, anew=True))
            assert crowd.state().lists == 0
            assert service.ranker(NAMES[0]).impressions == 0

        crowded(search, work)

    def test_a_bad_recipe_leaves_the_others_running(self, search):
        async def work(crowd, service):
            await crowd.change(CrowdWish(running=True))
            with pytest.raises(InvalidRecipe, match="the second recipe"):
                await crowd.change(CrowdWish(running=True, algorithms=("mgd", "pdgd(")))
            with pytest.raises(UnknownName):
                await crowd.change(CrowdWish(running=True, taste={"smell": 1.0}))
            with pytest.raises(InvalidValue):
                await crowd.change(CrowdWish(running=True, rate=0.0))
            assert crowd.running
            assert crowd.wish.algorithms == ("mgd", "mgd-dsp")

        crowded(search, work)

    def test_a_ranker_that_is_gone_stops_them_with_a_reason(self, search):
        async def work(crowd, service):
            await crowd.change(CrowdWish(running=True))
            await service.delete(NAMES[0])
            await until_async(lambda: not crowd.running)
            assert NAMES[0] in crowd.state().error
            assert (await crowd.change(CrowdWish(running=True, anew=True))).error == ""

        crowded(search, work)

    def test_a_ranker_that_is_gone_is_made_anew_when_they_go_on(self, search):
        async def work(crowd, service):
            await crowd.change(CrowdWish(running=True))
            await service.delete(NAMES[1])
            await until_async(lambda: not crowd.running)
            assert (await crowd.change(CrowdWish(running=True))).error == ""
            await until_async(lambda: crowd.lists >= 5, crowd.state)
            await crowd.change(CrowdWish(running=False))
            # Both begin again: it is fair. The learner counts a moment later.
            await until_async(lambda: [service.ranker(name).impressions for name in NAMES] == [crowd.lists] * 2)

        crowded(search, work)

    def test_a_bad_recipe_is_refused_before_anything_is_prepared(self, search, monkeypatch):
        def prepared(search):
            raise AssertionError("questions were looked for first")

        monkeypatch.setattr("duelrank.playground.crowd.questions", prepared)

        async def work(crowd, service):
            with pytest.raises(InvalidRecipe, match="the first recipe"):
                await crowd.change(CrowdWish(running=True, algorithms=("mdg", "mgd")))

        crowded(search, work)

    def test_no_faster_than_asked(self, search):
        async def work(crowd, service):
            await crowd.change(CrowdWish(running=True, rate=1.0))
            began = asyncio.get_running_loop().time()
            await until_async(lambda: crowd.lists >= 2)
            return asyncio.get_running_loop().time() - began

        assert crowded(search, work) > 1.5

    def test_nothing_to_search(self, library):
        from duelrank.playground import Search
        from duelrank.playground.search import Library

        search = Search(Library(library.documents[:3], library.importers))

        async def work(crowd, service):
            with pytest.raises(InvalidValue, match="nothing for users to search"):
                await crowd.change(CrowdWish(running=True))

        crowded(search, work)
        search.close()
