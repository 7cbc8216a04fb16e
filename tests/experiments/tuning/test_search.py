"""Searches: the same trials however often they are killed, no run twice, and the best recipe at the end."""

import csv
import json
import shutil
import sys
import weakref
from collections import Counter
from dataclasses import replace

import pytest

pytest.importorskip("optuna", reason="the extra 'tune' is not installed")

from duelrank import parse
from duelrank.core.errors import DataFormatError, DuelrankError, InvalidValue, UnknownName
from duelrank.experiments import load_results, tune
from duelrank.experiments.results import Store
from duelrank.experiments.tuning import Settings, search_space
from duelrank.experiments.tuning import search as tuning_search
from duelrank.experiments.tuning.settings import FIRST_SEED, Objective
from duelrank.simulation import simulate

TINY = "synthetic(n_queries=12, n_documents=8, n_features=6)"
VARY = ("learning_rate", "slow_down")


def search(folder, **changes):
    given = {"trials": 15, "batch": 5, "folds": 3, "impressions": 15, "vary": VARY, "workers": 1} | changes
    return tune(given.pop("algorithm", "pdgd"), given.pop("dataset", TINY), users="perfect", out=folder, **given)


def few_settings():
    recipe, space = parse("pdgd"), search_space(parse("pdgd"), ("learning_rate",))
    cells = (parse(TINY),), (parse("perfect"),)
    return Settings(recipe, space, *cells, Objective.parse("reward"), folds=3, impressions=15, batch=2)


