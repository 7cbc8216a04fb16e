"""One run: repeatable to the bit, fair between algorithms, and honest about what it measures."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from duelrank.algorithms import DBGD, MGD, Algorithm
from duelrank.core.errors import InvalidRecipe, InvalidValue, UnknownName
from duelrank.core.grammar import parse
from duelrank.core.randomness import stream, stream_key
from duelrank.core.registry import register
from duelrank.datasets import Dataset, Drifting, Fold, Synthetic
from duelrank.kernels.random import derive, integers, uniform
from duelrank.learner import Learner
from duelrank.metrics import ERR, nDCG, offline_performance, online_performance
from duelrank.simulation import RunSpec, simulate
from duelrank.simulation import run as loop
from duelrank.users import Cascade, IntentDrift, Opposed, Preset, User

ARRAYS = ("online", "checkpoints", "offline", "update_norms", "weights")


@pytest.fixture
def spec(linear_data) -> RunSpec:
    return RunSpec(parse("mgd-dsp", Algorithm), linear_data(), Preset("navigational"), seed=3, impressions=120)


def same(one, other) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ARRAYS)


@pytest.fixture
def watched(monkeypatch):
    """Run a spec and return its record, the queries that were ranked and the users' streams."""

    def run(spec):
        ranked, coins = [], []
        plain_rank, plain_click = Learner.rank, Cascade.click
        with monkeypatch.context() as patch:
            patch.setattr(
                Learner, "rank", lambda self, query, *rest: (ranked.append(query.id), plain_rank(self, query, *rest))[1]
            )
            patch.setattr(
                Cascade, "click", lambda self, shown, s: (coins.append(s.tolist()), plain_click(self, shown, s))[1]
            )
            return simulate(spec), ranked, coins

    return run


class TestRepeatable:
    @pytest.mark.parametrize("recipe", ["dbgd", "mgd", "nsgd-dsp"])
    def test_the_same_spec_gives_the_same_record_to_the_bit(self, spec, recipe):
        spec = replace(spec, algorithm=parse(recipe))
        assert same(simulate(spec), simulate(spec))

    def test_a_spec_that_was_written_down_is_the_same_spec(self, spec, clean_registry):
        register(type(spec.dataset))
        assert parse(repr(spec)) == spec
        assert same(simulate(parse(repr(spec))), simulate(spec))

    @pytest.mark.parametrize("change", [{"seed": 4}, {"fold": 2}, {"length": 3}, {"user": Preset("informational")}])
    def test_everything_that_decides_the_result_decides_it(self, spec, change):
        assert not np.array_equal(simulate(spec).online, simulate(replace(spec, **change)).online)

    def test_the_first_impressions_do_not_depend_on_how_many_follow(self, spec):
        short, long = simulate(replace(spec, impressions=40)), simulate(spec)
        assert np.array_equal(short.online, long.online[:40])
        assert np.array_equal(short.update_norms, long.update_norms[:40])

    def test_measuring_on_another_split_or_with_another_metric_changes_no_learning(self, spec):
        plain = simulate(spec)
        for change in ({"split": "validation"}, {"metric": ERR(5)}):
            other = simulate(replace(spec, **change))
            assert np.array_equal(plain.weights, other.weights)
            assert not np.array_equal(plain.offline, other.offline)

    def test_reporting_progress_changes_nothing(self, spec):
        calls = []
        record = simulate(spec, progress=calls.append)
        assert same(record, simulate(spec))
        assert calls == sorted(set(calls))
        assert calls[-1] == spec.impressions
        assert set(record.checkpoints.tolist()) <= set(calls)


