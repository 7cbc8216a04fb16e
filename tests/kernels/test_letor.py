"""The compiled parser and its twin agree on good and on bad text."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from tests.effort import examples
from tests.reference import datasets as reference

from duelrank.kernels import datasets as letor

number = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-1000, 1000).map(str),
    st.sampled_from(["1e5", "0.000000", ".5", "5.", "1e999", "nan", "inf", "", "x", "1_0", "0x1"]),
)
word = st.one_of(
    st.tuples(st.integers(0, 6), number).map(lambda pair: f"{pair[0]}:{pair[1]}"),
    st.sampled_from(["0", "2", "31", "-1", "qid:1", "qid:b", "qid:", "#", "#x", "1", ":", "a:1", "100001:1", "7:1:2"]),
)
blank = st.sampled_from([" ", " ", " ", "\t", "  ", ""])
good_line = st.builds(
    lambda label, query, features, comment: " ".join([label, query, *features]) + comment,
    st.sampled_from(["0", "1", "2", "007"]),
    st.sampled_from(["qid:1", "qid:2", "qid:a-b"]),
    st.lists(st.integers(1, 9), unique=True, max_size=5).flatmap(
        lambda ids: st.tuples(*[number.map(lambda value, i=i: f"{i}:{value}") for i in sorted(ids)])
    ),
    st.sampled_from(["", " # a comment", "#docid = 4:5", "\r", "   "]),
)
any_line = st.lists(st.tuples(word, blank), max_size=6).map(lambda pairs: "".join(a + b for a, b in pairs))
texts = st.lists(good_line | any_line, max_size=6).map(lambda lines: "".join(f"{line}\n" for line in lines).encode())


def parse(module: Any, text: bytes, rows: int, width: int) -> tuple[Any, ...]:
    data = np.frombuffer(bytearray(text or b"\n"), np.uint8)
    features, labels = np.full((rows, width), np.nan), np.full(rows, -1, np.int8)
    queries, undecided = np.zeros((rows, 3), np.int64), np.zeros((64, 4), np.int64)
    progress = np.zeros(5, np.int64)
    code = module.parse_lines(data, 0, len(text), features, labels, queries, undecided, progress)
    position, n_rows, n_queries, n_undecided, widest = progress.tolist()
    for row, column, start, stop in undecided[:n_undecided].tolist():
        features[row, column] = float(text[start:stop])
    return code, position, widest, features[:n_rows].tolist(), labels[:n_rows].tolist(), queries[:n_queries].tolist()


@examples(100)
@given(texts, st.integers(1, 5), st.integers(1, 10))
@example(b"1 qid:5 1:2 3:4.5 # x\n\n# y\n2 qid:5 2:1e3\r\n0 qid:7\n", 9, 9)
@example(b"0qid:1 1:1\n", 1, 1)
@example(b"0\n", 1, 1)
@example(b"0 qid:" + b"x" * 256 + b"\n", 1, 1)
@example(b"0 qid:a\x01b 1:1\n", 1, 1)
def test_twin(text: bytes, rows: int, width: int) -> None:
    assert parse(letor, text, rows, width) == parse(reference, text, rows, width)


@given(texts)
def test_highest_feature(text: bytes) -> None:
    data = np.frombuffer(bytearray(text or b"\n"), np.uint8)
    assert letor.highest_feature(data, 0, len(text)) == reference.highest_feature(data, 0, len(text))
