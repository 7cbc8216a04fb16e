"""The taste of simulated users: what they love and hate of the features, as grades of the candidates of a query."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from duelrank.errors import InvalidValue, UnknownName
from duelrank.kernels.ranking import linear_scores
from duelrank.playground.features import FEATURES
from duelrank.representation import QueryScaled
from duelrank.types import Features, Labels, Weights

__all__ = ["DEFAULT_TASTE", "N_GRADES", "as_weights", "grades"]

#: From −1 (they hate it) to 1 (they love it); what is not named leaves them cold.
DEFAULT_TASTE: dict[str, float] = {
    "name match": 0.4,
    "exact name": 1.0,
    "module": 0.3,
    "private": -0.8,
    "depth": -0.6,
    "imported": 0.6,
}
N_GRADES = 5
# Of the candidates of a query, these shares have at least the grades 1, 2, 3 and 4.
_SHARES = (0.5, 0.3, 0.16, 0.06)


def as_weights(taste: Mapping[str, float]) -> Weights:
    """Return a taste by name as weights in the order of the features."""
    for name, value in taste.items():
        if name not in FEATURES:
            raise UnknownName.among("feature", name, FEATURES)
        if not -1.0 <= value <= 1.0:
            raise InvalidValue(f"a taste is from -1 (hate) to 1 (love), got {value!r} for {name!r}")
    return np.array([taste.get(name, 0.0) for name in FEATURES])


def grades(weights: Weights, features: Features) -> Labels:
    """Return the grades of the candidates of one query: the few that a taste likes best have 4, about half of them have 0.

    The taste is a linear utility of the features, each scaled to from 0 to 1 within the query. Candidates of equal utility have
    equal grades, and candidates that are all alike have 0.
    """
    utility = linear_scores(weights, QueryScaled().apply(features, {}))
    ordered = np.sort(utility)[::-1]
    least = [ordered[max(1, round(share * len(ordered))) - 1] for share in _SHARES]
    reached = np.sum([utility >= each for each in least], axis=0)
    return np.where(utility > ordered[-1], reached, 0).astype(np.int8)
