"""Frames of invented runs, for the tests of tables, figures and reports; small runs, for those of executors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.tiny import Tiny

from duelrank import RunSpec, parse
from duelrank.experiments import Frame

NAMES = ("online", "offline", "update_norms", "trajectory")
BASES = {"mgd": "", "mgd-dsp": "mgd", "dbgd": ""}


def row(algorithm="mgd", user="perfect", dataset="mq2007", fold=1, seed=1, online=700.0, offline=0.5, **other):
    return {
        "id": f"{algorithm}/{user}/{dataset}/{fold}/{seed}",
        "digest": "0",
        "algorithm": algorithm,
        "base": BASES.get(algorithm, ""),
        "recipe": algorithm,
        "dataset": dataset,
        "user": user,
        "fold": fold,
        "seed": seed,
        "streams": 2,
        "impressions": 100,
        "length": 10,
        "metric": "nDCG@10",
        "split": "test",
        "data": "",
        "online_performance": online,
        "offline_performance": offline,
        "updates": 50,
        "seconds": 1.0,
        "evaluation_seconds": 0.5,
        "checkpoints": [1, 10, 100],
        "offline_curve": [offline - 0.2, offline - 0.1, offline],
        "online_curve": [1.0, 10.0, online],
        "cosine_curve": [0.0, 0.1, 0.2],
        **other,
    }


@pytest.fixture
def run() -> Callable[..., dict[str, Any]]:
    """Make one row of a frame; what is not given is the same in all of them."""
    return row


@pytest.fixture(scope="session")
def frame() -> Callable[..., Frame]:
    """Make a frame with n runs of everything, fold by fold; the same arguments give the same values."""

    def make(algorithms=tuple(BASES), users=("perfect", "informational"), datasets=("mq2007",), n=5, **other):
        random = np.random.default_rng(1)
        return Frame.of(
            row(a, u, d, fold=i + 1, online=700 + 40 * k + random.normal(), offline=0.5 + random.normal() / 50, **other)
            for d in datasets
            for u in users
            for k, a in enumerate(algorithms)
            for i in range(n)
        )

    return make


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
