"""The cache: preprocessing step by step, in pieces of any size, memory-mapped."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from tests.reference import datasets as reference

from duelrank.core.errors import DataFormatError, InvalidRecipe
from duelrank.datasets import Imported, Preparation, Split, library

RAW = {"drop_constant": False, "scale": "none", "drop_irrelevant_test": False}


def scaled(split: Split, columns: np.ndarray) -> np.ndarray:
    result = np.empty((split.n_documents, len(columns)))
    reference.scale_queries(split.features, split.offsets, columns, result)
    return result


def test_the_steps_one_by_one(letor_folder: Path) -> None:
    library.add("some", letor_folder)
    raw = Imported("some", **RAW).fold(1)
    assert np.array_equal(
        Imported("some", **RAW | {"drop_constant": True}).fold(1).train.features, raw.train.features[:, [0, 2]]
    )
    test = Imported("some", **RAW | {"drop_irrelevant_test": True}).fold(1).test
    assert test.ids.tolist() == [b"some"]
    assert np.array_equal(test.features, raw.test.features[2:])
    assert test.labels.tolist() == [2, 0]
    everything = np.arange(3)
    fold = Imported("some", **RAW | {"scale": "query"}).fold(1)
    for name in ("train", "validation", "test"):
        assert np.array_equal(getattr(fold, name).features, scaled(getattr(raw, name), everything))
    default = Imported("some").fold(1)
    assert np.array_equal(default.validation.features, scaled(raw.validation, np.array([0, 2])))
    assert default.train.ids.tolist() == raw.train.ids.tolist()
    assert np.array_equal(default.train.offsets, raw.train.offsets)


@pytest.mark.parametrize("block_bytes", [1, 100, 1000])
def test_pieces_of_any_size_give_the_same(
    letor_folder: Path, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add("some", letor_folder)
    whole = Imported("some").fold(1)
    for module in ("cache", "reader"):
        monkeypatch.setattr(f"duelrank.datasets.{module}.BLOCK_BYTES", block_bytes)
    library.add("pieces", letor_folder)
    pieces = Imported("pieces").fold(1)
    for split, array in itertools.product(("train", "validation", "test"), ("features", "labels", "offsets", "ids")):
        assert np.array_equal(getattr(getattr(whole, split), array), getattr(getattr(pieces, split), array))


def test_arrays_are_mapped_and_cannot_be_changed(letor_folder: Path) -> None:
    library.add("some", letor_folder)
    fold = Imported("some").fold(1)
    assert type(fold.train.features) is np.ndarray
    assert isinstance(fold.train.features.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        fold.train.features[0, 0] = 1.0
    query = fold.train.query(1)
    assert query.id == "q2"
    assert np.shares_memory(query.features, fold.train.features)


def test_nothing_left_is_an_error(letor_folder: Path) -> None:
    (letor_folder / "Fold1" / "train.txt").write_text("0 qid:1 1:1\n1 qid:1 1:1\n")
    (letor_folder / "Fold2" / "test.txt").write_text("0 qid:1 1:1\n")
    library.add("some", letor_folder)
    with pytest.raises(DataFormatError, match="drop_constant=False keeps them"):
        Imported("some").fold(1)
    assert Imported("some", drop_constant=False).fold(1).n_features == 3
    with pytest.raises(DataFormatError, match="drop_irrelevant_test=False keeps them"):
        Imported("some").fold(2)


def test_huge_values(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / f"{split}.txt").write_text("0 qid:1 1:1.79769313486231571e+308\n1 qid:1 1:-1e308\n")
    library.add("huge", tmp_path)
    assert Imported("huge").fold(1).train.features.tolist() == [[1.0], [0.0]]


def test_every_choice_has_its_own_folder() -> None:
    keys = {Preparation(a, b, c).key for a in (True, False) for b in ("query", "none") for c in (True, False)}
    assert len(keys) == 8
    with pytest.raises(InvalidRecipe, match="'query' or 'none'"):
        Imported("some", scale="other")  # type: ignore[arg-type]
