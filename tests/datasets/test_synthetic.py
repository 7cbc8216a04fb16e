"""Generated data sets: deterministic, well-formed, learnable, and as unbalanced as real ones."""

from __future__ import annotations

import hashlib
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from duelrank import parse, simulate
from duelrank.core.errors import InvalidRecipe, InvalidValue, MissingData
from duelrank.core.grammar import listed
from duelrank.core.registry import canonical, spell
from duelrank.core.types import Labels
from duelrank.datasets import (
    Bumpy,
    Dataset,
    Drifting,
    Imported,
    Incomplete,
    InContext,
    LongTail,
    Synthetic,
    add,
    synthetic,
)
from duelrank.datasets.split import SPLITS
from duelrank.experiments import Grid, Store, run_all
from duelrank.experiments.pipeline import collect, plan
from duelrank.experiments.suite import load_suite
from duelrank.simulation import RunSpec

BASE = Synthetic(n_queries=20)
RAW = Bumpy(n_queries=200, n_features=24, scale="none")


@pytest.mark.parametrize(("kind", "cached"), [(Synthetic, synthetic._make), (Bumpy, synthetic._make_bumpy)])
def test_equal_parameters_equal_data(kind: type[Synthetic | Bumpy], cached: object) -> None:
    one = kind(n_queries=20, seed=3).fold(2)
    assert kind(n_queries=20, seed=3).fold(2) is one
    cached.cache_clear()  # type: ignore[attr-defined]
    again = kind(n_queries=20, seed=3).fold(2)
    for name in ("features", "labels", "offsets", "ids"):
        assert np.array_equal(getattr(one.train, name), getattr(again.train, name))
    assert not np.array_equal(one.train.labels[:50], kind(n_queries=20, seed=3).fold(1).train.labels[:50])
    assert not np.array_equal(one.train.labels[:50], kind(n_queries=20, seed=4).fold(2).train.labels[:50])


@pytest.mark.parametrize(
    "recipe",
    [
        Synthetic(1, 1, 1, 2),
        Synthetic(2, 2, 3, 31),
        Synthetic(3, 5, 200, 5, correlation=1),
        Bumpy(1, 1, 1, 2),
        Bumpy(2, 2, 3, 31),
        Bumpy(3, 5, 100, 5, scale="none"),
    ],
)
def test_extremes(recipe: Synthetic | Bumpy) -> None:
    fold = recipe.fold(5)
    assert len(fold.train) == recipe.n_queries
    assert np.isfinite(fold.train.features).all()


@pytest.mark.parametrize("wrong", ["n_queries=0", "n_grades=1", "noise=-1.0", "correlation=1.5", "seed=-1"])
def test_wrong_parameters(wrong: str) -> None:
    with pytest.raises(InvalidRecipe):
        parse(f"synthetic({wrong})")
    with pytest.raises(InvalidRecipe, match="scale"):
        parse("bumpy(scale='feature')")


@pytest.mark.parametrize("number", [0, 6, True, "1"])
def test_wrong_fold(number: int) -> None:
    for recipe in (Synthetic(), Bumpy(), LongTail(Synthetic())):
        with pytest.raises(InvalidValue, match="from 1 to 5"):
            recipe.fold(number)


def test_shape_and_balance() -> None:
    fold = parse("synthetic").fold(1)
    train = fold.train
    sizes = np.diff(train.offsets)
    assert (len(train), train.n_features, fold.n_grades) == (300, 46, 3)
    assert sizes.min() >= 15
    assert sizes.max() <= 45
    assert train.features.min() == 0.0
    assert train.features.max() == 1.0
    shares = np.bincount(train.labels, minlength=3) / train.n_documents
    assert 0.6 <= shares[0] <= 0.75
    assert shares[1] > shares[2] > 0.05
    relevant = [np.mean(train.judgements(i) > 0) for i in range(len(train))]
    assert np.std(relevant) > 0.1
    assert all(fold.test.judgements(i).max() > 0 for i in range(len(fold.test)))


