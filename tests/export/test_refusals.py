"""Formats refuse models that they cannot represent, with the reason and an alternative."""

import builtins
import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest

from duelrank.core.errors import InvalidValue, MissingExtra, UnknownName
from duelrank.export import FORMATS, LinearModel, export
from duelrank.representation import Fixed, MinMax, QueryRanks, QueryScaled, Ramps, Raw, Standard, Steps, Unscaled

MODEL = LinearModel("shop", 7, ("a", "b"), np.array([0.5, -0.25]))
RANGED = replace(MODEL, representation=Fixed((MinMax(0.0, 1.0), MinMax(0.0, 8.0))))
GLOBAL = ["solr", "elasticsearch", "opensearch", "ranklib"]


def refused(model, format, **options):
    with pytest.raises(InvalidValue) as caught:
        export(model, format, **options)
    return str(caught.value)


def test_unknown_formats_and_options():
    with pytest.raises(UnknownName, match="did you mean elasticsearch"):
        export(MODEL, "elasticsearhc")
    assert "has no option offset; it has store" in refused(MODEL, "solr", offset=1.0)
    assert "it has none" in refused(MODEL, "onnx", offset=1.0)


def test_the_formats():
    general = {"solr", "elasticsearch", "opensearch", "ranklib", "vespa", "onnx", "json"}
    general |= {"solr-features", "elasticsearch-features", "opensearch-features"}
    assert set(FORMATS) == general | {"opensearch-hybrid", "elasticsearch-linear", "qdrant"}
    assert [name for name, each in FORMATS.items() if not each.is_text] == ["onnx"]
    names = [each.name for each in fields(FORMATS["elasticsearch"])]
    assert names == ["offset_feature", "offset", "allow_negative", "max_error"]
    assert all(
        each.description() and each.suffix.startswith(".") and "/" in each.media_type for each in FORMATS.values()
    )


@pytest.mark.parametrize("format", GLOBAL)
def test_per_query_normalisation_is_refused_where_it_cannot_be(format):
    message = refused(replace(MODEL, representation=QueryScaled()), format)
    assert "differs from query to query" in message
    assert all(other in message for other in ("vespa", "onnx", "json"))


@pytest.mark.parametrize("format", [*GLOBAL, "vespa"])
def test_ranks_within_the_query_are_refused_where_they_cannot_be(format):
    message = refused(replace(MODEL, representation=QueryRanks()), format)
    assert "onnx (one batch = one query) and json" in message


@pytest.mark.parametrize("format", GLOBAL)
class TestCurves:
    knots = np.array([[0.0, 1.0], [0.0, 5.0]])

    def test_trees_have_no_curves_unless_an_error_is_allowed(self, format):
        model = replace(MODEL, representation=Ramps(), knots=self.knots)
        message = refused(model, format)
        assert "give max_error" in message
        assert "learn with steps" in message
        assert export(model, format, max_error=0.1)

    @pytest.mark.parametrize("error", [0.0, -1.0, np.nan, np.inf, "1"])
    def test_errors_that_cannot_be(self, format, error):
        assert "max_error" in refused(replace(MODEL, representation=Ramps(), knots=self.knots), format, max_error=error)

    def test_an_error_that_is_too_small(self, format):
        model = replace(MODEL, representation=Ramps(), knots=self.knots)
        assert "more than 10,000 steps" in refused(model, format, max_error=1e-9)
        assert "more than 10,000 steps" in refused(replace(model, weights=[1e30, 1e30]), format, max_error=1e-9)

    def test_heights_that_single_precision_cannot_hold(self, format):
        knots = np.array([[0.0, 1.0, 2.0], [0.0, 5.0, 6.0]])
        model = replace(MODEL, weights=[1e39, 1.0], representation=Steps(), knots=knots)
        assert "1e+39" in refused(model, format)

    def test_a_query_range_before_a_curve(self, format):
        model = replace(MODEL, representation=QueryScaled() >> Ramps(), knots=self.knots)
        assert "differs from query to query" in refused(model, format, max_error=0.1)