def table(folder):
    with (folder / "trials.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def lines(folder):
    return [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]


class Killed(Exception):
    """Stands for a kill."""


@pytest.fixture
def die_after(monkeypatch):
    """Make the search die after so many runs."""

    def set_limit(limit):
        made = 0

        def run_all(specs, *_, **__):
            nonlocal made
            for spec in specs:
                if made == limit:
                    raise Killed
                made += 1
                yield replace(simulate(spec), learner=None)

        monkeypatch.setattr(tuning_search, "run_all", run_all)

    return set_limit


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tune") / "whole"
    return search(folder)


class TestTrials:
    def test_runs_are_on_validation_queries_with_seeds_of_their_own(self, whole):
        frame = load_results(whole.folder)
        assert set(frame["split"].tolist()) == {"validation"}
        assert set(frame["seed"].tolist()) == {FIRST_SEED}
        assert set(frame["fold"].tolist()) == {1, 2, 3}

    def test_the_first_trial_is_the_recipe_itself_as_far_as_the_space_has_it(self, whole):
        first = table(whole.folder)[0]
        assert parse(first["recipe"]) == parse("pdgd(slow_down=100000.0)")
        assert first["state"] == "complete"

    def test_a_given_range_is_not_widened_and_the_recipe_is_compared_with_in_any_case(self, tmp_path):
        vary = ("learning_rate=0.5:1", "slow_down=10,20")
        search(tmp_path / "a", algorithm="pdgd(learning_rate=3.0)", vary=vary, trials=1)
        assert parse(table(tmp_path / "a")[0]["recipe"]) == parse("pdgd(learning_rate=1.0, slow_down=10.0)")
        assert "pdgd(learning_rate=3.0)" in load_results(tmp_path / "a")["algorithm"].tolist()

    def test_the_best_recipe_is_the_one_with_the_highest_objective(self, whole):
        done = [row for row in table(whole.folder) if row["state"] == "complete"]
        best = max(done, key=lambda row: float(row["value"]))
        assert float(best["value"]) > 1.0, "with these seeds there is something better than the start"
        assert parse((whole.folder / "best.txt").read_text().strip()) == parse(best["recipe"]) == whole.algorithm
        assert whole.scores.value == float(best["value"])
        assert parse(whole.recipe) == whole.algorithm

    def test_the_objective_is_relative_to_the_recipe_as_it_was(self, whole):
        frame = load_results(whole.folder)
        mine, start = (frame.among("algorithm", [text])["online_performance"].mean() for text in (whole.recipe, "pdgd"))
        assert whole.scores.reward == pytest.approx(mine / start)
        assert whole.reference.value == 1.0

    def test_pruned_trials_skip_the_other_folds(self, whole):
        frame = load_results(whole.folder)
        pruned = [row["recipe"] for row in table(whole.folder) if row["state"] == "pruned"]
        assert pruned, "with these seeds some trial is below the median"
        for recipe in pruned:
            assert frame.where(algorithm=recipe)["fold"].tolist() == [1]

    def test_without_pruning_all_runs_are_made(self, tmp_path):
        found = search(tmp_path / "a", prune=False)
        assert {trial.state.name for trial in found.trials} == {"COMPLETE"}
        assert len(lines(tmp_path / "a")) == 16 * 3  # fifteen trials, and the recipe with slow_down=None

    def test_nothing_better_gives_the_recipe_back(self, tmp_path):
        found = search(tmp_path / "a", algorithm="pdgd(learning_rate=3.0)", vary=("learning_rate=1e-9:1e-8",))
        assert found.algorithm == parse("pdgd(learning_rate=3.0)")

    def test_random_sampling(self, tmp_path):
        one, other = (search(tmp_path / name, sampler="random", seed=seed) for name, seed in (("a", 1), ("b", 2)))
        assert [trial.params for trial in one.trials][1:] != [trial.params for trial in other.trials][1:]

    def test_a_recipe_that_fails_costs_only_its_trial(self, tmp_path, monkeypatch):
        def run_all(specs, *_, **__):
            for spec in specs:
                if spec.algorithm.step.learning_rate > 1.0:
                    raise InvalidValue("weights with NaN or infinite values")
                yield replace(simulate(spec), learner=None)

        monkeypatch.setattr(tuning_search, "run_all", run_all)
        found = search(tmp_path / "a", prune=False)
        failed = [trial for trial in found.trials if trial.state.name == "FAIL"]
        assert failed
        assert all((trial.params["learning_rate"] > 1.0) == (trial in failed) for trial in found.trials)

    def test_runs_that_came_before_a_failure_are_kept(self, tmp_path, monkeypatch):
        """As in lockstep, where all runs go on to the end and those that have diverged are named then."""
        begun = Counter()

        def run_all(specs, *_, **__):
            begun.update(spec.digest for spec in specs)
            diverged = [spec for spec in specs if spec.algorithm.step.learning_rate > 5.0]
            yield from (replace(simulate(spec), learner=None) for spec in specs if spec not in diverged)
            if diverged:
                raise InvalidValue("weights with NaN or infinite values")

        monkeypatch.setattr(tuning_search, "run_all", run_all)
        recipes = [parse(f"pdgd(learning_rate={rate})") for rate in (1, 9, 2, 3, 4)]
        with Store(tmp_path / "a", "tune") as store:
            runs = tuning_search.Runs(few_settings(), store, lambda done, total: None)
            assert runs.make(recipes) == {recipes[1]}
            assert len(store.done()) == 4 * 3
        assert set(begun.values()) == {1}

    def test_the_runs_of_earlier_batches_are_not_held_in_memory(self, tmp_path):
        with Store(tmp_path / "a", "tune") as store:
            runs = tuning_search.Runs(settings := few_settings(), store, lambda done, total: None)
            old = weakref.ref(runs._specs(settings.algorithm)[0])
            assert old() is not None, "the specs of a batch are kept"
            for rate in range(1, 7):
                runs._specs(parse(f"pdgd(learning_rate={rate})"))
            assert old() is None

    def test_a_start_that_fails_is_an_error(self, tmp_path, monkeypatch):
        def run_all(specs, *_, **__):
            raise InvalidValue("weights with NaN or infinite values")
            yield

        monkeypatch.setattr(tuning_search, "run_all", run_all)
        with pytest.raises(InvalidValue, match="NaN"):
            search(tmp_path / "a")


class TestResuming:
    @pytest.mark.parametrize("limits", [(0, 1, 5), (14, 6), (2, 2, 2, 2, 2, 2, 2)])
    def test_a_search_that_is_killed_goes_on_as_if_it_had_not_been(self, limits, whole, tmp_path, die_after):
        for limit in limits:
            die_after(limit)
            with pytest.raises(Killed):
                search(tmp_path / "b")
        die_after(1_000)
        search(tmp_path / "b")
        assert table(tmp_path / "b") == table(whole.folder)
        digests = [row["digest"] for row in lines(tmp_path / "b")]
        assert sorted(digests) == sorted(set(digests)) == sorted(row["digest"] for row in lines(whole.folder))

    @pytest.mark.parametrize("share", [0.2, 0.45, 0.7, 0.95])
    def test_a_journal_that_was_cut_off_anywhere_goes_on(self, share, whole, tmp_path):
        """As by a kill between any two writes, or within one; the runs of later trials are there already and match."""
        search(tmp_path / "b")
        journal = tmp_path / "b" / "study.log"
        content = journal.read_bytes()
        journal.write_bytes(content[: int(len(content) * share)])
        (tmp_path / "b" / "study.log.lock").symlink_to(journal)
        search(tmp_path / "b")
        assert table(tmp_path / "b") == table(whole.folder)

    def test_the_same_call_makes_nothing_new(self, whole, die_after):
        before = lines(whole.folder), table(whole.folder)
        die_after(0)
        again = search(whole.folder)
        assert (lines(whole.folder), table(whole.folder)) == before
        assert again.recipe == whole.recipe

    def test_more_trials_go_on(self, tmp_path, whole):
        search(tmp_path / "b", trials=5)
        search(tmp_path / "b", trials=15)
        assert table(tmp_path / "b") == table(whole.folder)

    def test_more_trials_after_a_batch_that_was_cut_short_have_other_values(self, tmp_path, whole):
        search(tmp_path / "b", trials=13)
        search(tmp_path / "b", trials=15)
        mine, straight = table(tmp_path / "b"), table(whole.folder)
        assert mine[:13] == straight[:13]
        assert mine[13:] != straight[13:]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"impressions": 16}, "impressions is 15 there, not 16"),
            ({"vary": ("learning_rate=1:2",)}, "parameters is learning_rate from 0.001 to 10, by factors"),
            ({"seed": 2}, "seed is 1 there, not 2"),
            ({"objective": "reward"}, "objective is reward=1, validation=1 there, not reward=1;"),
        ],
    )
    def test_a_folder_of_other_settings_is_refused(self, change, message, whole):
        with pytest.raises(InvalidValue, match=message):
            search(whole.folder, **change)

    @pytest.mark.parametrize("text", ["[1]", "1", "{"])
    def test_damaged_settings_are_an_error(self, text, whole, tmp_path):
        shutil.copytree(whole.folder, tmp_path / "b")
        (tmp_path / "b" / "tune.json").write_text(text)
        with pytest.raises(DataFormatError, match=r"tune.json is damaged .* choose another folder"):
            search(tmp_path / "b")

    @pytest.mark.parametrize("place", [3, None])
    @pytest.mark.parametrize("text", ["garbage", "[1]", "{}", '{"op_code": 99}', "\xff"])
    def test_a_damaged_journal_is_an_error(self, text, place, whole, tmp_path):
        shutil.copytree(whole.folder, tmp_path / "b")
        journal = tmp_path / "b" / "study.log"
        written = journal.read_bytes().splitlines()
        written.insert(len(written) if place is None else place, text.encode("latin-1"))
        journal.write_bytes(b"\n".join(written) + b"\n")
        with pytest.raises(DataFormatError, match=r"study.log is damaged .* choose another folder"):
            search(tmp_path / "b")

    def test_optuna_reads_the_journal(self, whole):
        import optuna

        backend = optuna.storages.journal.JournalFileBackend(str(whole.folder / "study.log"))
        study = optuna.load_study(study_name="duelrank", storage=optuna.storages.JournalStorage(backend))
        assert study.best_value == max(float(row["value"]) for row in table(whole.folder) if row["state"] == "complete")
        assert study.best_trial.user_attrs["recipe"] == whole.recipe