class TestCommonRandomNumbers:
    def test_two_algorithms_meet_the_same_queries_and_the_same_coins(self, spec, watched):
        runs = [watched(replace(spec, algorithm=parse(recipe))) for recipe in ("dbgd", "mgd-dsp", "nsgd")]
        (one, queries, coins), *others = runs
        for record, other_queries, other_coins in others:
            assert other_queries == queries
            assert other_coins == coins
            assert not np.array_equal(record.online, one.online)

    def test_queries_and_coins_are_those_of_the_named_streams(self, spec, watched):
        _, queries, coins = watched(spec)
        train = spec.dataset.fold(spec.fold).train
        drawn = integers(stream(spec.stream_seed, "queries"), len(train), spec.impressions)
        assert queries == [train.query(index).id for index in drawn]
        key = stream_key(spec.stream_seed, "user")
        assert coins == [derive(key, t).tolist() for t in range(spec.impressions)]

    @pytest.mark.parametrize(
        "change", [{"seed": 4}, {"fold": 2}, {"user": Preset("perfect")}, {"dataset": parse("synthetic(n_queries=30)")}]
    )
    def test_another_seed_fold_user_or_data_set_meets_other_queries_and_coins(self, spec, watched, change):
        """Both sets have queries of equal names and in equal numbers, so that equal draws would give equal queries."""
        (one, queries, coins), (other, other_queries, other_coins) = watched(spec), watched(replace(spec, **change))
        assert [name[1:] for name in queries] != [name[1:] for name in other_queries]
        assert not {tuple(coin) for coin in coins} & {tuple(coin) for coin in other_coins}
        assert one.learner.seed != other.learner.seed

    def test_runs_of_two_folds_are_not_correlated(self, spec):
        """With 200 seeds, the correlation of independent runs is within 4 / √200 of 0; with shared streams it was 0.6."""
        fast = replace(
            spec, algorithm=DBGD(), dataset=parse("synthetic(n_queries=4, n_documents=8, n_features=2)"), length=5
        )
        rewards = [
            [simulate(replace(fast, fold=fold, seed=seed, impressions=8)).online_performance for seed in range(200)]
            for fold in (1, 2)
        ]
        assert abs(np.corrcoef(rewards)[0, 1]) < 4 / math.sqrt(200)

    def test_another_version_of_the_streams_is_another_digest(self, spec, monkeypatch):
        before = replace(spec).digest
        monkeypatch.setattr(RunSpec, "streams", RunSpec.streams + 1)
        assert replace(spec).digest != before


@dataclass(frozen=True, repr=False)
class Popular(Dataset):
    """Another data set with a given popularity of its training queries."""

    base: Dataset
    popularity: tuple[float, ...]

    n_folds = 2

    def fold(self, number=1):
        return replace(self.base.fold(number), popularity=self.popularity)


class TestPopularity:
    def drawn(self, spec, watched, popularity, impressions):
        dataset = Popular(spec.dataset, popularity)
        _, queries, _ = watched(replace(spec, algorithm=DBGD(), dataset=dataset, impressions=impressions))
        return [int(name.removeprefix("q")) for name in queries]

    def test_queries_are_drawn_as_often_as_they_are_popular(self, spec, watched):
        """Counts of queries with weights 1 to 30, whose sum is 465: chi-squared, in a unit of our choice."""
        n = 4000
        weights = np.arange(1.0, 31.0)
        counts = np.bincount(self.drawn(spec, watched, tuple(7.0 * weights), n), minlength=30)
        assert stats.chisquare(counts, n * weights / weights.sum()).pvalue > 1e-4

    def test_they_are_the_inverse_of_the_distribution_at_the_draws_of_the_stream(self, spec, watched, monkeypatch):
        monkeypatch.setattr(RunSpec, "stream_seed", 3)
        weights = np.tile([0.0, 1.0, 2.0], 10)
        thrown = stream(spec.stream_seed, "queries")
        below = np.cumsum(weights) / weights.sum()
        expected = []
        for _ in range(200):
            chance = uniform(thrown)
            expected.append(next(i for i, share in enumerate(below) if chance < share))
        assert self.drawn(spec, watched, tuple(weights), 200) == expected

    @pytest.mark.parametrize("only", [0, 17, 29])
    def test_a_query_of_no_popularity_is_never_asked(self, spec, watched, only):
        weights = np.zeros(30)
        weights[only] = 0.1
        assert set(self.drawn(spec, watched, tuple(weights), 50)) == {only}

    def test_two_algorithms_meet_the_same_queries(self, spec, watched):
        popular = replace(spec, dataset=Popular(spec.dataset, tuple(np.arange(1.0, 31.0))))
        (_, one, _), (_, other, _) = (watched(replace(popular, algorithm=parse(name))) for name in ("dbgd", "mgd"))
        assert one == other


@dataclass(frozen=True, repr=False)
class Noting(User):
    """Notes the grades and the impressions that it is asked about."""

    notes: ClassVar[list] = []

    def for_grades(self, n_grades):
        self.notes.append(("grades", n_grades))
        return self

    def at(self, step):
        self.notes.append(step)
        return Cascade()

    def click(self, shown, stream):
        raise AssertionError("at() names who clicks")


