"""The values: what they accept, what they refuse, and that callers cannot change them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from duelrank.core.errors import DuelrankError, InvalidValue, ShapeMismatch
from duelrank.core.types import Feedback, Impression, Query, State, frozen, same_arrays

FINITE = st.floats(-1e300, 1e300)  # sums that overflow have their own test
TABLES = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=FINITE)


class TestQuery:
    @given(TABLES)
    def test_any_finite_table_is_kept_as_it_is(self, table):
        query = Query("q", table)
        assert np.array_equal(query.features, table)
        assert query.n_documents == table.shape[0]

    @given(TABLES, st.sampled_from([np.nan, np.inf, -np.inf]), st.data())
    def test_one_number_that_is_not_finite_is_found_and_placed(self, table, bad, data):
        document = data.draw(st.integers(0, table.shape[0] - 1))
        feature = data.draw(st.integers(0, table.shape[1] - 1))
        table[document, feature] = bad
        with pytest.raises(InvalidValue, match=f"found {bad} at document {document}, feature {feature}"):
            Query("q", table)

    def test_finite_numbers_whose_sum_overflows_are_accepted(self):
        huge = np.full((2, 2), np.finfo(np.float64).max)
        assert np.array_equal(Query("q", huge).features, huge)

    def test_opposite_infinities_do_not_cancel(self):
        with pytest.raises(InvalidValue, match="finite"):
            Query("q", [[np.inf, -np.inf]])

    @pytest.mark.parametrize("given", [1.0, [1.0, 2.0], np.zeros((2, 2, 2)), np.zeros((0, 3)), np.zeros((3, 0)), []])
    def test_wrong_shapes_are_refused(self, given):
        with pytest.raises(ShapeMismatch, match="shape"):
            Query("q", given)

    @pytest.mark.parametrize("given", [[["a", "b"]], [[1.0], [1.0, 2.0]], [[None]], "text", {"a": 1}, object()])
    def test_what_is_no_table_of_numbers_is_refused(self, given):
        with pytest.raises(DuelrankError):
            Query("q", given)

    def test_a_whole_number_beyond_floats_is_refused(self):
        with pytest.raises(InvalidValue):
            Query("q", [[10**400]])

    def test_complex_numbers_are_refused(self):
        with pytest.raises(InvalidValue):
            Query("q", np.array([[1j]]))

    @pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, lambda a: a[::1, ::-1]])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.bool_])
    def test_features_become_a_readonly_contiguous_float64_copy(self, layout, dtype):
        given = layout(np.arange(6).reshape(2, 3).astype(dtype))
        query = Query("q", given)
        assert query.features.dtype == np.float64
        assert query.features.flags.c_contiguous
        assert not query.features.flags.writeable
        assert not np.shares_memory(query.features, given)
        assert np.array_equal(query.features, given)

    def test_a_readonly_view_of_a_writable_table_is_copied_too(self):
        table = np.ones((2, 2))
        view = table.view()
        view.flags.writeable = False
        query = Query("q", view)
        table[0, 0] = 5.0
        assert query.features[0, 0] == 1.0

    def test_fields_cannot_be_set(self):
        with pytest.raises(dataclasses.FrozenInstanceError):
            Query("q", [[1.0]]).id = "other"

    def test_equality_is_by_id_and_features(self):
        assert Query("q", [[1.0]]) == Query("q", [[1.0]])
        assert Query("q", [[1.0]]) != Query("p", [[1.0]])
        assert Query("q", [[1.0]]) != Query("q", [[2.0]])
        assert Query("q", [[1.0]]) != Query("q", [[1.0, 1.0]])
        assert Query("q", [[1.0]]) != "q"

    def test_it_has_no_labels_and_no_hash(self):
        assert {field.name for field in dataclasses.fields(Query)} == {
            "id",
            "features",
            "documents",
            "boosts",
            "missing",
        }
        with pytest.raises(TypeError):
            hash(Query("q", [[1.0]]))


class TestFeedback:
    @given(st.lists(st.booleans(), max_size=12))
    def test_flags_of_every_kind_mean_the_same(self, flags):
        kinds = (flags, tuple(flags), [int(flag) for flag in flags], np.array(flags, np.int8), np.array(flags, float))
        for clicks in kinds:
            feedback = Feedback(clicks)
            assert feedback.clicks.dtype == np.bool_
            assert feedback.clicks.tolist() == flags
            assert feedback == Feedback(flags)

    @pytest.mark.parametrize("bad", [[2], [-1], [0.5], [float("nan")], [None], ["yes"], [1, 0, 256], [1 + 0j]])
    def test_clicks_that_are_not_zero_or_one_are_refused(self, bad):
        with pytest.raises(InvalidValue, match="True or False"):
            Feedback(bad)

    @pytest.mark.parametrize("bad", [True, None, "abc", [[True]], np.zeros((2, 2), bool)])
    def test_clicks_that_are_not_one_row_are_refused(self, bad):
        with pytest.raises(ShapeMismatch, match="one flag per shown position"):
            Feedback(bad)

    def test_ragged_clicks_are_refused(self):
        with pytest.raises(DuelrankError):
            Feedback([[1], [1, 0]])

    def test_the_callers_array_may_change_afterwards(self):
        for clicks in (np.array([True, False]), np.array([True, False]).view()):
            feedback = Feedback(clicks)
            clicks[:] = True
            assert feedback.clicks.tolist() == [True, False]

    @given(st.lists(st.booleans(), max_size=8), st.integers(-2, 10))
    def test_examined_reaches_from_the_last_click_to_the_end(self, flags, examined):
        last = max((position for position, flag in enumerate(flags, 1) if flag), default=0)
        if last <= examined <= len(flags):
            assert Feedback(flags, examined).examined == examined
        else:
            with pytest.raises(InvalidValue, match=str(examined)):
                Feedback(flags, examined)

    def test_the_message_says_how_many_were_examined_at_least(self):
        with pytest.raises(InvalidValue, match="at least 3"):
            Feedback([True, False, True, False], examined=2)

    @pytest.mark.parametrize("bad", [1.0, True, "1", [1], float("nan")])
    def test_examined_is_a_whole_number(self, bad):
        with pytest.raises(InvalidValue, match="from 0 to 2"):
            Feedback([False, False], examined=bad)

    def test_a_numpy_integer_is_a_whole_number(self):
        assert type(Feedback([True, False], examined=np.int64(1)).examined) is int

    def test_equality_needs_clicks_and_examined(self):
        assert Feedback([True]) != Feedback([True], examined=1)
        assert Feedback([True]) != Feedback([False])
        assert Feedback([True]) != [True]

    def test_weights_are_gains(self):
        assert Feedback([1, 0, 1], weights=[2, 0, 0.5]).gains.tolist() == [2.0, 0.0, 0.5]
        assert Feedback([1, 0, 1]).gains.tolist() == [1.0, 0.0, 1.0]
        assert Feedback([], weights=[]).gains.tolist() == []

    def test_weights_of_one_are_no_weights(self):
        assert Feedback([1, 0], weights=[1, 0]) == Feedback([1, 0])
        assert Feedback([1, 0], weights=[2, 0]) != Feedback([1, 0])
        assert Feedback([1, 0], weights=[2, 0]) == Feedback.trusted(np.array([True, False]), None, np.array([2.0, 0.0]))

    def test_weights_are_copied(self):
        given = np.array([2.0, 0.0])
        feedback = Feedback([1, 0], weights=given)
        given[0] = 5.0
        assert feedback.gains.tolist() == [2.0, 0.0]

    @pytest.mark.parametrize(
        ("weights", "error", "sentence"),
        [
            ([1.0], ShapeMismatch, "2 positions were shown, so weights must have 2 entries, got 1"),
            ([[1.0, 0.0]], ShapeMismatch, "one number per shown position, got shape"),
            (["a", "b"], InvalidValue, "weights must be numbers"),
            ([[1], [1, 0]], InvalidValue, "weights must be one number per shown position"),
            ([float("nan"), 0], InvalidValue, "finite and not negative, got nan at position 1"),
            ([float("inf"), 0], InvalidValue, "finite and not negative, got inf at position 1"),
            ([1, -2], InvalidValue, "finite and not negative, got -2.0 at position 2"),
            ([1, 3], InvalidValue, "position 2 was not clicked, and weighs 3"),
            ([0, 0], InvalidValue, "position 1 was clicked, and weighs 0"),
        ],
    )
    def test_weights_must_be_positive_exactly_where_there_is_a_click(self, weights, error, sentence):
        with pytest.raises(error, match=sentence):
            Feedback([True, False], weights=weights)


def test_impressions_and_states_compare_by_their_arrays():
    query = Query("q", [[1.0]])
    one = Impression(query, np.array([0]), {"a": np.array([1.0])})
    assert one == Impression(query, np.array([0]), {"a": np.array([1.0])})
    assert one != Impression(query, np.array([0]), {"a": np.array([2.0])})
    assert one != Impression(query, np.array([0]), {"b": np.array([1.0])})
    assert one != Impression(Query("p", [[1.0]]), np.array([0]), one.trace)
    state = State(np.zeros(2), 1, 1, {"m": np.zeros(1)})
    assert state == State(np.zeros(2), 1, 1, {"m": np.zeros(1)})
    for name, value in {"weights": np.ones(2), "step": 2, "updates": 0, "memory": {}}.items():
        assert state != dataclasses.replace(state, **{name: value})


def test_same_arrays_needs_equal_names_shapes_and_numbers():
    assert same_arrays({}, {})
    assert not same_arrays({"a": np.zeros(1)}, {})
    assert not same_arrays({"a": np.zeros(1)}, {"a": np.zeros((1, 1))})


def test_frozen_copies_only_what_could_change():
    array = np.zeros(2)
    kept = frozen(array)
    assert not np.shares_memory(kept, array)
    assert not kept.flags.writeable
    assert frozen(kept) is kept
