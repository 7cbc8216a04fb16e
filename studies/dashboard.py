"""The dashboard in a real Chromium: its bytes, first paint, how it follows traffic, the memory of its tab; and its picture.

``python studies/dashboard.py paint URL`` opens the dashboard of a service that runs; ``follow`` serves one itself, with as much
traffic as it can take; ``picture FILE`` plays a day of users on a clock that is set by hand, and takes the picture of the docs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright

from duelrank.service import Service, Settings
from duelrank.service.http import KeyRing, create_app
from duelrank.service.http.dashboard import FILES, read_file, render
from duelrank.service.http.schema import Document, FeedbackEvent, GuardSpec, RankerSpec, RankRequest
from duelrank.service.http.server import listen
from duelrank.service.settings import Clock
from duelrank.storage import open_storage

CHROMIUM = os.environ.get("DUELRANK_CHROMIUM") or shutil.which("chromium") or "chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FEATURES = ("text match", "title match", "rating", "price", "sales", "freshness", "distance", "in stock")
#: Preferences of the users in the picture; the client's own order is by the first feature alone.
TASTE = np.array([1.5, 2.0, 1.2, -1.0, 0.8, 0.4, -0.3, 0.6])
DAY = 86_400.0


class HandClock(Clock):
    """A clock that is set by hand, until it is let go."""

    def __init__(self, now: float) -> None:
        self.now: float | None = now

    def time(self) -> float:
        """Return the seconds since 1970."""
        return time.time() if self.now is None else self.now


@contextmanager
def serving(service: Service) -> Iterator[tuple[str, asyncio.AbstractEventLoop]]:
    """Serve in a thread; give the address, and the loop to run coroutines of the service in."""
    listening = listen("127.0.0.1", 0)
    config = uvicorn.Config(create_app(service, KeyRing(service.storage)), log_config=None, timeout_graceful_shutdown=5)
    server, loop = uvicorn.Server(config), asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(server.serve(sockets=[listening])))
    thread.start()
    while not (server.started and service.ready):
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", loop
    finally:
        service.ending = server.should_exit = True
        thread.join()
        listening.close()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


def bytes_of() -> None:
    """Print the bytes of the page and of everything that it loads."""
    sizes = {name: len(read_file(name)) for name in FILES if not name.endswith("LICENSE")}
    sizes["page"] = len(render("shop", False, False))
    print("bytes:", ", ".join(f"{name} {size:,}" for name, size in sizes.items()), f"= {sum(sizes.values()):,}")


def paint(url: str) -> None:
    """Tell how long the first paint takes, and until all charts are drawn, in five fresh tabs."""
    with chromium() as browser:
        rows = []
        for _ in range(5):
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            page = context.new_page()
            page.goto(url)
            page.wait_for_selector("#chart-events canvas", timeout=60_000)  # the last of them
            drawn = page.evaluate("performance.now()")
            first = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            asked, size = page.evaluate(
                "performance.getEntriesByType('resource').filter((each) => each.name.includes('/history'))"
                ".map((each) => [each.duration, each.decodedBodySize])[0]"
            )
            points = page.evaluate("hist.time.length")
            rows.append((first, asked, drawn))
            context.close()
        first, asked, drawn = (median(each) for each in zip(*rows, strict=True))
        print(
            f"first paint {first:.0f} ms, history {asked:.0f} ms ({points} points, {size:,} bytes), all drawn {drawn:.0f} ms"
        )


async def traffic(service: Service, until: float, clock: HandClock, lists_per_day: int, count: int) -> int:
    """Rank and click until a time, from this number on; return the next one."""
    rng = np.random.default_rng((5, count))
    while clock.time() < until:
        rows = rng.random((12, len(FEATURES)))
        rows = rows[np.argsort(-rows[:, 0])]  # the client's own order
        documents = [Document(f"p{count}-{row}", each) for row, each in enumerate(rows.tolist())]
        likes = dict(zip((document.id for document in documents), rows @ TASTE, strict=True))
        shown = (await service.rank("shop", RankRequest(documents, impression_id=f"v{count}"))).ids
        # A user looks from the top, clicks documents with enough utility, and may leave at any position.
        clicked = next(
            (id for id in shown if rng.random() < 1 / (1 + np.exp(9.0 - 3.0 * likes[id])) or rng.random() < 0.02), None
        )
        gone = rng.random() < 0.15
        await service.feedback(
            "shop",
            [FeedbackEvent(f"v{count}", [] if clicked is None or gone else [clicked], close=True, user_id=f"u{count}")],
        )
        count += 1
        if clock.now is not None:
            busy = 1.0 + 0.6 * np.sin(2 * np.pi * (clock.now % DAY) / DAY - 2.0)
            clock.now += DAY / lists_per_day / busy
    return count


def spec() -> RankerSpec:
    """Return the ranker of the picture."""
    return RankerSpec("shop", "wmgd-dsp", FEATURES, exploration=0.5, length=10, seed=1, guard=GuardSpec(), imitate=0)


def picture(path: Path) -> None:
    """Play a day of users, and take the picture."""
    clock = HandClock(time.time() - DAY)
    with open_storage("sqlite://") as storage:
        service = Service(storage, Settings(publish_every=0.2, salt=b""), clock)
        with serving(service) as (url, loop):

            def do(coroutine: Any) -> Any:
                return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

            do(service.create(spec()))
            end, count = time.time(), 0
            count = do(traffic(service, end - 0.45 * DAY, clock, 30_000, count))
            do(service.control("shop", "freeze"))
            count = do(traffic(service, end - 0.4 * DAY, clock, 30_000, count))
            do(service.control("shop", "resume"))
            count = do(traffic(service, end, clock, 30_000, count))
            print(f"{count:,} lists; {service.guard('shop').summary}")
            clock.now = None
            with chromium() as browser:
                for name, dark in ((path, False), (path.with_stem(f"{path.stem}-dark"), True)):
                    shot(browser, f"{url}/dashboard/shop", name, dark)


def shot(browser: Browser, url: str, path: Path, dark: bool) -> None:
    """Take a picture of the upper part of the page, with few colours."""
    from PIL import Image

    context = browser.new_context(viewport={"width": 1440, "height": 1180}, color_scheme="dark" if dark else "light")
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("#status[data-state=live]")
    page.wait_for_timeout(2500)
    page.screenshot(path=path)
    context.close()
    Image.open(path).convert("RGB").quantize(255).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size:,} bytes")


def follow(seconds: float) -> None:
    """Serve as many lists as one process can, and tell how the page follows, and what its tab takes."""
    folder = tempfile.mkdtemp(prefix="duelrank-dashboard-")
    with open_storage(f"sqlite:///{folder}/store.db") as storage:
        service = Service(storage)
        with serving(service) as (url, loop):
            asyncio.run_coroutine_threadsafe(service.create(spec()), loop).result()
            with chromium() as browser:
                page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
                page.goto(f"{url}/dashboard/shop")
                page.wait_for_selector("#status[data-state=live]")
                page.evaluate(WATCH)
                before = memory(page)
                running = [
                    asyncio.run_coroutine_threadsafe(traffic_named(service, time.time() + seconds, worker), loop)
                    for worker in range(8)
                ]
                while not all(each.done() for each in running):
                    page.wait_for_timeout(1000)
                counts = sum(each.result() for each in running)
                tell_following(page, counts, seconds)
                print(f"tab before {before}, after {memory(page)}")
    shutil.rmtree(folder, ignore_errors=True)


async def traffic_named(service: Service, until: float, worker: int) -> int:
    """Rank and click as one of several clients; return how many lists there were."""
    rng, count = np.random.default_rng((6, worker)), 0
    rows = rng.random((12, len(FEATURES))).tolist()
    documents = [Document(f"p{row}", each) for row, each in enumerate(rows)]
    while time.time() < until:
        shown = (await service.rank("shop", RankRequest(documents, impression_id=f"w{worker}-{count}"))).ids
        await service.feedback("shop", [FeedbackEvent(f"w{worker}-{count}", shown[:1], close=True)])
        count += 1
    return count


#: Notes when messages come, how long the script works on each, and how old what they say is.
WATCH = """() => {
  window.seen = [];
  const shown = show, noted = note;
  note = (live) => {
    seen.push({ at: Date.now(), age: Date.now() / 1000 - live.time, work: 0, lag: live.lag });
    noted(live);
  };
  show = () => {
    const began = performance.now();
    shown();
    if (seen.length) seen[seen.length - 1].work = performance.now() - began;
  };
}"""


def tell_following(page: Page, lists: int, seconds: float) -> None:
    """Tell how often messages came, how old they were, and how long the page worked on each."""
    seen = page.evaluate("window.seen")
    gaps = [b["at"] - a["at"] for a, b in pairwise(seen)]
    work = [each["work"] for each in seen if each["work"]]
    print(
        f"{3 * lists / seconds:,.0f} events a second ({lists / seconds:,.0f} lists): {len(seen)} messages in {seconds:.0f} s, "
        f"gap median {median(gaps):.0f} ms, most {max(gaps):.0f} ms; age median {1000 * median(e['age'] for e in seen):.0f} ms, "
        f"most {1000 * max(e['age'] for e in seen):.0f} ms; script {median(work):.1f} ms a message, most {max(work):.1f} ms; "
        f"learner behind by {seen[-1]['lag']:,} events at most {max(e['lag'] for e in seen):,}"
    )


def memory(page: Page) -> str:
    """Return the memory of a tab: its JavaScript after a collection, and its process."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    found = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    listed = subprocess.run(["ps", "-eo", "rss,args"], capture_output=True, text=True, check=True).stdout.splitlines()
    sizes = [int(line.split()[0]) for line in listed if "--type=renderer" in line]
    return (
        f"{found['JSHeapUsedSize'] / 1e6:.1f} MB of JavaScript, {max(sizes, default=0) / 1024:.0f} MiB of its process"
    )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("paint").add_argument("url")
    commands.add_parser("picture").add_argument("path", type=Path)
    commands.add_parser("follow").add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    bytes_of()
    if given.command == "paint":
        paint(given.url)
    elif given.command == "picture":
        picture(given.path)
    else:
        follow(given.seconds)


if __name__ == "__main__":
    main()