@dataclass(frozen=True, repr=False)
class Afterwards(Dataset):
    """The last grades of a set whose grades change."""

    base: Dataset = Drifting()

    @property
    def n_folds(self) -> int:
        return self.base.n_folds

    def fold(self, number: int = 1) -> Fold:
        return self.base.fold(number).later[-1][1]


class TestGradesThatChange:
    SET = Drifting(Synthetic(n_queries=20, n_features=8), start=60)

    @pytest.fixture(autouse=True)
    def same_streams(self, monkeypatch):
        """Two data sets, whose streams differ, are compared list by list here."""
        monkeypatch.setattr(RunSpec, "stream_seed", 3)

    def test_until_they_change_nothing_is_different(self, spec):
        changed, steady = (simulate(replace(spec, dataset=replace(self.SET, start=n))) for n in (60, 1000))
        assert np.array_equal(changed.online[:60], steady.online[:60])
        assert not np.array_equal(changed.online[60:], steady.online[60:])

    def test_clicks_lists_and_weights_follow_the_new_grades(self, spec):
        at_once = replace(self.SET, start=0)
        assert same(simulate(replace(spec, dataset=at_once)), simulate(replace(spec, dataset=Afterwards(at_once))))

    def test_rows_have_the_means_of_blocks(self, spec):
        record = simulate(replace(spec, dataset=self.SET))
        assert record.row()["online_blocks"] == pytest.approx([record.online[:50].mean(), record.online[50:100].mean()])
        assert simulate(spec).row()["online_blocks"] == []


class TestUsersThatChange:
    @pytest.fixture(autouse=True)
    def same_streams(self, monkeypatch):
        """Two users, whose streams differ, are compared list by list here."""
        monkeypatch.setattr(RunSpec, "stream_seed", 3)

    def test_they_are_asked_once_per_impression_after_the_grades(self, spec):
        Noting.notes.clear()
        record = simulate(replace(spec, user=Noting(), impressions=20))
        assert Noting.notes == [("grades", 3), *range(20)]
        assert same(record, simulate(replace(spec, user=Cascade(), impressions=20)))

    def test_until_a_drift_starts_nothing_is_different(self, spec):
        plain = simulate(spec)
        drifting = simulate(replace(spec, user=IntentDrift(spec.user, Opposed(spec.user), start=60)))
        assert np.array_equal(plain.update_norms[:60], drifting.update_norms[:60])
        assert np.array_equal(plain.online[:61], drifting.online[:61])
        assert not np.array_equal(plain.online[61:], drifting.online[61:])

    def test_a_drift_that_is_over_at_once_is_the_later_user(self, spec):
        later = Preset("informational")
        assert same(
            simulate(replace(spec, user=IntentDrift(spec.user, later, start=0))), simulate(replace(spec, user=later))
        )

    def test_the_measure_stays_with_the_labels(self, spec):
        """Whoever follows a new intent that is the opposite of the labels loses what the labels measure."""
        perfect = Preset("perfect")
        drift = replace(spec, user=IntentDrift(perfect, Opposed(perfect), start=1000), impressions=2000)
        online = simulate(drift).online
        assert online[800:1000].mean() > online[-200:].mean() + 0.1


