"""The dashboard in a real browser: what it shows, follows, asks, refuses and looks like."""

from __future__ import annotations

import time

import msgspec
import pytest
from tests.browser.histories import plausible
from tests.service.http.served import FAST, SPEC, serving

from duelrank.service import Service
from duelrank.service.http.auth import make_key
from duelrank.service.http.schema import GuardSpec, RankerSpec
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
        found.do(found.service.create(msgspec.structs.replace(SPEC, guard=GuardSpec(share=0.5, promote=(1.0,)))))
        found.lists("shop", range(20))
        yield found


def state(tab) -> str:
    return tab.page.locator("#status").get_attribute("data-state")


class TestFollowing:
    def test_an_empty_ranker_says_so(self, served, tab):
        page = tab(f"{served.url}/dashboard")
        page.until(lambda: state(page) == "live")
        assert page.text("#name") == "shop"
        assert "No lists yet" in page.text("#summary")
        assert "No lists yet." in page.text("[data-panel=reward]")
        assert "No guard" in page.text("[data-panel=win]")
        assert page.page.locator("[data-panel=win]").bounding_box()["height"] < 100  # there is no more to say

    def test_a_store_without_rankers_says_so(self, storage, tab):
        with serving(Service(storage, FAST)) as served:
            page = tab(f"{served.url}/dashboard")
            page.until(lambda: "No ranker yet" in page.text("#name"))
            served.do(served.service.create(SPEC))
            page.until(lambda: page.text("#name") == "shop")
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
        assert high - low < 3600  # one minute is no reason to show years
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
          return [x.length > 2, plot.scales.x.max >= mark.time, plot.scales.x.max >= x.at(-1) + 60];
        }"""
        page.until(lambda: page.page.evaluate(script) == [True, True, True])

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
          const pixels = ctx.getImageData(bbox.left, bbox.top, bbox.width, bbox.height).data;
          let found = 0;
          for (let i = 0; i < pixels.length; i += 4)
            if (colour.every((part, j) => Math.abs(part - pixels[i + j]) < 40) && pixels[i + 3] > 200) found++;
          return found;
        }"""
        page.until(lambda: page.page.evaluate(script, "chart-reward") > 4)
        page.until(lambda: page.page.evaluate(script, "chart-events") > 4)

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
        page.page.select_option("#ranker", "shop")
        page.until(lambda: state(page) == "live" and page.text("#name") == "shop")
        assert not page.page.locator("#notice").is_visible()

    def test_a_ranker_that_is_deleted_meanwhile(self, served, tab):
        served.do(served.service.create(msgspec.structs.replace(SPEC, name="other")))
        page = tab(f"{served.url}/dashboard/shop")
        page.until(lambda: state(page) == "live")
        served.do(served.service.delete("shop"))
        page.until(lambda: "shop was deleted" in page.text("#notice"))
        assert not page.page.locator("#panels").is_visible()
        assert page.page.locator("#ranker option").all_inner_texts() == ["choose a ranker …", "other"]
        page.page.select_option("#ranker", "other")
        page.until(lambda: state(page) == "live" and page.text("#name") == "other")

    def test_a_new_ranker_can_be_chosen(self, served, tab):
        page = tab(f"{served.url}/dashboard/shop")
        page.until(lambda: state(page) == "live")
        served.do(served.service.create(msgspec.structs.replace(SPEC, name="new")))
        page.page.focus("#ranker")
        page.until(lambda: page.page.locator("#ranker option").all_inner_texts() == ["new", "shop"])
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
            "win": ("won", "%"),
            "reward": ("with a click", "%"),
            "weights": ("rating", "8 largest of 11"),
            "kinds": ("explored", "greedy", "guard", "of 100 lists"),
            "positions": ("clicks per list",),
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
        page.until(lambda: page.page.locator("#ask-select option").count() > 1)
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
        page = tab(f"{served.url}/dashboard")
        self.enter(page, admin)
        page.until(lambda: state(page) == "live" and page.text("#tile-lists") == "5")
        page.until(lambda: page.page.locator("#list-one li").count() == 5)
        for action, after in (("freeze", "frozen"), ("resume", "learns")):
            page.page.click(f"#{action}")
            page.page.click("#ask-yes")
            page.until(lambda after=after: page.text("#state") == after)

    def test_one_that_is_revoked_meanwhile_is_asked_for_again(self, locked, tab):
        served, _, admin = locked
        page = tab(f"{served.url}/dashboard")
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
        page = tab(f"{served.url}/dashboard")
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
            from duelrank.service.http.schema import Document, FeedbackEvent, RankRequest

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
        bad = [
            (each["id"], [node["html"][:120] for node in each["nodes"][:3]])
            for each in found
            if each["impact"] in ("serious", "critical")
        ]
        assert bad == []


class TestOnlyLooking:
    def test_a_store_that_nobody_serves(self, tmp_path, tab):
        url = f"sqlite:///{tmp_path}/past.db"
        with open_storage(url) as storage, serving(Service(storage, FAST)) as served:
            served.do(served.service.create(SPEC))
            served.lists("shop", range(9))
        with open_storage(url) as storage, serving(Service(storage, FAST, read_only=True)) as served:
            page = tab(f"{served.url}/dashboard")
            page.until(lambda: page.text("#tile-lists") == "9")
            page.until(lambda: page.page.locator("#list-one li").count() == 5)
            assert not page.page.locator("#actions").is_visible()
            assert "only looked at" in page.text("#head")
            page.page.close()
