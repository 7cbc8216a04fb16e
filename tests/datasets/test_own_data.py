"""Data sets from arrays, frames and files: checked, divided by query, and usable wherever a data set is."""

from __future__ import annotations

import errno
import pickle

import numpy as np
import pandas as pd
import pytest

from duelrank import Dataset, RunSpec, parse, simulate, spell
from duelrank.core.errors import DataFormatError, InvalidValue, MissingData, ShapeMismatch, StorageFailure
from duelrank.datasets import Preparation, Split, library, read_letor, remove

N_QUERIES, N_DOCUMENTS = 10, 4


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    features = rng.random((N_QUERIES * N_DOCUMENTS, 3))
    features[:, 1] = 5.0
    labels = np.tile([0, 1, 2, 0], N_QUERIES)
    return {"features": features, "labels": labels, "query_ids": np.repeat(np.arange(N_QUERIES), N_DOCUMENTS)}


def queries(split: Split) -> dict[str, tuple[list[list[float]], list[int]]]:
    return {
        split.query(i).id: (split.query(i).features.tolist(), split.judgements(i).tolist()) for i in range(len(split))
    }


def everything(data: Dataset) -> dict[str, tuple[list[list[float]], list[int]]]:
    fold = data.fold()
    return queries(fold.train) | queries(fold.validation) | queries(fold.test)


class TestArrays:
    def test_every_query_is_in_one_split_with_its_own_documents(self, arrays):
        data = Dataset.from_arrays(**arrays, preparation=None)
        fold = data.fold()
        assert [len(split) for split in (fold.train, fold.validation, fold.test)] == [6, 2, 2]
        found = everything(data)
        assert len(found) == N_QUERIES
        for number in range(N_QUERIES):
            rows = arrays["query_ids"] == number
            assert found[str(number)] == (arrays["features"][rows].tolist(), arrays["labels"][rows].tolist())

    def test_the_order_of_the_documents_does_not_matter_to_which_are_together(self, arrays):
        mixed = np.random.default_rng(4).permutation(len(arrays["labels"]))
        data = Dataset.from_arrays(**{name: value[mixed] for name, value in arrays.items()}, preparation=None)
        found = everything(data)
        for number in range(N_QUERIES):
            rows = mixed[arrays["query_ids"][mixed] == number]
            assert found[str(number)] == (arrays["features"][rows].tolist(), arrays["labels"][rows].tolist())

    def test_it_is_prepared_as_published_sets_are(self, arrays):
        fold = Dataset.from_arrays(**arrays).fold()
        assert fold.n_features == 2
        for index in range(len(fold.train)):
            features = fold.train.query(index).features
            assert features.min(axis=0).tolist() == [0.0, 0.0]
            assert features.max(axis=0).tolist() == [1.0, 1.0]
        kept = Dataset.from_arrays(**arrays, preparation=Preparation(drop_constant=False)).fold()
        assert kept.n_features == 3

    def test_a_seed_repeats_and_another_divides_otherwise(self, arrays):
        one, again, other = (Dataset.from_arrays(**arrays, seed=seed) for seed in (1, 1, 2))
        assert one == again
        assert one != other
        assert set(queries(one.fold().train)) != set(queries(other.fold().train))

    @pytest.mark.parametrize("changed", ["features", "labels", "query_ids"])
    def test_the_name_says_the_content(self, arrays, changed):
        before = Dataset.from_arrays(**arrays)
        arrays[changed] = arrays[changed].copy()
        arrays[changed][1] = 99 if changed == "query_ids" else 2
        assert Dataset.from_arrays(**arrays) != before

    def test_an_own_split(self, arrays):
        names = np.where(arrays["query_ids"] < 7, "train", "test")
        fold = Dataset.from_arrays(**arrays, split=names).fold()
        assert list(queries(fold.train)) == [str(number) for number in range(7)]
        assert len(fold.validation) == 0
        assert list(queries(fold.test)) == ["7", "8", "9"]

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"labels": [0, 1, 2]}, "40 documents, 3 labels"),
            ({"labels": np.full(40, -1)}, "whole numbers from 0 to 30"),
            ({"features": np.full((40, 3), np.inf)}, "features must be finite"),
            ({"features": np.empty((40, 0))}, "at least one document and one feature"),
            ({"query_ids": np.zeros(39)}, "one id per document"),
            ({"query_ids": np.full(40, np.nan)}, "must not have missing values"),
            ({"query_ids": np.zeros(40)}, "3 splits need more than 1 query"),
            ({"split": (0.5, 0.5, -0.1)}, "three shares of at least 0"),
            ({"split": (0.0, 0.0, 0.0)}, "three shares of at least 0"),
            ({"split": (1.0, 0.0, 0.0)}, "queries for training and for test, got 10 and 0"),
            ({"split": ["train"] * 39}, "one of train, validation, test for each document"),
            ({"split": ["dev"] * 40}, "found 'dev'"),
            ({"split": ["train", "test"] * 20}, "must belong to one split"),
            ({"name": "My data"}, "lower-case letters"),
        ],
    )
    def test_what_is_wrong_is_refused_and_leaves_nothing(self, arrays, wrong, message, home):
        with pytest.raises((InvalidValue, ShapeMismatch), match=message):
            Dataset.from_arrays(**arrays | wrong)
        assert not list(home.rglob("*.npy"))

    def test_every_share_above_zero_gets_a_query(self, arrays):
        fold = Dataset.from_arrays(**arrays, split=(0.98, 0.01, 0.01)).fold()
        assert [len(split) for split in (fold.train, fold.validation, fold.test)] == [8, 1, 1]