class TestWhatIsRecorded:
    def test_it_is_what_a_loop_by_hand_gives(self, spec):
        """The whole of a run, spelled out with public parts."""
        record, fold = simulate(spec), spec.dataset.fold(spec.fold)
        learner = Learner(spec.algorithm, fold.n_features, spec.stream_seed, spec.length)
        user, key = spec.user.for_grades(3), stream_key(spec.stream_seed, "user")
        queries = integers(stream(spec.stream_seed, "queries"), len(fold.train), spec.impressions)
        offline = {}
        for t, index in enumerate(queries):
            before = learner.weights
            impression = learner.rank(fold.train.query(index))
            labels = fold.train.judgements(index)
            shown = labels[impression.ranking]
            learner.learn(impression, user.click(shown, derive(key, t)))
            assert record.online[t] == spec.metric.of(shown, labels)
            assert record.update_norms[t] == pytest.approx(np.linalg.norm(learner.weights - before), rel=1e-12)
            if t + 1 in record.checkpoints:
                ties = stream(spec.stream_seed, "evaluation", t + 1)
                offline[t + 1] = offline_performance(learner.weights, fold.test, spec.metric, ties)
        assert np.array_equal(record.weights, learner.weights)
        assert list(offline) == record.checkpoints.tolist()
        assert list(offline.values()) == record.offline.tolist()
        assert np.count_nonzero(record.update_norms) == learner.state.updates > 0

    def test_a_plain_duel_moves_by_the_learning_rate(self, spec):
        """One candidate, no decay: a move is α long, or there is none."""
        norms = simulate(replace(spec, algorithm=parse("dbgd(learning_rate=0.25, decay=1)"))).update_norms
        assert np.count_nonzero(norms) > 10
        np.testing.assert_allclose(norms[norms > 0], 0.25)

    def test_a_rate_of_zero_moves_nothing(self, spec):
        record = simulate(replace(spec, algorithm=parse("mgd(learning_rate=0)")))
        assert not record.update_norms.any()
        assert not record.weights.any()

    def test_a_learner_learns(self, spec):
        """On easy data with a perfect user the final ranker is better than the first one, and than a ranker of zeros."""
        record = simulate(replace(spec, user=Preset("perfect"), impressions=2000))
        assert record.offline[-1] > record.offline[0] + 0.1
        assert record.online[-500:].mean() > record.online[:100].mean()

    def test_derived_numbers(self, spec):
        record = simulate(spec)
        assert record.online_performance == online_performance(record.online)
        assert record.offline_performance == record.offline[-1]
        row = record.row()
        assert parse(row["algorithm"]) == parse(row["recipe"]) == spec.algorithm
        assert parse(row["user"]) == spec.user
        assert parse(row["metric"]) == spec.metric
        assert row["updates"] == np.count_nonzero(record.update_norms)

    def test_seconds_of_learning_and_of_evaluation_are_apart(self, spec, monkeypatch):
        """By a clock that ticks 1 per list and 1000 per evaluation."""
        clock = [0.0]
        plain_evaluate, plain_rank = loop.offline_performance, Learner.rank

        def slow_evaluate(*arguments):
            clock[0] += 1000.0
            return plain_evaluate(*arguments)

        def slow_rank(self, query):
            clock[0] += 1.0
            return plain_rank(self, query)

        monkeypatch.setattr(loop, "perf_counter", lambda: clock[0])
        monkeypatch.setattr(loop, "offline_performance", slow_evaluate)
        monkeypatch.setattr(Learner, "rank", slow_rank)
        record = simulate(spec)
        assert record.seconds == spec.impressions
        assert record.evaluation_seconds == 1000.0 * len(record.checkpoints)


@dataclass(frozen=True, repr=False)
class StubData(Dataset):
    """A data set that is never opened."""

    n_folds = 1

    def fold(self, number=1):
        raise AssertionError("opened")


class TestSpec:
    @given(st.integers(1, 10**6))
    def test_checkpoints_rise_from_the_first_to_the_last_impression(self, impressions):
        spec = RunSpec(MGD(), StubData(), Preset(), impressions=impressions)
        points = spec.checkpoints
        assert points[0] == 1
        assert points[-1] == impressions
        assert (np.diff(points) > 0).all()
        assert len(points) <= 1 + 8 * math.log10(impressions) + 1

    def test_checkpoints_are_about_eight_per_power_of_ten(self):
        points = RunSpec(MGD(), StubData(), Preset(), impressions=100_000).checkpoints
        for power in range(2, 5):
            assert 7 <= np.sum((points >= 10**power) & (points < 10 ** (power + 1))) <= 9

    def test_the_id_names_everything_that_varies_in_a_grid(self, linear_data):
        spec = RunSpec(parse("mgd-dsp"), linear_data(), Preset("perfect"), fold=2, seed=7)
        assert spec.id == f"mgd-dsp/perfect/{linear_data()!r}/fold2/seed7"

    def test_a_spec_is_a_value(self, linear_data):
        one, other = (RunSpec(MGD(), linear_data(), Preset()) for _ in range(2))
        assert one == other
        assert hash(one) == hash(other)
        assert one != replace(one, seed=2)

    @pytest.mark.parametrize(
        ("bad", "wanted"),
        [
            ({"split": "train"}, "'test' or 'validation'"),
            ({"split": "tset"}, "'test' or 'validation'"),
            ({"impressions": 0}, "from 1 to"),
            ({"length": 0}, "from 1 to"),
            ({"fold": 0}, "from 1 to"),
            ({"seed": -1}, "at least 0"),
            ({"seed": 1.5}, "a whole number"),
            ({"metric": "mgd"}, "a metric"),
            ({"metric": 10}, "a metric"),
            ({"user": DBGD()}, "a user|an user"),
            ({"algorithm": Preset()}, "an algorithm"),
            ({"dataset": None}, "a dataset"),
        ],
    )
    def test_bad_values_list_the_possible_ones(self, linear_data, bad, wanted):
        good = {"algorithm": MGD(), "dataset": linear_data(), "user": Preset()}
        with pytest.raises(InvalidRecipe, match=wanted):
            RunSpec(**(good | bad))


