"""Tests of the lockstep engine: on JAX for CPU, in double precision; skipped with a reason where JAX is not installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'duelrank[lockstep]'")


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    """Compare with kernels in their own precision."""
    with jax.enable_x64(True):
        yield
