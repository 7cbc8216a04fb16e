"""Pinned documents of queries: what engines read is what was chosen, whatever the texts are."""

import json
from dataclasses import dataclass
from xml.etree import ElementTree

import pytest

from duelrank.core.errors import Conflict, UnknownName
from duelrank.export.pinned import (
    PINNED_FORMATS,
    PinnedDocument,
    PinnedFormat,
    PinnedQuery,
    export_pinned,
    pinned_format,
    register_pinned,
)

ODD = 'rock & <roll> "n\'" 靴 😀'


def chosen(query, *ids, lists=40):
    return PinnedQuery(query, lists, [PinnedDocument(id, 20.0 - place, 30.0, 1.5) for place, id in enumerate(ids)])


QUERIES = [chosen("red shoes", "B01Z", "B07X"), chosen(ODD, ODD)]
WANTED = {"red shoes": ["B01Z", "B07X"], ODD: [ODD]}


def test_elevate_xml():
    root = ElementTree.fromstring(export_pinned(QUERIES, "solr").encode())
    assert root.tag == "elevate"
    assert {each.get("text"): [one.get("id") for one in each] for each in root} == WANTED
    assert {one.tag for each in root for one in each} == {"doc"}


@pytest.mark.parametrize("bad", [chosen("a\x01b", "d1"), chosen("a", "d1", "d\x00"), chosen("\ufffe", "d1")])
def test_what_xml_cannot_represent_is_left_out_with_a_comment(bad):
    text = export_pinned([bad, *QUERIES], "solr")
    assert len(ElementTree.fromstring(text.encode())) == 2
    assert "<!-- 1 left out" in text


def test_query_rules():
    content = json.loads(export_pinned(QUERIES, "elasticsearch"))
    assert content.keys() == {"rules"}
    for rule, (query, ids) in zip(content["rules"], WANTED.items(), strict=True):
        assert rule.keys() == {"rule_id", "type", "criteria", "actions"}
        assert rule["type"] == "pinned"
        assert rule["criteria"] == [{"type": "exact", "metadata": "user_query", "values": [query]}]
        assert rule["actions"] == {"ids": ids}
    assert len({rule["rule_id"] for rule in content["rules"]}) == 2
    alone = json.loads(export_pinned(QUERIES[1:], "elasticsearch"))
    assert alone["rules"] == content["rules"][1:], "the id of a rule depends on its query only"


def test_should_clauses():
    content = json.loads(export_pinned(QUERIES, "opensearch"))
    assert content.keys() == WANTED.keys()
    for query, ids in WANTED.items():
        found = [each["constant_score"] for each in content[query]]
        assert [each["filter"] for each in found] == [{"ids": {"values": [id]}} for id in ids]
        boosts = [each["boost"] for each in found]
        assert boosts == sorted(boosts, reverse=True)
        assert len(set(boosts)) == len(boosts)
        assert min(boosts) >= 1e6


def test_json():
    first, second = json.loads(export_pinned(QUERIES, "json"))["queries"]
    assert first["documents"][0] == {"id": "B01Z", "clicks": 20.0, "views": 30.0, "boost": 1.5}
    assert (first["query"], first["lists"], second["query"]) == ("red shoes", 40, ODD)


@pytest.mark.parametrize("name", sorted(PINNED_FORMATS))
def test_nothing_to_pin(name):
    text = export_pinned([], name)
    assert not list(ElementTree.fromstring(text.encode())) if name == "solr" else not any(json.loads(text).values())


def test_an_unknown_format():
    with pytest.raises(UnknownName, match="did you mean solr"):
        pinned_format("sollr")


def test_a_name_is_taken_once():
    with pytest.raises(Conflict, match="already called 'solr'"):

        @register_pinned("solr")
        @dataclass(frozen=True)
        class Other(PinnedFormat):
            """Another."""

            def write(self, queries):
                return ""
