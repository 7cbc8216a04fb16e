"""Whole runs in lockstep: records as those of `simulate`, the same for a run alone and among others, and what cannot run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from duelrank import parse
from duelrank.algorithms import Algorithm
from duelrank.core.errors import InvalidValue
from duelrank.core.randomness import stream
from duelrank.datasets import Dataset, LongTail, Split
from duelrank.experiments.executors import run_all
from duelrank.lockstep import Lockstep, metrics, program, why_not
from duelrank.lockstep.draws import Draws
from duelrank.lockstep.engine import _in_chunks
from duelrank.lockstep.library import alias_table, load
from duelrank.lockstep.program import alike, batches, evaluate, padded_count
from duelrank.lockstep.ranking import linear_scores
from duelrank.lockstep.twin import Sizes, twin_of
from duelrank.metrics import nDCG
from duelrank.metrics import offline_performance as evaluate_on_cpu
from duelrank.simulation import RunSpec, simulate

NDCG = nDCG(cutoff=10)
SIZES = Sizes(columns=5, widest=14, length=10, rankers=10)


@pytest.fixture
def spec(linear_data) -> RunSpec:
    """A short run that needs no files; some queries have fewer documents than a list has positions."""
    return RunSpec("pdgd", linear_data(), "navigational", impressions=60)


def same(one, other) -> bool:
    names = ("online", "offline", "update_norms", "trajectory")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def test_a_record_is_as_that_of_the_cpu_engine(spec):
    (mine,), theirs = list(Lockstep("double").run([spec])), simulate(spec)
    for name in ("online", "checkpoints", "offline", "update_norms", "trajectory"):
        assert getattr(mine, name).shape == getattr(theirs, name).shape
    assert mine.row().keys() == theirs.row().keys()
    assert (mine.row()["digest"], theirs.row()["device"]) == (theirs.row()["digest"], "cpu")
    assert mine.device != "cpu"
    assert 0.0 < mine.online.mean() <= 1.0
    assert np.count_nonzero(mine.update_norms) > 10


def test_a_run_is_the_same_again_and_among_other_runs(spec):
    others = [
        replace(spec, seed=2),
        replace(spec, user="perfect", fold=2),
        replace(spec, algorithm="pdgd(learning_rate=0.3)"),
    ]
    alone = next(Lockstep("double").run([spec]))
    assert same(alone, next(Lockstep("double").run([spec])))
    records = {record.spec: record for record in Lockstep("double").run([*others, spec])}
    assert np.allclose(records[spec].trajectory, alone.trajectory, rtol=1e-9, atol=1e-12)
    assert not any(same(records[other], records[spec]) for other in others)


def test_runs_of_two_folds_share_no_random_numbers(spec, linear_data, monkeypatch):
    """With equal data in both folds, shared numbers would give equal runs."""
    fold = linear_data.fold
    monkeypatch.setattr(linear_data, "fold", lambda self, number=1: fold(self))
    one, other = Lockstep("double").run([spec, replace(spec, fold=2)])
    assert not same(one, other)


@pytest.mark.parametrize(
    "algorithm",
    ["mgd(ties='separate', initial='random')", "nsgd(avoided=2)", "query-scaled >> curves(sample=10) >> mgd"],
)
def test_a_run_does_not_depend_on_larger_queries_and_more_features_in_its_batch(spec, algorithm):
    spec = replace(spec, algorithm=algorithm, dataset="synthetic(n_queries=20, n_documents=12, n_features=5)")
    larger = replace(spec, dataset="synthetic(n_queries=20, n_documents=17, n_features=6)")
    assert len(alike([spec, larger])) == (2 if "curves" in algorithm else 1)
    alone = next(Lockstep("double").run([spec]))
    records = {record.spec: record for record in Lockstep("double").run([larger, spec])}
    assert np.allclose(records[spec].trajectory, alone.trajectory, rtol=1e-9, atol=1e-12)
    assert np.array_equal(records[spec].online, alone.online)
    assert np.array_equal(records[spec].offline, alone.offline)


def test_a_memory_without_strength_changes_nothing_and_a_run_has_the_memory_of_its_own_fold(spec):
    """Folds share one table of documents; a run of the second fold must be the same alone and among others."""
    forgetful = replace(spec, algorithm="remember(strength=0) >> log-pairs", fold=2)
    remembers = replace(spec, algorithm="remember(half_life=9, curious=0.1) >> log-pairs", fold=2)
    alone = {each.spec: each for run in (forgetful, remembers) for each in Lockstep("double").run([run])}
    others = [replace(remembers, fold=fold, seed=7) for fold in (1, 2)]
    together = {each.spec: each for each in Lockstep("double").run([*others, forgetful, remembers])}
    for run in (forgetful, remembers):
        assert np.array_equal(together[run].online, alone[run].online)
        np.testing.assert_allclose(together[run].trajectory, alone[run].trajectory, rtol=1e-9, atol=1e-12)
    (plain,) = Lockstep("double").run([replace(forgetful, algorithm="log-pairs")])
    assert np.array_equal(plain.online, alone[forgetful].online)
    np.testing.assert_allclose(plain.trajectory, alone[forgetful].trajectory, rtol=1e-9, atol=1e-12)
    assert not np.array_equal(plain.online, alone[remembers].online)


def test_a_record_has_the_queries_of_its_own_fold_by_their_popularity(spec):
    spec = replace(spec, dataset="LongTail(synthetic(n_queries=20), exponent=2)", impressions=400)
    for record in Lockstep("double").run([spec, replace(spec, fold=2)]):
        popularity = record.spec.dataset.fold(record.spec.fold).popularity
        shares = np.bincount(record.queries, minlength=20) / 400
        assert np.abs(shares - popularity / popularity.sum()).max() < 0.1
        assert sum(record.row()["lists_by_views"]) == 400


def test_weights_are_evaluated_as_on_the_cpu(linear_data):
    data, rng = linear_data(), np.random.default_rng(3)
    library = load([(data, 1)], NDCG, "test", np.float64)
    weights = rng.standard_normal((5, 5))
    numbers = metrics.numbers_of(NDCG, 20, library.grades)
    shelf = library.held_out[data, 1]
    keys, when = np.ones((5, 2), np.uint32), np.arange(5, dtype=np.int32)
    found = evaluate(linear_scores, shelf, numbers, weights, keys, when, int(shelf.sizes.max()))
    expected = [evaluate_on_cpu(row, data.fold(1).test, NDCG, stream(1, "evaluation")) for row in weights]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_what_cannot_run_says_why(spec):
    for name in ("pdgd", "log-pairs", "pairrank", "wmgd-dsp(examination=DependentClick(forgetting=1.0))"):
        assert why_not(replace(spec, algorithm=name)) == []
    assert why_not(replace(spec, algorithm="mgd(credit='sampled')")) == [
        "Probabilistic(credit='sampled') has no lockstep twin, only exact credit"
    ]
    assert why_not(replace(spec, algorithm="mgd(multileaver=PairwisePreference())", metric="MAP")) == [
        "PairwisePreference has no lockstep twin",
        "MAP has no lockstep twin",
    ]
    assert why_not(replace(spec, user="ubm")) == ["UBM has no lockstep twin"]
    assert why_not(replace(spec, dataset="Drifting(start=5)")) == [
        "grades that change during a run have no lockstep twin"
    ]
    assert why_not(replace(spec, guard="Guarded()")) == ["a guard has no lockstep twin"]
    assert why_not(replace(spec, algorithm="Projected(Remembered(PDGD()))")) == [
        "a memory within Projected has no lockstep twin"
    ]
    n_queries = len(spec.dataset.fold(1).train)
    assert why_not(replace(spec, algorithm=f"remember(queries={n_queries}) >> pdgd")) == []
    assert why_not(replace(spec, algorithm=f"remember(queries={n_queries - 1}) >> pdgd")) == [
        f"a memory of fewer than all {n_queries} training queries has no lockstep twin"
    ]


@pytest.mark.parametrize("popularity", [[1.0] * 6, [0.0, 1.0, 5.0, 0.0, 0.25, 2.0], [0.0, 0.0, 3.0], [7.0]])
def test_the_table_of_a_popularity_gives_its_shares(popularity):
    shares = np.array(popularity) / np.sum(popularity)
    stays, others = alias_table(np.array(popularity))
    found = np.zeros(len(shares))
    np.add.at(found, np.arange(len(shares)), stays / len(shares))
    np.add.at(found, others, (1.0 - stays) / len(shares))
    np.testing.assert_allclose(found, shares, atol=1e-15)
    assert not found[shares == 0.0].any()


def test_queries_are_drawn_by_their_popularity_in_the_program_of_uniform_ones(spec):
    tail, flat = (replace(spec, dataset=LongTail(spec.dataset, exponent=exponent)) for exponent in (1.5, 0.0))
    assert why_not(tail) == []
    library = load([(each.dataset, 1) for each in (spec, tail)], NDCG, "test", np.float64)
    shares = tail.dataset.fold(1).popularity
    runs = SimpleNamespace(first=np.int32(library.first[tail.dataset, 1]), count=np.int32(len(shares)))
    key = jnp.array([1, 2], jnp.uint32)
    draw = jax.vmap(lambda t: program._drawn(runs, library.popularity, Draws(key, t, jnp.float32)))
    counts = np.bincount(np.asarray(jax.jit(draw)(jnp.arange(40_000))) - runs.first, minlength=len(shares))
    expected = 40_000 * shares / shares.sum()
    assert ((counts - expected) ** 2 / expected).sum() < 2.0 * len(shares) + 20.0  # χ²
    records = {record.spec: record for record in Lockstep("double").run([spec, tail, flat])}
    assert len(alike([spec, tail, flat])) == 1
    assert np.array_equal(next(Lockstep("double").run([spec])).online, records[spec].online)
    assert not np.array_equal(records[tail].online, records[spec].online)


def test_runs_without_a_twin_run_on_the_cpu(spec, caplog):
    wanted = [spec, replace(spec, algorithm="cascade-ucb1")]
    records = {record.spec: record for record in run_all(wanted, workers=1, device="lockstep")}
    assert [records[each].device for each in wanted] == ["cpu, in lockstep", "cpu"]
    assert "cascade-ucb1 runs on the CPU: CascadeUCB1 has no lockstep twin" in caplog.text


def test_a_gpu_that_is_not_there_is_an_error(spec, monkeypatch):
    monkeypatch.setattr("jax.default_backend", lambda: "cpu")
    with pytest.raises(InvalidValue, match="JAX finds no accelerator"):
        list(run_all([spec], device="gpu"))
    with pytest.raises(InvalidValue, match="device must be cpu, gpu or lockstep"):
        list(run_all([spec], device="tpu"))


def test_batches_hold_what_fits_and_groups_what_is_alike(spec, linear_data, monkeypatch):
    specs = [replace(spec, seed=seed) for seed in range(10)]
    library = load([(spec.dataset, 1)], NDCG, "test", np.float64)
    assert [len(batch) for batch in batches(specs, library, SIZES)] == [10]
    assert [len(batch) for batch in batches(specs, library, SIZES, room=1 << 28)] == [4, 4, 2]
    monkeypatch.setattr("duelrank.lockstep.program._MOST_RUNS", 4)
    assert [len(batch) for batch in batches(specs, library, SIZES)] == [4, 4, 2]
    wide = replace(spec, dataset=linear_data(n_features=40))
    near = replace(spec, dataset=linear_data(n_features=7))
    assert [len(group) for group in alike([spec, wide, near])] == [2, 1]
    assert [padded_count(n) for n in (1, 2, 3, 5, 9, 13, 45)] == [1, 2, 3, 6, 12, 16, 48]


def test_only_folds_that_run_are_opened(spec, linear_data, monkeypatch):
    opened = []
    fold = linear_data.fold
    monkeypatch.setattr(linear_data, "fold", lambda self, number=1: opened.append(number) or fold(self, number))
    alike([replace(spec, fold=2), replace(spec, fold=2, seed=2)])
    assert opened == [2]


def test_a_fold_without_queries_is_an_error_as_on_the_cpu(linear_data):
    spec = RunSpec("pdgd", linear_data(n_queries=0), "perfect", split="validation", impressions=5)
    with pytest.raises(InvalidValue, match="has no training or no validation queries") as theirs:
        simulate(spec)
    with pytest.raises(InvalidValue) as mine:
        list(Lockstep("double").run([spec]))
    assert str(mine.value) == str(theirs.value)


def test_lists_may_be_longer_than_every_query():
    small = parse("synthetic(n_queries=12, n_documents=6, n_features=5)", Dataset)
    spec = RunSpec("log-pairs", small, "perfect", impressions=40, length=10)
    (mine,) = Lockstep("double").run([spec])
    assert np.count_nonzero(mine.update_norms) > 10
    assert 0.0 < mine.online.mean() < mine.online.max() <= 1.0


def test_runs_that_diverge_are_named_after_all_others_are_there(spec, linear_data):
    @dataclass(frozen=True, repr=False)
    class Huge(linear_data):
        def fold(self, number=1):
            fold = super().fold(number)
            train = fold.train
            return replace(fold, train=Split(train.features * 1e30, train.labels, train.offsets, train.ids))

    huge = [replace(spec, dataset=Huge(), seed=seed) for seed in range(1, 6)]
    fine, found = [spec, replace(spec, seed=2)], []
    with pytest.raises(InvalidValue, match=r"pdgd returned .* in 5 runs .*seed1, .*seed2, .*seed3 and 2 more"):
        found.extend(record.spec for record in Lockstep().run([*huge, *fine]))
    assert found == fine


def test_a_text_without_a_number_is_an_error_of_the_twin(monkeypatch):
    twin = twin_of(parse("pdgd(initial='random')", Algorithm))
    assert twin.numbers()["initial"] == 1.0
    monkeypatch.setattr(type(twin), "codes", {})
    with pytest.raises(TypeError, match="PDGDTwin has no number for the text initial"):
        twin.numbers()


@pytest.mark.parametrize(
    ("name", "at_least"),
    [
        ("nsgd(slots=50)", 4 * 50 * 100 * 64),
        ("Projected(NSGD(), DocumentSpace(remembered=200))", 4 * 10 * 100 * 64 + 8 * 210 * (210 + 64)),
        ("query-scaled >> curves(sample=500) >> pdgd", 8 * 500 * 64),
        ("remember >> pdgd", 8 * 9000),
    ],
)
def test_the_plan_counts_what_each_part_needs(name, at_least):
    assert twin_of(parse(name, Algorithm)).room(Sizes(64, 100, 10, 10, 9000)) > at_least


def test_a_batch_that_does_not_fit_is_an_error_of_ours(spec, monkeypatch):
    def full(*_):
        raise jax.errors.JaxRuntimeError(message)

    monkeypatch.setattr("duelrank.lockstep.program.compiled", full)
    message = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate"
    with pytest.raises(InvalidValue, match="the batch does not fit in the memory of the device"):
        list(Lockstep().run([spec]))
    message = "INTERNAL: another error"
    with pytest.raises(jax.errors.JaxRuntimeError, match="another error"):
        list(Lockstep().run([spec]))


def test_large_evaluations_are_made_in_parts(linear_data, monkeypatch):
    seen = []
    monkeypatch.setattr("duelrank.lockstep.program.evaluate", lambda *given: seen.append(len(given[5])) or given[5])
    shelf = load([(linear_data(), 1)], NDCG, "test", np.float64).held_out[linear_data(), 1]
    given = (None, shelf, {}, np.zeros((8, 5)), np.zeros((8, 2)), np.arange(8), int(shelf.sizes.max()))
    assert _in_chunks(*given).tolist() == list(range(8))
    monkeypatch.setattr("duelrank.lockstep.engine.usable", lambda: 100_000)
    assert _in_chunks(*given).tolist() == list(range(8))
    assert seen == [8, 2, 2, 2, 2]
