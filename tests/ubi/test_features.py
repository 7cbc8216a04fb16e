"""Features of all engines come out the same, in the ranker's order."""

import struct

import pytest
from tests.ubi.logs import NAMES

from duelrank.adapters.ubi import FeatureReader, Row, split
from duelrank.core.errors import DataFormatError


def row(*values, id="d1"):
    return Row("q1", id, struct.pack("<3d", *values))


def read(record):
    reader = FeatureReader(NAMES)
    return [reader.row(part) for part in split(record)], reader


LOGGED = [{"main": [{"name": "rating", "value": 2}, {"name": "bm25", "value": 1.5}, {"name": "price"}]}]
HIT = {"_index": "shop", "_id": "d1", "_score": 3.0, "_source": {"title": "x"}, "fields": {"_ltrlog": LOGGED}}
SOLR = {"responseHeader": {}, "response": {"docs": [{"id": "d1", "[features]": "rating=2.0,bm25=1.5,price=0.0"}]}}
FORMS = {
    "by name": {"query_id": "q1", "object_id": "d1", "features": {"price": 0, "rating": 2, "bm25": 1.5}},
    "in order": {"query_id": "q1", "object_id": "d1", "features": [1.5, 2, 0]},
    "document_id": {"query_id": "q1", "document_id": "d1", "features": [1.5, 2, 0]},
    "in an index": {"_id": "x", "_source": {"query_id": "q1", "object_id": "d1", "features": [1.5, 2, 0]}},
    "an answer of Elasticsearch": {"query_id": "q1", "hits": {"hits": [HIT]}},
    "an answer of OpenSearch": {"ext": {"ubi": {"query_id": "q1"}}, "hits": {"hits": [HIT]}},
    "several answers": {"responses": [{"ext": {"ubi": {"query_id": "q1"}}, "hits": {"hits": [HIT]}}]},
    "an answer of Solr": SOLR | {"ubi": {"query_id": "q1"}},
}


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_have_the_same_meaning(form):
    found, reader = read(FORMS[form])
    assert found == [row(1.5, 2.0, 0.0)]
    assert (reader.missing, reader.unused) == ({}, set())


def test_numbers_as_ids_and_all_hits_of_an_answer():
    found, _ = read({"query_id": "q1", "hits": {"hits": [HIT | {"_id": 12}, HIT | {"_id": "d2"}]}})
    assert [each.document for each in found] == ["12", "d2"]


def test_what_is_missing_counts_as_zero_and_what_is_too_much_is_left_out():
    reader = FeatureReader(NAMES)
    for values in ({"bm25": 1.0, "color": 3.0}, {"bm25": 1.0, "price": None, "rating": 2.0}):
        reader.row((None, {"query_id": "q1", "object_id": "d1", "features": values}))
    assert reader.missing == {"rating": 1, "price": 2}
    assert reader.unused == {"color"}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"query_id": "q1", "features": [1, 2, 3]}, "object_id"),
        ({"object_id": "d1", "features": [1, 2, 3]}, "query_id"),
        ({"query_id": "q1", "object_id": "d1"}, "features"),
        ({"query_id": "q1", "object_id": "d1", "features": [1, 2]}, "has 3 features, this document has 2"),
        ({"query_id": "q1", "object_id": "d1", "features": {"bm25": "high"}}, "Expected"),
        ({"query_id": "q1", "object_id": "d1", "features": {"BM25": 1.0}}, r"none of the ranker's features \(bm25, "),
        ({"query_id": "q1", "object_id": "d1", "features": {}}, "none of the ranker's features"),
        ({"hits": {"hits": [HIT]}}, "ext.ubi.query_id"),
        ({"query_id": "q1", "hits": {"hits": [{"fields": {"_ltrlog": LOGGED}}]}}, "_id"),
        ({"query_id": "q1", "hits": {"hits": [{"_id": "d1", "_source": {}}]}}, "_ltrlog"),
        ({"query_id": "q1", "response": {"docs": [{"id": "d1", "[features]": "bm25=high"}]}}, "name=value"),
        ({"query_id": "q1", "response": {}}, "response.docs"),
    ],
)
def test_what_cannot_be_used(record, reason):
    with pytest.raises(DataFormatError, match=reason):
        read(record)
