"""Guarded runs: the same queries and users as without a guard, alarms after an accident, and ways back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from duelrank.adapters.backfill import IMITATE
from duelrank.algorithms import Algorithm
from duelrank.core.errors import InvalidRecipe, InvalidValue
from duelrank.core.grammar import parse
from duelrank.core.randomness import stream, stream_key
from duelrank.core.registry import canonical
from duelrank.core.types import Query
from duelrank.datasets import Synthetic
from duelrank.experiments import Skyline, reference_for
from duelrank.experiments.results import Frame
from duelrank.kernels.random import derive
from duelrank.learner import Learner
from duelrank.metrics import nDCG, offline_performance
from duelrank.simulation import BestFeature, Feature, FrozenWeights, Guarded, Logged, RunSpec, simulate
from duelrank.simulation.guarded import NO_GUARD, GuardedLearner
from duelrank.simulation.production import order
from duelrank.users import Cascade, Preset

# Everything is decided by the learned ranker or by guard lists; evidence is soon enough.
HARMED = Guarded(Feature(0), share=0.3, false_alarm_every=1_000, on_alarm="tell", promote=(1.0,), harm_after=400)


@pytest.fixture
def spec(linear_data) -> RunSpec:
    return RunSpec(parse("mgd-dsp", Algorithm), linear_data(), Preset("perfect"), seed=3, impressions=800)


@pytest.fixture
def drawn(monkeypatch):
    """Run a spec and return its record, and the query and the user's stream of every list."""

    def run(spec):
        coins = []
        plain = Cascade.click
        with monkeypatch.context() as patch:
            patch.setattr(Cascade, "click", lambda self, shown, s: (coins.append(s.tolist()), plain(self, shown, s))[1])
            return simulate(spec), coins

    return run


class TestSpec:
    def test_runs_without_a_guard_have_the_digest_of_before_there_were_guards(self, spec):
        assert "guard" not in canonical(spec)

    def test_without_imitation_a_guard_has_the_digest_of_before_there_was_one(self, spec):
        assert "imitate" not in canonical(replace(spec, guard=replace(HARMED, imitate=0)))
        assert "imitate=None" in canonical(replace(spec, guard=HARMED))

    def test_a_guard_is_part_of_the_digest_and_of_the_name(self, spec):
        guarded = replace(spec, guard=HARMED)
        assert guarded.digest != spec.digest
        assert guarded.digest != replace(spec, guard=replace(HARMED, share=0.2)).digest
        assert guarded.id != spec.id
        assert guarded.id.startswith(spec.id.split("/fold")[0])

    def test_a_guarded_run_comes_back_from_its_text(self):
        guard = Guarded(FrozenWeights("mgd", impressions=50), share=0.2, promote=(0.5, 1.0), on_alarm="rollback")
        spec = RunSpec("wmgd-dsp", "synthetic", "perfect", guard=guard)
        assert parse(repr(spec)) == spec
        assert RunSpec("wmgd-dsp", "synthetic", "perfect", guard=repr(guard)) == spec

    @pytest.mark.parametrize(
        "wrong",
        [{"share": 0.0}, {"margin": 0.3}, {"promote": ()}, {"promote": (0.5, 0.1)}, {"false_alarm_every": 0.0}],
    )
    def test_settings_that_the_service_would_refuse_are_refused(self, wrong):
        with pytest.raises(InvalidRecipe, match="guard: "):
            Guarded(**wrong)

    def test_weights_that_decide_nothing_cannot_be_negated(self, spec):
        with pytest.raises(InvalidRecipe, match="does not keep what it knows in weights"):
            simulate(replace(spec, algorithm=parse("pairrank"), guard=HARMED))


class TestImitation:
    GUARD = Guarded(Feature(2), share=0.5, promote=(1.0,), false_alarm_every=1e15)

    def test_the_first_lists_are_those_of_the_baseline_and_are_imitated(self, spec):
        guard = replace(self.GUARD, imitate=300)
        record = simulate(replace(spec, impressions=300, guard=guard))
        alone = simulate(
            replace(spec, impressions=300, guard=Guarded(Feature(2), share=1e-12, promote=(1e-12,), imitate=0))
        )
        assert record.guard.imitated == record.guard.kinds["baseline"] == 300
        assert np.array_equal(record.online, alone.online)
        assert record.learner.weights.argmax() == 2
        agree = []
        for number in range(50):
            query = Query("", np.random.default_rng(number).random((10, record.learner.n_features)))
            agree.append(
                order(record.learner.weights, query)[0] == order(guard.baseline.weights(spec.dataset, 1), query)[0]
            )
        assert np.mean(agree) > 0.6, "one in ten by chance"

    def test_after_them_the_guard_begins(self, spec):
        kinds = simulate(replace(spec, impressions=400, guard=replace(self.GUARD, imitate=300))).guard.kinds
        assert kinds["baseline"] == 300
        assert kinds["guard"] + kinds["learned"] == 100

    def test_by_default_as_in_the_service(self, spec):
        assert self.GUARD.lists_to_imitate(spec.algorithm) == IMITATE
        assert replace(self.GUARD, start="baseline").lists_to_imitate(spec.algorithm) == 0
        assert self.GUARD.lists_to_imitate(parse("pairrank", Algorithm)) == 0
        assert replace(self.GUARD, imitate=7, start="baseline").lists_to_imitate(spec.algorithm) == 7

    def test_lists_of_a_log_count(self, spec):
        guarded = replace(spec, impressions=20, guard=replace(self.GUARD, imitate=50))
        assert simulate(replace(guarded, log=Logged(Feature(2), lists=40))).guard.imitated == 10
        assert simulate(replace(guarded, log=Logged(Feature(2), lists=60))).guard.imitated == 0

    def test_an_algorithm_that_cannot_take_over_weights_is_refused(self, spec):
        with pytest.raises(InvalidRecipe, match="pairrank"):
            simulate(replace(spec, algorithm=parse("pairrank", Algorithm), guard=replace(self.GUARD, imitate=5)))