class TestSettings:
    def test_several_data_sets_with_different_numbers_of_folds(self, tmp_path):
        other = "synthetic(n_queries=15, n_documents=6, n_features=6, seed=3)"
        search(tmp_path / "a", trials=1, dataset=[TINY, other], folds=2)
        frame = load_results(tmp_path / "a")
        assert {(row["dataset"], row["fold"]) for row in frame.rows()} == {
            (d, f) for d in (TINY, other) for f in (1, 2)
        }

    def test_errors(self, tmp_path):
        with pytest.raises(UnknownName, match="no sampler is called 'tp'; did you mean tpe"):
            search(tmp_path / "a", sampler="tp")
        with pytest.raises(InvalidValue, match="batch must be a whole number"):
            search(tmp_path / "a", batch=0)
        assert not (tmp_path / "a").exists()


class TestOneEngine:
    def test_a_finished_search_needs_no_device(self, whole, monkeypatch):
        monkeypatch.setitem(sys.modules, "jax", None)
        assert search(whole.folder, device="gpu").recipe == whole.recipe

    @pytest.mark.parametrize("device", ["gpu", "lockstep", "tpu"])
    def test_a_device_that_is_not_there_leaves_no_folder(self, device, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "jax", None)
        with pytest.raises(DuelrankError, match="device"):
            search(tmp_path / "a", device=device)
        assert not (tmp_path / "a").exists()

    def test_a_choice_without_a_twin_is_refused_at_the_start(self, tmp_path):
        pytest.importorskip("jax", reason="the extra 'lockstep' is not installed")
        with pytest.raises(InvalidValue, match=r"mgd\(credit='sampled'\) .* cannot run in lockstep: .*sampled"):
            search(tmp_path / "a", algorithm="mgd", vary=("credit=exact,sampled",), device="lockstep")
        assert not (tmp_path / "a").exists()
