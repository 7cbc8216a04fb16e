"""A long tail: queries as popular as Zipf's law says, in an order that stays, and everything else as in the base."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from duelrank import parse, simulate
from duelrank.core.errors import InvalidRecipe, InvalidValue, MissingData
from duelrank.core.registry import spell
from duelrank.datasets import Dataset, Imported, LongTail, Synthetic, add
from duelrank.experiments import Grid, Store, run_all
from duelrank.experiments.pipeline import collect, plan
from duelrank.experiments.suite import load_suite
from duelrank.simulation import RunSpec

BASE = Synthetic(n_queries=20)


def popularity(dataset: LongTail, number: int = 1) -> np.ndarray:
    found = dataset.fold(number).popularity
    assert found is not None
    return found


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0])
def test_popularity_falls_with_its_rank_as_a_power(exponent: float) -> None:
    found = np.sort(popularity(LongTail(BASE, exponent)))[::-1]
    np.testing.assert_allclose(found, 1.0 / np.arange(1, 21) ** exponent)


def test_the_order_is_random_but_fixed() -> None:
    def order(seed: int, number: int = 1) -> list[int]:
        return np.argsort(-popularity(LongTail(BASE, seed=seed), number)).tolist()

    assert order(0) == order(0)
    assert sorted(order(0)) == list(range(20))
    others = [order(1), order(2), order(0, number=2), list(range(20))]
    assert order(0) not in others


def test_the_exponent_does_not_change_the_order() -> None:
    orders = [np.argsort(-popularity(LongTail(BASE, exponent))).tolist() for exponent in (0.5, 2.0)]
    assert orders[0] == orders[1]


def test_all_else_is_the_base() -> None:
    fold, plain = LongTail(BASE).fold(2), BASE.fold(2)
    assert (fold.train, fold.validation, fold.test) == (plain.train, plain.validation, plain.test)
    assert fold.n_grades == plain.n_grades
    assert plain.popularity is None
    assert LongTail(BASE).n_folds == BASE.n_folds


def test_an_imported_set(letor_folder: Path) -> None:
    add("mine", letor_folder)
    assert popularity(LongTail(Imported("mine"))).shape == (4,)
    assert LongTail(Imported("mine")).n_folds == 2
    with pytest.raises(MissingData, match="duelrank data add mq2008"):
        LongTail(Imported("mq2008")).fold(1)


def test_wrong_folds_and_parameters() -> None:
    with pytest.raises(InvalidValue, match="from 1 to 5"):
        LongTail(BASE).fold(6)
    for wrong in ({"exponent": -1.0}, {"seed": -1}, {"base": None}):
        with pytest.raises(InvalidRecipe):
            LongTail(**({"base": BASE} | wrong))  # type: ignore[arg-type]
    with pytest.raises(InvalidRecipe, match="LongTail needs a value for base"):
        parse("LongTail()")


def test_from_text_and_back() -> None:
    assert parse("LongTail(synthetic, exponent=1.2)", Dataset) == LongTail(Synthetic(), 1.2)
    dataset = LongTail(Imported("mq2008"), seed=3)
    assert parse(repr(dataset)) == parse(spell(dataset)) == dataset
    assert "mq2008" in spell(dataset)
    assert "synthetic" in spell(LongTail(Synthetic()))  # the base is named even where it is the usual one


def test_specs_differ_by_every_field() -> None:
    datasets = [LongTail(BASE), LongTail(BASE, 1.5), LongTail(BASE, seed=1), LongTail(Synthetic(n_queries=21)), BASE]
    digests = {RunSpec(parse("mgd"), dataset, parse("perfect")).digest for dataset in datasets}
    assert len(digests) == len(datasets)
    assert pickle.loads(pickle.dumps(datasets)) == datasets


@pytest.mark.processes
def test_workers_see_the_same_popularity() -> None:
    grid = Grid((parse("mgd"),), LongTail(BASE, 1.5), (parse("pbm"), parse("dbn")), runs=1, impressions=40)
    for record in run_all(grid.specs(), workers=2):
        here = simulate(record.spec)
        assert here.online.tobytes() == record.online.tobytes()
        assert here.weights.tobytes() == record.weights.tobytes()


def test_results_are_kept_under_a_name_that_parses(tmp_path: Path) -> None:
    asked = "LongTail(Synthetic(n_queries=20), exponent=1.5)"
    wanted = plan(load_suite("quick"), datasets=[asked], users=["dcm"], algorithms=["mgd"], runs=1, impressions=30)
    with Store(tmp_path / "results", "quick") as store:
        frame = collect(wanted, store, workers=1)
        assert not store.missing(wanted.specs())
    assert [parse(name) for name in frame["dataset"].tolist()] == [LongTail(BASE, 1.5)]
    assert frame["user"].tolist() == ["dcm"]
