"""The dashboard in a real browser: what it shows, follows, asks, refuses and looks like."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from tests.browser.histories import plausible
from tests.service.http.served import FAST, SPEC, serving
from tests.waiting import until

from duelrank.service import Service
from duelrank.service.http.auth import make_key
from duelrank.service.http.schema import (
    Document,
    ExperimentSpec,
    FeedbackEvent,
    GuardSpec,
    RankerSpec,
    RankRequest,
    ShowRequest,
    Start,
)
from duelrank.storage import open_storage

EVIL = "<img src=x onerror=alert(1)>"


class Painted(Service):
    """A service whose history is made up, but for the newest steps, which are real."""

    def history(self, name, step="minute", start=None, end=None):
        if start is not None and start > time.time() - 200:
            return super().history(name, step, start, end)
        return plausible(name, step, end=time.time() - 600)


@pytest.fixture
def painted(storage):
    """A service with a week of history that never was."""
    service = Painted(storage, FAST)
    with serving(service) as found:
        found.do(
            found.service.create(msgspec.structs.replace(SPEC, guard=GuardSpec(share=0.5, promote=(1.0,)), imitate=0))
        )
        found.lists("shop", range(20))
        yield found


def state(tab) -> str:
    return tab.page.locator("#status").get_attribute("data-state")


class TestFollowing:
    def test_an_empty_ranker_says_so(self, served, tab):
        page = tab(f"{served.url}/dashboard/shop")
        page.until(lambda: state(page) == "live")
        assert page.text("#name") == "shop"
        assert "No lists yet" in page.text("#summary")
        assert "No lists yet." in page.text("[data-panel=reward]")
        assert "No guard" in page.text("[data-panel=win]")
        assert page.page.locator("[data-panel=win]").bounding_box()["height"] < 100  # there is no more to say

    def test_a_store_without_rankers_has_the_commands_for_the_first_one(self, storage, tab):
        """What the button copies creates a ranker, ranks and clicks, and the page shows it."""
        if shutil.which("curl") is None:
            pytest.skip("needs curl")
        with serving(Service(storage, FAST)) as served:
            page = tab(f"{served.url}/dashboard", permissions=["clipboard-read", "clipboard-write"])
            page.until(lambda: "No ranker yet" in page.text("#empty"))
            page.click("#first-steps button")
            page.until(lambda: page.text("#first-steps button") == "Copied")
            commands = page.evaluate("navigator.clipboard.readText()")
            assert served.url in commands
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            subprocess.run(["bash", "-ec", commands], check=True, env=os.environ | {"PATH": path}, capture_output=True)
            page.until(lambda: page.page.locator("#rankers tbody tr").count() == 1)
            assert (served.service.ranker("shop").impressions, page.text("#rankers a")) == (1, "shop")
            page.page.close()

    def test_traffic_is_seen_without_a_reload(self, served, tab):
        page = tab(f"{served.url}/dashboard/shop")
        page.until(lambda: state(page) == "live")
        served.lists("shop", range(10))
        page.until(lambda: page.text("#tile-lists") == "10" and page.text("#tile-learned") == "10")
        page.until(lambda: page.page.locator("#chart-reward canvas").count() == 1)
        page.until(lambda: "100.0%" in page.text("#tile-clicked"))
        low, high = page.page.evaluate(
            "[charts.get('chart-reward').plot.scales.x.min, charts.get('chart-reward').plot.scales.x.max]"
        )
        assert 600 <= high - low < 3600  # one minute is no reason to show years, nor seconds
        for name in ("reward", "rank", "weights", "events"):  # and one value is no reason for a scale of its own
            low, high = page.evaluate(f"(({{min, max}}) => [min, max])(charts.get('chart-{name}').plot.scales.y)")
            assert low <= 0.0 < high
        assert "No trouble" in page.text("[data-panel=trouble]")

    def test_what_has_just_happened_is_drawn(self, painted, tab):
        """A mark is newer than the beginning of the newest step, and is on the axis all the same."""
        page = tab(f"{painted.url}/dashboard/shop")
        page.until(lambda: state(page) == "live")
        before = time.time()
        painted.do(painted.service.control("shop", "freeze"))
        page.until(lambda: page.page.evaluate("hist.marks.at(-1).time") >= before)
        script = """() => {
          const { plot, x } = charts.get("chart-events"), mark = hist.marks.at(-1);
          return [x.length > 2, plot.scales.x.max >= mark.time, Math.abs(plot.scales.x.max - Date.now() / 1000) < 3];
        }"""
        page.until(lambda: page.page.evaluate(script) == [True, True, True])

    def test_points_are_at_the_end_of_their_step(self, painted, tab):
        """The present step ends now; what happened in a step is before its point."""
        page = tab(f"{painted.url}/dashboard/shop")
        page.until(lambda: state(page) == "live")
        script = """() => [charts.get("chart-reward").x[5] - hist.time[5], dense.end - charts.get("chart-events").x.at(-1)]"""
        assert page.evaluate(script) == [60, 0]

    def test_the_first_step_is_seen(self, served, tab):
        """One value makes no line: there is a point, and the positions come with the stream."""
        page = tab(f"{served.url}/dashboard/shop")
        asked = []
        page.until(lambda: page.page.evaluate("pulse.time.length > 0"))
        page.page.on("request", lambda request: asked.append(request.url))
        served.lists("shop", range(10))
        page.until(lambda: page.text("#tile-learned") == "10")
        page.until(lambda: page.page.locator("#chart-positions canvas").count() == 1)
        page.until(lambda: page.page.evaluate("hist.positions_shown[0] === 10 && hist.positions_clicked[0] === 10"))
        assert not [url for url in asked if "/history" in url]
        script = """(id) => {
          const { ctx, bbox } = charts.get(id).plot, colour = css("--c1").match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16));
          const pixels = ctx.getImageData(bbox.left, bbox.top - 8, bbox.width + 8, bbox.height + 16).data; // also edges
          let found = 0;
          for (let i = 0; i < pixels.length; i += 4)
            if (colour.every((part, j) => Math.abs(part - pixels[i + j]) < 40) && pixels[i + 3] > 200) found++;
          return found;
        }"""
        page.page.wait_for_timeout(1500)  # a message later; a canvas that is read twice is a warning of the browser
        assert page.page.evaluate(script, "chart-reward") > 4
        assert page.page.evaluate(script, "chart-events") > 4

    def test_a_cut_stream_is_told_and_mended(self, storage, tab):
        with serving(Service(storage, FAST)) as served:
            served.do(served.service.create(SPEC))
            page = tab(f"{served.url}/dashboard/shop")
            page.until(lambda: state(page) == "live")
            page.page.route("**/live*", lambda route: route.abort())
            served.service.ending = True  # the stream ends, and cannot be opened again
            page.until(lambda: state(page) == "polling")
            assert "asking every few seconds" in page.text("#status")
            served.lists("shop", range(4))
            page.until(lambda: page.text("#tile-lists") == "4")  # by asking
            assert state(page) == "polling"
            served.service.ending = False
            page.page.unroute("**/live*")
            page.until(lambda: state(page) == "live")
            page.page.close()

    def test_a_service_that_is_gone_is_told_and_found_again(self, tmp_path, tab):
        url = f"sqlite:///{tmp_path}/gone.db"
        with open_storage(url) as storage, serving(Service(storage, FAST)) as served:
            served.do(served.service.create(SPEC))
            served.lists("shop", range(3))
            page = tab(f"{served.url}/dashboard/shop")
            page.until(lambda: state(page) == "live" and page.text("#tile-lists") == "3")
        page.until(lambda: state(page) == "off")
        with open_storage(url) as storage, serving(Service(storage, FAST), port=served.port):
            page.until(lambda: state(page) == "live")
            page.until(lambda: "restart" in page.text("#marks"))
            page.page.close()

    def test_another_ranker_can_be_chosen(self, served, tab):
        served.do(served.service.create(msgspec.structs.replace(SPEC, name="other")))
        served.lists("other", range(2))
        page = tab(f"{served.url}/dashboard/shop")
        page.until(lambda: state(page) == "live")
        page.page.select_option("#ranker", "other")
        page.until(lambda: page.text("#name") == "other" and page.text("#tile-lists") == "2")
        assert page.page.url.endswith("/dashboard/other")

    def test_a_ranker_that_there_is_not(self, served, tab):
        page = tab(f"{served.url}/dashboard/nobody")
        page.until(lambda: "nobody" in page.text("#notice"))
        assert page.page.url.endswith("/dashboard")
        page.page.click("#rankers a")
        page.until(lambda: state(page) == "live" and page.text("#name") == "shop")
        assert not page.page.locator("#notice").is_visible()

    def test_a_ranker_that_is_deleted_meanwhile(self, served, tab):
        served.do(served.service.create(msgspec.structs.replace(SPEC, name="other")))
        page = tab(f"{served.url}/dashboard/shop")
        page.until(lambda: state(page) == "live")
        served.do(served.service.delete("shop"))
        page.until(lambda: "shop was deleted" in page.text("#notice"))
        assert not page.page.locator("#panels").is_visible()
        page.until(
            lambda: (
                page.page.locator("#ranker option").all_inner_texts() == ["All rankers", "other"]
                and page.page.locator("#rankers tbody tr").count() == 1
            )
        )
        page.page.select_option("#ranker", "other")
        page.until(lambda: state(page) == "live" and page.text("#name") == "other")

    def test_a_new_ranker_can_be_chosen(self, served, tab):
        page = tab(f"{served.url}/dashboard/shop")
        page.until(lambda: state(page) == "live")
        served.do(served.service.create(msgspec.structs.replace(SPEC, name="new")))
        page.page.focus("#ranker")
        page.until(lambda: page.page.locator("#ranker option").all_inner_texts() == ["All rankers", "new", "shop"])
        assert page.page.input_value("#ranker") == "shop"

    def test_out_of_sight_it_holds_no_connection(self, served, tab):
        """A browser has six of them for all tabs."""
        page = tab(f"{served.url}/dashboard/shop")
        page.until(lambda: state(page) == "live" and served.state.streams == 1)
        turn = """(away) => {
          Object.defineProperty(document, "hidden", { configurable: true, get: () => away });
          document.dispatchEvent(new Event("visibilitychange"));
        }"""
        page.page.evaluate(turn, True)
        page.until(lambda: served.state.streams == 0)
        page.until(lambda: "out of sight" in page.text("#status"))
        served.lists("shop", range(2))
        page.page.evaluate(turn, False)
        page.until(lambda: state(page) == "live" and page.text("#tile-lists") == "2")
        assert served.state.streams == 1


class TestPanels:
    def test_all_are_drawn(self, painted, tab):
        page = tab(f"{painted.url}/dashboard/shop")
        page.until(lambda: page.page.locator(".chart canvas").count() >= 9)
        for panel, words in {
            "win": ("won in this period", "of the last 100", "%"),
            "reward": ("with a click", "%"),
            "weights": ("rating", "8 largest of 11"),
            "kinds": ("explored", "greedy", "guard", "of 100 lists"),
            "positions": ("clicks per list", f"{clicks_per_list():.2f} over all positions"),
            "trouble": ("missing", "out of range"),
            "flow": ("events a second",),
            "marks": ("alarm", "promotion", "freeze", "rollback", "restart"),
        }.items():
            found = page.text(f"[data-panel={panel}]")
            assert all(word in found for word in words), (panel, found)

    def test_what_happened_is_drawn_on_all_time_axes(self, painted, tab):
        """Where an alarm is, its colour is on the canvas, from top to bottom."""
        page = tab(f"{painted.url}/dashboard/shop")
        page.until(lambda: page.page.locator(".chart canvas").count() >= 9)
        script = """(id) => {
          const chart = charts.get(id), mark = hist.marks.find((each) => each.event === "alarm");
          const { ctx, bbox } = chart.plot, x = Math.round(chart.plot.valToPos(mark.time, "x", true));
          const wanted = css("--bad").match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16));
          const pixels = ctx.getImageData(x - 1, bbox.top, 3, bbox.height).data;
          let found = 0;
          for (let i = 0; i < pixels.length; i += 4)
            if (wanted.every((part, j) => Math.abs(part - pixels[i + j]) < 60) && pixels[i + 3] > 60) found++;
          return found / bbox.height;
        }"""
        for name in ("win", "alarm", "reward", "rank", "weights", "kinds", "trouble", "events"):
            page.until(lambda name=name: page.page.evaluate(script, f"chart-{name}") > 0.2)

    @pytest.mark.parametrize("width", [390, 1440])
    def test_letters_of_marks_do_not_collide(self, painted, tab, width):
        """Marks that are close together have one badge, in the colour of the most important; none is lost."""
        page = tab(f"{painted.url}/dashboard/shop", width)
        page.until(lambda: page.page.locator(".chart canvas").count() >= 9)
        script = """(times) => {
          const { bbox, ctx } = charts.get("chart-reward").plot, events = ["freeze", "alarm", "resume", "start", "promote"];
          const marks = times.map((time, i) => ({ event: events[i % 5], x: bbox.left + time * bbox.width }));
          return badgesOf(marks, bbox.left + bbox.width + 28, 1, (text) => ctx.measureText(text).width);
        }"""
        badges = page.evaluate(script, [0.1, 0.101, 0.5, 0.97, 0.98, 0.99, 0.995, 0.996, 0.997, 1.0])
        assert sum(len(each["among"]) for each in badges) == 10
        assert [(each["text"], each["colour"]) for each in badges] == [
            ("F A", "--bad"),
            ("R", "--good"),
            ("A+6", "--bad"),
        ]
        for one, other in pairwise(badges):
            assert one["left"] + one["width"] < other["left"]

    def test_exploration_is_compared_within_the_same_periods(self, painted, tab):
        """Explored lists are never better than greedy ones of their time, but there were more of them in the good time."""
        page = tab(f"{painted.url}/dashboard/shop")
        page.until(lambda: state(page) == "live")
        shown = {
            "closed": {"explored": [100, 900], "greedy": [900, 100]},
            "clicked": {"explored": [10, 720], "greedy": [180, 90]},
        }
        found = page.evaluate("(shown) => samePeriods(shown, 'greedy', 2, 1)", shown)
        assert found["own"] - found["explored"] == pytest.approx(
            0.1
        )  # 0.2 and 0.1, then 0.9 and 0.8; 0.27 and 0.73 in all
        assert 0.03 < found["error"] < 0.06
        assert page.evaluate("(shown) => samePeriods(shown, 'greedy', 2, 2)", shown)["explored"] == pytest.approx(0.73)
        assert "Within the same " in page.text("#cost")

    def test_reasons_to_skip_lists(self, painted, tab):
        page = tab(f"{painted.url}/dashboard/shop")
        page.until(lambda: state(page) == "live")
        script = """(reasons) => {
          info = { ...info, skipped_by_reason: reasons };
          showHistory();
          return $("skipped").innerText;
        }"""
        said = page.evaluate(script, {"guard": 1200, "greedy": 0, "frozen": 7})
        assert said.endswith("not learned from, since the beginning: 1,200 guard, 7 frozen.")

    def test_a_chart_can_be_read_by_keys(self, painted, tab):
        page = tab(f"{painted.url}/dashboard/shop")
        page.until(lambda: page.page.locator("#chart-reward canvas").count() == 1)
        chart = page.page.locator("#chart-reward")
        chart.focus()
        chart.press("Home")
        page.until(lambda: "version 1" in chart.locator(".readout").inner_text())
        chart.press("ArrowRight")
        page.until(lambda: "version 8" in chart.locator(".readout").inner_text())
        assert "with a click" in chart.get_attribute("aria-label")

    def test_weights_of_all_features_and_by_version(self, painted, tab):
        page = tab(f"{painted.url}/dashboard/shop")
        page.until(lambda: page.page.locator("#chart-weights .legend li").count() == 8)
        page.page.check("#all-weights")
        page.until(lambda: page.page.locator("#chart-weights .legend li").count() == 11)
        page.page.check("#by-version")
        page.until(lambda: page.page.locator("#chart-weights canvas").count() == 1)

    @pytest.mark.parametrize(("width", "dark"), [(390, True), (1280, False)])
    def test_a_belief_is_shown_with_the_weights(self, served, tab, width, dark):
        spec = msgspec.structs.replace(SPEC, name="sure", algorithm="thompson-pairs", representation="curves")
        served.do(served.service.create(spec))
        served.lists("sure", range(70), lambda number, ids: [min(ids)])
        page = tab(f"{served.url}/dashboard/sure", width, dark=dark)
        page.until(lambda: page.text("#chart-weights .legend").count("±") == 3)
        assert "one standard deviation" in page.text("#hint-weights")
        page.until(lambda: page.text("#explores").startswith("What it would explore: "))
        assert all(name in page.text("#explores") for name in SPEC.features)
        assert "±" in page.page.locator("#chart-weights").get_attribute("aria-label")
        script = """() => {
          const { plot, series } = charts.get("chart-weights"), { min, max } = plot.scales.y;
          return series.map(({ whisker: [middle, by] }) => by > 0 && min < middle - by && middle + by < max);
        }"""
        assert page.evaluate(script) == [True, True, True]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    def test_without_a_belief_weights_are_shown_alone(self, served, tab):
        served.lists("shop", range(10), lambda number, ids: [min(ids)])
        page = tab(f"{served.url}/dashboard/shop")
        page.until(lambda: page.page.locator("#chart-weights .legend li").count() == 3)
        page.until(lambda: page.page.locator("#curves svg").count() == 3)
        assert "±" not in page.text("#chart-weights .legend")
        assert not page.page.locator("#explores").is_visible()

    def test_a_list_before_and_after(self, served, tab):
        served.lists("shop", range(40), lambda number, ids: [min(ids)])
        page = tab(f"{served.url}/dashboard/shop")
        page.until(lambda: page.page.locator("#list-other li").count() == 5)
        assert page.text("#title-one") == "Version 1"
        page.until(lambda: page.page.locator("#list-other .up, #list-other .down").count() > 0)
        assert page.page.locator("#list-one .up, #list-one .down").count() == 0
        page.page.select_option("#other", "1")
        page.until(lambda: page.text("#title-other") == "Version 1")
        assert page.page.locator("#list-other .up, #list-other .down").count() == 0
        page.until(lambda: page.page.locator("#curves svg").count() == 3)
        assert "#12 is the twelfth" in page.text("[data-panel=compare]")

    def test_another_time(self, painted, tab):
        page = tab(f"{painted.url}/dashboard/shop")
        page.until(lambda: page.page.locator("#chart-reward canvas").count() == 1)
        page.page.check("input[value=week]")
        page.until(lambda: "hours" in page.text("#hint-reward"))


QUERIES = ("red shoes", "tent")


@pytest.fixture
def remembering(served):
    """A service whose ranker "finder" remembers queries, and whose ranker "shop" does not."""
    served.do(served.service.create(msgspec.structs.replace(SPEC, name="finder", algorithm="remember >> mgd-dsp")))
    remember(served, QUERIES[0], range(6), "d7")
    remember(served, QUERIES[1], range(6, 8), "d6")
    return served


def remember(served, query, numbers, chosen):
    """Ask a query some times, and click a document, whose id ends with this, each time."""
    for number in numbers:
        rows = [Document(f"{query}/d{row}", [row / 8, 1.0 - row / 9, (row * 5 % 7) / 7]) for row in range(8)]
        request = RankRequest(rows, impression_id=f"m{number}", query=query, length=8)
        served.do(served.service.rank("finder", request))
        served.do(served.service.feedback("finder", [FeedbackEvent(f"m{number}", [f"{query}/{chosen}"], close=True)]))


def remembered(served) -> list[str]:
    return sorted(each.query for each in served.service.memory("finder").remembered)


def largest(page) -> list[str]:
    return sorted(page.page.locator("#largest button span").all_inner_texts())


class TestMemory:
    def test_queries_and_the_documents_of_the_first(self, remembering, tab):
        page = tab(f"{remembering.url}/dashboard/finder")
        page.until(lambda: largest(page) == sorted(QUERIES))
        assert "2 queries with 16 documents" in page.text("#hint-memory")
        first = page.page.locator("#largest button").first
        assert first.get_attribute("aria-pressed") == "true"
        query = first.locator("span").inner_text()
        assert page.text("#chosen-query").startswith(f"{query} · ")
        row = page.page.locator("#choices tbody tr").first
        assert row.locator("th").inner_text() == f"{query}/{'d7' if query == QUERIES[0] else 'd6'}"
        assert row.locator("b").inner_text().startswith("+")
        script = """(rows) => rows.map((row) => {
          const bar = row.querySelector("i").getBoundingClientRect(), track = row.querySelector(".track").getBoundingClientRect();
          const middle = track.left + track.width / 2, added = row.querySelector("b").textContent.startsWith("+");
          return Math.abs((added ? bar.left : bar.right) - middle) < 1 && bar.width <= track.width / 2 + 1;
        })"""
        assert all(page.page.locator("#choices tbody tr").evaluate_all(script))
        page.page.locator("#largest button").last.press("Enter")
        page.until(lambda: not page.text("#chosen-query").startswith(f"{query} · "))

    def test_a_query_is_looked_up(self, remembering, tab):
        page = tab(f"{remembering.url}/dashboard/finder")
        page.until(lambda: largest(page) == sorted(QUERIES))
        page.page.fill("#memory-query", "  RED  Shoes ")
        page.page.press("#memory-query", "Enter")
        page.until(lambda: page.text("#chosen-query") == "red shoes · 6 lists")
        page.page.fill("#memory-query", "blue shoes")
        page.page.click("#memory-form button")
        page.until(lambda: page.text("#chosen-query") == "Nothing is remembered of “blue shoes”.")
        assert page.page.locator("#choices").is_hidden()
        assert page.page.locator("#forget-query").is_hidden()
        page.page.fill("#memory-query", "")
        page.page.press("#memory-query", "Enter")
        page.until(lambda: page.page.locator("#choices tbody tr").count() == 8)

    def test_what_users_choose_meanwhile_is_seen(self, remembering, tab):
        page = tab(f"{remembering.url}/dashboard/finder")
        page.until(lambda: state(page) == "live" and largest(page) == sorted(QUERIES))
        remember(remembering, "socks", range(8, 10), "d1")
        page.until(lambda: largest(page) == sorted((*QUERIES, "socks")))

    def test_a_query_is_forgotten_after_a_question(self, remembering, tab):
        page = tab(f"{remembering.url}/dashboard/finder")
        page.page.click("#largest button:has-text('tent')")
        page.until(lambda: page.text("#chosen-query") == "tent · 2 lists")
        page.page.click("#forget-query")
        assert "“tent”" in page.text("#ask")
        page.page.click("#ask-no")
        assert remembered(remembering) == sorted(QUERIES)
        page.page.click("#forget-query")
        page.page.click("#ask-yes")
        page.until(lambda: largest(page) == ["red shoes"])
        assert remembered(remembering) == ["red shoes"]
        page.until(lambda: "forget" in page.text("#marks"))
        assert "tent" not in page.text("#marks")

    def test_a_document_is_forgotten_after_a_question(self, remembering, tab):
        page = tab(f"{remembering.url}/dashboard/finder")
        page.page.click("#largest button:has-text('tent')")
        page.until(lambda: page.text("#chosen-query") == "tent · 2 lists")
        page.page.get_by_role("button", name="Forget tent/d6 …", exact=True).click()
        assert "tent/d6 are forgotten in all queries" in page.text("#ask")
        page.page.click("#ask-yes")
        page.until(lambda: page.page.locator("#choices tbody tr").count() == 7)
        assert "tent/d6" not in page.text("#choices")

    def test_nothing_is_remembered_yet(self, served, tab):
        served.do(served.service.create(msgspec.structs.replace(SPEC, name="finder", algorithm="remember >> mgd-dsp")))
        page = tab(f"{served.url}/dashboard/finder")
        page.until(lambda: "Nothing is remembered yet" in page.text("#memory"))
        page.until(lambda: page.page.locator("#memory-form").is_hidden())  # the text is there before the answer

    def test_other_rankers_do_not_have_it(self, remembering, tab):
        page = tab(f"{remembering.url}/dashboard/shop")
        page.until(lambda: state(page) == "live")
        assert page.page.locator("#memory").is_hidden()
        page.page.select_option("#ranker", "finder")
        page.until(lambda: page.page.locator("#memory").is_visible() and largest(page) == sorted(QUERIES))
        page.page.select_option("#ranker", "shop")
        page.until(lambda: page.text("#name") == "shop" and page.page.locator("#memory").is_hidden())

    def test_a_list_shows_what_memory_adds(self, remembering, tab):
        until(lambda: remembered(remembering) == sorted(QUERIES))
        remember(remembering, "tent", range(8, 9), "d6")  # the newest list, which was made with that memory
        page = tab(f"{remembering.url}/dashboard/finder")
        page.until(lambda: page.page.locator("#list-other .tag.memory").count() > 0)
        assert page.page.locator("#list-other li:has-text('tent/d6') .tag.memory").inner_text().startswith("memory +")

    def test_queries_and_documents_are_only_text(self, remembering, tab):
        remember(remembering, f"{EVIL} shop", range(20, 22), "d2")
        page = tab(f"{remembering.url}/dashboard/finder")
        dialogs = []
        page.page.on("dialog", lambda dialog: dialogs.append(dialog.message) or dialog.dismiss())
        page.until(lambda: f"{EVIL} shop" in largest(page))
        page.page.fill("#memory-query", f"{EVIL} shop")
        page.page.press("#memory-query", "Enter")
        page.until(lambda: EVIL in page.text("#chosen-query") and EVIL in page.text("#choices"))
        page.page.click("#forget-query")
        page.until(lambda: EVIL in page.text("#ask-text"))
        page.page.click("#ask-no")
        page.page.locator("#choices button").first.click()
        page.until(lambda: EVIL in page.text("#ask-text"))
        page.page.click("#ask-no")
        page.page.wait_for_timeout(300)
        assert dialogs == []
        assert page.page.locator("main img, main script, dialog img").count() == 0

    def test_who_only_looks_forgets_nothing(self, tmp_path, tab):
        url = f"sqlite:///{tmp_path}/past.db"
        with open_storage(url) as storage, serving(Service(storage, FAST)) as served:
            spec = msgspec.structs.replace(SPEC, name="finder", algorithm="remember >> mgd-dsp")
            served.do(served.service.create(spec))
            remember(served, "tent", range(3), "d6")
        with open_storage(url) as storage, serving(Service(storage, FAST, read_only=True)) as served:
            page = tab(f"{served.url}/dashboard/finder")
            page.until(lambda: page.page.locator("#choices tbody tr").count() == 8)
            assert page.page.locator("#memory button").all_inner_texts()[0] == "Look up"
            assert not [each for each in page.page.locator("#memory button").all_inner_texts() if "Forget" in each]
            page.page.close()

    @pytest.mark.parametrize("width", [390, 1440])
    @pytest.mark.parametrize("dark", [False, True])
    def test_it_fits_and_can_be_read(self, remembering, tab, width, dark):
        axe = pytest.importorskip(
            "axe_playwright_python.sync_playwright", reason="needs the package axe-playwright-python"
        )
        page = tab(f"{remembering.url}/dashboard/finder", width, dark=dark, bypass_csp=True)
        page.until(lambda: page.page.locator("#choices tbody tr").count() == 8)
        page.until(lambda: page.page.locator("#list-other li").count() > 0)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert serious(axe.Axe().run(page.page).response["violations"]) == []


def clicks_per_list() -> float:
    history = plausible()
    return sum(history.positions_clicked) / history.positions_shown[0]


@pytest.fixture
def alarmed(served):
    """A service whose ranker "outlet" has raised an alarm, and whose ranker "shop" is well."""
    raise_alarm(served)
    return served


def raise_alarm(served):
    guard = GuardSpec(share=1.0, false_alarm_every=100.0, promote=(1.0,))
    start = Start(weights={"bm25": 1.0})
    served.do(served.service.create(msgspec.structs.replace(SPEC, name="outlet", guard=guard, start=start)))
    while served.service.guard("outlet").state != "alarm":
        number = served.service.ranker("outlet").impressions
        served.lists("outlet", range(number, number + 5), lambda number, ids: [min(ids)])  # the client's first


class TestExperiments:
    @staticmethod
    def run(served, count: int) -> None:
        """Show some lists of an experiment, in which users click on what only the system "new" has found."""
        served.do(served.service.create_experiment(ExperimentSpec("spring", ("old", "new"), length=1)))
        for number in range(count):
            request = ShowRequest({"old": ["a"], "new": ["b"]}, f"s{number}")
            shown = served.do(served.service.show("spring", request)).documents
            clicks = [each for each in shown if each == "b"]
            event = FeedbackEvent(f"s{number}", clicks, close=True)
            served.do(served.service.experiment_feedback("spring", [event]))

    def test_one_is_shown_with_its_bands_and_stopped(self, served, tab):
        self.run(served, 60)
        page = tab(f"{served.url}/dashboard")
        page.until(lambda: "spring" in page.text("#experiment-list"))
        assert page.page.locator("#overview").is_visible()
        page.page.click("#experiment-list tbody tr td:last-child")
        page.until(lambda: "'new' is better than 'old'" in page.text("#experiment-verdict"))
        assert page.page.url.endswith("/dashboard/spring")
        assert page.text("#experiment-state") == "decided"
        assert "better" in page.text("#pairs")
        page.until(lambda: page.page.locator("#pair-0 canvas").count() == 1)
        assert page.text("#pair-charts h2") == "new against old"
        page.page.click("#experiment-stop")
        page.page.click("#ask-yes")
        page.until(lambda: page.text("#experiment-state") == "stopped")
        assert not page.page.locator("#experiment-stop").is_visible()
        page.page.select_option("#ranker", "shop")
        page.until(lambda: page.page.locator("#panels").is_visible())
        assert not page.page.locator("#pair-charts").is_visible()
        page.page.go_back()
        page.until(lambda: page.page.locator("#pair-charts").is_visible())

    def test_one_that_is_new_or_gone(self, served, tab):
        self.run(served, 0)
        page = tab(f"{served.url}/dashboard/spring", width=400)
        page.until(lambda: "No list has a winner yet" in page.text("#pair-charts"))
        assert page.text("#experiment-verdict") == "Undecided: no list has a winner yet."
        served.do(served.service.delete_experiment("spring"))
        page.until(lambda: "The experiment spring was deleted" in page.text("#notice"))


class TestAll:
    def test_alarms_come_first(self, alarmed, tab):
        alarmed.do(alarmed.service.create(msgspec.structs.replace(SPEC, name="blog")))
        page = tab(f"{alarmed.url}/dashboard")
        page.until(lambda: page.page.locator("#rankers tbody th").all_inner_texts() == ["outlet", "blog", "shop"])
        row = page.page.locator("#rankers tbody tr").first.inner_text()
        assert "alarm" in row
        assert "Users preferred your own order in" in row
        assert "Your own order is shown, and learning has stopped" in row
        assert "0%" in row
        assert "just now" in row
        assert "learns" in page.page.locator("#rankers tbody tr").last.inner_text()

    def test_a_click_opens_a_ranker_and_back_goes_back(self, alarmed, tab):
        page = tab(f"{alarmed.url}/dashboard")
        page.page.click("#rankers tbody tr:last-child td:last-child")
        page.until(lambda: state(page) == "live" and page.text("#name") == "shop")
        assert page.page.url.endswith("/dashboard/shop")
        assert not page.page.locator("#overview").is_visible()
        page.page.go_back()
        page.until(lambda: page.page.locator("#overview").is_visible())
        assert not page.page.locator("#panels").is_visible()
        page.page.go_forward()
        page.until(lambda: page.page.locator("#panels").is_visible())
        page.page.click("#home")
        page.until(lambda: page.page.locator("#overview").is_visible())

    def test_what_happens_meanwhile_is_seen(self, served, tab):
        page = tab(f"{served.url}/dashboard")
        page.until(lambda: page.page.locator("#rankers tbody tr").count() == 1)
        raise_alarm(served)
        page.until(lambda: page.page.locator("#rankers tbody th").all_inner_texts() == ["outlet", "shop"])

    def test_phases(self, served, tab):
        guard = GuardSpec(share=0.5, promote=(0.5, 1.0))
        for name, imitate in (("imitates", 30), ("climbs", 0)):
            spec = msgspec.structs.replace(SPEC, name=name, guard=guard, imitate=imitate)
            served.do(served.service.create(spec))
        served.do(served.service.create(msgspec.structs.replace(SPEC, name="follows", mode="shadow")))
        served.do(served.service.control("shop", "freeze"))
        served.lists("imitates", range(2))
        page = tab(f"{served.url}/dashboard")
        page.until(lambda: "2 of 30 lists" in page.text("#rankers"))
        cells = page.page.locator("#rankers tbody tr").evaluate_all(
            "(rows) => rows.map((row) => [0, 1, 2].map((cell) => row.cells[cell].innerText))"
        )
        assert cells == [
            ["climbs", "climbing · rung 1 of 2", "50%"],
            ["follows", "shadow", "0%"],
            ["imitates", "imitating · 2 of 30 lists", "0%"],
            ["shop", "frozen", "100%"],
        ]


class TestAlarm:
    def test_it_says_what_happened_and_what_was_done_and_the_statistic_last(self, alarmed, tab):
        page = tab(f"{alarmed.url}/dashboard/outlet")
        page.until(lambda: page.page.locator("#alarm").is_visible())
        alarm = alarmed.service.guard("outlet").last_alarm
        words = (alarm.happened, alarm.consequence.capitalize(), "Resume …", "Roll back …", "the statistic")
        places = [page.text("#alarm").find(each) for each in words]
        assert -1 not in places
        assert places == sorted(places)
        assert not page.page.locator("#resume").is_visible()  # once is enough
        assert page.text("#state") == "alarm"

    def test_it_is_ended_after_a_question(self, alarmed, tab):
        page = tab(f"{alarmed.url}/dashboard/outlet")
        page.page.click("#alarm-resume")
        assert "The alarm ends" in page.text("#ask")
        page.page.click("#ask-no")
        assert alarmed.service.guard("outlet").state == "alarm"
        page.page.click("#alarm-rollback")
        assert "The alarm stays" in page.text("#ask")
        page.page.click("#ask-no")
        page.page.click("#alarm-resume")
        page.page.click("#ask-yes")
        page.until(lambda: not page.page.locator("#alarm").is_visible())
        page.until(lambda: alarmed.service.guard("outlet").state == "watching")
        assert page.page.locator("#resume").is_visible()

    def test_a_rollback_by_the_guard_is_said_without_buttons(self, served, tab):
        guard = GuardSpec(share=1.0, false_alarm_every=100.0, promote=(1.0,), on_alarm="rollback")
        start = Start(weights={"bm25": 1.0})
        served.do(served.service.create(msgspec.structs.replace(SPEC, name="outlet", guard=guard, start=start)))
        clicked = max
        while not served.service.guard("outlet").alarms:
            number = served.service.ranker("outlet").impressions
            served.lists("outlet", range(number, number + 5), lambda _, ids, clicked=clicked: [clicked(ids)])
            machine = served.service._rankers["outlet"].machine  # None until the learner knows the new ranker
            if machine is not None and machine.watch.proven is not None:
                clicked = min  # users prefer the client's first from here on
        assert served.service.guard("outlet").last_alarm.did == "rollback"
        page = tab(f"{served.url}/dashboard/outlet")
        page.until(lambda: page.page.locator("#alarm").is_visible())
        assert served.service.guard("outlet").last_alarm.happened in page.text("#alarm")
        assert not page.page.locator("#alarm button").first.is_visible()
        assert page.text("#state") != "alarm"

    def test_another_ranker_says_so(self, served, tab):
        page = tab(f"{served.url}/dashboard/shop")
        page.until(lambda: state(page) == "live")
        assert not page.page.locator("#others").is_visible()
        raise_alarm(served)
        page.until(lambda: page.text("#others") == "Alarm of another ranker: outlet")
        page.page.click("#others a")
        page.until(lambda: page.page.locator("#alarm").is_visible() and page.text("#name") == "outlet")
        assert not page.page.locator("#others").is_visible()

    def test_who_only_looks_has_the_commands(self, tmp_path, tab):
        url = f"sqlite:///{tmp_path}/past.db"
        with open_storage(url) as storage, serving(Service(storage, FAST)) as served:
            raise_alarm(served)
        with open_storage(url) as storage, serving(Service(storage, FAST, read_only=True)) as served:
            page = tab(f"{served.url}/dashboard/outlet")
            page.until(lambda: page.page.locator("#alarm").is_visible())
            assert "duelrank rankers resume outlet" in page.text("#alarm-command")
            assert page.page.locator("#alarm button").all_inner_texts() == ["Copy"]
            page.page.close()


class TestButtons:
    def test_each_asks_before(self, served, tab):
        served.lists("shop", range(6))
        page = tab(f"{served.url}/dashboard/shop")
        page.until(lambda: page.text("#state") == "learns")
        page.page.click("#freeze")
        assert "learns nothing until somebody resumes" in page.text("#ask")
        page.page.click("#ask-no")
        page.until(lambda: not page.page.locator("#ask").is_visible())
        assert not served.service.ranker("shop").frozen
        page.page.click("#freeze")
        page.page.click("#ask-yes")
        page.until(lambda: page.text("#state") == "frozen")
        assert served.service.ranker("shop").frozen
        page.until(lambda: "freeze" in page.text("#marks"))
        page.page.click("#resume")
        page.page.click("#ask-yes")
        page.until(lambda: page.text("#state") == "learns")
        assert not served.service.ranker("shop").frozen

    def test_back_to_a_version(self, served, tab):
        served.lists("shop", range(6))
        page = tab(f"{served.url}/dashboard/shop")
        page.until(lambda: page.text("#tile-learned") == "6")
        page.until(
            lambda: len(served.service.versions("shop")) > 1
        )  # the question lists those of the moment it is asked
        before = served.service.ranker("shop").model_version
        page.page.click("#rollback")
        page.until(
            lambda: page.page.locator("#ask-select option[value='1']").count() == 1
        )  # perhaps the only earlier one
        page.page.select_option("#ask-select", "1")
        page.page.click("#ask-yes")
        page.until(lambda: not page.page.locator("#ask").is_visible())
        page.until(lambda: served.service.ranker("shop").model_version > before)
        page.until(lambda: not served.service.model("shop").weights.any())
        page.until(lambda: "rollback" in page.text("#marks"))

    def test_escape_closes_the_question(self, served, tab):
        page = tab(f"{served.url}/dashboard/shop")
        page.until(lambda: page.page.locator("#freeze").is_visible())
        page.page.click("#freeze")
        page.page.keyboard.press("Escape")
        page.until(lambda: not page.page.locator("#ask").is_visible())
        assert not served.service.ranker("shop").frozen


class TestKeys:
    @pytest.fixture
    def locked(self, storage):
        """A service with keys: (what is served, a key to look, a key for everything)."""
        (look, first), (admin, second) = make_key(["rank"]), make_key(["admin"])
        storage.keys.add(first)
        storage.keys.add(second)
        with serving(Service(storage, FAST)) as found:
            found.do(found.service.create(SPEC))
            found.lists("shop", range(5))
            yield found, look, admin

    def enter(self, page, key):
        page.page.fill("#key", key)
        page.page.click("#key-form button")

    def test_it_stays_from_all_rankers_to_one(self, locked, tab):
        page = tab(f"{locked[0].url}/dashboard")
        self.enter(page, locked[2])
        page.page.click("#rankers a")
        page.until(lambda: state(page) == "live" and page.text("#tile-lists") == "5")

    def test_without_one_there_is_nothing_to_see(self, locked, tab):
        page = tab(f"{locked[0].url}/dashboard")
        page.until(lambda: page.page.locator("#key-card").is_visible())
        assert "shop" not in page.page.content()
        assert not page.page.locator("#panels").is_visible()

    def test_a_wrong_one_is_refused(self, locked, tab):
        page = tab(f"{locked[0].url}/dashboard")
        self.enter(page, "dr_nothing_nothing")
        page.until(lambda: "not known" in page.text("#notice"))
        assert page.page.locator("#key-card").is_visible()

    def test_one_that_is_not_for_this_is_refused(self, locked, tab):
        page = tab(f"{locked[0].url}/dashboard")
        self.enter(page, locked[1])
        page.until(lambda: "scope admin" in page.text("#notice"))
        self.enter(page, locked[2])
        page.until(lambda: state(page) == "live")
        assert not page.page.locator("#notice").is_visible()

    def test_typed_once_it_is_for_everything(self, locked, tab):
        served, _, admin = locked
        page = tab(f"{served.url}/dashboard/shop")
        self.enter(page, admin)
        page.until(lambda: state(page) == "live" and page.text("#tile-lists") == "5")
        page.until(lambda: page.page.locator("#list-one li").count() == 5)
        for action, after in (("freeze", "frozen"), ("resume", "learns")):
            page.page.click(f"#{action}")
            page.page.click("#ask-yes")
            page.until(lambda after=after: page.text("#state") == after)

    def test_one_that_is_revoked_meanwhile_is_asked_for_again(self, locked, tab):
        served, _, admin = locked
        page = tab(f"{served.url}/dashboard/shop")
        self.enter(page, admin)
        page.until(lambda: state(page) == "live")
        other, kept = make_key(["admin"])
        served.storage.keys.add(kept)
        served.storage.keys.revoke(admin.split("_")[1])
        page.until(lambda: page.page.locator("#key-card").is_visible())
        assert not page.page.locator("#panels").is_visible()
        self.enter(page, other)
        page.until(lambda: state(page) == "live")

    def test_it_stays_in_memory(self, locked, tab):
        served, _, admin = locked
        page = tab(f"{served.url}/dashboard/shop")
        self.enter(page, admin)
        page.until(lambda: state(page) == "live")
        kept = page.page.evaluate(
            "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
        )
        assert admin not in kept
        assert admin not in page.page.content()
        assert page.page.input_value("#key") == ""
        assert page.page.context.cookies() == []
        page.page.reload()
        page.until(lambda: page.page.locator("#key-card").is_visible())


class TestSafety:
    def test_names_are_only_text(self, storage, tab):
        spec = RankerSpec(
            "shop", "mgd-dsp", (EVIL, "price", "<script>alert(2)</script>"), representation="query-scaled", length=5
        )
        with serving(Service(storage, FAST)) as served:
            served.do(served.service.create(spec))
            for number in range(8):
                documents = [Document(f"{EVIL}{i}", [i / 5, 1 - i / 7, (i * i) % 3 / 3]) for i in range(6)]
                ranked = served.do(served.service.rank("shop", RankRequest(documents, impression_id=f"{EVIL}{number}")))
                event = FeedbackEvent(f"{EVIL}{number}", ranked.ids[:1], close=True)
                served.do(served.service.feedback("shop", [event]))
            page = tab(f"{served.url}/dashboard/shop")
            dialogs = []
            page.page.on("dialog", lambda dialog: dialogs.append(dialog.message) or dialog.dismiss())
            page.until(lambda: EVIL in page.text("#chart-weights") and EVIL in page.text("#curves"))
            page.until(lambda: EVIL in page.text("#list-one"))
            page.page.wait_for_timeout(300)
            assert dialogs == []
            assert page.page.locator("main img, main script, li > script").count() == 0
            page.page.close()

    def test_the_policy_holds(self, painted, tab):
        page = tab(f"{painted.url}/dashboard/shop")
        page.until(lambda: page.page.locator(".chart canvas").count() >= 9)
        page.page.evaluate(
            """() => {
              const bad = document.createElement("script");
              bad.textContent = "window.bad = 1";
              document.body.append(bad);
            }"""
        )
        assert page.page.evaluate("window.bad") is None
        assert len(page.complaints) == 1  # that one, and nothing of our own
        assert "Content Security Policy" in page.complaints.pop()

    def test_nobody_else_is_asked(self, painted, tab, browser):
        context = browser.new_context()
        page, asked = context.new_page(), []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{painted.url}/dashboard/shop")
        page.wait_for_selector("#chart-reward canvas")
        context.close()
        assert asked
        assert [url for url in asked if not url.startswith((painted.url, "data:"))] == []


class TestLooks:
    SIZES = ((1440, 900), (390, 844))

    @pytest.mark.parametrize(("width", "height"), SIZES)
    @pytest.mark.parametrize("dark", [False, True])
    def test_nothing_sticks_out_and_colours_follow(self, painted, tab, width, height, dark):
        page = tab(f"{painted.url}/dashboard/shop", width, height, dark)
        page.until(lambda: page.page.locator(".chart canvas").count() >= 9)
        page.until(lambda: page.page.locator("#list-other li").count() > 0)
        assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        light = page.page.evaluate("getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g)[0] > 128")
        assert light is not dark
        page.page.emulate_media(color_scheme="light" if dark else "dark")
        page.until(lambda: page.page.locator(".chart canvas").count() >= 9)

    @pytest.mark.parametrize(("width", "height"), SIZES)
    @pytest.mark.parametrize("dark", [False, True])
    def test_everybody_can_read_it(self, painted, tab, width, height, dark):
        axe = pytest.importorskip(
            "axe_playwright_python.sync_playwright", reason="needs the package axe-playwright-python"
        )
        page = tab(f"{painted.url}/dashboard/shop", width, height, dark, bypass_csp=True)
        page.until(lambda: page.page.locator(".chart canvas").count() >= 9)
        page.until(lambda: page.page.locator("#list-other li").count() > 0)
        found = axe.Axe().run(page.page).response["violations"]
        page.page.click("#freeze")
        found += axe.Axe().run(page.page, context="#ask").response["violations"]
        assert serious(found) == []

    @pytest.mark.parametrize(("width", "height"), SIZES)
    @pytest.mark.parametrize("dark", [False, True])
    def test_alarms_fit_and_can_be_read(self, alarmed, tab, width, height, dark):
        axe = pytest.importorskip(
            "axe_playwright_python.sync_playwright", reason="needs the package axe-playwright-python"
        )
        page = tab(f"{alarmed.url}/dashboard", width, height, dark, bypass_csp=True)
        for shown, way in (
            ("#rankers tr.raised", "#rankers tbody tr:not(.raised) a"),
            ("#others", "#others a"),
            ("#alarm", "#home"),
        ):
            page.page.wait_for_selector(shown)
            assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert serious(axe.Axe().run(page.page).response["violations"]) == []
            page.page.click(way)


def serious(found):
    """Return the findings of axe that keep people from reading."""
    return [
        (each["id"], [node["html"][:120] for node in each["nodes"][:3]])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


class TestOnlyLooking:
    def test_a_store_that_nobody_serves(self, tmp_path, tab):
        url = f"sqlite:///{tmp_path}/past.db"
        with open_storage(url) as storage, serving(Service(storage, FAST)) as served:
            served.do(served.service.create(SPEC))
            served.lists("shop", range(9))
        with open_storage(url) as storage, serving(Service(storage, FAST, read_only=True)) as served:
            page = tab(f"{served.url}/dashboard/shop")
            page.until(lambda: page.text("#tile-lists") == "9")
            page.until(lambda: page.page.locator("#list-one li").count() == 5)
            assert not page.page.locator("#actions").is_visible()
            assert "only looked at" in page.text("#head")
            page.page.close()


def test_a_neural_ranker_has_the_reason_in_the_place_of_its_curves(storage, tab):
    with serving(Service(storage, FAST)) as served:
        neural = msgspec.structs.replace(SPEC, algorithm="mlp-pdgd(hidden=4)")
        served.do(served.service.create(neural))
        served.lists("shop", range(5))
        page = tab(f"{served.url}/dashboard/shop")
        page.until(lambda: "is not linear" in page.text("#no-curves"))
        assert page.page.locator("#curves svg").count() == 0
