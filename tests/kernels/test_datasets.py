"""Kernels of data sets against their references: numbers read exactly as Python reads them, lines, and scaling."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.effort import examples
from tests.reference import datasets as reference

from duelrank.kernels import datasets as kernels
from duelrank.kernels.datasets import EXACT, MALFORMED, UNDECIDED, nearest, read_number

finite = st.floats(allow_nan=False, allow_infinity=False)


def as_text(content: str) -> np.ndarray:
    return np.frombuffer(bytearray(content.encode() + b"\n"), np.uint8)


def same(one: float, other: float) -> bool:
    return struct.pack("d", one) == struct.pack("d", other)


def check_number(content: str) -> None:
    value, end, status = read_number(as_text(content), 0)
    assert end == len(content)
    assert status in (EXACT, UNDECIDED)
    if status == EXACT:
        assert same(value, float(content)), content
    else:
        assert sum(character.isdigit() for character in content) > 19


@given(finite)
@example(5e-324)
@example(2.2250738585072011e-308)
@example(1.7976931348623157e308)
@example(-0.0)
def test_every_float_reads_back(value: float) -> None:
    check_number(repr(value))


@given(finite, st.integers(1, 40), st.sampled_from("gef"))
def test_formatted_floats(value: float, digits: int, kind: str) -> None:
    if kind == "f" and abs(value) > 1e200:
        return
    check_number(f"{value:.{digits}{kind}}")


@given(st.from_regex(r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,4})?", fullmatch=True))
@example("9007199254740993")
@example("9007199254740992.999999999999999999999999")
@example("1e99999999999999999999")
@example("0e99999999999999999999")
@example("1.79769313486231571e+308")
@example("1.7976931348623159e308")
@example("2.4703282292062327e-324")
@example("2.4703282292062328e-324")
@example("0" * 400 + ".5")
@example("0." + "0" * 400 + "5e399")
def test_any_spelling(content: str) -> None:
    check_number(content)


@given(st.integers(0, 2**64 - 1), st.integers(-400, 400))
def test_eisel_lemire_alone(mantissa: int, exponent: int) -> None:
    assert same(nearest(np.uint64(mantissa), exponent), reference.nearest(mantissa, exponent))


@given(st.integers(2**52, 2**53 - 1), st.integers(1, 10))
def test_exact_ties_go_to_even(mantissa: int, power: int) -> None:
    check_number(str((2 * mantissa + 1) << power - 1))


def test_a_tie_of_many_digits_is_left_to_python() -> None:
    tie = 2**70 + 2**17  # halfway between two floats, and of 22 digits
    assert read_number(as_text(f"{tie}.000000000000000001"), 0)[2] == UNDECIDED


@pytest.mark.parametrize("content", ["", "+", "-", ".", "e5", "1e", "1e+", "--1", "inf", "nan", "-.e1", " 1"])
def test_malformed_numbers(content: str) -> None:
    assert read_number(as_text(content), 0)[2] == MALFORMED
    assert reference.read_number(as_text(content), 0)[2] == MALFORMED


@given(st.text(alphabet="0123456789+-.eE x", max_size=12))
def test_numbers_equal_their_reference(content: str) -> None:
    value, end, status = read_number(as_text(content), 0)
    wanted, wanted_end, wanted_status = reference.read_number(as_text(content), 0)
    assert (status == MALFORMED) == (wanted_status == MALFORMED)
    if status == EXACT:
        assert end == wanted_end
        assert same(value, wanted)


number = st.one_of(
    finite.map(repr),
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
def test_lines_equal_their_reference(text: bytes, rows: int, width: int) -> None:
    assert parse(kernels, text, rows, width) == parse(reference, text, rows, width)


@given(texts)
def test_highest_feature(text: bytes) -> None:
    data = np.frombuffer(bytearray(text or b"\n"), np.uint8)
    assert kernels.highest_feature(data, 0, len(text)) == reference.highest_feature(data, 0, len(text))


value = finite | st.sampled_from([0.0, 1.0, -1.0, 1.7976931348623157e308])


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    width = draw(st.integers(1, 4))
    columns = draw(st.lists(st.integers(0, width - 1), unique=True, min_size=1).map(sorted))
    features = draw(arrays(np.float64, (int(offsets[-1]), width), elements=value))
    return features, offsets, np.array(columns, np.int64)


@given(tables())
def test_scaling_equals_its_reference_and_stays_within_0_and_1(
    table: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    features, offsets, columns = table
    scaled = np.full((len(features), len(columns)), np.nan)
    wanted = scaled.copy()
    kernels.scale_queries(features, offsets, columns, scaled)
    reference.scale_queries(features, offsets, columns, wanted)
    np.testing.assert_array_equal(scaled, wanted)
    assert ((scaled >= 0) & (scaled <= 1)).all()


@given(arrays(np.float64, (3, 4), elements=value))
def test_scaling_one_query_equals_its_reference(features: np.ndarray) -> None:
    np.testing.assert_array_equal(kernels.scale_query(features), reference.scale_query(features))


def test_a_range_beyond_the_largest_float() -> None:
    largest = np.finfo(np.float64).max
    scaled = np.empty((3, 1))
    kernels.scale_queries(np.array([[-largest], [0.0], [largest]]), np.array([0, 3]), np.array([0]), scaled)
    assert scaled[:, 0].tolist() == [0.0, 0.5, 1.0]


@given(tables())
def test_varying_columns(table: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    features = table[0]
    if len(features) == 0:
        return
    varying, wanted = np.zeros(features.shape[1], np.bool_), np.zeros(features.shape[1], np.bool_)
    kernels.mark_varying(features, features[0].copy(), varying)
    reference.mark_varying(features, features[0], wanted)
    assert varying.tolist() == wanted.tolist() == [len(set(column)) > 1 for column in features.T]
