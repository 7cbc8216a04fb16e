"""From a log over the guard to an engine: the requests of docs/tutorials/guarded-roll-out.md, one after the other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import numpy as np
import pytest
from tests.service.http.served import FAST, Served
from tests.waiting import FOR_EVER, until

from duelrank.client import Client, Document, FeedbackEvent, LoggedImpression
from duelrank.service import Service

PAGE = (Path(__file__).parents[3] / "docs" / "tutorials" / "guarded-roll-out.md").read_text()


@pytest.fixture
def served(storage):
    found = Served(Service(storage, FAST))
    yield found
    found.stop()


def offers(number: int) -> dict[str, list[float]]:
    """Ten offers, by bm25, which is the order of the client; users like those with a good rating."""
    rows = np.random.default_rng((5, number)).random((10, 3)) * [20.0, 4.0, 90.0] + [0.0, 1.0, 5.0]
    return {f"d{place}": row.tolist() for place, row in enumerate(rows[np.argsort(-rows[:, 0])])}


def liked(documents: dict[str, list[float]], shown: list[str]) -> list[str]:
    return sorted(shown[:6], key=lambda id: documents[id][1])[-2:]


def logged(number: int) -> LoggedImpression:
    documents = offers(number)
    rows = [Document(id, features) for id, features in documents.items()]
    return LoggedImpression(f"q{number}", rows, clicks=liked(documents, list(documents)))


@pytest.mark.parametrize("algorithm", ["of the page", "thompson-pairs"])
def test_log_guard_export(served, algorithm):
    (spec,) = re.findall(r"curl localhost:8000/v1/rankers -d '(.*?)'", PAGE)
    if algorithm != "of the page":
        spec = json.dumps(json.loads(spec) | {"algorithm": algorithm})
    (path,) = re.findall(r"curl \"localhost:8000(\S+)\"", PAGE)
    with Client(served.url) as client:
        assert httpx.post(f"{served.url}/v1/rankers", content=spec, timeout=FOR_EVER).status_code == 201
        name = json.loads(spec)["name"]
        log = [logged(number) for number in range(290)]
        assert client.backfill(name, log).accepted == 290
        until(lambda: client.ranker(name).backfilled == 290)
        assert client.guard(name).phase == "imitating"
        for number in range(400):
            documents = offers(1000 + number)
            shown = client.rank(name, documents)
            clicks = liked(documents, shown.ids)
            client.feedback(name, FeedbackEvent(shown.impression_id, clicks, close=True, user_id=f"u{number}"))
            if number == 12:  # the next version shows its own lists
                until(lambda: client.guard(name).phase == "climbing" and client.ranker(name).open == 0)
        until(lambda: client.ranker(name).open == 0)
        ranker, guard = client.ranker(name), client.guard(name)
        assert (ranker.imitated, ranker.failed) == (300, 0)
        assert ranker.learned > 50
        assert (guard.lists > 20, guard.alarms) == (True, 0)
        for format in ("solr", "elasticsearch", "opensearch", "ranklib"):
            answer = httpx.get(served.url + path.replace("format=solr", f"format={format}"), timeout=FOR_EVER)
            assert answer.status_code == 200, answer.text
            assert "rating" in answer.text
