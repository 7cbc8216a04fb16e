"""Heavy requests take turns, fairly; small ones do not wait for them."""

import asyncio
from typing import ClassVar

import pytest
from tests.service.http.conftest import SHOP
from tests.service.http.test_api import problem

from duelrank.service.http import WebSettings
from duelrank.service.http.errors import TooBusy
from duelrank.service.http.limits import FairSemaphore


async def settle():
    """Let all tasks run as far as they can."""
    for _ in range(10):
        await asyncio.sleep(0)


class Crowd:
    """Requests that hold a slot until they are told to go; ``order`` has who came in."""

    def __init__(self, turns):
        self.turns, self.order, self.tasks = turns, [], []
        self.go = asyncio.Semaphore(0)

    async def one(self, who):
        async with self.turns.slot(who):
            self.order.append(who)
            await self.go.acquire()

    async def send(self, *names):
        self.tasks += [asyncio.create_task(self.one(who)) for who in names]
        await settle()

    async def finish(self):
        for _ in self.tasks:
            self.go.release()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def test_waiting_callers_are_served_round_robin():
    async def check():
        crowd = Crowd(FairSemaphore(slots=1, max_waiting=10))
        await crowd.send("a", "a", "a", "a", "b", "b", "c")
        assert crowd.order == ["a"]
        await crowd.finish()
        assert crowd.order == ["a", "a", "b", "c", "a", "b", "a"]
        assert (crowd.turns.free, crowd.turns.waiting) == (1, 0)

    asyncio.run(check())


def test_several_slots():
    async def check():
        crowd = Crowd(FairSemaphore(slots=2, max_waiting=10))
        await crowd.send("a", "b", "c")
        assert crowd.order == ["a", "b"]
        await crowd.finish()
        assert crowd.turns.free == 2

    asyncio.run(check())


def test_waiting_requests_of_a_caller_are_limited():
    async def check():
        turns = FairSemaphore(slots=1, max_waiting=2)
        crowd = Crowd(turns)
        await crowd.send("a", "a", "a")
        with pytest.raises(TooBusy, match="send fewer"):
            await crowd.one("a")
        await crowd.send("b")
        assert turns.waiting == 3
        await crowd.finish()
        assert (turns.free, turns.waiting) == (1, 0)

    asyncio.run(check())


@pytest.mark.parametrize("late", [False, True], ids=["while it waits", "as its turn comes"])
def test_one_that_goes_away_loses_no_slot(late):
    async def check():
        crowd = Crowd(FairSemaphore(slots=1, max_waiting=10))
        await crowd.send("a", "b", "c")
        if late:
            crowd.go.release()
            await asyncio.sleep(0)
        crowd.tasks[1].cancel()
        await settle()
        await crowd.finish()
        assert crowd.order[-1] == "c"
        assert (crowd.turns.free, crowd.turns.waiting) == (1, 0)

    asyncio.run(check())


def test_a_failing_request_gives_its_slot_back():
    async def check():
        turns = FairSemaphore()
        with pytest.raises(ValueError, match="oh"):
            async with turns.slot("a"):
                raise ValueError("oh")
        assert turns.free == 1

    asyncio.run(check())


class TestOverHttp:
    BODY: ClassVar = {"documents": [{"id": f"d{i}", "features": [1.0, 2.0]} for i in range(100)]}

    def test_small_requests_do_not_wait_for_a_turn(self, serve, service):
        client = serve(service, WebSettings(heavy=1000, heavy_at_once=0, heavy_waiting=0))
        client.post("/v1/rankers", json=SHOP)
        refused = client.post("/v1/rankers/shop/rank", json=self.BODY)
        problem(refused, 503, "too-busy")
        assert refused.headers["retry-after"] == "1"
        small = {"documents": self.BODY["documents"][:2]}
        assert client.post("/v1/rankers/shop/rank", json=small).status_code == 200

    def test_heavy_ones_are_answered_like_small_ones(self, serve, service):
        client = serve(service, WebSettings(heavy=1000))
        client.post("/v1/rankers", json=SHOP)
        assert len(client.post("/v1/rankers/shop/rank", json=self.BODY).json()["ranking"]) == 100
        events = [{"impression_id": "nobody"}] * 100
        assert client.post("/v1/rankers/shop/feedback", json=events).json()["unknown"] == 100
        assert client.app.state.app_state.heavy.free == 1
