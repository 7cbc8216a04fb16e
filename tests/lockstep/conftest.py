"""Tests of the lockstep engine: on JAX for CPU, in double precision; skipped with a reason where JAX is not installed."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

# Most of the time goes into compiling, which takes half as long without optimizations; JAX reads this when it is imported.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'duelrank[lockstep]'")


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    """Compare with kernels in their own precision."""
    with jax.enable_x64(True):
        yield
