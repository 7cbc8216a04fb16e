"""Small runs, for the tests of executors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.tiny import Tiny

from duelrank import RunSpec, parse

NAMES = ("online", "offline", "update_norms", "trajectory")


@pytest.fixture
def specs() -> Callable[..., list[RunSpec]]:
    """Make n runs of each algorithm on tiny data."""

    def make(*algorithms, impressions=300, n=1):
        user = parse("perfect")
        return [RunSpec(a, Tiny(), user, fold=f, impressions=impressions) for f in range(1, n + 1) for a in algorithms]

    return make


@pytest.fixture
def contents() -> Callable[..., dict]:
    """Return the numbers of records, to the bit, by spec."""

    def collect(records):
        return {record.spec: [getattr(record, name).tobytes() for name in NAMES] for record in records}

    return collect
