"""Definitions of features for Solr, Elasticsearch and OpenSearch: the kinds of expressions, and what is refused."""

from __future__ import annotations

import json

import pytest

from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.export import LinearModel, export

MODEL = LinearModel("shop", 7, ("title_match", "price"), [0.5, -0.25])
MATCH = '{"match": {"title": "{{text}}"}}'


def definition(expression):
    first, _ = json.loads(export(MODEL, "solr-features", rank_features={"title_match": expression}))
    assert set(first) == {"name", "class", "params"}
    return first["class"].removeprefix("org.apache.solr.ltr.feature."), first["params"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("title_score", ("FieldValueFeature", {"field": "title_score"})),
        ("meta.price-eur", ("FieldValueFeature", {"field": "meta.price-eur"})),
        (" price ", ("FieldValueFeature", {"field": "price"})),
        ("score", ("OriginalScoreFeature", {})),
        ("${age}", ("ValueFeature", {"value": "${age}", "required": True})),
        ("{!dismax qf=title}${text}", ("SolrFeature", {"q": "{!dismax qf=title}${text}"})),
        ("${age} ${sex}", ("SolrFeature", {"q": "${age} ${sex}"})),
        ("title:shoes", ("SolrFeature", {"q": "title:shoes"})),
        ("+(meta.title:shoes OR *:*)", ("SolrFeature", {"q": "+(meta.title:shoes OR *:*)"})),
        ("{!func}recip(ms(NOW,date),3.16e-11,1,1)", ("SolrFeature", {"q": "{!func}recip(ms(NOW,date),3.16e-11,1,1)"})),
    ],
)
def test_solr_expressions(expression, expected):
    assert definition(expression) == expected


def test_in_solr_a_feature_is_the_field_of_its_name():
    content = json.loads(export(MODEL, "solr-features", store="v3"))
    kind = "org.apache.solr.ltr.feature.FieldValueFeature"
    assert content == [
        {"store": "v3", "name": name, "class": kind, "params": {"field": name}} for name in ("title_match", "price")
    ]


@pytest.mark.parametrize("expression", [" ", "attribute(bm25)", "running shoes", "1.5", "-", "${}", "title: ", "a=b"])
def test_other_expressions_are_refused_for_solr(expression):
    with pytest.raises(InvalidValue, match=r"'title_match' needs a field.* such as \{!dismax.* got"):
        definition(expression)


def test_refusals_for_solr():
    odd = LinearModel("shop", 7, ("bm25(title)",), [0.5])
    with pytest.raises(InvalidValue, match=r"'bm25\(title\)' is not a valid field name in Solr.*rank_features"):
        export(odd, "solr-features")
    for format in ("solr", "solr-features"):
        for store in ("", " "):
            with pytest.raises(InvalidValue, match="the feature store needs a name"):
                export(MODEL, format, store=store)
    with pytest.raises(UnknownName, match="did you mean price"):
        export(MODEL, "solr-features", rank_features={"prise": "price"})


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
def test_a_text_that_is_not_a_query_is_refused(given):
    with pytest.raises(InvalidValue, match=r"title_match.*such as"):
        features(rank_features={"title_match": given})


@pytest.mark.parametrize(
    "tag",
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
def test_a_tag_that_is_not_a_name_is_refused(tag):
    for query in ({"match": {"title": f"{{{{text}}}} {tag}"}}, {"match": {tag: "{{text}}"}}):
        with pytest.raises(InvalidValue, match=r"query of 'title_match' must be the name of a parameter"):
            features(rank_features={"title_match": json.dumps(query)})


def test_single_braces_are_text():
    query = '{"query_string": {"query": "price:{1 TO 2} {{text}}}"}}'
    assert features(rank_features={"title_match": query})[0]["params"] == ["text"]


def test_other_refusals():
    with pytest.raises(InvalidValue, match=r"'bm25\(title\)' is not a valid field name.*rank_features"):
        export(LinearModel("shop", 7, ("bm25(title)",), [0.5]), "elasticsearch-features")
    with pytest.raises(UnknownName, match="did you mean price"):
        features(rank_features={"prise": "price"})
