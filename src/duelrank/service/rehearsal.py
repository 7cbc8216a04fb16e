"""Lets a ranker live for some lists in a store in memory, so that all kernels that a service needs for it are compiled."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, Literal

import numpy as np

from duelrank.core.errors import DuelrankError
from duelrank.service.http import schema
from duelrank.service.http.decoding import array_reader, decode_rank
from duelrank.service.service import Service
from duelrank.service.settings import DEFAULT_REPRESENTATION, Settings
from duelrank.storage import open_storage

#: Versions appear at once, so that lists are ranked before, between and after the first two moves of knots, at 16 and 32 lists.
_SETTINGS = Settings(publish_every=0.0, poll_every=0.01)
_LISTS, _LONGEST = 40, 60.0
_NAMES = ("a", "b", "c")
#: Names, modes, guards and numbers of lists to imitate; the first is refused by algorithms that cannot imitate.
_LIVES: tuple[tuple[str, Literal["learn", "shadow"], schema.GuardSpec | None, int | None], ...] = (
    ("imitates", "learn", schema.GuardSpec(), 3),
    ("guarded", "learn", schema.GuardSpec(), 0),
    ("plain", "learn", None, None),
    ("shadow", "shadow", None, None),
)


def rehearse(algorithm: str, representation: str | None = DEFAULT_REPRESENTATION) -> None:
    """Rank, learn, imitate, compare and explain with a recipe, live and as a shadow; modes that it does not support are left out.

    Parameters
    ----------
    algorithm
        The recipe.
    representation
        Representation of the features; None if the recipe has one, or for the default of the service.
    """
    array_reader.prepare()
    asyncio.run(_rehearse(algorithm, representation))


async def _rehearse(algorithm: str, representation: str | None) -> None:
    with open_storage("sqlite://") as storage:
        for begin in (0, _LISTS):  # arrays from a store have other types than those that were just computed
            service = Service(storage, _SETTINGS)
            await service.start()
            try:
                await service.wait_ready()
                for name, mode, guard, imitate in _LIVES:
                    how: dict[str, Any] = {"mode": mode, "guard": guard, "imitate": imitate}
                    spec = schema.RankerSpec(name, algorithm, _NAMES, representation, **how)
                    with suppress(DuelrankError):
                        await _live(service, spec, begin)
            finally:
                await service.stop()


async def _live(service: Service, spec: schema.RankerSpec, begin: int) -> None:
    """Create a ranker, and send lists with clicks; the first click comes last, when the knots have moved."""
    await service.create(spec)
    late = await service.rank(spec.name, _request(begin))
    for number in range(begin + 1, begin + _LISTS):
        answer = await service.rank(spec.name, _request(number))
        clicked = [answer.ids[number % 2], answer.ids[-1]][: 1 + number % 2]
        event = schema.FeedbackEvent(answer.impression_id, clicked, close=True, user_id=str(number))
        await service.feedback(spec.name, [event])
        if number % 8 == 0:
            await _learned(service, spec.name)
    await service.feedback(spec.name, [schema.FeedbackEvent(late.impression_id, late.ids[:1], close=True)])
    await _learned(service, spec.name)
    for look in (service.curves, service.last_step, service.model):
        with suppress(DuelrankError):  # such as the curves of a neural network
            await asyncio.to_thread(look, spec.name)


def _request(number: int) -> schema.RankRequest:
    """Return a request as it comes over HTTP; every other one asks for an explanation, some are tables of numbers."""
    rows = np.random.default_rng(number).lognormal(size=(12, len(_NAMES))).tolist()
    documents = [{"id": f"d{place}", "features": row} for place, row in enumerate(rows)]
    body = {"documents": documents, "length": 5 + number % 5, "explain": number % 2 == 0, "query": f"q{number % 2}"}
    return decode_rank(json.dumps(body).encode(), b"application/json", large=number % 3 == 0)


async def _learned(service: Service, name: str) -> None:
    async with asyncio.timeout(_LONGEST):
        while service.lag():
            await asyncio.sleep(0.01)
