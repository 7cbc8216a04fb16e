"""How sure algorithms are of their weights."""

import numpy as np
import pytest

from duelrank import Learner


def taught(recipe: str, n_lists: int) -> Learner:
    """Return a learner whose users click on the document with the largest first feature; the last feature is constant."""
    learner, rng = Learner(recipe, feature_names=["text", "price", "same"]), np.random.default_rng(1)
    for _ in range(n_lists):
        rows = np.column_stack([rng.random((8, 2)), np.full(8, 0.5)])
        shown = learner.rank(rows)
        learner.learn(shown, shown.ranking == rows[:, 0].argmax())
    return learner


@pytest.mark.parametrize("recipe", ["mgd-dsp", "query-scaled >> wmgd-dsp", "pdgd", "mlp-pdgd"])
def test_an_algorithm_without_a_belief_has_none(recipe):
    learner = taught(recipe, 2)
    assert learner.deviations is None
    assert "±" not in repr(learner) + learner._repr_html_()


@pytest.mark.parametrize("recipe", ["thompson-pairs", "query-scaled >> thompson-pairs"])
def test_clicks_make_weights_certain(recipe):
    before, after = taught(recipe, 0).deviations, taught(recipe, 128).deviations
    assert (after[:2] < before[:2]).all()
    assert after[2] == pytest.approx(before[2])  # no list tells anything of it


def test_with_curves_there_is_one_per_column():
    learner = taught("thompson-pairs-curves", 64)
    assert learner.deviations.shape == learner.weights.shape
    assert len(learner.weights) > 3
    assert {each.name for each in learner.curves() if each.deviation > 0.0} == {"text", "price", "same"}
    assert next(each.uncertainty for each in learner.curves() if each.name == "same") == 0.0


def test_a_learner_shows_them_with_its_weights():
    learner = taught("thompson-pairs", 64)
    assert f"text {learner.weights[0]:.3g} ± {learner.deviations[0]:.2g}" in repr(learner)
    assert f"{learner.weights[0]:.4g} ± {learner.deviations[0]:.2g}</td>" in learner._repr_html_()
