"""Searches in lockstep: they work, and none goes on with runs of another engine or device."""

import pytest

pytest.importorskip("optuna", reason="the extra 'tune' is not installed")

from tests.experiments.tuning.test_search import search

from duelrank.core.errors import InvalidValue
from duelrank.experiments import load_results, tune
from duelrank.lockstep import engine


def test_in_lockstep(tmp_path):
    found = search(tmp_path / "a", trials=3, folds=1, device="lockstep")
    assert set(load_results(tmp_path / "a")["device"].tolist()) == {"cpu, in lockstep"}
    assert len(found.trials) == 3


@pytest.mark.parametrize("recipe", ["pdgd", "query-scaled >> curves(pieces=2) >> pdgd"])
def test_data_sets_with_different_numbers_of_features(tmp_path, recipe):
    small = "few-features(n_queries=20), many-features(n_queries=20, n_features=90), few-relevant(n_queries=20)"
    how = {"trials": 2, "folds": 1, "vary": ["learning_rate"], "objective": "reward,validation,worst,floor"}
    found = tune(recipe, small, users="perfect", impressions=20, out=tmp_path, device="lockstep", **how)
    assert len(found.measured) == 3
    assert found.reference.floor <= found.reference.value <= 1.0


@pytest.fixture
def other_device(monkeypatch):
    """Make runs in lockstep on the CPU count as those of another device."""
    monkeypatch.setattr(engine, "device_name", lambda: "some accelerator")


def test_a_search_does_not_go_on_with_another_engine(tmp_path):
    search(tmp_path / "a", trials=2, folds=1)
    before = (tmp_path / "a" / "study.log").read_bytes()
    with pytest.raises(InvalidValue, match="were made on cpu, not on cpu, in lockstep, and runs of two devices"):
        search(tmp_path / "a", trials=4, folds=1, device="lockstep")
    assert (tmp_path / "a" / "study.log").read_bytes().startswith(before)
    assert len(search(tmp_path / "a", trials=3, folds=1).trials) == 3  # none had begun on the other one


def test_nor_on_another_device(tmp_path, request):
    search(tmp_path / "a", trials=2, folds=1, device="lockstep")
    request.getfixturevalue("other_device")
    with pytest.raises(InvalidValue, match="were made on cpu, in lockstep, not on some accelerator"):
        search(tmp_path / "a", trials=4, folds=1, device="lockstep")
