"""Missing values: what replaces them, what they leave as it is, and which recipes accept them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank import Feedback, Learner, Query, parse
from duelrank.core.errors import InvalidRecipe, InvalidValue, ShapeMismatch
from duelrank.core.registry import spell
from duelrank.representation import Chain, Fixed, MinMax, Missing, QueryScaled, Raw, Representation
from duelrank.representation.base import split_missing, with_missing
from duelrank.representation.fixed import read_representation, write_representation

NAN = np.nan
values = st.one_of(st.just(NAN), st.floats(-1e300, 1e300), st.sampled_from([0.1, 0.3]))


@given(st.integers(1, 6), st.integers(1, 3), st.data())
def test_a_neutral_value_changes_neither_the_range_nor_the_others(n, d, data):
    table = np.array(data.draw(st.lists(st.lists(values, min_size=d, max_size=d), min_size=n, max_size=n)))
    found, known = Missing().apply(table, {}), ~np.isnan(table)
    np.testing.assert_array_equal(found[known], table[known])
    for column, before in zip(found.T, table.T, strict=True):
        present = before[~np.isnan(before)]
        if present.size:
            assert (column.min(), column.max()) == (present.min(), present.max())
        else:
            assert not column.any()


def test_after_scaling_a_neutral_document_is_as_good_as_the_average_of_the_others():
    prices = np.array([[10.0], [NAN], [90.0], [20.0]])
    column = (Missing() >> QueryScaled()).apply(prices, {}).ravel()
    assert column[1] == pytest.approx(column[[0, 2, 3]].mean())


def test_numbers_and_features_that_are_never_missing():
    found = Missing((7.0, "neutral", "never")).apply(np.array([[NAN, NAN, 1.0], [1.0, 4.0, 2.0]]), {})
    np.testing.assert_array_equal(found, [[7.0, 4.0, 1.0], [1.0, 4.0, 2.0]])
    assert Missing((7.0, "neutral", "never")).lacking(("a", "b", "c")) == {"a": 7.0, "b": "neutral"}
    with pytest.raises(ShapeMismatch, match="1 missing feature do not fit 2"):
        Learner(Missing((1.0,)) >> parse("mgd"), n_features=2)
    for wrong in (("nothing",), (NAN,), (True,)):
        with pytest.raises(InvalidRecipe, match="'neutral' or 'never'"):
            Missing(wrong)


REPRESENTATIONS = [
    Missing(),
    Missing() >> parse("curves", Representation),
    Missing((7.0, "neutral", "never")) >> QueryScaled() >> parse("curves", Representation),
    Missing((7.0, "neutral", "never")) >> Fixed((MinMax(0.0, 9.0), MinMax(0.0, 1.0), MinMax(0.0, 5.0))),
]


@pytest.mark.parametrize("representation", REPRESENTATIONS, ids=repr)
def test_texts_and_json(representation):
    names = ("a", "b", "c")
    assert parse(spell(representation)) == representation
    assert read_representation(write_representation(representation, names), names) == representation
    missing, rest = split_missing(representation)
    assert missing is not None
    assert with_missing(missing, rest) == representation
    assert not rest.fills


def test_json_of_some_features():
    given = {"kind": "missing", "features": {"price": "neutral", "age": 30}, "then": "query-scaled"}
    found = read_representation(given, ("bm25", "price", "age"))
    assert found == Chain(Missing(("never", "neutral", 30.0)), QueryScaled())
    for wrong in (
        {"kind": "missing", "features": ["price"]},
        {"kind": "missing", "features": {"price": "nothing"}},
        {"kind": "missing", "features": {"price": NAN}},
        {"kind": "missing", "features": {"price": "neutral"}, "then": "missing >> curves"},
    ):
        with pytest.raises(InvalidValue):
            read_representation(wrong, ("price",))


def test_nothing_comes_before_it():
    assert split_missing(QueryScaled()) == (None, QueryScaled())
    assert with_missing(None, Raw()) == Raw()
    with pytest.raises(InvalidRecipe, match="too late"):
        parse("query-scaled >> missing >> mgd")


def test_a_recipe_without_it_refuses_missing_values():
    query = Query("q", [[1.0, NAN], [0.5, 2.0]], missing=True)
    assert query == Query("q", [[1.0, NAN], [0.5, 2.0]], missing=True)
    with pytest.raises(InvalidValue, match="found nan at document 0, feature 1"):
        Query("q", [[1.0, NAN]])
    with pytest.raises(InvalidValue, match="found inf"):
        Query("q", [[1.0, np.inf]], missing=True)
    learner = Learner("query-scaled >> mgd-dsp", n_features=2)
    for method in (learner.rank, learner.best, learner.score):
        with pytest.raises(InvalidRecipe, match="begin it with missing"):
            method(query)


def cheap(recipe: str, missing: float) -> tuple[Learner, np.ndarray]:
    """Return a learner whose users like cheap documents; and three documents: a cheap one, one without a price, a dear one."""
    learner, draws = Learner(recipe, n_features=1, seed=3), np.random.default_rng(1)
    for _ in range(300):
        prices = draws.uniform(5.0, 90.0, (10, 1))
        hidden = draws.random(10) < 0.3
        shown = learner.rank(np.where(hidden[:, None], missing, prices))
        learner.learn(shown, Feedback(prices[shown.ranking, 0] < 25.0))
    return learner, np.array([[6.0], [missing], [80.0]])


@pytest.mark.parametrize("rest", ["query-scaled >> wmgd-dsp", "curves >> wmgd-dsp", "thompson-pairs-curves"])
def test_a_document_without_a_price_is_not_the_cheapest(rest):
    learner, documents = cheap(f"missing >> {rest}" if ">>" in rest else "missing >> curves >> thompson-pairs", NAN)
    assert learner.best(documents).tolist() == [0, 1, 2]
    learner, documents = cheap(rest, 0.0)
    assert learner.best(documents).tolist()[0] == 1  # as it is without: a 0 is the cheapest
