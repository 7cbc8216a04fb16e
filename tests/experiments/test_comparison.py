"""From records to rows: every number against its formula."""

from math import sqrt

import numpy as np
import pytest

from duelrank import MGD, Projected, Record, RunSpec, parse
from duelrank.experiments import Spread, compare
from duelrank.metrics import DISCOUNT

DATASET = parse("synthetic")


def record(algorithm, offline, online=(0.5, 0.25), fold=1, seed=1, user="perfect", seconds=3e-4):
    spec = RunSpec(algorithm, DATASET, parse(user), fold=fold, seed=seed, impressions=len(online))
    values = np.array(offline)
    checkpoints = np.arange(1, len(values) + 1)
    return Record(spec, np.array(online), checkpoints, values, np.zeros(2), np.zeros(3), seconds, 0.0)


def test_mean_and_sample_deviation():
    rows = compare(
        [record(MGD(), [0.2, 0.4]), record(MGD(), [0.2, 0.7], fold=2), record(MGD(), [0.2, 0.1], fold=3)]
    ).rows
    mean = (0.4 + 0.7 + 0.1) / 3
    std = sqrt(((0.4 - mean) ** 2 + (0.7 - mean) ** 2 + (0.1 - mean) ** 2) / (3 - 1))
    assert rows[0].offline.mean == pytest.approx(mean)
    assert rows[0].offline.std == pytest.approx(std)
    assert rows[0].online.mean == pytest.approx(0.5 + DISCOUNT * 0.25)
    assert rows[0].online.std == pytest.approx(0.0)
    assert rows[0].runs == 3


def test_one_run_has_no_deviation():
    assert Spread.of([0.5]) == Spread(0.5, None)


def test_change_is_against_the_base_with_the_same_user():
    records = [
        record(MGD(), [0.4]),
        record(Projected(MGD()), [0.5]),
        record(MGD(), [0.8], user="informational"),
        record(Projected(MGD()), [0.6], user="informational"),
    ]
    changes = {(row.algorithm, row.user): row.offline_change for row in compare(records).rows}
    assert changes["mgd-dsp", "perfect"] == pytest.approx(0.5 / 0.4 - 1)
    assert changes["mgd-dsp", "informational"] == pytest.approx(0.6 / 0.8 - 1)
    assert changes["mgd", "perfect"] is None


def test_no_change_without_the_base_itself():
    other = parse("mgd(n_candidates=5)")
    (_, row) = compare([record(other, [0.4]), record(Projected(MGD()), [0.5])]).rows
    assert (row.base, row.offline_change, row.online_change) == ("mgd", None, None)


def test_a_base_of_zero_has_no_relative_change():
    records = [record(MGD(), [0.0]), record(Projected(MGD()), [0.5])]
    assert compare(records).rows[1].offline_change is None


def test_microseconds_per_impression():
    records = [record(MGD(), [0.1], seconds=2e-4), record(MGD(), [0.1], seconds=4e-4, fold=2)]
    assert compare(records).rows[0].microseconds == pytest.approx((2e-4 / 2 + 4e-4 / 2) / 2 * 1e6)


def test_curves_are_means_per_checkpoint():
    (curve,) = compare([record(MGD(), [0.2, 0.4]), record(MGD(), [0.4, 0.8], fold=2)]).curves
    assert curve.impressions == (1, 2)
    assert curve.offline == pytest.approx(((0.2 + 0.4) / 2, (0.4 + 0.8) / 2))


def test_the_order_of_arrival_changes_nothing_to_the_bit():
    records = [record(MGD(), [0.1 * seed, 0.07 * seed], seed=seed) for seed in range(1, 9)]
    assert compare(records) == compare(records[::-1])


def test_best():
    comparison = compare([record(MGD(), [0.4]), record(Projected(MGD()), [0.5])])
    assert comparison.best("perfect", "offline") == 0.5
    assert comparison.users == ["perfect"]
