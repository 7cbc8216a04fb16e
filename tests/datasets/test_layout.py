"""The names of files in the field's data sets."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from duelrank.datasets.split import place


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("MQ2007/Fold1/train.txt", (1, "train")),
        ("Fold5/vali.txt", (5, "validation")),
        ("Gov/QueryLevelNorm/2003_np_dataset/Fold2/trainingset.txt", (2, "train")),
        ("Fold2/validationset.txt", (2, "validation")),
        ("Fold2/testset.txt", (2, "test")),
        ("set1.valid.txt", (1, "validation")),
        ("sample/vali.txt", (1, "validation")),
        ("validation.txt", (1, "validation")),
        ("S1.txt", None),
        ("Fold1/README.txt", None),
        ("__MACOSX/Fold1/train.txt", None),
        ("Fold1/train.txt.bak", None),
    ],
)
def test_place(path: str, where: tuple[int, str] | None) -> None:
    assert place(PurePosixPath(path)) == where


def test_prefix_chooses_one_set() -> None:
    assert place(PurePosixPath("set2.train.txt"), "set2") == (1, "train")
    assert place(PurePosixPath("set1.train.txt"), "set2") is None
    assert place(PurePosixPath("train.txt"), "set2") is None
