"""The reader: exact, streaming and strict; folders and archives of all kinds give the same set, and damage is noticed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from duelrank.core.errors import DataFormatError, MissingData
from duelrank.datasets import Imported, library, read_letor
from duelrank.datasets.reader import read_blocks, split_of
from duelrank.kernels.datasets import MAX_FEATURE


def read(tmp_path: Path, text: str | bytes, **options: int):  # type: ignore[no-untyped-def]
    path = tmp_path / "some.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_letor(path, **options)


@pytest.mark.parametrize("seed", range(5))
def test_equal_to_scikit_learn(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    features = random.normal(size=(200, 17)) * 10.0 ** random.integers(-20, 20, size=(200, 17))
    features[random.random(features.shape) < 0.3] = 0.0
    queries = np.repeat(np.arange(20), 10)
    path = tmp_path / "random.txt"
    dump_svmlight_file(features, random.integers(0, 5, 200), str(path), zero_based=False, query_id=queries)
    found = read_letor(path, n_features=17)
    expected, labels, query_ids = load_svmlight_file(str(path), n_features=17, zero_based=False, query_id=True)
    assert np.array_equal(found.features, expected.toarray())
    assert np.array_equal(found.labels, labels)
    assert np.array_equal(np.repeat(found.ids.astype(int), np.diff(found.offsets)), query_ids)


@pytest.mark.parametrize("chunk_bytes", [2, 3, 17, 64, 1000])
def test_any_chunk_size_reads_the_same(tmp_path: Path, chunk_bytes: int) -> None:
    lines = [f"{i % 4} qid:{i // 3} {1 + i % 2}:{i / 7!r} {5 + i}:1e-3 # {i}" for i in range(40)]
    text = "\n\n# only a comment\n".join(lines)
    whole, pieces = read(tmp_path, text), read(tmp_path, text, chunk_bytes=chunk_bytes)
    for name in ("features", "labels", "offsets", "ids"):
        assert np.array_equal(getattr(whole, name), getattr(pieces, name))


def test_what_is_tolerated(tmp_path: Path) -> None:
    split = read(tmp_path, "\r\n# first\n2\tqid:a  1:1.5 3:2\r\n   0 qid:a\n1 qid:ü-7 2:.5#x\n1 qid:z 4:-1e-5")
    assert split.features.tolist() == [[1.5, 0, 2, 0], [0, 0, 0, 0], [0, 0.5, 0, 0], [0, 0, 0, -1e-5]]
    assert split.labels.tolist() == [2, 0, 1, 1]
    assert split.offsets.tolist() == [0, 2, 3, 4]
    assert [split.query(i).id for i in range(3)] == ["a", "ü-7", "z"]


def test_numbers_that_only_python_can_decide(tmp_path: Path) -> None:
    tie = f"{2**70 + 2**17}.000000000000000001"
    text = "".join(f"0 qid:1 {' '.join(f'{i + 1}:{tie}' for i in range(300))}\n" for _ in range(3))
    assert (read(tmp_path, text).features == float(tie)).all()


BAD = {
    "-1 qid:1 1:1": ("'-1'", "a label: a whole number from 0 to 30"),
    "31 qid:1 1:1": ("'31'", "a label"),
    "1.5 qid:1 1:1": ("'1.5'", "a label"),
    "x": ("'x'", "a label"),
    "1": ("'1'", "a label"),
    "1 1:1": ("'1:1'", "'qid:' and the name of the query"),
    "1 qid: 1:1": ("'qid:'", "'qid:' and the name"),
    "1 qid:" + "x" * 300 + " 1:1": ("'qid:xxxx", "at most 255 bytes"),
    "1 qid:1 0:1": ("'0:1'", "a feature 'number:value' with a number from 1 to 100,000"),
    "1 qid:1 a:1": ("'a:1'", "a feature"),
    "1 qid:1 5": ("'5'", "a feature"),
    f"1 qid:1 {MAX_FEATURE + 1}:1": ("'100001:1'", "a feature"),
    "1 qid:1 2:1 2:1": ("'2:1'", "ascending order"),
    "1 qid:1 2:1 1:1": ("'1:1'", "ascending order"),
    "1 qid:1 1:nan": ("'1:nan'", "a finite number"),
    "1 qid:1 1:inf": ("'1:inf'", "a finite number"),
    "1 qid:1 1:1e999": ("'1:1e999'", "a finite number"),
    "1 qid:1 1:NULL": ("'1:NULL'", "a finite number"),
    "1 qid:1 1:": ("'1:'", "a finite number"),
    "1 qid:1 1:1x": ("'1:1x'", "a finite number"),
    "1 qid:1 1:1\n0 qid:2 1:1\n0 qid:1 1:1": ("'1'", "consecutive lines"),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_lines_are_named(tmp_path: Path, bad: str) -> None:
    found, expected = BAD[bad]
    with pytest.raises(DataFormatError) as raised:
        read(tmp_path, f"0 qid:0 1:1\n\n{bad}\n0 qid:9 1:1\n", chunk_bytes=32)
    line = 3 + bad.count("\n")
    message = str(raised.value)
    assert message.startswith(f"{tmp_path / 'some.txt'}, line {line}: found {found}")
    assert expected in message


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n"])
def test_no_documents(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataFormatError, match="has no documents"):
        read(tmp_path, text)


def test_not_text_at_all(tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match="line 1: found"):
        read(tmp_path, bytes(range(256)) * 10)
    with pytest.raises(DataFormatError, match="UTF-8"):
        read(tmp_path, b"0 qid:\xff\xfe 1:1\n")


def test_a_line_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duelrank.datasets.reader.LONGEST_LINE", 1 << 12)
    with pytest.raises(DataFormatError, match="line 1: found no end within"):
        list(read_blocks(io.BytesIO(b"0 qid:1 1:" + b"0" * 100_000), "endless", chunk_bytes=64))


def test_blocks_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duelrank.datasets.reader.BLOCK_BYTES", 1 << 20)
    text = b"".join(b"0 qid:%d 90000:1\n" % i for i in range(50))
    blocks = [block.features.nbytes for block in read_blocks(io.BytesIO(text), "wide")]
    assert sum(blocks) == 50 * 90_000 * 8
    assert max(blocks) <= 1 << 20


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="does not exist"):
        read_letor(tmp_path / "absent.txt")


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
def test_the_split_of_a_file(path: str, where: tuple[int, str] | None) -> None:
    assert split_of(PurePosixPath(path)) == where


def test_prefix_chooses_one_set() -> None:
    assert split_of(PurePosixPath("set2.train.txt"), "set2") == (1, "train")
    assert split_of(PurePosixPath("set1.train.txt"), "set2") is None
    assert split_of(PurePosixPath("train.txt"), "set2") is None


def tar(mode: str) -> Callable[[Path, Path], Path]:
    def make(folder: Path, target: Path) -> Path:
        path = target / "set.bin"  # the content decides, not the name
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
