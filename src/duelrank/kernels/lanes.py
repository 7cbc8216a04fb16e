"""Dot products in eight lanes: vector instructions whose results do not depend on the width of the vector registers.

A compiler that may reorder sums does so depending on the processor. So the instructions for eight lanes are written out here. LLVM
maps them to registers of two, four or eight numbers, with the same results to the bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from duelrank.core.compiling import intrinsic
from duelrank.kernels import Floats

_LANES = 8


def _typed_lane_dot(_: Any, a: Any, b: Any) -> Any:
    from numba.core import types

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one, other = (_array(context, builder, *each) for each in zip(signature.args, arguments, strict=True))
        return _emit_sums(builder, builder.extract_value(one.shape, 0), [one.data], [other.data])[0]

    return types.float64(a, b), emit


@intrinsic(_typed_lane_dot)
def lane_dot(a: Floats, b: Floats) -> float:
    """Return a · b. Lane l sums the products l, l + 8, …; then the upper half of the lanes is added to the lower until one is left.

    After each halving, the next products are added if there are enough for all lanes.
    """
    lanes, done = np.zeros(_LANES), 0
    while True:
        while len(a) - done >= len(lanes):
            lanes = lanes + a[done : done + len(lanes)] * b[done : done + len(lanes)]
            done += len(lanes)
        if len(lanes) == 1:
            return float(lanes[0])
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]


def _typed_lane_dots(_: Any, rows: Any, i: Any, others: Any, j: Any, table: Any) -> Any:
    from numba.core import types

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, i, others, j, table = (
            _array(context, builder, kind, value) if hasattr(kind, "layout") else value
            for kind, value in zip(signature.args, arguments, strict=True)
        )
        length, width = (builder.extract_value(array.shape, 1) for array in (rows, table))
        upper = [_address(builder, rows.data, i, n, length) for n in range(2)]
        lower = [_address(builder, others.data, j, n, length) for n in range(2)]
        for n, total in enumerate(_emit_sums(builder, length, upper, lower)):
            row = _address(builder, table.data, i, n // 2, width)
            builder.store(total, _address(builder, row, j, n % 2, width.type(1)))
        return context.get_dummy_value()

    return types.void(rows, i, others, j, table), emit


@intrinsic(_typed_lane_dots)
def lane_dots(rows: Floats, i: int, others: Floats, j: int, table: Floats) -> None:
    """Set table[i : i + 2, j : j + 2] to the products of two rows with two others, by `lane_dot`; each number is loaded once."""
    for one in (i, i + 1):
        for other in (j, j + 1):
            table[one, other] = lane_dot(rows[one], others[other])


def _array(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return numba's structure of an array, with its shape and the address of its first number."""
    from numba.np.arrayobj import make_array

    if kind.layout != "C":
        raise TypeError("sums in lanes need contiguous arrays")
    return make_array(kind)(context, builder, value)  # type: ignore[no-untyped-call]


def _address(builder: Any, data: Any, first: Any, n: int, length: Any) -> Any:
    """Return the address of row ``first + n``, for rows of a given length."""
    return builder.gep(data, [builder.mul(builder.add(first, first.type(n)), length)])


def _emit_sums(builder: Any, length: Any, rows: list[Any], others: list[Any]) -> list[Any]:
    """Emit the instructions of `lane_dot` for all pairs of rows and others, given by their addresses."""
    from llvmlite import ir
    from numba.core import cgutils

    pairs = [(row, other) for row in rows for other in others]
    sums = [ir.VectorType(ir.DoubleType(), _LANES)([0.0] * _LANES)] * len(pairs)
    width, start = _LANES, length.type(0)
    while True:
        kind = ir.VectorType(ir.DoubleType(), width)
        places = [cgutils.alloca_once_value(builder, value) for value in sums]  # type: ignore[no-untyped-call]
        stop = builder.and_(length, length.type(-width))
        with cgutils.for_range_slice(builder, start, stop, length.type(width)) as (k, _):
            loaded = {
                data: builder.load(builder.bitcast(builder.gep(data, [k]), kind.as_pointer()), align=8)
                for data in (*rows, *others)
            }
            for place, (row, other) in zip(places, pairs, strict=True):
                builder.store(builder.fadd(builder.load(place), builder.fmul(loaded[row], loaded[other])), place)
        sums = [builder.load(place) for place in places]
        if width == 1:
            return [builder.extract_element(value, ir.IntType(32)(0)) for value in sums]
        width, start = width // 2, stop
        lower, upper = (ir.VectorType(ir.IntType(32), width)(list(range(n, n + width))) for n in (0, width))
        sums = [builder.fadd(builder.shuffle_vector(v, v, lower), builder.shuffle_vector(v, v, upper)) for v in sums]
