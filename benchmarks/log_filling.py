"""A long log in little time: the events that traffic would have left, written straight into a store."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import numpy as np

from duelrank.service.definition import Definition, RankerSpec, normalized
from duelrank.service.log import (
    CREATED,
    FEEDBACK,
    IMPRESSION,
    RANKERS,
    Created,
    StoredFeedback,
    StoredImpression,
    StoredSpec,
    closing_event,
    pack,
    pack_features,
)
from duelrank.storage import NewEvent, open_storage
from load import N_FEATURES

#: Fewer than in a real list, since the disk is not measured.
N_DOCUMENTS, BATCH = 4, 1000


def fill(store: str, ranker: str, algorithm: str, events: int) -> None:
    """Write impressions that were shown, clicked and closed, three events each, as a service without any version would have."""
    spec = normalized(RankerSpec(ranker, algorithm, tuple(f"f{number}" for number in range(1, N_FEATURES + 1))))
    with open_storage(store) as storage:
        storage.log.append([NewEvent(RANKERS, CREATED, ranker, time.time(), pack(Created(StoredSpec.of(spec))))])
        lists = visits(Definition(spec, time.time()), storage.log.last_number())
        for _ in range(0, events // 3, BATCH):
            storage.log.append([event for _ in range(BATCH) for event in next(lists)])


def visits(definition: Definition, last: int) -> Iterator[list[NewEvent]]:
    """Yield the three events of one list after the other; the first has the number after the last one."""
    rng = np.random.default_rng(1)
    name, ids, now = definition.spec.name, [f"d{n}" for n in range(N_DOCUMENTS)], time.time()
    for number in itertools.count(last + 1, 3):
        key, raw = f"filled-{number:09}", rng.random((N_DOCUMENTS, N_FEATURES))
        way = definition.list_kind(key, frozen=False)
        order, _ = definition.order(way, definition.start, key, raw, N_DOCUMENTS)
        yield [
            NewEvent(name, IMPRESSION, key, now, pack(StoredImpression.of(1, ids, order, way)), pack_features(raw)),
            NewEvent(name, FEEDBACK, f"e-{key}", now, pack(StoredFeedback(key, [number % 2], None, None))),
            closing_event(name, key, number, now),
        ]
