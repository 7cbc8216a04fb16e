"""The playground's figures: seconds to index, what simulated users see of two learners, and how many lists a second they reach."""

from __future__ import annotations

import asyncio
import os
from time import perf_counter, process_time

import numpy as np

from duelrank import Learner, Query
from duelrank.core.randomness import stream
from duelrank.metrics import nDCG
from duelrank.playground import Search, read_library
from duelrank.playground.app import SETTINGS
from duelrank.playground.crowd import (
    DEFAULT_TASTE,
    N_GRADES,
    Crowd,
    CrowdSettings,
    Noise,
    Question,
    as_weights,
    grades,
    questions,
)
from duelrank.playground.search import FEATURES
from duelrank.service import Service
from duelrank.storage import open_storage
from duelrank.users import Preset

SEEDS, BLOCK, BLOCKS = 5, 200, 6
NOISES: tuple[Noise, ...] = ("perfect", "navigational", "informational")


def main() -> None:
    """Print all of it."""
    wall, cpu = perf_counter(), process_time()
    search = Search(read_library())
    print(
        f"{len(search.documents):,} docstrings in {perf_counter() - wall:.1f} s, {process_time() - cpu:.1f} s of one core\n"
    )
    asked = questions(search)
    weights = as_weights(DEFAULT_TASTE)
    for each in asked:
        each.grades = grades(weights, each.features)
    print("| recipe | users | " + " | ".join(f"to {BLOCK * (block + 1):,}" for block in range(BLOCKS)) + " | sd |")
    for noise in NOISES:
        for recipe in ("mgd", "mgd-dsp"):
            blocks = np.array([taught(recipe, noise, asked, seed) for seed in range(SEEDS)])
            spread = blocks.std(axis=0, ddof=1).mean()
            print(
                f"| {recipe} | {noise} | "
                + " | ".join(f"{mean:.3f}" for mean in blocks.mean(axis=0))
                + f" | {spread:.3f} |"
            )
    for rate in (100.0, 1000.0):
        asyncio.run(crowded(search, rate))


def taught(recipe: str, noise: Noise, asked: list[Question], seed: int) -> list[float]:
    """Return the mean nDCG@10 of the lists that users saw, by blocks of lists, without a service."""
    learner, user = Learner(f"query-scaled >> {recipe}", len(FEATURES), seed=seed), Preset(noise).for_grades(N_GRADES)
    chance, seen, metric = np.random.default_rng(seed), list[float](), nDCG(cutoff=10)
    for number in range(BLOCK * BLOCKS):
        question = asked[chance.integers(len(asked))]
        impression = learner.rank(Query("", question.features))
        shown = question.grades[impression.ranking]
        learner.learn(impression, user.click(shown, stream(seed, "clicks", number)))
        seen.append(metric.of(shown, question.grades))
    means: list[float] = np.reshape(seen, (BLOCKS, BLOCK)).mean(axis=1).tolist()
    return means


async def crowded(search: Search, rate: float, seconds: float = 10.0) -> None:
    """Print the rate of users in the service, and the nDCG@10 of their last lists."""
    with open_storage("sqlite://") as storage:
        service = Service(storage, SETTINGS)
        await service.start()
        await service.wait_ready()
        crowd = Crowd(service, search)
        await crowd.change(CrowdSettings(rate=rate))
        await crowd.change(CrowdSettings(running=True, rate=rate))
        cpu = process_time()
        await asyncio.sleep(seconds)
        state, cpu = await crowd.change(CrowdSettings(rate=rate)), process_time() - cpu
        reached, each = state.lists / seconds, 1000.0 * cpu / max(1, state.lists)
        sides = ", ".join(f"{side.algorithm} {side.lately or 0.0:.3f}" for side in state.sides)
        load = os.getloadavg()[0]
        print(f"{rate:g} asked: {reached:.0f} lists a second, {each:.2f} ms of one core each, load {load:.1f}; {sides}")
        await service.stop()


if __name__ == "__main__":
    main()
