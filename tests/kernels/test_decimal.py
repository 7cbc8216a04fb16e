"""Numbers are read exactly as Python reads them."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.reference import datasets as reference

from duelrank.kernels.datasets import EXACT, MALFORMED, UNDECIDED, nearest, read_number


def as_text(content: str) -> np.ndarray:
    return np.frombuffer(bytearray(content.encode() + b"\n"), np.uint8)


def same(one: float, other: float) -> bool:
    return struct.pack("d", one) == struct.pack("d", other)


def check(content: str) -> None:
    value, behind, status = read_number(as_text(content), 0)
    assert behind == len(content)
    assert status in (EXACT, UNDECIDED)
    if status == EXACT:
        assert same(value, float(content)), content
    else:
        assert sum(character.isdigit() for character in content) > 19


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite)
@example(5e-324)
@example(2.2250738585072011e-308)
@example(1.7976931348623157e308)
@example(-0.0)
def test_every_float_reads_back(value: float) -> None:
    check(repr(value))


@given(finite, st.integers(1, 40), st.sampled_from("gef"))
def test_formatted_floats(value: float, digits: int, kind: str) -> None:
    if kind == "f" and abs(value) > 1e200:
        return
    check(f"{value:.{digits}{kind}}")


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
    check(content)


@given(st.integers(0, 2**64 - 1), st.integers(-400, 400))
def test_eisel_lemire_alone(mantissa: int, exponent: int) -> None:
    assert same(nearest(np.uint64(mantissa), exponent), reference.nearest(mantissa, exponent))


@given(st.integers(2**52, 2**53 - 1), st.integers(1, 10))
def test_exact_ties_go_to_even(mantissa: int, power: int) -> None:
    check(str((2 * mantissa + 1) << power - 1))


def test_a_tie_of_many_digits_is_left_to_python() -> None:
    tie = 2**70 + 2**17  # halfway between two floats, and of 22 digits
    assert read_number(as_text(f"{tie}.000000000000000001"), 0)[2] == UNDECIDED


@pytest.mark.parametrize("content", ["", "+", "-", ".", "e5", "1e", "1e+", "--1", "inf", "nan", "-.e1", " 1"])
def test_what_is_no_number(content: str) -> None:
    assert read_number(as_text(content), 0)[2] == MALFORMED
    assert reference.read_number(as_text(content), 0)[2] == MALFORMED


@given(st.text(alphabet="0123456789+-.eE x", max_size=12))
def test_twin(content: str) -> None:
    value, behind, status = read_number(as_text(content), 0)
    twin_value, twin_behind, twin_status = reference.read_number(as_text(content), 0)
    assert (status == MALFORMED) == (twin_status == MALFORMED)
    if status == EXACT:
        assert behind == twin_behind
        assert same(value, twin_value)
