"""A store of 0.1.0, with impressions open, events pruned, a shadow pinned, a ranker frozen and an API key: it opens and goes on.

The expected values were written by 0.1.0 itself, "after" by continuing with it on a copy of the store.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path

import pytest

from duelrank.api import Document, FeedbackEvent, RankRequest
from duelrank.serving.clock import Clock
from duelrank.serving.http import KeyRing
from duelrank.storage import open_storage

DATA = Path(__file__).parents[1] / "data"
EXPECTED = json.loads((DATA / "service-0.1.0.json").read_text())


@pytest.fixture
def storage(tmp_path):
    path = tmp_path / "store.db"
    path.write_bytes(gzip.decompress((DATA / "service-0.1.0.db.gz").read_bytes()))
    with open_storage(f"sqlite:///{path}") as storage:
        yield storage


class BackThen(Clock):
    """As if the store had just been made: otherwise the time of its open impressions is over, and the service closes them too."""

    def __init__(self, storage):
        self.newest = max(event.time for event in storage.log.read(0, 1_000_000))

    def time(self):
        return self.newest


def close(numbers, name):
    return [FeedbackEvent(f"{name}-{number}", event_id=f"end-{number}", close=True) for number in numbers]


def test_it_goes_on_where_it_stood(storage, kit):
    async def main():
        async with kit.running(storage, clock=BackThen(storage)) as service:
            for name, expected in EXPECTED["rankers"].items():
                now = service.ranker(name)
                counts = [now.impressions, now.learned, now.skipped, now.open]
                assert [*counts, now.model_version, now.updates, now.frozen, now.pinned] == expected
                assert service.model(name).weights == pytest.approx(EXPECTED["weights"][name], abs=1e-12)
            for id, order in EXPECTED["orders"].items():
                documents = [Document(f"d{i}", [0.0] * 4) for i in range(8)]
                assert (await service.rank("shop", RankRequest(documents, id))).ids == order
            for name, numbers in (("shop", range(1000, 1007)), ("shade", range(1000, 1003))):
                counts = await service.feedback(name, close(numbers, name))
                assert counts.accepted == len(numbers)
            await kit.until(lambda: all(each.open == 0 for each in service.rankers()))
            await kit.until(lambda: kit.has_read_all(service))
            for name, weights in EXPECTED["after"].items():
                assert service.ranker(name).failed == 0
                assert service._rankers[name].machine.state.weights == pytest.approx(weights, abs=1e-12)

    asyncio.run(main())


@pytest.mark.parametrize("name", ["shop", "shade", "ice"])
def test_it_replays_before_and_after(storage, kit, name):
    assert kit.verified(storage, name).after == EXPECTED["pruned"][name]

    async def main():
        async with kit.running(storage, clock=BackThen(storage)) as service:
            await service.feedback(name, close(range(1000, 1007), name))

    asyncio.run(main())
    kit.verified(storage, name)


def test_keys_of_then_are_good(storage):
    assert KeyRing(storage).holder(EXPECTED["token"], "rank")
