"""What every engine must score as we do, whatever the model: a test file of an engine has a class of its own that inherits this."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from tests.export import test_curves as curves
from tests.export import test_engines as lines

# Each engine runs them once, from a class of its own.
expected = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.differing_executors]
few = settings(max_examples=20, suppress_health_check=expected)


class AnyModel:
    """Needs a fixture ``value_by_value``, which scores documents by an exported model in the engine."""

    @few
    @given(case=lines.cases())
    def test_any_linear_model(self, value_by_value, case) -> None:
        """Names with quotes, blanks and brackets; features that were constant; scalings of all kinds."""
        model, documents = case
        lines.assert_same_scores(value_by_value(model, documents), model, documents, lines.SINGLE)

    @few
    @given(case=curves.cases(["steps"], first=("none", "fixed")))
    def test_any_steps(self, value_by_value, case) -> None:
        model, documents = case
        curves.assert_same_scores(value_by_value(model, documents), model, documents, curves.SINGLE)

    @pytest.mark.parametrize("exponent", [-44, -30, -8, -1, 0, 4, 5, 30])
    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_thresholds_of_any_size(self, value_by_value, exponent: int, sign: float) -> None:
        curves.test_thresholds_of_any_size(value_by_value, exponent, sign)

    def test_a_threshold_at_0(self, value_by_value) -> None:
        curves.test_a_feature_that_was_always_0_is_halfway_there(value_by_value)
        curves.test_a_model_without_any_step(value_by_value)
