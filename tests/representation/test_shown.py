"""Curves as they are shown: sorted by what they move, with the density of the documents that were seen."""

import numpy as np
import pytest

from duelrank.representation import BentLines, Distribution, QueryScaled, Ramps, Raw, Steps
from duelrank.representation.curves import shown_curves

SAMPLE = np.array([[0.0, 0.1], [0.0, 0.2], [0.0, 0.8], [1.0, 0.9]], np.float32)


def memory(knots, sample=SAMPLE):
    return {"knots": np.array(knots), "sample": sample, "seen": np.array([len(sample)])}


def test_importance_is_the_deviation_of_heights_over_the_seen_documents():
    knots = [[0.0, 0.5, 1.0], [0.0, 0.5, 1.0]]
    one, other = shown_curves(Ramps(), np.array([1.0, 1.0, 0.0, 1.0]), memory(knots), ["rare", "spread"])
    assert (one.name, other.name) == ("spread", "rare")
    assert one.importance == pytest.approx(np.std([0.2, 0.4, 1.6, 1.8]))
    assert other.importance == pytest.approx(np.std([0.0, 0.0, 0.0, 1.0]))


def test_without_documents_importance_is_the_range_of_the_curve():
    found = shown_curves(Raw(), np.array([0.5, -3.0]), {}, ["a", "b"])
    assert [(each.name, each.importance, len(each.edges), len(each.shares)) for each in found] == [
        ("b", 3.0, 0, 0),
        ("a", 0.5, 0, 0),
    ]


@pytest.mark.parametrize("representation", [BentLines(), Ramps(), Steps(), Distribution()])
def test_density_covers_all_documents(representation):
    values = np.random.default_rng(1).lognormal(size=(300, 1)).astype(np.float32)
    knots = [np.quantile(values, np.linspace(0.0, 1.0, 5))]
    held = memory(knots, values)
    (found,) = shown_curves(representation, np.ones(representation.n_columns(1, held)), held, ["price"])
    assert found.shares.sum() == pytest.approx(1.0)
    assert len(found.edges) == len(found.shares) + 1
    inner = np.count_nonzero((values >= found.edges[3]) & (values < found.edges[4])) / len(values)
    assert found.shares[3] == pytest.approx(inner)


@pytest.mark.parametrize("representation", [BentLines(), Ramps(), Steps(), Distribution()])
def test_before_the_first_knots_a_line_over_the_range_of_the_query_is_shown(representation):
    (found,) = shown_curves(representation, np.array([2.0]), memory([[np.nan, np.nan]], SAMPLE[:, :1]), ["price"])
    assert found.domain == "query range"
    assert found.curve.at(np.array([0.0, 0.5, 1.0])).tolist() == [0.0, 1.0, 2.0]
    assert (found.importance, len(found.shares)) == (2.0, 0)


def test_in_a_chain_the_sample_is_that_of_the_last_stage():
    chain = QueryScaled() >> Ramps()
    (found,) = shown_curves(chain, np.array([2.0]), memory([[0.0, 1.0]], SAMPLE[:, :1]), ["price"])
    assert found.domain == "query range"
    assert (found.shares[0], found.shares[-1]) == (0.75, 0.25)
    assert found.importance == pytest.approx(np.std([0.0, 0.0, 0.0, 2.0]))


def test_the_rise_of_a_curve_has_the_deviations_of_its_independent_columns():
    deviations = np.array([0.3, 0.2, 0.4, 0.0])
    shown = shown_curves(Ramps(), np.ones(4), memory([[0.0, 0.5, 1.0]] * 2), ["rare", "spread"], deviations)
    found = {each.name: each.deviation for each in shown}
    assert found == {"rare": pytest.approx(0.5), "spread": pytest.approx(0.2)}


def test_uncertainty_is_the_importance_of_the_deviations():
    """A feature that is the same in all documents cannot change their order, whatever is believed of it."""
    same = memory([[0.0, 0.5, 1.0]] * 2, np.array([[0.5, 0.1], [0.5, 0.2], [0.5, 0.8], [0.5, 0.9]], np.float32))
    shown = shown_curves(Ramps(), np.ones(4), same, ["same", "spread"], np.array([0.3, 0.2, 0.4, 0.0]))
    found = {each.name: each.uncertainty for each in shown}
    assert found == {"same": 0.0, "spread": pytest.approx(np.std([0.04, 0.08, 0.2, 0.2]))}


@pytest.mark.parametrize("representation", [Raw(), QueryScaled(), Ramps(), BentLines()])
def test_without_documents_both_are_the_deviation_of_a_line(representation):
    first = representation.start(2)
    one, other = shown_curves(representation, np.array([2.0, 1.0]), first, ["a", "b"], np.array([0.3, 0.1]))
    assert [(each.deviation, each.uncertainty) for each in (one, other)] == [(0.3, 0.3), (0.1, 0.1)]


def test_without_a_belief_there_are_none():
    (found,) = shown_curves(Raw(), np.ones(1), {}, ["a"])
    assert (found.deviation, found.uncertainty) == (None, None)
