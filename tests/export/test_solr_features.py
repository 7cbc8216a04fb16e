"""The feature store of Solr: what each kind of expression becomes, and what is refused."""

from __future__ import annotations

import json

import pytest

from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.export import LinearModel, export

MODEL = LinearModel("shop", 7, ("titleMatch", "price"), [0.5, -0.25])


def definition(expression):
    first, _ = json.loads(export(MODEL, "solr-features", rank_features={"titleMatch": expression}))
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
def test_kinds(expression, expected):
    assert definition(expression) == expected


def test_a_feature_is_the_field_of_its_name():
    content = json.loads(export(MODEL, "solr-features", store="v3"))
    kind = "org.apache.solr.ltr.feature.FieldValueFeature"
    assert content == [
        {"store": "v3", "name": name, "class": kind, "params": {"field": name}} for name in ("titleMatch", "price")
    ]


@pytest.mark.parametrize("expression", [" ", "attribute(bm25)", "running shoes", "1.5", "-", "${}", "title: ", "a=b"])
def test_what_is_neither_a_field_nor_a_query_is_refused(expression):
    with pytest.raises(InvalidValue, match=r"'titleMatch' is computed by a field.* such as \{!dismax.* got"):
        definition(expression)


def test_refusals():
    odd = LinearModel("shop", 7, ("bm25(title)",), [0.5])
    with pytest.raises(InvalidValue, match=r"no field of Solr is called 'bm25\(title\)'.*rank_features"):
        export(odd, "solr-features")
    for format in ("solr", "solr-features"):
        for store in ("", " "):
            with pytest.raises(InvalidValue, match="the feature store needs a name"):
                export(MODEL, format, store=store)
    with pytest.raises(UnknownName, match="did you mean price"):
        export(MODEL, "solr-features", rank_features={"prise": "price"})
