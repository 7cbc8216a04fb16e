"""Runs that begin with a log of production."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from duelrank.algorithms import Algorithm
from duelrank.core.grammar import parse
from duelrank.core.registry import spell
from duelrank.simulation import Feature, Logged, RunSpec, simulate
from duelrank.users import Cascade, Preset


@pytest.fixture
def spec(linear_data) -> RunSpec:
    return RunSpec(parse("mgd-dsp", Algorithm), linear_data(), Preset("navigational"), seed=3, impressions=60)


LOG = Logged(Feature(0), lists=400)


def test_a_log_is_part_of_the_digest_and_of_the_name(spec):
    logged = replace(spec, log=LOG)
    assert logged.digest != spec.digest
    assert spell(LOG) in logged.id
    assert parse(repr(LOG)) == LOG


def test_equal_specs_give_equal_records_and_the_row_says_which_log(spec):
    one, other = (simulate(replace(spec, log=LOG)) for _ in range(2))
    assert np.array_equal(one.online, other.online)
    assert one.row()["log"] == spell(LOG)
    assert one.row()["online_first"] == pytest.approx(one.online.mean())
    assert simulate(spec).row()["log"] == ""


def test_first_users_see_better_lists_than_without_a_log(spec):
    cold, warm = (
        np.mean([simulate(replace(spec, log=log, seed=seed)).online.mean() for seed in range(5)]) for log in (None, LOG)
    )
    assert warm > cold


def test_live_users_are_the_same_with_and_without_a_log(spec, monkeypatch):
    coins, plain = [], Cascade.click
    monkeypatch.setattr(Cascade, "click", lambda self, shown, s: (coins.append(s.tolist()), plain(self, shown, s))[1])
    simulate(spec)
    cold, coins = coins.copy(), coins.clear() or coins
    simulate(replace(spec, log=LOG))
    assert coins[LOG.lists :] == cold
    assert not any(coin in cold for coin in coins[: LOG.lists])


def test_a_log_has_no_depths(spec, monkeypatch):
    given = []
    monkeypatch.setattr("duelrank.learner.Learner.backfill", lambda self, log: given.extend(log))
    simulate(replace(spec, log=LOG, impressions=1))
    assert len(given) == LOG.lists
    assert all(feedback.examined is None for _, _, feedback in given)
    query, ranking, _ = given[0]
    assert np.array_equal(ranking, np.argsort(-query.features[:, 0], kind="stable")[:10])