class TestAsADataset:
    def test_it_is_a_recipe_as_any_other(self, arrays):
        data = Dataset.from_arrays(**arrays, name="shoes")
        assert parse(repr(data)) == data
        assert parse(spell(data), Dataset) == data
        assert spell(data).startswith("shoes-d")
        assert pickle.loads(pickle.dumps(data)) == data
        assert len({data, Dataset.from_arrays(**arrays, name="shoes")}) == 1

    def test_it_can_be_learned_on(self, arrays):
        spec = RunSpec(parse("mgd"), Dataset.from_arrays(**arrays), parse("perfect"), impressions=20)
        assert simulate(spec).weights.shape == (2,)

    def test_a_full_disk_leaves_nothing(self, arrays, home, monkeypatch):
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("duelrank.core.files.ArrayWriter.append", full)
        with pytest.raises(StorageFailure, match=r"No space left on device; set DUELRANK_HOME to another folder"):
            Dataset.from_arrays(**arrays)
        assert not list((home / "datasets").iterdir())

    def test_it_is_listed_and_can_be_removed(self, arrays):
        data = Dataset.from_arrays(**arrays)
        assert list(library.installed()) == [data.name]
        remove(data.name)
        with pytest.raises(MissingData):
            data.fold()
        assert Dataset.from_arrays(**arrays).fold().n_features == 2


class TestFrames:
    @pytest.fixture
    def frame(self, arrays) -> pd.DataFrame:
        frame = pd.DataFrame(arrays["features"], columns=["bm25", "constant", "length"])
        return frame.assign(label=arrays["labels"], qid=arrays["query_ids"])

    def test_all_other_columns_are_features(self, frame, arrays):
        assert Dataset.from_dataframe(frame, name="arrays") == Dataset.from_arrays(**arrays)

    def test_columns_are_chosen_by_name(self, frame, arrays):
        arrays["features"] = arrays["features"][:, [2, 0]]
        data = Dataset.from_dataframe(frame.assign(docno="d"), features=["length", "bm25"], name="arrays")
        assert data == Dataset.from_arrays(**arrays)

    def test_one_column_may_hold_arrays(self, frame, arrays):
        packed = pd.DataFrame({"qid": frame["qid"], "label": frame["label"], "features": list(arrays["features"])})
        assert Dataset.from_dataframe(packed, features="features", name="arrays") == Dataset.from_arrays(**arrays)

    def test_a_column_may_say_the_split(self, frame):
        part = np.where(frame["qid"] < 5, "train", np.where(frame["qid"] < 7, "validation", "test"))
        fold = Dataset.from_dataframe(frame.assign(part=part), split="part").fold()
        assert [len(split) for split in (fold.train, fold.validation, fold.test)] == [5, 2, 3]

    def test_what_is_wrong_is_named(self, frame):
        with pytest.raises(InvalidValue, match="no column 'grade'; it has bm25, constant"):
            Dataset.from_dataframe(frame, label="grade")
        with pytest.raises(InvalidValue, match="'docno' is not numeric"):
            Dataset.from_dataframe(frame.assign(docno="d7"))


class TestFiles:
    def test_a_single_file_is_divided(self, tmp_path):
        file = tmp_path / "My 2 clicks.txt"
        file.write_text("".join(f"{d % 3} qid:{q} 1:{d} 2:{q + d * d}\n" for q in range(10) for d in range(5)))
        data = Dataset.from_letor(file)
        fold = data.fold()
        assert data.name.startswith("my-clicks-d")
        assert [len(split) for split in (fold.train, fold.validation, fold.test)] == [6, 2, 2]
        assert parse(str(file), Dataset) == data
        assert Dataset.from_letor(file, seed=1) != data
        file.write_text(file.read_text().replace("qid:7", "qid:77"))
        assert Dataset.from_letor(file) != data

    def test_a_folder_keeps_its_folds(self, letor_folder):
        data = Dataset.from_letor(letor_folder)
        assert data == parse(f"{letor_folder}/", Dataset)
        assert data.name.startswith("source-d")
        assert data.n_folds == 2
        assert len(data.fold(2).train) == 4

    def test_own_splits(self, letor_folder):
        train, test = (read_letor(letor_folder / "Fold1" / name, n_features=3) for name in ("train.txt", "test.txt"))
        fold = Dataset.from_splits(train, test).fold()
        assert (len(fold.train), len(fold.validation), len(fold.test)) == (4, 0, 1)
        with pytest.raises(ShapeMismatch, match="same number of features"):
            Dataset.from_splits(train, Split([[1.0]], [1], [0, 1], ["q"]))

    def test_a_path_that_is_not_there(self, tmp_path):
        with pytest.raises(MissingData, match=r"the file or folder 'nothing.txt' does not exist"):
            parse("./nothing.txt", Dataset)
        with pytest.raises(DataFormatError, match="no files with the expected names"):
            Dataset.from_letor(tmp_path)

    def test_text_in_place_of_a_data_set_may_be_a_path(self, letor_folder):
        text = str(letor_folder)
        assert parse("LongTail(synthetic)").__class__(text).base == Dataset.from_letor(letor_folder)
