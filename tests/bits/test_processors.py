"""Runs, data sets, snapshots and replays are equal to the bit on all processors, here in processes that imitate other ones.

Numba compiles for a named processor; numpy, the C library and OpenBLAS do without the instructions that a variable names. So a test
on one machine sees what others would compute, except that a processor cannot imitate one that has more than it has itself.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

DIGESTS = Path(__file__).with_name("digests.py")


def numba_target(name: str) -> dict[str, str]:
    return {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""}


def without_vectors() -> dict[str, str]:
    """Return variables for an old processor: no fused multiplication in the C library, no wide registers in numpy."""
    dispatched = " ".join(np._core._multiarray_umath.__cpu_dispatch__)
    return {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-AVX2,-AVX512F", "NPY_DISABLE_CPU_FEATURES": dispatched}


PROCESSORS = {
    "this one": {},
    "x86-64-v2": numba_target("x86-64-v2") | without_vectors() | {"OPENBLAS_CORETYPE": "NEHALEM"},
    "x86-64-v3": numba_target("x86-64-v3") | {"OPENBLAS_CORETYPE": "HASWELL"},
    "x86-64-v4": numba_target("x86-64-v4") | {"OPENBLAS_CORETYPE": "SKYLAKEX"},
    "another BLAS": {"OPENBLAS_CORETYPE": "SANDYBRIDGE", "OPENBLAS_NUM_THREADS": "2"},
}


@cache
def known_features() -> frozenset[str]:
    import llvmlite.binding as llvm

    return frozenset(name for name, there in llvm.get_host_cpu_features().items() if there)


def skip_unless_it_runs_here(processor: str) -> None:
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("imitates x86-64 processors only on one of them")
    needed = {"x86-64-v3": {"avx2", "fma"}, "x86-64-v4": {"avx512f", "avx512bw", "avx512vl"}}.get(processor, set())
    if not needed <= known_features():
        pytest.skip(f"this processor lacks {', '.join(sorted(needed - known_features()))}")


@cache
def digests(processor: str) -> dict[str, str]:
    environment = os.environ | PROCESSORS[processor] | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, DIGESTS], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("processor", [name for name in PROCESSORS if name != "this one"])
def test_all_processors_give_the_same_bits(processor):
    skip_unless_it_runs_here(processor)
    assert digests(processor) == digests("this one")
