"""A/B tests of OpenSearch, read from UBI events."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from duelrank.adapters.attributions import read_attributed
from duelrank.cli import app
from duelrank.core.errors import DataFormatError


def event(query, document, configuration=None, inside=False, action="click"):
    attributes: dict = {"object": {"object_id": document}}
    if configuration is not None:
        (attributes["object"] if inside else attributes)["search_config"] = configuration
    return {"action_name": action, "query_id": query, "event_attributes": attributes}


@pytest.fixture
def written(tmp_path):
    def write(*events) -> str:
        path = tmp_path / "events.ndjson"
        path.write_text("".join(json.dumps(each) + "\n" for each in events))
        return str(path)

    return write


def test_clicks_count_for_their_configuration(written):
    path = written(
        event("q1", "d1", action="impression"),
        event("q1", "d1", "a"),
        event("q1", "d1", "a", inside=True),  # the same document counts once
        event("q1", "d2", "b"),
        event("q1", "d3", "b", inside=True),
        event("q2", "d1", "a"),
        event("q2", "d4", "a", action="purchase"),
        event("q3", "d1", action="impression"),
        event("q3", "d1"),
        {"_source": event("q4", "d1", "a")},
        {"query_id": "q5", "user_query": "shoes", "query_response_hit_ids": ["d1"]},
    )
    result = read_attributed([path])
    assert result.rankers == ("a", "b")
    assert result.wins.tolist() == [[0, 2], [1, 0]]
    assert (result.impressions, result.clicked, result.test) == (4, 3, "anytime")


def test_events_without_configurations_are_explained(written):
    with pytest.raises(DataFormatError, match="these events name 'a'"):
        read_attributed([written(event("q1", "d1", "a"), event("q2", "d1"))])


def test_names_that_cannot_be_configurations_are_refused(written):
    with pytest.raises(DataFormatError, match="at most 10 search configurations; these events name 11: 'c0', "):
        read_attributed([written(*(event("q1", "d1", f"c{number}") for number in range(11)))])


def test_the_command(written):
    path = written(*(event(f"q{number}", "d1", "new" if number % 10 else "old") for number in range(100)))
    result = CliRunner().invoke(app, ["experiment", "read", path])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("'new' is better than 'old'")
    assert "100 impressions" in result.stdout
    broken = CliRunner().invoke(app, ["experiment", "read", written({"action_name": 5}), "--max-errors", "0"])
    assert broken.exit_code == 2
