"""The kernels of Thompson pairs have the results of their references; square roots are compared by their covariances."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.kernels.test_reference import boosts, flags, gains, numbers, streams
from tests.reference import thompson_pairs as reference

from duelrank.core.types import NO_BOOSTS
from duelrank.kernels import thompson_pairs as kernel

LIMITS = st.floats(0.1, 3.0)


def list_case(draw: Any, full: bool) -> tuple[Any, ...]:
    """Draw a list with feedback, from a belief with correlated weights or without."""
    n, d = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    belief = (
        0.2 * draw(numbers(d, d)) + np.diag(draw(numbers(d)) ** 2 + 0.1) if full else np.abs(draw(numbers(d))) + 0.1
    )
    rows, leads = draw(numbers(n, d)) / 10.0, draw(numbers(n)) if draw(st.booleans()) else np.empty(0)
    seen = np.where(draw(flags(n)), 1.0, np.abs(draw(numbers(n))) / 10.0)
    return (
        draw(numbers(d)),
        belief,
        rows,
        boosts(draw, n),
        leads,
        draw(gains(n)),
        seen,
        draw(st.sampled_from([0.0, 0.3, 2.0])),
        draw(st.sampled_from([0.0, 0.25, 1.0])),
    )


@examples(60)
@given(data=st.data())
def test_a_full_belief_is_narrowed_as_by_potters_updates(data: st.DataObject) -> None:
    case = list_case(data.draw, full=True)
    (step, root), (wanted, slow) = kernel.learn_full(*case), reference.learn_full(*case)
    np.testing.assert_allclose(root @ root.T, slow @ slow.T, rtol=1e-7, atol=1e-7 * np.abs(slow).max() ** 2)
    np.testing.assert_allclose(step, wanted, rtol=1e-6, atol=1e-8 * max(1.0, np.abs(wanted).max()))


@examples(60)
@given(data=st.data())
def test_a_diagonal_belief_is_narrowed_weight_by_weight(data: st.DataObject) -> None:
    case = list_case(data.draw, full=False)
    for found, wanted in zip(kernel.learn_diagonal(*case), reference.learn_diagonal(*case), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("z", [-9.0, -3.0, -0.5, 0.0, 1e-9, 1.0, 3.5, 3.54, 6.0, 20.0])
def test_the_tail_of_the_normal_distribution(z: float) -> None:
    np.testing.assert_allclose(kernel.normal_tail(z), reference.normal_tail(z), rtol=1e-11)


@examples(30)
@given(st.data(), streams(), st.booleans())
def test_deviations_and_wider_beliefs(data: st.DataObject, stream: Any, full: bool) -> None:
    belief = data.draw(numbers(4, 4) if full else numbers(4).map(np.abs))
    kind = "full" if full else "diagonal"
    for name, arguments in (("deviation", lambda: (stream.copy(),)), ("widen", lambda: (1.5, 2.0))):
        found, wanted = (getattr(each, f"{name}_{kind}")(belief, *arguments()) for each in (kernel, reference))
        np.testing.assert_allclose(
            np.hstack([np.ravel(each) for each in found]), np.hstack([np.ravel(w) for w in wanted])
        )


@examples(30)
@given(st.data(), streams())
def test_lists_are_sorted_by_sampled_weights(data: st.DataObject, stream: Any) -> None:
    n, whole = data.draw(st.integers(1, 8)), st.integers(-3, 3)  # ties are ties in both, because sums are exact
    table = np.array(data.draw(st.lists(whole, min_size=3 * (n + 3), max_size=3 * (n + 3))), float).reshape(-1, 3)
    case = table[0], table[1:3], 0.5, table[3:], boosts(data.draw, n), min(n, 5)
    mine, theirs = stream.copy(), stream.copy()
    for found, wanted in zip(kernel.draw(*case, mine), reference.draw(*case, theirs), strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(mine, theirs)


def test_equally_liked_documents_teach_nothing_by_their_positions() -> None:
    """With balance 1, clicks on whichever of two equal documents is above move the weights by nothing on average."""
    rows, width, weights = np.array([[1.0], [0.0]]), 0.5, np.array([0.3])
    belief, moves = np.array([[0.8]]), {0.0: 0.0, 1.0: 0.0}
    for balance in moves:
        for upper, lower in ((0, 1), (1, 0)):
            shown = rows[[upper, lower]]
            leads = shown @ weights
            chance = kernel.normal_tail(-(leads[0] - leads[1]) / (width * 0.8))  # of this order
            clicked = NO_BOOSTS, leads, np.array([1.0, 0.0]), np.ones(2)
            step, _ = kernel.learn_full(weights, belief, shown, *clicked, width, balance)
            push = 1.0 if upper == 0 else -1.0
            wrong = 1.0 / (1.0 + np.exp(push * 0.3))
            moves[balance] += chance * step[0] / wrong  # without the slope of the likelihood, which is of the weights
    assert abs(moves[1.0]) < 0.1 * abs(moves[0.0])
