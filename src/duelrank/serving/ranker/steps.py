"""The last step of learning: what a machine keeps of it, which costs nothing, and what is computed when somebody asks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms.base import StepExplanation
from duelrank.api import LastStep, StepDocument
from duelrank.core.types import Features, Feedback, State
from duelrank.kernels.random import derive
from duelrank.representation.base import by_feature
from duelrank.serving.log.bodies import StoredImpression
from duelrank.serving.ranker.definition import Definition

if TYPE_CHECKING:
    from duelrank.serving.ranker.machine import OpenImpression

__all__ = ["LearnedStep", "explain_step", "feedback_on"]


@dataclass(frozen=True, slots=True)
class LearnedStep:
    """An impression that was learned from, and the states that are needed to learn from it again; all of them exist anyway.

    ``made_by`` is the state that the list was made with, ``before`` the one that learned from it.
    """

    id: str
    impression: OpenImpression
    definition: Definition
    made_by: State | None
    before: State


def feedback_on(impression: OpenImpression, length: int) -> Feedback:
    """Return what users did with an impression of so many documents, as algorithms take it."""
    clicks = np.zeros(length, np.bool_)
    clicks[impression.clicks] = True
    weights = None
    if impression.weights:
        weights = clicks.astype(np.float64)
        for place, weight in impression.weights.items():
            weights[place] = weight
    examined = impression.examined
    if examined is not None:
        examined = max(examined, *(each + 1 for each in impression.clicks), 0)
    return Feedback.trusted(clicks, examined, weights)


def explain_step(kept: LearnedStep, stored: StoredImpression, raw: Features, served: int) -> LastStep:
    """Learn once more from the same impression, for nothing, and tell what happens on the way.

    Parameters
    ----------
    kept
        The step.
    stored, raw
        The impression and its features.
    served
        The version that is served now.
    """
    definition = kept.definition
    assert kept.made_by is not None  # it was there when the step was made
    rebuilt = definition.rebuild(kept.made_by, kept.id, stored, raw)
    feedback = feedback_on(kept.impression, len(stored.order))
    fresh = derive(definition.learn_key, kept.before.step)
    found = definition.algorithm.explain_step(kept.before, rebuilt, feedback, fresh)
    return LastStep(
        name=definition.spec.name,
        impression_id=kept.id,
        made_by_version=kept.impression.version,
        model_version=served,
        step=kept.before.step + 1,
        documents=_documents(stored, feedback, found),
        direction=_named(found.direction, definition),
        followed=_named(found.followed, definition),
        direction_length=float(np.linalg.norm(found.direction)),
        followed_length=float(np.linalg.norm(found.followed)),
        angle=_angle(found.direction, found.followed),
        weights_before=_named(found.before, definition),
        weights_after=_named(found.after, definition),
    )


def _documents(stored: StoredImpression, feedback: Feedback, found: StepExplanation) -> list[StepDocument]:
    examined = [None] * len(stored.order) if found.examined is None else found.examined.tolist()
    rows = zip(stored.shown, feedback.clicks.tolist(), examined, strict=True)
    return [StepDocument(id, place, clicked, seen) for place, (id, clicked, seen) in enumerate(rows, 1)]


def _named(columns: NDArray[np.float64], definition: Definition) -> dict[str, float]:
    """Return the sum over the columns of each feature, by name: how far a curve rises from its lowest value to its highest."""
    features = definition.spec.features
    return dict(zip(features, by_feature(columns, len(features)).sum(axis=1).tolist(), strict=True))


def _angle(one: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    """Return the angle between two vectors in degrees, None where one of them is zero."""
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return None if lengths == 0.0 else math.degrees(math.acos(max(-1.0, min(1.0, float(one @ other) / lengths))))