def test_trees_of_elasticsearch_need_no_offset():
    model = replace(MODEL, representation=Steps(), knots=np.array([[0.0, 1.0, 2.0]] * 2))
    assert "need no offset" in refused(model, "elasticsearch", offset_feature="one")
    assert "need no offset" in refused(model, "opensearch", offset=1.0)


def test_a_piece_that_single_precision_cannot_hold():
    model = LinearModel("shop", 1, ("a",), [1.0], Ramps(), [[1e9, 1e9 + 1.0]])
    assert "'a' has no positive, finite width" in refused(model, "onnx")
    assert export(model, "solr", max_error=0.6)  # no value of single precision is between
    assert export(model, "vespa", rank_features={"a": "attribute(a)"})
    wide = LinearModel("shop", 1, ("a",), [1.0], Fixed((Standard(0.0, 10.0),)) >> Ramps(), [[-1e38, 1e38]])
    assert "'a' has no positive, finite width" in refused(wide, "onnx")


def test_the_refusal_is_right():
    """Two queries in which per-query scales turn the order of the same two documents round: no fixed scale gives both."""
    model = LinearModel("shop", 1, ("a", "b"), np.array([1.0, 1.0]), QueryScaled())
    pair = np.array([[1.0, 0.0], [0.0, 1.0]])
    first, second = model.score([*pair, [10.0, 0.5]])[:2], model.score([*pair, [0.5, 10.0]])[:2]
    assert first[0] < first[1]
    assert second[0] > second[1]


class TestNegativeScores:
    @pytest.mark.parametrize("format", ["elasticsearch", "opensearch"])
    @pytest.mark.parametrize(
        "representation", [Raw(), Fixed((Standard(0.0, 1.0),) * 2), Fixed((MinMax(0.0, 1.0), Unscaled()))]
    )
    def test_unknown_bounds(self, format, representation):
        model = replace(MODEL, representation=representation)
        assert "is known only if" in refused(model, format)
        assert "give it as offset" in refused(model, format, offset_feature="one")
        assert export(model, format, offset_feature="one", offset=100.0)
        assert export(model, format, allow_negative=True)

    def test_known_bounds(self):
        message = refused(RANGED, "elasticsearch")
        assert "go down to -0.25" in message
        assert "offset_feature" in message
        assert export(RANGED, "elasticsearch", allow_negative=True)

    def test_scores_that_cannot_be_negative_need_nothing(self):
        positive = replace(RANGED, weights=[0.5, 0.25])
        assert export(positive, "elasticsearch") == export(positive, "elasticsearch", allow_negative=True)
        # A feature without weight may have any values.
        assert export(
            replace(MODEL, weights=[0.5, 0.0], representation=Fixed((MinMax(0.0, 1.0), Unscaled()))), "opensearch"
        )

    def test_a_missing_value_may_be_below_the_range(self):
        """0 before it is scaled, which is (0 − 4)/(8 − 4) = −1 after."""
        model = replace(RANGED, weights=[0.5, 0.25], representation=Fixed((MinMax(0.0, 1.0), MinMax(4.0, 8.0))))
        assert "go down to -0.25" in refused(model, "elasticsearch")

    def test_offsets(self):
        assert "leaves scores below 0" in refused(RANGED, "elasticsearch", offset_feature="one", offset=0.2)
        assert export(RANGED, "elasticsearch", offset_feature="one", offset=0.2, allow_negative=True)
        assert export(RANGED, "elasticsearch", offset_feature="one", offset=0.26)
        assert "name it with offset_feature" in refused(RANGED, "elasticsearch", offset=1.0)
        assert "must not be that of a feature" in refused(RANGED, "elasticsearch", offset_feature="b")
        assert "must not be that of a feature" in refused(RANGED, "elasticsearch", offset_feature="")
        assert "finite" in refused(RANGED, "elasticsearch", offset_feature="one", offset=np.inf)
        assert "finite" in refused(RANGED, "elasticsearch", offset_feature="one", offset="1")
        assert "at least 0" in refused(MODEL, "elasticsearch", offset_feature="one", offset=-1.0)
        assert "at least 0" in refused(MODEL, "elasticsearch", offset_feature="one", offset=1e39)
        huge = replace(RANGED, weights=[-3e38, -3e38])
        assert "within single precision, got inf" in refused(huge, "elasticsearch", offset_feature="one")


