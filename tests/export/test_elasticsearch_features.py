"""The feature set of Elasticsearch-LTR and OpenSearch LTR: what each kind of expression becomes, and what is refused."""

from __future__ import annotations

import json

import pytest

from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.export import LinearModel, export

MODEL = LinearModel("shop", 7, ("title_match", "price"), [0.5, -0.25])
MATCH = '{"match": {"title": "{{text}}"}}'


def features(**options):
    content = json.loads(export(MODEL, "opensearch-features", **options))
    assert set(content) == {"featureset"}
    assert set(content["featureset"]) == {"features"}
    return content["featureset"]["features"]


def test_a_query_and_its_parameters():
    first, _ = features(rank_features={"title_match": MATCH})
    assert first == {"name": "title_match", "params": ["text"], "template": {"match": {"title": "{{text}}"}}}
    query = '{"bool": {"must": [{"term": {"{{field}}": "{{{text}}}"}}], "should": {"match": {"a": "{{ text }}"}}}}'
    assert features(rank_features={"title_match": query})[0]["params"] == ["field", "text"]


@pytest.mark.parametrize("options", [{}, {"rank_features": {"price": " price "}}])
def test_a_feature_is_the_field_of_its_name(options):
    last = features(**options)[1]
    assert (last["name"], last["params"]) == ("price", [])
    assert last["template"]["function_score"]["field_value_factor"] == {"field": "price", "missing": 0}
    assert last["template"]["function_score"]["boost_mode"] == "replace"


def test_a_feature_that_is_always_1():
    names = [each["name"] for each in features(offset_feature="always_one")]
    assert names == ["title_match", "price", "always_one"]
    assert features(offset_feature="always_one")[2]["template"] == {"match_all": {}}
    for name in ("", "price"):
        with pytest.raises(InvalidValue, match="always 1"):
            features(offset_feature=name)


@pytest.mark.parametrize(
    "given",
    [
        "",
        "{",
        "[]",
        "{}",
        "3",
        "a b",
        '{"match": {"t": NaN}}',
        '{"match": {"t": 1e999}}',
        '{"match": {"t": "\\ud800"}}',
    ],
)
def test_what_is_no_query_is_refused(given):
    with pytest.raises(InvalidValue, match=r"title_match.*such as"):
        features(rank_features={"title_match": given})


@pytest.mark.parametrize(
    "mark",
    [
        "{{&z}}",
        "{{user.name}}",
        "{{#join}}{{a}}{{/join}}",
        "{{^a}}b{{/a}}",
        "{{}}",
        "{{a",
        "{{{a}}",
        "{{a b}}",
        "{{{{a}}}}",
    ],
)
def test_a_mark_that_is_no_name_is_refused(mark):
    for query in ({"match": {"title": f"{{{{text}}}} {mark}"}}, {"match": {mark: "{{text}}"}}):
        with pytest.raises(InvalidValue, match=r"query of 'title_match' must be the name of a parameter"):
            features(rank_features={"title_match": json.dumps(query)})


def test_single_braces_are_text():
    query = '{"query_string": {"query": "price:{1 TO 2} {{text}}}"}}'
    assert features(rank_features={"title_match": query})[0]["params"] == ["text"]


def test_other_refusals():
    with pytest.raises(InvalidValue, match=r"no field is called 'bm25\(title\)'.*rank_features"):
        export(LinearModel("shop", 7, ("bm25(title)",), [0.5]), "elasticsearch-features")
    with pytest.raises(UnknownName, match="did you mean price"):
        features(rank_features={"prise": "price"})
