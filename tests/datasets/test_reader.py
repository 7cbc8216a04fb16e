"""The reader: exact, streaming, and strict."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from duelrank.core.errors import DataFormatError, MissingData
from duelrank.datasets import read_letor
from duelrank.datasets.reader import read_blocks
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
