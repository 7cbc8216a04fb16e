"""The playground in a real browser: what a visitor sees and does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from tests.playground.conftest import HARM, library, search  # noqa: F401  # fixtures
from tests.waiting import FOR_EVER, until

from duelrank.playground import Playground
from duelrank.service.http.protocol import HttpProtocol
from duelrank.service.http.server import listen
from duelrank.storage import open_storage


@pytest.fixture
def address(search) -> Iterator[str]:  # noqa: F811
    """Serve a playground over a small library, in a thread."""
    with open_storage("sqlite://") as storage, listen("127.0.0.1", 0) as listening:
        playground = Playground(storage, search)
        server = uvicorn.Server(
            uvicorn.Config(playground.app, http=HttpProtocol, ws="none", lifespan="on", log_config=None)
        )
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
        thread.start()
        until(lambda: (server.started and playground.service.ready) or not thread.is_alive())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/play"
        server.should_exit = True
        thread.join()


@pytest.fixture
def open_play(tab, address):
    """Open the playground, and wait until it can be used."""

    def open_play(fragment="", **options):
        found = tab(address + fragment, **options)
        found.wait_for_selector("body[data-ready]")
        return found

    return open_play


def hits(page) -> list[str]:
    return page.locator(".hit .open code").all_inner_texts()


def look_for(page, query="read file"):
    page.fill("#query", query)
    page.press("#query", "Enter")
    page.wait_for_selector(".hit")
    page.wait_for_selector("#done:not([disabled])")


def leave(page):
    page.click("#done")
    page.wait_for_selector("text=The ranker has learned from this list")


def at_rest(page) -> bool:
    """Whether nothing moves; what begins to move with the next frames counts too."""
    frames = "for (let each = 0; each < 4; each++) await new Promise(requestAnimationFrame);"
    return page.evaluate(f"async () => {{ {frames} return document.getAnimations().length === 0 }}")


class TestSearchAndClick:
    def test_ten_results_with_their_features_as_bars(self, open_play):
        page = open_play()
        assert "58 docstrings" in page.text("#about")
        look_for(page)
        assert len(hits(page)) == 10
        bars = page.locator(".hit").first.locator(".features i b")
        assert bars.count() == 11
        heights = bars.evaluate_all("nodes => nodes.map(node => node.getBoundingClientRect().height)")
        assert 20 < max(heights) <= 30
        assert min(heights) == 0
        first = page.locator(".hit").first
        learned = page.locator("#weights .bar > span:first-child").all_inner_texts()
        assert [each.strip() for each in first.locator(".features div").all_inner_texts()] == learned  # the same names
        said = page.locator(".features").first.get_attribute("aria-label")
        assert said.startswith("Features: name ")

    def test_a_click_opens_the_docstring_and_counts(self, open_play, address):
        page = open_play()
        look_for(page)
        second = page.locator(".hit").nth(1)
        second.locator(".open").click()
        second.locator("pre").wait_for()
        assert "file" in second.locator("pre").inner_text()
        assert second.locator(".open").get_attribute("aria-expanded") == "true"
        assert second.locator(".clicked-badge").count() == 1
        second.locator(".open").click()
        second.locator("pre").wait_for(state="hidden")
        second.locator(".open").click()  # once more: it opens again, and counts once
        second.locator("pre").wait_for()
        assert second.locator(".clicked-badge").count() == 1
        leave(page)
        assert "1 click;" in page.text("#step-said")

    def test_after_the_list_was_left_the_page_shows_what_was_learned(self, open_play):
        page = open_play()
        assert page.text("#version") == "version 1"
        weights = page.locator("#weights .value").all_inner_texts()
        look_for(page)
        page.locator(".hit .open").nth(2).click()
        page.locator(".hit pre").wait_for()
        leave(page)
        assert page.text("#version") == "version 2"
        assert page.text("#steps") == "1 list learned from"
        assert page.locator("#weights .value").all_inner_texts() != weights
        assert page.locator("#weights u").count() > 0  # where they were before
        badges = [each.split("\n")[-1] for each in page.locator(".hit .open").all_inner_texts()]
        assert [text.endswith("taken as seen") for text in badges] == [True] * 4 + [False] * 6
        assert page.text("#step-said") == "1 click; 4 of 10 documents are taken as seen."
        picture = page.locator("#angle svg").get_attribute("aria-label")
        assert "% of its length and turns it by" in picture
        assert picture.endswith("°; what is left is then scaled to length 1.00.")
        assert "→" not in page.locator("#angle svg").text_content()
        meaning = page.locator("#angle figure").get_attribute("title")  # on hover
        assert "The angle is between the direction before and after" in meaning
        assert page.locator("#angle details p").is_hidden()
        page.locator("#angle summary").press("Enter")  # by keyboard or touch
        assert page.text("#angle details p") == meaning
        assert page.locator("#directions .bar").count() == 11

    def test_weights_move_to_where_they_are(self, open_play):
        page = open_play()
        look_for(page)
        page.locator(".hit .open").nth(4).click()
        page.locator(".hit pre").wait_for()
        leave(page)
        bars = "() => [...document.querySelectorAll('#weights .bar')].map(bar => {"
        bars += "const b = bar.querySelector('b').getBoundingClientRect(), t = bar.querySelector('.track').getBoundingClientRect();"
        bars += "const value = Number(bar.querySelector('.value').textContent);"
        bars += "return [value, (bar.querySelector('b').matches('.minus') ? -1 : 1) * 2 * b.width / t.width]})"

        def settled():
            found = page.evaluate(bars)
            weight, length = max(found, key=lambda each: abs(each[0]))
            scale = length / weight  # 0.01: a number on the page is rounded to 0.01, and a bar to parts of a pixel
            return all(abs(length - scale * weight) < 0.005 * abs(scale) + 0.01 for weight, length in found)

        page.until(lambda: at_rest(page))
        page.until(settled)  # all bars are as long as their numbers say

    def test_search_again_and_moved_documents_are_marked(self, open_play):
        page = open_play()
        look_for(page)
        assert page.locator(".moved").count() == 0
        first = hits(page)
        page.locator(".hit .open").nth(5).click()
        page.locator(".hit pre").wait_for()
        leave(page)
        page.click("text=Search again")
        page.until(lambda: "last time" in page.text("#said"))
        second = hits(page)
        for place, id in enumerate(second):
            mark = page.locator(".hit").nth(place).locator(".moved [aria-hidden]")
            if id not in first:
                assert mark.inner_text() == "new"
            elif (by := first.index(id) - place) == 0:
                assert mark.count() == 0
            else:
                assert mark.inner_text() == (f"▲ {by}" if by > 0 else f"▼ {-by}")
        assert page.locator(".moved").count() > 0

    def test_the_next_search_leaves_the_list_too(self, open_play):
        page = open_play()
        look_for(page)
        page.locator(".hit .open").first.click()
        page.locator(".hit pre").wait_for()
        look_for(page, "secret")
        page.until(lambda: page.text("#steps") == "1 list learned from")
        assert page.text("#version") == "version 2"

    def test_without_a_click_nothing_is_learned(self, open_play):
        page = open_play()
        weights = page.locator("#weights .value").all_inner_texts()
        look_for(page)
        page.click("#done")
        page.wait_for_selector("text=Nothing was learned from this list")
        assert page.text("#step-said") == "No click, so nothing was learned."
        assert page.locator("#weights .value").all_inner_texts() == weights

    def test_who_comes_back_sees_what_was_learned(self, open_play):
        page = open_play()
        assert page.text("#steps") == "no list yet"
        look_for(page)
        page.locator(".hit .open").nth(2).click()
        page.locator(".hit pre").wait_for()
        leave(page)
        said = page.text("#step-said")
        page.page.reload()
        page.wait_for_selector("body[data-ready]")
        assert (page.text("#version"), page.text("#steps")) == ("version 2", "1 list learned from")
        assert page.text("#step-said") == said

    def test_what_was_chosen_for_a_query_has_risen_when_it_is_asked_again(self, open_play):
        page = open_play()
        assert "remembers the query" in page.text("#said")
        look_for(page)
        assert page.locator(".chosen").count() == 0
        assert page.locator("#memory").is_hidden()
        chosen = hits(page)[6]
        page.locator(".hit .open").nth(6).click()
        page.locator(".hit pre").wait_for()
        page.fill("#query", "  Read FILE")  # the same query, for the ranker
        page.press("#query", "Enter")
        page.wait_for_selector(".hit .chosen")
        after = hits(page)
        assert after.index(chosen) < 3
        mark = page.locator(f'.hit[data-id="{chosen}"] .chosen')
        assert "chosen before for this query" in mark.inner_text()
        assert mark.get_attribute("title").startswith("Chosen before for this query: that adds ")
        page.wait_for_selector("#memory:not([hidden])")
        assert chosen in page.text("#memory-chosen")
        assert "+" in page.text("#memory-chosen b")
        look_for(page, "secret")  # another query has nothing of it
        page.until(lambda: page.locator("#memory").is_hidden())
        assert page.locator(".chosen").count() == 0

    def test_what_was_raised_to_be_tried_is_not_called_chosen(self, open_play):
        def raised(route):
            answer = route.fetch()
            body = answer.json()
            body["ranking"][4]["memory"] = 0.5
            route.fulfill(response=answer, json=body)

        page = open_play()
        page.page.route("**/rank", raised)
        look_for(page)
        assert "raised once, to be tried" in page.locator(".hit").nth(4).inner_text()
        assert page.locator(".chosen").count() == 0

    def test_a_query_may_be_forgotten(self, open_play):
        page = open_play()
        look_for(page)
        page.locator(".hit .open").nth(6).click()
        page.locator(".hit pre").wait_for()
        leave(page)
        page.wait_for_selector("#memory:not([hidden])")
        page.click("#forget-query")
        page.until(lambda: page.locator("#memory").is_hidden() and "is forgotten" in page.text("#said"))
        assert page.evaluate("document.activeElement.id") == "query"
        look_for(page)
        page.until(lambda: "last time" in page.text("#said"))
        assert page.locator(".chosen").count() == 0
        assert page.text("#steps") == "1 list learned from"  # the weights stay

    def test_queries_are_text_and_nothing_else(self, open_play):
        page = open_play()
        look_for(page, f"file {HARM}")
        page.locator(".hit .open").nth(1).click()
        page.locator(".hit pre").wait_for()
        leave(page)
        page.wait_for_selector("#memory:not([hidden])")
        assert page.text("#memory-query") == f"file {HARM}"
        page.click("#forget-query")
        page.until(lambda: HARM in page.text("#said"))
        assert page.title() == "duelrank playground"
        assert page.locator("main img, main script").count() == 0

    def test_no_results_and_reset(self, open_play):
        page = open_play()
        page.fill("#query", "zzzzzz")
        page.press("#query", "Enter")
        page.until(lambda: "No document has these words" in page.text("#said"))
        page.click("#hints button >> nth=1")
        page.wait_for_selector(".hit")
        page.locator(".hit .open").first.click()
        page.locator(".hit pre").wait_for()
        leave(page)
        page.click("#forget")
        page.until(lambda: page.text("#version") == "version 1" and "untrained again" in page.text("#said"))
        assert page.locator(".hit").count() == 0

    def test_what_was_pressed_on_the_old_list_does_not_act_on_the_new_one(self, open_play):
        page = open_play()
        look_for(page)
        sent = []
        page.on("request", lambda request: sent.append(request.post_data) if "feedback" in request.url else None)
        # The search that is under way shows the same documents again, and some click and "Done" are still for the old list.
        page.evaluate("""() => {
            const old = [...document.querySelectorAll(".hit .open")];
            document.querySelector("#form .main").click();
            old.forEach(each => each.click());
            document.querySelector("#done").click();
        }""")
        page.until(lambda: "last time" in page.text("#said") and page.locator("#done").is_enabled())
        page.locator(".hit .open").first.click()
        page.locator(".hit pre").wait_for()
        assert page.locator(".hit.clicked").count() == 1
        assert page.locator("#trouble").is_hidden()
        assert ["close" in each for each in sent] == [
            True,
            False,
        ]  # the old list was left, then one click on the new one

    def test_done_is_pressed_once(self, open_play):
        page = open_play()
        look_for(page)
        page.locator(".hit .open").nth(2).click()
        page.locator(".hit pre").wait_for()
        page.evaluate("() => { const done = document.querySelector('#done'); done.click(); done.click() }")
        page.wait_for_selector("text=Search again")
        look_for(page, "file")  # comes after all that was pressed before
        page.locator(".hit .open").nth(2).click()
        page.locator(".hit pre").wait_for()
        page.evaluate("() => { const done = document.querySelector('#done'); done.click(); done.click() }")
        page.wait_for_selector("text=Search again")
        assert "The ranker has learned" in page.text("#said")
        page.click("text=Search again")
        page.until(lambda: "last time" in page.text("#said"))
        assert page.locator("#trouble").is_hidden()

    def test_a_list_may_be_left_when_the_playground_answers_again(self, open_play):
        page = open_play()
        look_for(page)
        page.locator(".hit .open").nth(2).click()
        page.locator(".hit pre").wait_for()
        page.context.set_offline(True)
        page.click("#done")
        page.wait_for_selector("#trouble:not([hidden])")
        assert page.text("#trouble") == "The playground does not answer; was it stopped?"
        page.context.set_offline(False)
        leave(page)
        assert page.locator("#trouble").is_hidden()

    def test_docstrings_are_text_and_nothing_else(self, open_play):
        page = open_play()
        look_for(page, "harm")
        page.locator(".hit", has_text="harm.harm").locator(".open").click()
        text = page.locator(".hit pre")
        text.wait_for()
        assert text.inner_text() == f"Harm a file {HARM}."
        assert page.title() == "duelrank playground"
        assert page.locator(".hit img, .hit script").count() == 0

    def test_by_keyboard_alone(self, open_play):
        page = open_play()
        keyboard = page.page.keyboard

        def press_to(key, selector):
            """Press a key until something has the focus; return how often."""
            for times in range(1, 60):
                keyboard.press(key)
                if page.evaluate("selector => document.activeElement.matches(selector)", selector):
                    return times
            raise AssertionError(f"{key} does not lead to {selector}")

        assert press_to("Tab", "#tab-hand") == 1
        assert press_to("Tab", "#query") == 1  # of the tabs, the one that is chosen is a stop
        keyboard.type("read file")
        keyboard.press("Enter")
        page.wait_for_selector("#done:not([disabled])")
        assert press_to("Tab", "#done") == 2
        assert press_to("Tab", ".hit:first-child .open") == 6  # after five hints
        keyboard.press("Enter")
        page.locator(".hit pre").wait_for()
        assert press_to("Tab", ".hit:first-child pre") == 1  # a long one is scrolled by keys
        press_to("Shift+Tab", "#done")
        keyboard.press("Space")
        page.wait_for_selector("text=Search again")
        assert page.evaluate("document.activeElement.textContent") == "Search again"
        press_to("Shift+Tab", "#tab-hand")
        keyboard.press("ArrowRight")
        assert page.locator("#panel-crowd").is_visible()
        assert page.locator("#panel-hand").is_hidden()
        assert press_to("Tab", "#switch") == 1


class TestUsers:
    def test_two_learners_side_by_side(self, open_play):
        page = open_play("#crowd")
        assert (page.text("#name-a"), page.text("#name-b")) == ("mgd", "mgd-dsp")
        assert page.text("#lists") == "0"
        page.click("#switch")
        page.until(lambda: int(page.text("#lists").replace(",", "")) > 60)
        assert page.text("#switch") == "Stop the users"
        assert page.locator("#switch").get_attribute("aria-pressed") == "true"
        page.until(lambda: page.locator("#chart polyline").count() == 2)
        page.until(lambda: page.locator("#both .bar").count() == 11)
        assert 0.0 < float(page.text("#ndcg-a")) <= 1.0
        assert 0.0 < float(page.text("#overall-b")) <= 1.0
        assert "per second" in page.text("#speed")
        assert "now mgd 0." in page.locator("#chart svg").get_attribute("aria-label")
        page.click("#switch")
        page.until(lambda: page.text("#switch") == "Continue")
        seen = page.text("#lists")
        page.wait_for_timeout(500)
        assert page.text("#lists") == seen
        page.click("#anew")
        page.until(lambda: page.text("#lists") == "0")

    def test_sliders_of_the_taste_are_filled_from_their_centre(self, open_play):
        page = open_play("#crowd")
        slider = page.locator("#taste-depth")

        def ends(value):
            slider.evaluate("(node, value) => { node.value = value; node.dispatchEvent(new Event('input')) }", value)
            return slider.evaluate("node => ['--low', '--high'].map(name => node.style.getPropertyValue(name))")

        assert [ends(value) for value in (-1, 0, 0.5)] == [["0%", "50%"], ["50%", "50%"], ["50%", "75%"]]

    def test_taste_rate_and_noise_are_the_visitors(self, open_play, address):
        page = open_play("#crowd")
        page.locator("#taste-depth").evaluate("node => { node.value = -1; node.dispatchEvent(new Event('change')) }")
        page.locator("#rate").evaluate("node => { node.value = 3; node.dispatchEvent(new Event('input')) }")
        assert page.text("#rate-said") == "1000"
        page.select_option("#noise", "informational")

        def wish():
            return page.evaluate("fetch('/play/setup').then(answer => answer.json()).then(found => found.wish)")

        page.until(lambda: wish()["noise"] == "informational")
        found = wish()
        assert (found["taste"]["depth"], found["rate"]) == (-1.0, 1000.0)

    def test_any_two_recipes_and_errors_in_a_sentence(self, open_play):
        page = open_play("#crowd")
        page.fill("#recipe-b", "nothing-of-this-name")
        page.press("#recipe-b", "Tab")
        page.wait_for_selector("#trouble:not([hidden])")
        assert page.text("#trouble").startswith("the second recipe: ")
        page.fill("#recipe-b", "pdgd")
        page.press("#recipe-b", "Tab")
        page.until(lambda: page.text("#name-b") == "pdgd")
        page.until(lambda: page.locator("#trouble").is_hidden())

    def test_what_it_could_not_see_for_a_while(self, open_play):
        page = open_play("#crowd")
        page.click("#switch")
        page.until(lambda: page.text("#switch") == "Stop the users")
        page.context.set_offline(True)
        page.wait_for_selector("#trouble:not([hidden])")
        assert page.text("#trouble") == "The playground does not answer; was it stopped?"
        page.context.set_offline(False)
        page.until(lambda: page.locator("#trouble").is_hidden())

    def test_a_small_screen_begins_at_the_top(self, open_play):
        page = open_play("#crowd", width=390, height=600)
        page.page.reload()
        page.wait_for_selector("body[data-ready]")
        assert page.locator("#panel-crowd").is_visible()
        assert page.url.endswith("/play#crowd")
        assert page.evaluate("window.scrollY") == 0

    def test_a_wrong_recipe_keeps_nobody_from_anything_else(self, open_play):
        page = open_play("#crowd")
        page.click("#switch")
        page.until(lambda: page.text("#switch") == "Stop the users")
        page.fill("#recipe-b", "mgd-ds")
        page.press("#recipe-b", "Tab")
        page.wait_for_selector("#trouble:not([hidden])")
        page.select_option("#noise", "navigational")
        page.until(lambda: page.evaluate("fetch('/play/setup').then(a => a.json())")["wish"]["noise"] == "navigational")
        page.click("#switch")
        page.until(lambda: page.text("#switch") == "Continue")
        page.click("#switch")  # now the recipe is asked for
        page.wait_for_selector("#trouble:not([hidden])")
        assert page.text("#trouble").startswith("the second recipe: ")
        assert page.text("#switch") == "Continue"

    def test_somebody_who_comes_later_sees_them_too(self, open_play):
        page = open_play("#crowd")
        page.click("#switch")
        page.until(lambda: page.text("#lists") != "0")
        other = open_play("#crowd")
        other.until(lambda: other.text("#switch") == "Stop the users" and other.text("#lists") != "0")
        page.click("#switch")
        page.until(lambda: page.text("#switch") == "Continue")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1440])
def test_it_fits_and_has_no_serious_finding(open_play, width, dark):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    page = open_play(width=width, dark=dark, bypass_csp=True)  # axe is a script from elsewhere
    look_for(page)
    page.locator(".hit .open").nth(1).click()
    page.locator(".hit pre").wait_for()
    leave(page)
    page.until(lambda: at_rest(page))  # colours and bars move
    for tab in ("#tab-hand", "#tab-crowd"):
        page.click(tab)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        found = axe.Axe().run(page.page).response["violations"]
        assert [
            (each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")
        ] == []


def test_nothing_is_loaded_from_elsewhere(browser, address):
    context = browser.new_context()
    asked = []
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.wait_for_selector("body[data-ready]", timeout=1000 * FOR_EVER)
    origin = address.removesuffix("/play")
    assert [url for url in asked if not url.startswith((origin, "data:"))] == []
    context.close()