class TestLists:
    def test_a_guarded_run_equals_itself_to_the_bit(self, spec):
        one, other = (simulate(replace(spec, guard=HARMED)) for _ in range(2))
        assert np.array_equal(one.online, other.online)
        assert np.array_equal(one.trajectory, other.trajectory)
        assert one.guard == other.guard

    def test_users_draw_the_same_with_and_without_a_guard(self, spec, drawn):
        (plain, coins), (guarded, again) = drawn(spec), drawn(replace(spec, guard=HARMED))
        assert coins == again
        assert not np.array_equal(plain.online, guarded.online)
        key = stream_key(spec.stream_seed, "user")
        assert again == [derive(key, t).tolist() for t in range(spec.impressions)]

    def test_where_no_guard_list_is_drawn_the_run_is_the_one_without_a_guard(self, spec):
        spec = replace(spec, impressions=200)
        guarded = simulate(replace(spec, guard=Guarded(Feature(0), share=1e-12, promote=(1.0,), imitate=0)))
        assert guarded.guard.kinds == {"guard": 0, "learned": 200, "baseline": 0}
        plain = simulate(spec)
        assert np.array_equal(guarded.online, plain.online)
        assert np.array_equal(guarded.trajectory, plain.trajectory)

    def test_shares_are_kept(self, spec):
        guard = Guarded(Feature(0), share=0.2, promote=(0.25,), false_alarm_every=1e15, imitate=0)
        kinds = simulate(replace(spec, impressions=4_000, guard=guard)).guard.kinds
        assert sum(kinds.values()) == 4_000
        # Five standard errors of a share of 4,000 lists are below 0.04.
        assert kinds["guard"] / 4_000 == pytest.approx(0.2, abs=0.04)
        assert kinds["learned"] / (4_000 - kinds["guard"]) == pytest.approx(0.25, abs=0.04)

    def test_nothing_is_learned_from_lists_that_the_learner_has_not_made(self, spec):
        record = simulate(
            replace(spec, guard=Guarded(Feature(0), share=0.5, promote=(0.1, 1.0), false_alarm_every=1e15))
        )
        assert record.learner.state.step == record.guard.kinds["learned"]
        assert record.learner.state.step < 0.9 * spec.impressions

    def test_baseline_lists_are_in_the_order_of_the_baseline(self, spec):
        train = spec.dataset.fold(1).train
        learner = Learner(spec.algorithm, train.n_features, 1, 10)
        weights = Feature(1).weights(spec.dataset, 1)
        host = GuardedLearner(Guarded(Feature(1), share=1e-12, promote=(1e-12,)), learner, weights)
        query = train.query(0)
        ranking = host.rank(query).ranking
        assert (np.diff(query.features[ranking, 1]) <= 0.0).all()
        assert len(ranking) == min(10, query.n_documents)

    def test_a_ranker_that_is_its_own_baseline_is_never_decisive_before_it_has_learned(self, spec):
        guard = Guarded(Feature(0), share=1.0, promote=(1.0,), start="baseline")
        counts = simulate(replace(spec, guard=guard)).guard.guard.counts
        assert counts.wins + counts.losses == 0
        assert counts.ties > 0


