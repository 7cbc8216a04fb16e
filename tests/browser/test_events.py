"""The script of docs/how-to/browser-events.md in a real browser: search, click, leave the page, learned."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from doctest import DocTestParser
from http.server import ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from string import Template
from threading import Thread
from typing import Any
from urllib.request import urlopen

import msgspec
import pytest
from tests.service.http.served import FAST, SPEC, Served, serving
from tests.waiting import until

from duelrank.service import Service
from duelrank.service.http import make_key
from duelrank.service.http.schema import Document, PageRequest, RankRequest
from duelrank.service.log import FEEDBACK, StoredFeedback, unpack

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs" / "tutorials" / "shop-from-nothing.md").read_text()
PAGE = (ROOT / "docs" / "how-to" / "browser-events.md").read_text()
HTML = re.findall(r"```html\n(.*?)```", PAGE, re.DOTALL)
(PYTHON,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
#: Items of which only the first is in view.
TALL = "<style>li {{ height: 600px }}</style>{}".format


class Site:
    """The shop of the page: its addresses, and the bodies that browsers have sent to it."""

    def __init__(self, served: Served, options: str) -> None:
        key, entry = make_key(["rank", "feedback"], ["shop"])
        served.storage.keys.add(entry)
        served.state.gate.keys.refresh()
        assert 'data-url="/events">' in HTML[0]
        page = HTML[0].replace('data-url="/events">', f'data-url="/events" {options}>')
        names: dict[str, Any] = {"url": served.url, "key": key, "PAGE": TALL(page), "ITEM": HTML[1]}
        exec(compile(PYTHON, "browser-events.md", "exec"), names)
        shop, self.counts, self.beacons = names["Shop"], list[Any](), list[Any]()

        class Recording(shop):
            def do_POST(inner) -> None:
                body = inner.rfile.read(int(inner.headers["Content-Length"]))
                self.beacons.append(msgspec.json.decode(body))
                inner.rfile = BytesIO(body)
                super().do_POST()

            def answer(inner, body: bytes, kind: str) -> None:
                self.counts += [msgspec.json.decode(body)] if kind == "application/json" else []
                super().answer(body, kind)

            def log_message(self, *what: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Recording)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def total(self, outcome: str) -> int:
        return sum(each[outcome] for each in self.counts)


@pytest.fixture
def shop(storage: Any) -> Iterator[Callable[[str], tuple[Served, Site]]]:
    """Open the shop of the page, in front of a service with keys."""
    with serving(Service(storage, FAST)) as served:
        sites: list[Site] = []
        served.do(served.service.create(msgspec.structs.replace(SPEC, actions={"click": 1.0, "add_to_cart": 3.0})))

        def open_shop(options: str = "") -> tuple[Served, Site]:
            sites.append(Site(served, options))
            return served, sites[-1]

        yield open_shop
        for each in sites:
            each.server.shutdown()
            each.server.server_close()


def stored(served: Served) -> list[StoredFeedback]:
    events = served.storage.log.read(ranker="shop")
    return [unpack(each.body, StoredFeedback) for each in events if each.kind == FEEDBACK]


def test_search_click_leave_learned(shop, tab):
    served, site = shop("data-close data-client=visitor")
    page = tab(site.url)
    page.locator("li").nth(1).scroll_into_view_if_needed()
    page.locator("li a").nth(1).click()
    until(lambda: served.service.ranker("shop").learned == 1)
    page.goto("about:blank")
    clicks = [each for each in stored(served) if each.clicks]
    assert [each.clicks for each in clicks] == [[1]]
    assert clicks[0].user
    assert max(each.examined or 0 for each in stored(served)) >= 2
    assert site.total("accepted") == len(stored(served))
    assert site.total("expired") == sum(map(len, [each["invalid"] for each in site.counts])) == 0


def test_a_button_is_an_action_and_each_event_counts_once(shop, tab):
    served, site = shop()
    page = tab(site.url)
    for _ in range(3):
        page.locator("[data-action]").first.click()
    page.locator("li a").first.click(button="middle")
    page.locator("li").first.click(position={"x": 400, "y": 300})  # beside the link
    until(lambda: site.total("accepted") == 2)
    page.goto("about:blank")
    until(lambda: site.total("duplicate") == 2)
    assert sorted(each.action or "click" for each in stored(served) if each.clicks) == ["add_to_cart", "click"]
    assert served.service.ranker("shop").open == 1  # without data-close


def test_how_far_a_list_was_seen_is_sent_when_the_page_is_left(shop, tab):
    served, site = shop()
    page = tab(site.url, height=700)
    page.locator("li").nth(3).scroll_into_view_if_needed()
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.evaluate("""() => { const list = document.querySelector("ol").cloneNode(true);
        list.querySelectorAll("li").forEach((item, place) => item.dataset.position = place + 11);
        document.body.append(list); }""")  # items that were added later are in the same list
    page.goto("about:blank")
    until(lambda: site.total("accepted") == 1)
    (event,) = stored(served)
    assert (event.clicks, event.examined) == ([], 4)


def test_the_second_page_of_the_tutorial(shop, tab):
    """A click on its third product, and leaving: the browser sends what the tutorial sends for it, and the ranker learns."""
    served, site = shop()
    documents = [Document(f"d{row}", [float(row % 7), row / 3.0, float(row % 2)]) for row in range(20)]
    request = RankRequest(documents, length=12, page=6, fixed={"ad": 1})
    shown = served.do(served.service.rank("shop", request))
    second = served.do(served.service.page("shop", PageRequest(shown.impression_id, 7, 6)))
    ((start, item, *end),) = [block.splitlines() for block in re.findall(r"```html\n(.*?)```", TUTORIAL, re.DOTALL)]
    items = [item.replace('"7"', f'"{each.position}"').replace("$id", each.id) for each in second.ranking]
    page = "\n".join([Template(start).substitute(impression_id=shown.impression_id), *items, *end])

    visitor = tab("about:blank")
    visitor.route("**/search", lambda route: route.fulfill(body=f"<!doctype html>{page}", content_type="text/html"))
    visitor.goto(f"{site.url}search")
    visitor.locator("li a").nth(2).click()
    until(lambda: served.service.ranker("shop").learned == 1)

    named: dict[str, Any] = {"shown": shown, "second": second}
    for example in DocTestParser().get_examples(TUTORIAL):
        if example.source.startswith(("click =", "left =")):
            exec(example.source, named)
    sent = [
        {name: value for name, value in each.items() if name != "timestamp"}
        for beacon in site.beacons
        for each in beacon
    ]
    assert sent[0] == named["click"]
    assert named["left"] in sent
    places = [place for each in stored(served) for place in each.clicks]
    assert set(places) == {7}  # of the free documents: above the ninth position are seven others, and the advertisement


def test_the_script_is_small_and_needs_no_key(shop):
    served, site = shop()
    for url in (site.url, f"{served.url}/"):
        with urlopen(f"{url}duelrank.js") as answer:
            assert len(answer.read()) < 2048
            assert "javascript" in answer.headers["Content-Type"]
