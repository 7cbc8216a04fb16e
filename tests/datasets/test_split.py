"""Splits and folds: what they hold, and what they refuse."""

import numpy as np
import pytest

from duelrank.core.errors import InvalidValue, ShapeMismatch
from duelrank.core.types import Query, frozen
from duelrank.datasets import Fold, Split


class TestSplit:
    @pytest.fixture
    def split(self, make_split) -> Split:
        return make_split([(np.full((n, 2), float(n)), list(range(n))) for n in (1, 3, 2)])

    def test_each_query_owns_its_rows(self, split):
        assert len(split) == 3
        assert (split.n_documents, split.n_features) == (6, 2)
        for index, n in enumerate((1, 3, 2)):
            query = split.query(index)
            assert query == Query(f"q{index}", np.full((n, 2), float(n)))
            assert split.judgements(index).tolist() == list(range(n))

    def test_queries_are_readonly_views(self, split):
        query = split.query(1)
        assert np.shares_memory(query.features, split.features)
        with pytest.raises(ValueError, match="read-only"):
            query.features[0, 0] = 1.0
        with pytest.raises(ValueError, match="read-only"):
            split.judgements(1)[0] = 1

    def test_an_index_past_the_end_is_an_error(self, split):
        with pytest.raises(IndexError):
            split.query(3)

    def test_making_a_split_leaves_the_callers_arrays_writable(self):
        features = np.ones((1, 1))
        Split(features, np.zeros(1, np.int8), np.array([0, 1]), np.array([b"q"]))
        assert features.flags.writeable

    def test_a_fold_knows_its_features(self, split):
        assert Fold(split, split, split, 3).n_features == split.n_features

    def test_popularity_is_one_number_per_training_query(self, split):
        assert Fold(split, split, split, 3).popularity is None
        given = np.arange(1.0, len(split) + 1)
        fold = Fold(split, split, split, 3, given)
        given[0] = 7.0
        assert fold.popularity.tolist() == list(range(1, len(split) + 1))
        assert not fold.popularity.flags.writeable
        with pytest.raises(ShapeMismatch, match="per training query"):
            Fold(split, split, split, 3, np.ones(len(split) + 1))

    @pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, "many"])
    def test_popularity_is_finite_and_somewhere_positive(self, split, bad):
        with pytest.raises(InvalidValue, match="popularity must be"):
            Fold(split, split, split, 3, [bad] * len(split))

    def test_the_splits_of_a_fold_have_the_same_features(self, split):
        wider = Split(np.ones((1, 3)), [0], [0, 1], ["q"])
        with pytest.raises(ShapeMismatch, match="training 2, validation 3, test 2"):
            Fold(split, wider, split, 3)

    def test_later_folds_have_the_same_documents(self, split):
        other = Fold(*[Split(np.ones((1, 2)), [0], [0, 1], ["q"])] * 3, n_grades=3)
        with pytest.raises(ShapeMismatch, match="training documents of the first"):
            Fold(split, split, split, 3, later=((10, other),))

    def test_every_label_is_below_the_number_of_grades(self, split):
        with pytest.raises(InvalidValue, match="highest label, which is 2; got 2"):
            Fold(split, split, split, 2)


GOOD = {"features": np.ones((4, 2)), "labels": [0, 1, 2, 0], "offsets": [0, 3, 4], "ids": ["a", "b"]}


class TestChecks:
    def test_plain_lists_are_fine(self):
        split = Split(**GOOD)
        assert split.labels.dtype == np.int8
        assert [split.query(index).id for index in range(2)] == ["a", "b"]
        assert Split(**GOOD | {"labels": [True, False, False, 2.0]}).labels.tolist() == [1, 0, 0, 2]

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"features": np.full((4, 2), np.nan)}, "features must be finite, found nan at document 0, feature 0"),
            ({"features": np.ones(4)}, "features must be a .documents, features. table"),
            ({"features": [["a"]] * 4}, "features must be numbers"),
            ({"labels": [0, 1, 2]}, "4 documents, 3 labels"),
            ({"labels": [0, -1, 2, 0]}, "whole numbers from 0 to 30 .*, found -1"),
            ({"labels": [0, 31, 2, 0]}, "found 31"),
            ({"labels": [0, 0.5, 2, 0]}, "found 0.5"),
            ({"labels": [0, np.nan, 2, 0]}, "found nan"),
            ({"labels": ["0", "1", "2", "0"]}, "found '0'"),
            ({"labels": [[0, 1, 2, 0]]}, "got shape .1, 4."),
            ({"labels": [[0], [1, 2]]}, "labels must be one grade per document"),
            ({"offsets": [1, 3, 4]}, "must rise from 0 to the number of documents .4."),
            ({"offsets": [0, 3, 5]}, "must rise from 0"),
            ({"offsets": [0, 3, 3]}, "must rise from 0"),
            ({"offsets": [0, 0, 4]}, "must rise from 0"),
            ({"offsets": [0, 4, 3, 4]}, "must rise from 0"),
            ({"offsets": [0, 2.5, 4]}, "must rise from 0"),
            ({"offsets": []}, "must rise from 0"),
            ({"ids": ["a"]}, "2 queries, 1 ids"),
            ({"ids": ["a", "a"]}, "'a' occurs twice"),
            ({"ids": ["a", ""]}, "non-empty"),
            ({"ids": [1, 2]}, "ids must be non-empty strings"),
        ],
    )
    def test_what_is_wrong_is_refused_and_said(self, wrong, message):
        with pytest.raises((InvalidValue, ShapeMismatch), match=message):
            Split(**GOOD | wrong)

    def test_no_caller_can_change_it_later(self):
        given = {name: np.array(value) for name, value in GOOD.items()}
        split = Split(**given)
        given["features"][:] = 7.0
        given["labels"][:] = 7
        given["offsets"][:] = 0
        assert split.features.tolist() == GOOD["features"].tolist()
        assert split.labels.tolist() == GOOD["labels"]
        assert split.offsets.tolist() == GOOD["offsets"]

    def test_what_cannot_change_is_not_copied(self):
        features = frozen(np.ones((4, 2)))
        assert np.shares_memory(Split(**GOOD | {"features": features}).features, features)