class TestAlarms:
    def test_an_accident_raises_an_alarm_and_a_ranker_that_does_well_does_not(self, spec):
        spec = replace(spec, impressions=1_200)
        history = simulate(replace(spec, guard=HARMED)).guard
        assert any(at > 400 for at in history.alarms)
        assert not any(150 < at <= 400 for at in history.alarms)
        assert not any(at > 400 for at in simulate(replace(spec, guard=replace(HARMED, harm_after=0))).guard.alarms)

    def test_until_the_accident_nothing_differs(self, spec):
        harmed = simulate(replace(spec, guard=HARMED)).online
        fine = simulate(replace(spec, guard=replace(HARMED, harm_after=0))).online
        assert np.array_equal(harmed[:400], fine[:400])
        assert harmed[400:].mean() < fine[400:].mean()

    def test_after_an_alarm_the_baseline_is_shown_and_nothing_is_learned(self, spec):
        guard = replace(HARMED, on_alarm="baseline", start="baseline", baseline=Skyline())
        record = simulate(replace(spec, impressions=1_500, guard=guard))
        alarm = record.guard.alarms[-1]
        assert record.guard.guard.stepped_back
        assert not record.update_norms[alarm:].any()
        assert record.guard.kinds["baseline"] > 0
        assert record.guard.guard.counts.lists > record.guard.alarms_decisive[-1]  # it goes on to compare

    def test_rollback_goes_to_the_newest_weights_that_had_proved_gain(self, spec):
        guard = replace(HARMED, on_alarm="rollback", share=0.5, harm_after=700)
        seen = []
        plain = GuardedLearner._act

        def watch(self):
            fresh, weights = self.guard.has_fresh_proof, self.learner.weights
            before = len(self._alarms)
            plain(self)
            if fresh:
                seen.append(("proved", weights))
            if len(self._alarms) > before:
                seen.append(("alarm", self.learner.weights))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(GuardedLearner, "_act", watch)
            history = simulate(replace(spec, impressions=1_500, guard=guard)).guard
        assert history.guard.last_alarm.did == "rollback"
        assert not history.guard.raised
        last = max(number for number, (what, _) in enumerate(seen) if what == "alarm")
        proved = [weights for what, weights in seen[:last] if what == "proved"]
        assert proved
        assert np.array_equal(seen[last][1], proved[-1])

    def test_gain_is_proved_and_the_ladder_is_climbed(self, spec):
        guard = Guarded(Feature(0, rising=True), share=0.5, promote=(0.5, 1.0))
        history = simulate(replace(spec, impressions=3_000, guard=guard)).guard
        first, second = history.proved
        assert 0 < first <= second
        assert len(history.promotions) == 1
        assert history.guard.rung == 1


class TestBaselines:
    def test_a_feature(self):
        data = Synthetic(n_queries=20)
        query = data.fold(1).train.query(0)
        falling, rising = (order(Feature(2, rising).weights(data, 1), query) for rising in (False, True))
        assert (np.diff(query.features[falling, 2]) <= 0.0).all()
        assert (np.diff(query.features[rising, 2]) >= 0.0).all()
        with pytest.raises(InvalidValue, match="has the features 0 to"):
            Feature(1_000).weights(data, 1)

    def test_equal_documents_stay_in_the_order_of_the_data(self):
        query = Query("q", [[1.0], [2.0], [1.0], [2.0]])
        assert order(np.array([1.0]), query).tolist() == [1, 3, 0, 2]

    def test_the_best_feature_is_the_best_on_validation(self, linear_data):
        data = linear_data()
        validation = data.fold(1).validation
        chosen = BestFeature().weights(data, 1)
        assert np.abs(chosen).sum() == 1.0
        reached = offline_performance(chosen, validation, nDCG(10), stream(1, "t"))
        for feature in range(validation.n_features):
            for rising in (False, True):
                other = Feature(feature, rising).weights(data, 1)
                assert offline_performance(other, validation, nDCG(10), stream(1, "t")) <= reached + 1e-9

    def test_frozen_weights_are_those_of_the_earlier_run(self):
        data = Synthetic(n_queries=20)
        earlier = simulate("mgd-dsp", data, "perfect", seed=5, impressions=60)
        frozen = FrozenWeights("mgd-dsp", "perfect", 60, seed=5)
        assert np.array_equal(frozen.weights(data, 1), earlier.weights)
        with pytest.raises(InvalidRecipe, match="a model for each query"):
            FrozenWeights("batchrank").weights(data, 1)
        with pytest.raises(InvalidRecipe, match="one weight for each feature"):
            FrozenWeights("steps >> mgd", impressions=60).weights(data, 1)

    def test_the_skyline_is_the_offline_reference(self):
        data = Synthetic(n_queries=30)
        assert np.array_equal(Skyline().weights(data, 1), reference_for(data, 1).weights)


class TestRow:
    def test_rows_with_and_without_a_guard_have_the_same_columns(self, spec):
        plain, guarded = simulate(spec).row(), simulate(replace(spec, guard=HARMED)).row()
        assert plain.keys() == guarded.keys()
        assert {name: plain[name] for name in NO_GUARD} == NO_GUARD
        frame = Frame.of([plain, guarded])
        assert parse(frame["guard"].tolist()[1]) == HARMED

    def test_what_a_row_says(self, spec):
        record = simulate(replace(spec, guard=HARMED))
        row, history = record.row(), record.guard
        assert sum(row["guard_lists"]) == spec.impressions
        assert sum(row["guard_outcomes"]) == row["guard_lists"][0]
        assert row["online_mean"] == record.online.mean()
        assert row["guard_alarms"] == list(history.alarms)
        assert row["guard_harm"] == [400, history.harm_decisive, record.online[400:].mean()]
