"""The registry of formats: what it refuses, and what is generated from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import numpy as np
import pytest

from duelrank.core.errors import Conflict, InvalidValue
from duelrank.export import (
    FORMATS,
    Format,
    LinearModel,
    Unrepresentable,
    export,
    format_options,
    register_format,
    supported_formats,
)
from duelrank.export.base import export_query, options_of
from duelrank.representation.fixed import read_representation

MODEL = LinearModel("shop", 7, ("bm25", "price"), [0.5, -0.25])


@pytest.fixture(autouse=True)
def _restored():
    """Take formats that a test registered out again."""
    known = dict(FORMATS)
    yield
    FORMATS.clear()
    FORMATS.update(known)


class Text(Format):
    """A text."""

    def write(self, model):
        return model.name


def test_a_format_of_two_names():
    register_format("text", "plain")(Text)
    assert export(MODEL, "text") == export(MODEL, "plain") == b"shop"


def test_a_name_that_is_taken():
    with pytest.raises(Conflict, match=r"already called 'solr': duelrank.export.solr.Solr"):
        register_format("solr")(Text)


def test_a_file_that_is_loaded_again_replaces_its_format():
    register_format("text")(Text)
    again = type("Text", (Text,), {"__module__": __name__})
    register_format("text")(again)
    assert FORMATS["text"] is again


@dataclass(frozen=True)
class Undescribed(Text):
    width: int = 80


@dataclass(frozen=True)
class Complicated(Text):
    widths: Annotated[list[int] | None, "Widths."] = None


@dataclass(frozen=True)
class OtherOffset(Text):
    offset: Annotated[str, "A text where others have a number."] = ""


@pytest.mark.parametrize(
    ("cls", "error", "hint"),
    [
        (Undescribed, InvalidValue, "needs a description"),
        (Complicated, InvalidValue, "must be str, int, float, bool, a Literal"),
        (OtherOffset, Conflict, "another type in elasticsearch, opensearch, ranklib"),
    ],
)
def test_options_that_nobody_could_give(cls, error, hint):
    with pytest.raises(error, match=hint):
        register_format("text")(cls)
    assert "text" not in FORMATS


def test_options_of_one_name_are_shared():
    (offset,) = (each for each in format_options() if each.name == "offset")
    assert list(offset.help) == ["elasticsearch", "opensearch", "ranklib"]
    assert offset.description.startswith("elasticsearch, opensearch: Weight of")
    assert " ranklib: Constant" in offset.description


def test_every_option_is_explained_in_a_sentence():
    for option in format_options():
        assert all(text.endswith(".") and text[0].isupper() for text in option.help.values())


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ({"format": "json", "version": "3"}, {}),
        ({"format": "ranklib", "offset": "0"}, {"offset": 0.0}),
        ({"format": "opensearch", "allow_negative": "true"}, {"allow_negative": True}),
        (
            {"format": "vespa", "rank_feature": ["bm25=bm25(title)", "price=if(a == b, 1, 0)"], "rerank_count": "5"},
            {"rank_features": {"bm25": "bm25(title)", "price": "if(a == b, 1, 0)"}, "rerank_count": 5},
        ),
    ],
)
def test_the_query_string_has_all_options(query, options):
    decoded = msgspec.convert(query, export_query(), strict=False)
    assert options_of(decoded) == options
    assert export(MODEL, decoded.format, **options_of(decoded))


@pytest.mark.parametrize(
    "query", [{}, {"format": "solar"}, {"format": "solr", "stroe": "x"}, {"format": "vespa", "weights": "both"}]
)
def test_a_query_string_that_is_wrong(query):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(query, export_query(), strict=False)


@pytest.mark.parametrize("text", ["bm25", "=bm25"])
@pytest.mark.parametrize(
    ("format", "option", "example"),
    [
        ("vespa", "rank_feature", "price=attribute(price)"),
        ("solr-features", "rank_feature", "title={!dismax qf=title}${text}"),
        ("opensearch-features", "rank_feature", 'title={"match": {"title": "{{text}}"}}'),
        ("elasticsearch-linear", "sub_query", 'title={"standard": {"query": {"match": {"title": "{{query}}"}}}}'),
        ("qdrant", "sub_query", 'vector={"query": [0.1, 0.9], "using": "dense", "limit": 100}'),
        ("solr", "sub_query", None),
    ],
)
def test_a_pair_without_its_name(format, option, example, text):
    decoded = msgspec.convert({"format": format, option: [text]}, export_query(), strict=False)
    with pytest.raises(InvalidValue) as caught:
        options_of(decoded)
    hint = "" if example is None else f", such as {example!r}"
    assert str(caught.value) == f"{option} must be NAME=VALUE{hint}, got {text!r}"


def test_the_example_of_every_mapping_is_one_that_its_format_takes():
    found = 0
    for option in format_options():
        for format, example in option.examples.items():
            name, _, value = example.partition("=")
            model = LinearModel("shop", 7, (name,), [0.5])
            assert export(model, format, **{option.name: {name: value}})
            found += 1
        assert not option.is_mapping or option.examples.keys() == option.help.keys()
    assert found == 6


def test_a_new_format_is_in_a_new_query():
    @dataclass(frozen=True)
    class Sized(Text):
        size: Annotated[Literal["small", "large"] | None, "How large."] = None
        names: Annotated[Mapping[str, str] | None, "Other names."] = None

    register_format("text")(Sized)
    query = {"format": "text", "size": "small", "name": ["a=b"]}
    assert options_of(msgspec.convert(query, export_query(), strict=False)) == {"size": "small", "names": {"a": "b"}}


@pytest.mark.parametrize("representation", ["raw", "query-scaled", "query-ranks", "steps", "curves"])
def test_supported_formats_are_those_that_write_the_model(representation):
    """With the options that each format may need, exactly the supported formats write a model of this representation."""
    found = read_representation(representation, ("f0",))
    seen = found.start(1)
    if found.learns:
        seen = {**seen, "knots": np.array([[0.0, 0.5, 1.0]])}
    model = LinearModel("shop", 1, ("f0",), np.ones(found.n_columns(1, seen)), found, seen.get("knots"))
    options = {
        "elasticsearch": {"allow_negative": True},
        "opensearch": {"allow_negative": True},
        "elasticsearch-linear": {"sub_queries": {"f0": '{"standard": {"query": {"match_all": {}}}}'}},
        "qdrant": {"sub_queries": {"f0": '{"query": [0.1], "limit": 9}'}},
        "vespa": {"rank_features": {"f0": "attribute(f0)"}},
    }
    trees = {"max_error": 0.1} if representation == "curves" else {}
    options |= {name: options.get(name, {}) | trees for name in ("elasticsearch", "opensearch", "ranklib", "solr")}
    supporting, refusing = supported_formats(found)
    for name, form in FORMATS.items():
        if form.holds == "features" or form.__module__.split(".")[0] != "duelrank":
            continue
        try:
            export(model, name, **options.get(name, {}))
        except Unrepresentable:
            assert name not in supporting
            assert (name in refusing) == (form.holds == "model")
        else:
            assert name in supporting
