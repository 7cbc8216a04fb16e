"""What clients get to see: lists, without who placed which document, and rankers as they are now."""

from __future__ import annotations

import msgspec

from duelrank.api import RankAnswer, RankedDocument, RankerInfo
from duelrank.serving.log.bodies import Shown
from duelrank.serving.ranker.definition import Definition
from duelrank.serving.ranker.rankers import Ranker
from duelrank.types import State

__all__ = ["answer", "info"]


def answer(definition: Definition, key: str, shown: Shown, state: State | None) -> RankAnswer:
    """Return a list; with a state, how its scores come about."""
    ids = shown.ids
    if state is None:
        ranking = [RankedDocument(ids[document], place) for place, document in enumerate(shown.order, 1)]
        return RankAnswer(key, shown.version, ranking)
    shares = definition.query(shown.raw()).features * state.weights
    ranking = [
        RankedDocument(
            ids[document],
            place,
            float(shares[document].sum()),
            dict(zip(definition.spec.features, shares[document].tolist(), strict=True)),
        )
        for place, document in enumerate(shown.order, 1)
    ]
    return RankAnswer(key, shown.version, ranking)


def info(ranker: Ranker) -> RankerInfo:
    """Return a ranker as it is now; where we lead, to the last event that was applied."""
    spec, model, machine = ranker.definition.spec, ranker.model, ranker.machine
    tally = model.tally if machine is None else machine.tally
    return RankerInfo(
        **msgspec.structs.asdict(spec),
        impressions=tally.impressions,
        learned=tally.learned,
        skipped=tally.skipped,
        failed=tally.failed,
        open=model.open if machine is None else len(machine.open),
        model_version=model.version,
        updates=model.state.updates if machine is None else machine.state.updates,
        created=ranker.definition.created,
        frozen=model.frozen,
        pinned=None if model.pin is None else model.pin[0],
    )
