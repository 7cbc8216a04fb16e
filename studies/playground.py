"""The playground's figures: seconds to index, what simulated users see of two learners, and how many lists a second they reach.

``python studies/playground.py picture FILE`` searches and clicks in a real Chromium, and takes the pictures of the docs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from duelrank import Feedback, Learner, Query
from duelrank.algorithms import Algorithm
from duelrank.algorithms.represented import Represented
from duelrank.core.grammar import parse
from duelrank.core.randomness import stream
from duelrank.metrics import nDCG
from duelrank.playground import Playground, Search, read_library
from duelrank.playground.app import ALGORITHM, SETTINGS
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
from duelrank.representation import QueryScaled
from duelrank.service import Service
from duelrank.storage import open_storage
from duelrank.users import Preset

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SEEDS, BLOCK, BLOCKS = 5, 200, 6
NOISES: tuple[Noise, ...] = ("perfect", "navigational", "informational")


def main() -> None:
    """Print all of it, or take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["numbers", "picture"], default="numbers")
    parser.add_argument("path", nargs="?", type=Path, default=Path("playground-search.png"))
    given = parser.parse_args()
    if given.what == "picture":
        pictures(given.path)
    else:
        numbers()


def numbers() -> None:
    """Print what users see, and how many lists a second they reach."""
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
        asyncio.run(crowded(search, rate, ("mgd-dsp", "remember >> mgd-dsp")))
    before, after = np.transpose([each for seed in range(12) for each in chosen(asked, seed)])
    print(
        f"{len(before)} documents, clicked once at position {before.mean():.1f} on average: {after.mean():.2f} in the next list"
    )


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


def chosen(asked: list[Question], seed: int) -> list[tuple[int, int]]:
    """Return where documents were that were clicked once, and where they are in the next list of their query; 11 if not there."""
    learner, rng = (
        Learner(Represented(parse(ALGORITHM, Algorithm), QueryScaled()), len(FEATURES), seed=seed),
        np.random.default_rng(seed),
    )

    def ask(question: Question, place: int) -> int:
        """Click at a position of a list; return the document."""
        query = Query(question.text, question.features, documents=question.documents.ids)
        shown = learner.rank(query)
        learner.learn(shown, Feedback(np.arange(len(shown.ranking)) == place - 1))
        return int(shown.ranking[place - 1])

    found = list[tuple[int, int]]()
    for _ in range(30):
        ask(asked[rng.integers(100)], int(rng.integers(1, 7)))
    for question in asked[100:105]:
        place = int(rng.integers(3, 11))
        document = ask(question, place)
        query = Query(question.text, question.features, documents=question.documents.ids)
        ranking = learner.rank(query).ranking.tolist()
        found.append((place, ranking.index(document) + 1 if document in ranking else 11))
    return found


async def crowded(
    search: Search, rate: float, recipes: tuple[str, str] = ("mgd", "mgd-dsp"), seconds: float = 10.0
) -> None:
    """Print the rate of users in the service, and the nDCG@10 of their last lists."""
    with open_storage("sqlite://") as storage:
        service = Service(storage, SETTINGS)
        await service.start()
        await service.wait_ready()
        crowd = Crowd(service, search)
        settings = CrowdSettings(rate=rate, algorithms=recipes)
        await crowd.change(settings)
        await crowd.change(msgspec.structs.replace(settings, running=True))
        cpu = process_time()
        await asyncio.sleep(seconds)
        state, cpu = await crowd.change(settings), process_time() - cpu
        reached, each = state.lists / seconds, 1000.0 * cpu / max(1, state.lists)
        sides = ", ".join(
            f"{side.algorithm} {side.lately or 0.0:.3f}, of all {side.overall or 0.0:.3f}" for side in state.sides
        )
        load = os.getloadavg()[0]
        print(f"{rate:g} asked: {reached:.0f} lists a second, {each:.2f} ms of one core each, load {load:.1f}; {sides}")
        await service.stop()


@contextmanager
def serving() -> Iterator[str]:
    """Serve a playground in a thread; give its address."""
    import uvicorn

    from duelrank.service.http.server import listen

    with open_storage("sqlite://") as storage, listen("127.0.0.1", 0) as listening:
        playground = Playground(storage, Search(read_library()))
        server = uvicorn.Server(uvicorn.Config(playground.app, log_config=None))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
        thread.start()
        while not (server.started and playground.service.ready):
            sleep(0.05)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/play"
        finally:
            server.should_exit = True
            thread.join()


def pictures(path: Path) -> None:
    """Take a light and a dark picture of a search whose ranker remembers what was chosen."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("DUELRANK_CHROMIUM") or shutil.which("chromium") or "chromium"
    with serving() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, dark in ((path, False), (path.with_stem(f"{path.stem}-dark"), True)):
            picture(browser, url, name, dark)
        browser.close()


def picture(browser: Browser, url: str, path: Path, dark: bool) -> None:
    """Search twice for the same words, with a click each time, and take a picture of the list that was left."""
    context = browser.new_context(viewport={"width": 1360, "height": 930}, color_scheme="dark" if dark else "light")
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("body[data-ready]")
    page.click("#forget")
    page.wait_for_selector("#said:has-text('untrained again')")
    look_for(page, "thread")
    click(page, 5)
    look_for(page, "thread")
    page.wait_for_selector("#said:has-text('last time')")
    click(page, 2)
    page.click("#done")
    page.wait_for_selector("#said:has-text('Search again')")
    page.locator("#results pre").evaluate_all("texts => texts.forEach(text => { text.hidden = true })")
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0) }")
    page.wait_for_timeout(1500)  # bars move
    page.screenshot(path=path)
    context.close()
    print(f"{path}: {path.stat().st_size:,} bytes")


def look_for(page: Page, query: str) -> None:
    """Search, and wait for the list."""
    page.fill("#query", query)
    page.press("#query", "Enter")
    page.wait_for_selector("#done:enabled")


def click(page: Page, place: int) -> None:
    """Open a result, and wait for its docstring."""
    page.locator(".hit .open").nth(place - 1).click()
    page.locator(".hit pre").first.wait_for()


if __name__ == "__main__":
    main()