def test_relevance_is_linear_and_noise_hides_it() -> None:
    def fit(noise: float) -> float:
        train = Synthetic(noise=noise).fold(1).train
        centred = train.features - train.features.mean(axis=0)
        weights = np.linalg.lstsq(centred, train.labels - train.labels.mean(), rcond=None)[0]
        assert weights.min() < 0 < weights.max()
        return float(np.corrcoef(centred @ weights, train.labels)[0, 1])

    assert fit(0.0) > fit(1.0) + 0.1 > fit(4.0) + 0.1


def test_correlation_is_tunable() -> None:
    def strongest(correlation: float) -> float:
        features = Synthetic(correlation=correlation, n_features=20).fold(1).train.features
        return float(np.abs(np.corrcoef(features.T) - np.eye(20)).max())

    assert strongest(0.0) < 0.15 < strongest(0.9)


@pytest.mark.parametrize("kind", [Synthetic, Bumpy])
@pytest.mark.parametrize("share", [0.02, 0.35, 0.8])
def test_share_of_relevant_documents(kind: type[Synthetic | Bumpy], share: float) -> None:
    labels = kind(relevant=share, n_grades=4).fold(1).train.labels
    for grade in (1, 2, 3):
        assert abs(np.mean(labels >= grade) - share * 0.4 ** (grade - 1)) <= 1.0 / len(labels)


def test_the_usual_share_of_relevant_documents_keeps_stored_runs() -> None:
    assert canonical(Synthetic()) == canonical(Synthetic(relevant=0.35))
    assert "relevant" not in canonical(Synthetic()) + canonical(Bumpy())
    assert "relevant=0.2" in canonical(Bumpy(relevant=0.2))


def test_families_cover_what_they_promise() -> None:
    names = listed("families")
    assert names[:2] == ["mq2007", "mq2008"]
    sets = [parse(name, Dataset) for name in names[2:]]
    folds = [each.fold(1) for each in sets]
    features, sizes = [fold.n_features for fold in folds], [len(fold.train.labels) / len(fold.train) for fold in folds]
    assert (min(features), max(features)) == (20, 700)
    assert 9 < min(sizes) < 11
    assert 190 < max(sizes) < 210
    assert {fold.n_grades for fold in folds} == {2, 3, 5}
    shares = [np.mean(fold.train.labels > 0) for fold in folds]
    assert min(shares) < 0.05
    assert max(shares) > 0.6
    assert any(isinstance(each, Bumpy) for each in sets)
    assert {each.correlation for each in sets if isinstance(each, Synthetic)} >= {0.0, 0.9}
    assert all(fold.train.features.shape[1] * np.diff(fold.train.offsets).max() <= 21_000 for fold in folds)


def explained(columns: NDArray[np.float64], labels: NDArray[np.int8]) -> float:
    """Return the share of the labels' variance that the best linear function of the columns explains."""
    columns = np.column_stack([columns, np.ones(len(columns))])
    weights = np.linalg.lstsq(columns, labels.astype(np.float64), rcond=None)[0]
    return float(1.0 - np.var(labels - columns @ weights) / np.var(labels))


