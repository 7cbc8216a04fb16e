"""Services on stores of their own, clocks that are set by hand, and small requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest
from tests.waiting import FOR_EVER, until_async

from duelrank.core.randomness import stream, stream_key
from duelrank.core.types import Feedback, Query, State
from duelrank.kernels.random import derive
from duelrank.service import Service, Settings
from duelrank.service.definition import Definition, hash63
from duelrank.service.http.schema import Document, FeedbackEvent, RankerSpec, RankRequest
from duelrank.service.replay import replay
from duelrank.service.settings import Clock
from duelrank.storage import Storage, open_storage

FEATURES = ("bm25", "price", "age", "title")
SALT = b"tests"
FAST = Settings(publish_every=0.0, poll_every=0.02, salt=SALT)


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
    until = staticmethod(until_async)

    @staticmethod
    def spec(name="shop", algorithm="mgd-dsp", **others) -> RankerSpec:
        """A spec; of raw features, which are simple to compute with by hand, where it says nothing else."""
        given = {"name": name, "algorithm": algorithm, "features": FEATURES, "length": 5, "seed": 7} | others
        if ">>" not in algorithm and "representation" not in given:
            given["representation"] = "raw"
        return RankerSpec(**given)

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
    async def running(
        storage: Storage, settings: Settings = FAST, clock: Clock | None = None, read_only: bool = False, **changes
    ):
        """A service on a store, ready."""
        service = Service(storage, replace(settings, **changes), clock, read_only)
        await service.start()
        try:
            await service.wait_ready(FOR_EVER)
            yield service
        finally:
            await service.stop()

    @classmethod
    async def learned(cls, service: Service, count: int, name: str = "shop") -> None:
        """Wait until so many impressions are done with, the whole log was read, and the version that knows that is served."""

        def settled() -> bool:
            machine, now = service._rankers[name].machine, service.ranker(name)
            if (closed := now.learned + now.skipped + now.no_feedback) < count or not service.leads:
                return closed >= count
            return machine is not None and not machine.changed and now.model_version == machine.version

        await cls.until(lambda: settled() and cls.has_read_all(service), lambda: service.ranker(name))

    @staticmethod
    def recent(service: Service, id: str, name: str = "shop"):
        """Return an impression in the cache of a service."""
        return service._recent.get(service._rankers[name].created.number, id)

    @staticmethod
    def has_read_all(service: Service) -> bool:
        """Whether the learner has taken all events of the log; where another process learns, that is not known."""
        learner = service._background._term
        return learner is None or learner.applied == service.storage.log.last_number()

    @classmethod
    async def rounds(cls, service: Service) -> None:
        """Wait until the background had the chance to do all that is due now, and to hear of what it has asked for."""
        for _ in range(2):
            for _ in range(2):  # one that may be under way, and a whole one
                service._background.wake()
                await cls.until(lambda: not service._tail.changed.is_set())
            await service._appender.settled()

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
        algorithm = Definition(spec, 0.0).algorithm
        state = algorithm.start(len(spec.features), stream(spec.seed, "start"))
        rank_key, learn_key = stream_key(spec.seed, "rank"), stream_key(spec.seed, "learn")
        for key, features, made_by, places, examined in rounds:
            fresh = derive(rank_key, hash63(key, SALT))
            impression = algorithm.rank(made_by or state, Query("", features), spec.length, fresh)
            clicks = np.zeros(len(impression.ranking), bool)
            clicks[list(places)] = True
            state = algorithm.learn(state, impression, Feedback(clicks, examined), derive(learn_key, state.step))
        return state


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch) -> type[Kit]:
    """What tests of the service have at hand; here a change may take a minute until a leader has applied it."""
    monkeypatch.setattr("duelrank.service.service.CONTROL_TIMEOUT", FOR_EVER)
    return Kit


@pytest.fixture
def storage(sqlite_url: str) -> Iterator[Storage]:
    with open_storage(sqlite_url) as storage:
        yield storage
