"""The examples with a service in README.md and in the documentation run, and the ranker learns from their clicks."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
from tests.waiting import FOR_EVER, until

DOCS = Path(__file__).parents[2] / "docs"


def run(page, title, url, names):
    """Run the Python of a section with the address of this service."""
    text = (DOCS / page).read_text(encoding="utf-8")
    block = re.search(rf"^## {title}\n.*?^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[1]
    code, count = re.subn(r"http://(127\.0\.0\.1|localhost):8000", url, block)
    assert count == 1
    exec(code, names)


def test_the_first_click_is_learned(url, capsys):
    run("start/first-learned-click.md", "As a service", url, {})
    assert capsys.readouterr().out.startswith("show [")
    until(lambda: httpx.get(f"{url}/v1/rankers/shoes", timeout=FOR_EVER).json()["learned"] == 1)


def test_the_example_of_a_shop_learns_what_phones_change(url, capsys):
    run("how-to/shop.md", "An example", url, {})
    learned, _, weights = capsys.readouterr().out.partition(" ")
    assert int(learned) > 500  # some of the last are not learned from yet
    found = ast.literal_eval(weights)
    assert found["price"] > 1.0
    assert found["price"] + found["mobile*price"] < -1.0


def curl(url, address, *data):
    """Send what curl would send: a POST with data, a GET without."""
    path = address.removeprefix("localhost:8000")
    sent = httpx.post(url + path, content=data[1], timeout=FOR_EVER) if data else httpx.get(url + path)
    return sent.raise_for_status().json()


def test_the_first_click_of_the_readme_moves_the_weights(url):
    block = re.search(r"^```bash\n(.*?)^```", (DOCS.parent / "README.md").read_text(), re.DOTALL | re.MULTILINE)[1]
    start, *lines = re.split(r"^curl ", block, flags=re.MULTILINE)
    assert start.startswith("duelrank serve")
    created, ranked, before, counts, _ = (curl(url, *shlex.split(line, comments=True)) for line in lines)
    assert created["warnings"] == []
    assert sorted(each["id"] for each in ranked["ranking"]) == ["a", "b", "c"]
    assert before["weights"] == {"bm25": 0, "price": 0}
    assert counts["accepted"] == 1
    until(lambda: curl(url, "/v1/rankers/shop/model")["model_version"] == 2)
    assert all(curl(url, "/v1/rankers/shop/model")["weights"].values()), "both weights have moved"


def test_a_search_of_your_own_learns(url):
    documents = [SimpleNamespace(id=f"d{number}") for number in range(3)]
    found = SimpleNamespace(documents=documents, features=np.eye(3, 2))
    names = {"FEATURES": ["words", "price"], "engine": SimpleNamespace(candidates=lambda query: found)}
    run("see-it-learn.md", "How to put this behind your own search", url, names)
    impression_id, ids = names["search"]("shoes")
    assert sorted(ids) == ["d0", "d1", "d2"]
    names["left"](impression_id, [ids[1]])
    until(lambda: httpx.get(f"{url}/v1/rankers/mine", timeout=FOR_EVER).json()["learned"] == 1)
    names["client"].close()


def test_the_service_has_learned_before_the_export(url, capsys):
    run("hybrid.md", "With the service", url, {})
    pipeline = json.loads(capsys.readouterr().out)
    processor = pipeline["phase_results_processors"][0]["normalization-processor"]
    words, meaning = processor["combination"]["parameters"]["weights"]
    assert pipeline["description"].startswith("shop_000002")
    assert meaning > 0.5 > words, "the click was on what only the second sub-query found"