def in_bins(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each feature which eighth of its values each document is in, one column each."""
    edges = [np.unique(np.quantile(values, np.linspace(0, 1, 9)))[1:-1] for values in features.T]
    bins = [np.searchsorted(edge, values) for edge, values in zip(edges, features.T, strict=True)]
    return np.concatenate([bin_of[:, None] == np.arange(8) for bin_of in bins], axis=1).astype(np.float64)


def test_bumpy_data_stays_the_same_from_version_to_version() -> None:
    fold = Bumpy(n_queries=40, seed=1, scale="none").fold(3)
    digest = hashlib.sha256()
    for split in (fold.train, fold.validation, fold.test):
        # Six digits: processors differ in the last bits of exp and log.
        digest.update(" ".join(f"{value:.5e}" for value in split.features.ravel()).encode())
        digest.update(split.labels.tobytes())
    assert digest.hexdigest()[:16] == "c2ddd5df64f0b134"


def test_features_are_as_they_come_in_a_shop() -> None:
    features = RAW.fold(1).train.features
    price, similarity, sales, links, category, reviews, age, now_and_then = features[:, :8].T
    for long_tailed in (price, sales, links, reviews, age):
        assert long_tailed.max() > 8 * long_tailed.mean() > 0
        assert long_tailed.min() >= 0
    assert 0 < similarity.min() < similarity.max() < 1
    assert np.unique(category).tolist() == [0, 1, 2]
    assert np.mean(reviews == 0) > 0.5
    for whole in (sales, reviews, age):
        assert np.array_equal(whole, np.floor(whole))
    offsets = RAW.fold(1).train.offsets
    is_constant = np.maximum.reduceat(now_and_then, offsets[:-1]) == 0
    assert is_constant.mean() == 0.5


def test_scaling_within_queries_changes_nothing_else() -> None:
    raw, scaled = RAW.fold(1).train, Bumpy(n_queries=200, n_features=24).fold(1).train
    assert np.array_equal(raw.labels, scaled.labels)
    for query in range(0, 200, 40):
        values = raw.query(query).features
        span = np.ptp(values, axis=0)
        expected = np.where(span > 0, values - values.min(axis=0), 0.0) / np.where(span > 0, span, 1.0)
        np.testing.assert_allclose(scaled.query(query).features, expected)


def test_curves_explain_what_lines_cannot() -> None:
    raw, scaled = RAW.fold(1).train, Bumpy(n_queries=200, n_features=24).fold(1).train
    lines = max(explained(raw.features, raw.labels), explained(scaled.features, raw.labels))
    curves = explained(in_bins(raw.features), raw.labels)
    assert lines > 0.2
    assert curves > lines + 0.08


def test_noise_hides_curves() -> None:
    def fit(noise: float) -> float:
        train = Bumpy(n_queries=200, n_features=24, scale="none", noise=noise).fold(1).train
        return explained(in_bins(train.features), train.labels)

    assert fit(0.0) > fit(1.0) + 0.1 > fit(4.0) + 0.1


def test_rankers_learn_on_bumpy() -> None:
    record = simulate("mgd-dsp", "bumpy", "navigational", seed=1, impressions=500)
    assert record.offline[-1] > record.offline[0] + 0.1


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


def test_wrong_parameters_of_a_long_tail() -> None:
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
    assert "synthetic" in spell(LongTail(Synthetic()))  # the base is named even if it is the default


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


class TestDrifting:
    """Grades that change during a run."""

    def labels(self, **how: Any) -> tuple[Labels, list[tuple[int, Labels]]]:
        fold = Drifting(Synthetic(n_queries=200), **how).fold(2)
        return fold.train.labels, [(start, later.train.labels) for start, later in fold.later]

    def test_the_opposite_at_once(self) -> None:
        before, ((start, after),) = self.labels(start=70)
        assert start == 70
        assert after[before == 2].max() == before[after == 2].max() == 0
        assert np.corrcoef(before, after)[0, 1] < -0.3

    def test_a_quarter_turn_has_nothing_in_common(self) -> None:
        before, ((_, after),) = self.labels(turn=90.0)
        assert abs(np.corrcoef(before, after)[0, 1]) < 0.05

    def test_no_turn_changes_nothing(self) -> None:
        before, ((_, after),) = self.labels(turn=0.0)
        assert np.array_equal(before, after)

    def test_slowly_in_equal_steps(self) -> None:
        before, later = self.labels(start=100, over=400)
        assert [start for start, _ in later] == list(range(120, 501, 20))
        alike = [float(np.corrcoef(before, labels)[0, 1]) for _, labels in later]
        assert 1.0 > alike[0] > alike[4] > alike[9] > alike[14] > alike[19]
        assert alike[0] > 0.8
        steps = [np.mean(one != two) for (_, one), (_, two) in pairwise(later)]
        assert max(steps) < 2 * min(steps)
        assert np.array_equal(later[-1][1], self.labels()[1][0][1])

    @pytest.mark.parametrize("base", [Synthetic(n_queries=40, n_grades=5, relevant=0.2), Bumpy(n_queries=40)])
    def test_documents_and_shares_of_grades_stay(self, base: Synthetic | Bumpy) -> None:
        usual, fold = base.fold(3), Drifting(base, over=10).fold(3)
        for each in (fold, *(later for _, later in fold.later)):
            assert np.array_equal(each.train.features, usual.train.features)
            assert np.array_equal(np.bincount(each.train.labels), np.bincount(usual.train.labels))
            assert all(each.test.judgements(i).max() > 0 for i in range(len(each.test)))

    def test_only_generated_sets_have_another_grading(self) -> None:
        with pytest.raises(InvalidRecipe, match=r"Drifting.base must be a dataset \(bumpy, "):
            Drifting(Imported("mq2008"))
        with pytest.raises(InvalidValue, match="from 1 to 5"):
            Drifting().fold(6)

    def test_names(self) -> None:
        for name in ("sudden-drift", "slow-drift"):
            assert spell(parse(name)) == name
        assert parse("sudden-drift").start == RunSpec("mgd", "sudden-drift", "perfect").impressions // 2


class TestInContext:
    @pytest.mark.parametrize("base", [Synthetic(n_queries=60, n_features=5), Bumpy(60, n_features=5)])
    def test_grades_and_products_are_those_of_the_context(self, base):
        fold, plain = InContext(base, 0.3).fold(2), InContext(base, 0.3, products=False).fold(2)
        for name in SPLITS:
            split, bare = getattr(fold, name), getattr(plain, name)
            assert split.features[:, :5].tolist() == bare.features.tolist()
            assert split.labels.tolist() == bare.labels.tolist()
            products = split.features[:, 5:]
            inside = np.repeat(
                [products[start:stop].any() for start, stop in pairwise(split.offsets)], np.diff(split.offsets)
            )
            assert products.tolist() == (split.features[:, :5] * inside[:, None]).tolist()
        one, other = (InContext(base, share).fold(2).train.labels for share in (0.0, 1.0))
        chosen = np.repeat(
            [fold.train.features[a:b, 5:].any() for a, b in pairwise(fold.train.offsets)], np.diff(fold.train.offsets)
        )
        assert 0.1 < chosen.mean() < 0.5
        mixed = np.where(chosen, other, one)
        assert np.mean(fold.train.labels == mixed) > 0.9, "but for the thresholds of the grades"
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.3

    def test_what_is_refused(self):
        with pytest.raises(InvalidRecipe, match=r"InContext.base must be a dataset \(bumpy, "):
            InContext(Imported("mq2008"))
        with pytest.raises(InvalidValue, match="from 1 to 5"):
            InContext().fold(6)


class TestIncomplete:
    """Data sets with missing values."""

    def test_values_are_missing_in_all_splits_and_always_the_same(self):
        base = Synthetic(n_queries=20, n_features=4)
        fold, again = (Incomplete(base, share=0.3).fold(1) for _ in range(2))
        for split, other, whole in zip(
            (fold.train, fold.validation, fold.test),
            (again.train, again.validation, again.test),
            (base.fold(1).train, base.fold(1).validation, base.fold(1).test),
            strict=True,
        ):
            gone = np.isnan(split.features)
            assert 0.25 < gone.mean() < 0.35
            np.testing.assert_array_equal(split.features[~gone], whole.features[~gone])
            np.testing.assert_array_equal(split.features, other.features)
            assert split.query(0).missing
        assert not np.isnan(Incomplete(base, share=0.0).fold(1).train.features).any()

    def test_later_folds_lack_the_same_values(self):
        fold = Incomplete(parse("sudden-drift", Dataset)).fold(1)
        for _, later in fold.later:
            np.testing.assert_array_equal(later.train.features, fold.train.features)

    def test_runs(self):
        runs = {
            "dataset": Incomplete(Synthetic(n_queries=40, n_features=5), 0.2),
            "user": "perfect",
            "impressions": 300,
        }
        found = simulate("missing >> query-scaled >> mgd-dsp", **runs)
        assert found.offline[-1] > found.offline[0]
        with pytest.raises(InvalidRecipe, match="begin it with missing"):
            simulate("query-scaled >> mgd-dsp", **runs)
        with pytest.raises(InvalidValue, match="need all values"):
            simulate("missing >> query-scaled >> mgd-dsp", **runs, log="Logged(lists=10)")
