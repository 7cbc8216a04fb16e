"""Services on stores of their own, clocks that are set by hand, and small requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest

from duelrank.algorithms import Algorithm
from duelrank.grammar import parse
from duelrank.kernels.random import derive
from duelrank.randomness import stream, stream_key
from duelrank.serving import Document, FeedbackEvent, RankerSpec, RankRequest, Service, Settings
from duelrank.serving.clock import Clock
from duelrank.serving.events import hash63
from duelrank.serving.replay import replay
from duelrank.storage import Storage, open_storage
from duelrank.types import Feedback, Query, State

FEATURES = ("bm25", "price", "age", "title")
FAST = Settings(publish_every=0.0, poll_every=0.02)


class HandClock(Clock):
    """Both clocks stand still until they are set."""

    def __init__(self) -> None:
        self.now, self.steady = 1_000_000.0, 0.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.steady

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.steady += seconds


class Kit:
    """What tests of the service have at hand."""

    features = FEATURES
    fast = FAST
    clock = HandClock

    @staticmethod
    def spec(name="shop", algorithm="mgd-dsp", **others) -> RankerSpec:
        return RankerSpec(
            **{"name": name, "algorithm": algorithm, "features": FEATURES, "length": 5, "seed": 7} | others
        )

    @staticmethod
    def table(number: int, n_documents: int = 8) -> np.ndarray:
        return np.random.default_rng((1, number)).random((n_documents, len(FEATURES)))

    @classmethod
    def request(cls, number: int, n_documents: int = 8, **others) -> RankRequest:
        rows = cls.table(number, n_documents).tolist()
        documents = [Document(f"d{row}", features) for row, features in enumerate(rows)]
        return RankRequest(documents, **{"impression_id": f"i{number}"} | others)

    @staticmethod
    def event(number: int, clicks: Sequence[str] = (), close=True, **others) -> FeedbackEvent:
        return FeedbackEvent(
            **{"impression_id": f"i{number}", "event_id": f"e{number}"} | others, clicks=list(clicks), close=close
        )

    @staticmethod
    @asynccontextmanager
    async def running(storage: Storage, settings: Settings = FAST, clock: Clock | None = None, **changes):
        """A service on a store, ready."""
        service = Service(storage, replace(settings, **changes), clock)
        await service.start()
        try:
            await service.wait_ready(20)
            yield service
        finally:
            await service.stop()

    @staticmethod
    async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
        for _ in range(int(seconds / 0.005)):
            if condition():
                return
            await asyncio.sleep(0.005)
        raise AssertionError("it did not happen in time")

    @classmethod
    async def learned(cls, service: Service, count: int, name: str = "shop") -> None:
        """Wait until so many lists were learned from, and the version that knows that is served."""
        await cls.until(lambda: service.ranker(name).learned + service.ranker(name).skipped >= count)
        machine = service._board[name].machine
        await cls.until(
            lambda: machine is None or (not machine.changed and service._board[name].model.version == machine.version)
        )

    @staticmethod
    def verified(storage: Storage, name: str = "shop"):
        """Replay, and hold that all that is written down is the same."""
        result = replay(storage, name)
        assert result.difference is None
        assert result.failed == 0
        return result

    @staticmethod
    def plain(
        spec: RankerSpec, rounds: Sequence[tuple[str, np.ndarray, State | None, Sequence[int], int | None]]
    ) -> State:
        """Learn by hand: (id, features, state that made the list or None for the current one, clicked places, examined)."""
        algorithm = parse(spec.algorithm, Algorithm)
        state = algorithm.start(len(spec.features), stream(spec.seed, "start"))
        rank_key, learn_key = stream_key(spec.seed, "rank"), stream_key(spec.seed, "learn")
        for key, features, made_by, places, examined in rounds:
            fresh = derive(rank_key, hash63(key))
            impression = algorithm.rank(made_by or state, Query("", features), spec.length, fresh)
            clicks = np.zeros(len(impression.ranking), bool)
            clicks[list(places)] = True
            state = algorithm.learn(state, impression, Feedback(clicks, examined), derive(learn_key, state.step))
        return state


@pytest.fixture
def kit() -> type[Kit]:
    return Kit


@pytest.fixture
def storage(sqlite_url: str) -> Iterator[Storage]:
    with open_storage(sqlite_url) as storage:
        yield storage