class TestBadInput:
    def test_no_queries_to_learn_from(self, spec, linear_data):
        with pytest.raises(InvalidValue, match="no training or no test queries"):
            simulate(replace(spec, dataset=linear_data(n_queries=0)))

    def test_a_user_for_fewer_grades(self, spec):
        with pytest.raises(InvalidValue, match="2 grades, but the data has 3"):
            simulate(replace(spec, user=Cascade((0.0, 1.0), (0.0, 0.0))))

    def test_a_fold_that_does_not_exist(self, spec):
        with pytest.raises(InvalidValue, match="folds 1 to 2, got 3"):
            simulate(replace(spec, fold=3))

    def test_examination_that_is_observed_works_in_a_simulation(self, spec):
        oracle = replace(spec, algorithm=parse("Projected(mgd, DocumentSpace(Observed))"))
        assert np.count_nonzero(simulate(oracle).update_norms) > 0

    def test_one_impression_is_a_run(self, spec):
        record = simulate(replace(spec, impressions=1, metric=nDCG()))
        assert record.checkpoints.tolist() == [1]
        assert record.online.shape == record.update_norms.shape == record.offline.shape == (1,)


@dataclass(frozen=True, repr=False)
class Diverging(MGD):
    """An algorithm of one's own with a mistake: its gradient is not finite after a hundred impressions."""

    infinite: bool = False

    def gradient(self, state, impression, feedback, stream):
        gradient, memory = super().gradient(state, impression, feedback, stream)
        return gradient / (1.0 if state.step < 100 else 0.0 if self.infinite else np.nan), memory


class TestWeightsThatAreNotFinite:
    @pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
    @pytest.mark.parametrize("infinite", [False, True])
    def test_the_algorithm_and_the_impression_are_named(self, spec, infinite):
        with pytest.raises(InvalidValue, match=r"Diverging.* NaN or infinite values after impression 1\d\d \("):
            simulate(replace(spec, algorithm=Diverging(infinite=infinite), impressions=1000))


class TestFrontDoor:
    def test_text_is_taken_for_every_part(self):
        texts = ("mgd", "synthetic(n_queries=20)", "perfect")
        spec = RunSpec(*map(parse, texts), seed=3, impressions=30, metric=parse("MRR@5"))
        assert RunSpec(*texts, seed=3, impressions=30, metric="MRR@5") == spec
        assert same(simulate(*texts, seed=3, impressions=30, metric="MRR@5"), simulate(spec))

    def test_parts_inside_of_parts_too(self):
        assert parse("mgd").__class__(exploration="UniformSphere(n_candidates=3)") == parse("mgd(n_candidates=3)")

    def test_what_is_no_such_part_is_refused(self):
        with pytest.raises(UnknownName, match="did you mean"):
            simulate("mgdd", "synthetic", "perfect")
        with pytest.raises(InvalidRecipe, match="'perfect' is a user, but a dataset is required"):
            simulate("mgd", "perfect", "synthetic")
        with pytest.raises(InvalidRecipe, match="must be a dataset"):
            simulate("mgd")

    def test_a_spec_says_everything(self, spec):
        with pytest.raises(InvalidValue, match="RunSpec contains all parameters"):
            simulate(spec, seed=4)


def test_a_record_as_a_data_frame():
    pytest.importorskip("pandas")
    record = simulate("mgd", "synthetic(n_queries=10)", "perfect", impressions=20)
    frame = record.to_pandas()
    assert frame["impressions"].tolist() == record.checkpoints.tolist()
    assert frame["online"].iloc[-1] == pytest.approx(record.online_performance)
