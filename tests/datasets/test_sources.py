"""Folders and archives: all give the same set, and damage is always noticed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from duelrank.core.errors import DataFormatError, MissingData
from duelrank.datasets import library
from duelrank.datasets.library import Imported


def tar(mode: str) -> Callable[[Path, Path], Path]:
    def make(folder: Path, target: Path) -> Path:
        path = target / "set.bin"  # formats are told by content, not by name
        with tarfile.open(path, f"w:{mode}") as archive:
            archive.add(folder, "SET")
        return path

    return make


def zipped(folder: Path, target: Path) -> Path:
    path = target / "set.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*.txt")):
            archive.write(file, file.relative_to(folder))
    return path


def compressed_members(folder: Path, target: Path) -> Path:
    copy = target / "copy"
    shutil.copytree(folder, copy)
    for i, file in enumerate(sorted(copy.rglob("*.txt"))):
        suffix, compress = [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)][i % 3]
        Path(f"{file}{suffix}").write_bytes(compress(file.read_bytes()))
        file.unlink()
    return copy


def nested(folder: Path, target: Path) -> Path:
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:bz2") as archive:
        archive.add(folder, "SET")
    path = target / "outer.tgz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("inner.tar.bz2")
        info.size = len(inner.getvalue())
        archive.addfile(info, io.BytesIO(inner.getvalue()))
    return path


FORMS = {
    "folder": lambda folder, _: folder,
    "tar": tar(""),
    "tar.gz": tar("gz"),
    "tar.xz": tar("xz"),
    "tar.bz2": tar("bz2"),
    "zip": zipped,
    "compressed members": compressed_members,
    "tar in tar": nested,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_set(form: str, letor_folder: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    report = library.add(
        "some", FORMS[form](letor_folder, tmp_path), progress=lambda done, total: seen.append((done, total))
    )
    assert {
        number: {name: (s.queries, s.documents) for name, s in f.items()} for number, f in report.folds.items()
    } == {number: {"train": (4, 16), "validation": (1, 2), "test": (2, 4)} for number in (1, 2)}
    assert (report.n_features, report.n_grades, report.warnings) == (3, 3, [])
    assert seen
    assert all(0 <= done <= total for done, total in seen if total is not None)
    raw = Imported("some", drop_constant=False, scale="none", drop_irrelevant_test=False).fold(2)
    assert raw.train.features[5].tolist() == [1.5, 7, 2.25]
    assert raw.test.features.tolist() == [[1, 3, 0], [2, 0, 0], [1, 0, 0], [4, 0, 1]]


@pytest.mark.parametrize("form", ["tar", "tar.gz", "tar.xz", "tar.bz2", "zip"])
def test_truncated_archives(form: str, letor_folder: Path, tmp_path: Path, home: Path) -> None:
    whole = FORMS[form](letor_folder, tmp_path)
    content = whole.read_bytes()
    lengths = {int(x) for x in np.linspace(1, len(content) - 1, 9)} | {len(content) - 3}
    if form == "tar":
        lengths = {n for n in lengths if n < len(content.rstrip(b"\0"))}  # all but the padding at the end
        with tarfile.open(whole) as archive:
            lengths |= {member.offset for member in archive.getmembers()[1:]}
    for length in sorted(lengths):
        cut = tmp_path / f"cut-{length}{whole.suffix}"
        cut.write_bytes(content[:length])
        with pytest.raises(DataFormatError):
            library.add("some", cut)
        assert not list(home.rglob("*.npy"))
        assert not library.installed()


def test_damaged_content_is_noticed(letor_folder: Path, tmp_path: Path) -> None:
    whole = FORMS["tar.gz"](letor_folder, tmp_path)
    content = bytearray(whole.read_bytes())
    content[-6] ^= 1  # in the checksum
    whole.write_bytes(content)
    with pytest.raises(DataFormatError, match="damaged"):
        library.add("some", whole)


@pytest.mark.parametrize(
    ("name", "content"), [("MQ.rar", b"Rar!\x1a\x07\x01\x00"), ("x.bin", b"Rar!\x1a\x07"), ("a.rar", b"")]
)
def test_rar_says_what_to_do(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataFormatError, match=r"RAR archive.*unpack it.*give the folder"):
        library.add("some", tmp_path / name)


def test_encrypted_zip(tmp_path: Path, letor_folder: Path) -> None:
    path = zipped(letor_folder, tmp_path)
    content = bytearray(path.read_bytes())
    for start, flag in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(start)
        while at >= 0:
            content[at + flag] |= 1
            at = content.find(start, at + 4)
    path.write_bytes(content)
    with pytest.raises(DataFormatError, match="encrypted"):
        library.add("some", path)


def test_what_is_missing_or_double_is_said(letor_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="does not exist"):
        library.add("some", tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataFormatError, match="no files with the expected names"):
        library.add("some", tmp_path / "empty")
    (letor_folder / "Fold2" / "test.txt").unlink()
    with pytest.raises(DataFormatError, match="no test file for fold 2"):
        library.add("some", letor_folder)
    shutil.copytree(letor_folder / "Fold1", letor_folder / "again" / "Fold1")
    with pytest.raises(DataFormatError, match=r"two files for the test queries of fold 1: .* and .*again"):
        library.add("some", letor_folder)


def test_no_fold_folder_and_no_validation(letor_folder: Path) -> None:
    (letor_folder / "Fold1" / "vali.txt").unlink()
    report = library.add("some", letor_folder / "Fold1")
    assert list(report.folds) == [1]
    fold = Imported("some").fold(1)
    assert len(fold.validation) == 0
    assert fold.validation.features.shape == (0, fold.n_features)


def test_a_gap_in_the_folds(letor_folder: Path) -> None:
    (letor_folder / "Fold2").rename(letor_folder / "Fold3")
    with pytest.raises(DataFormatError, match=r"folds \[1, 3\]"):
        library.add("some", letor_folder)


def test_no_training_documents(letor_folder: Path) -> None:
    (letor_folder / "Fold1" / "train.txt").write_text("# nothing\n")
    with pytest.raises(DataFormatError, match="has no documents"):
        library.add("some", letor_folder)