class TestNumbers:
    @pytest.mark.parametrize("format", ["solr", "elasticsearch", "onnx"])
    def test_what_single_precision_would_lose(self, format):
        options = {"allow_negative": True} if format == "elasticsearch" else {}
        assert "1e+39" in refused(replace(MODEL, weights=[1e39, 1.0]), format, **options)
        assert "1e-40" in refused(replace(MODEL, weights=[1e-40, 1e-41]), format, **options)
        close = replace(MODEL, representation=Fixed((Unscaled(), MinMax(1e9, 1e9 + 1.0))))
        assert "'b'" in refused(close, format, **options)
        assert "'a'" in refused(
            replace(MODEL, representation=Fixed((Standard(0.0, 1e-60), Unscaled()))), format, **options
        )
        assert "'a'" in refused(
            replace(MODEL, representation=Fixed((Standard(1e39, 1.0), Unscaled()))), format, **options
        )
        assert export(
            replace(MODEL, weights=[1.0, 1e-60]), format, **options
        )  # negligible next to the other weight in any precision

    def test_what_folding_would_make_infinite(self):
        assert "'a'" in refused(replace(MODEL, representation=Fixed((Standard(0.0, 5e-324), Unscaled()))), "ranklib")
        far = replace(MODEL, weights=[1e200, 1.0], representation=Fixed((Standard(1e200, 1.0), Unscaled())))
        assert "bias" in refused(far, "ranklib", offset=0.0)
        assert export(far, "ranklib")  # no bias is written

    @pytest.mark.parametrize("offset", [np.nan, "1", True])
    def test_ranklib_offsets(self, offset):
        assert "the offset" in refused(MODEL, "ranklib", offset=offset)


class TestVespa:
    def test_a_name_that_is_no_rank_feature(self):
        message = refused(MODEL, "vespa")
        assert "a=attribute(a)" in message
        with pytest.raises(UnknownName, match="no feature is called 'c'"):
            export(MODEL, "vespa", rank_features={"c": "bm25(c)"})

    @pytest.mark.parametrize(
        "text", ["", " ", "attribute(a) }", "{", "a\nb", "a # b", "(attribute(a)", "attribute(a))", ")(", None, 3]
    )
    def test_expressions_that_could_end_their_block(self, text):
        rank_features = {"a": "attribute(a)", "b": text}
        if text is None:
            rank_features.pop("b")
        assert "'b'" in refused(MODEL, "vespa", rank_features=rank_features)

    @pytest.mark.parametrize("name", ["bm25(title)\n}", "bm25(title) }", 'bm25(")', "bm25()", "price", "a(b(c))"])
    def test_names_that_only_look_like_rank_features(self, name):
        assert "is not a rank feature" in refused(LinearModel("shop", 1, (name,), [1.0]), "vespa")

    @pytest.mark.parametrize(
        "name",
        ["bm25(title)", "attribute(price)", "closeness(field, embedding)", "fieldMatch(title).proximity", "nativeRank"],
    )
    def test_names_that_are_rank_features(self, name):
        assert f"* {name}\n" in export(LinearModel("shop", 1, (name,), [1.0]), "vespa").decode()

    def test_options(self):
        rank_features = {"a": "attribute(a)", "b": "attribute(b)"}
        assert "'inputs' or 'constants'" in refused(MODEL, "vespa", rank_features=rank_features, weights="both")
        assert "from 1 up" in refused(MODEL, "vespa", rank_features=rank_features, rerank_count=0)


def test_onnx_is_needed_for_onnx_only(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.split(".")[0] == "onnx":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"duelrank\[onnx\]"):
        export(MODEL, "onnx")
    assert export(MODEL, "solr")


def test_onnx_is_imported_only_when_it_is_written():
    code = "import sys, duelrank.export; print('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
