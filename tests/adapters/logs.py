"""Generates small logs in the format of User Behavior Insights: lists ranked by one feature, and users who prefer another."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

NAMES = ("bm25", "rating", "price")


def event(query_id, action="click", document=None, ordinal=None, **others):
    attributes = {} if document is None else {"object": {"object_id": document, "object_id_field": "sku"}}
    attributes |= {} if ordinal is None else {"position": {"ordinal": ordinal}}
    return {
        "action_name": action, "query_id": query_id, "timestamp": "2026-01-02T03:04:05Z", "client_id": "c1",
        "event_attributes": attributes,
    } | others  # fmt: skip


def query(query_id, hits, **others):
    return {"query_id": query_id, "user_query": "shoes", "query_response_hit_ids": hits} | others


def features(query_id, document, values):
    return {"query_id": query_id, "object_id": document, "features": values}


@dataclass
class Log:
    """The records of the three files."""

    queries: list[dict] = field(default_factory=list)
    events: list[dict] = field(default_factory=list)
    features: list[dict] = field(default_factory=list)

    def write(self, folder: Path) -> dict[str, str]:
        """Write NDJSON, and return the paths by the names of the options."""
        paths = {}
        for name in ("queries", "events", "features"):
            path = folder / f"{name}.ndjson"
            path.write_text("".join(json.dumps(each) + "\n" for each in getattr(self, name)))
            paths[name] = str(path)
        return paths


def generated(lists: int, documents: int = 6, seed: int = 1) -> Log:
    """Each list in the order of bm25, with one click, and a purchase now and then; each file in another order."""
    rng, log = np.random.default_rng(seed), Log()
    for number in range(lists):
        id, values = f"q{number}", rng.random((documents, len(NAMES)))
        order = np.argsort(-values[:, 0])
        seen = order[: 1 + rng.integers(documents)]
        clicked = seen[np.argmax(values[seen, 1])]
        log.queries.append(query(id, [f"d{each}" for each in order]))
        log.events.append(event(id, "click", f"d{clicked}", 1 + int(np.flatnonzero(order == clicked)[0])))
        if number % 5 == 0:
            log.events.append(event(id, "purchase", f"d{clicked}"))
        for document in range(documents):
            log.features.append(features(id, f"d{document}", dict(zip(NAMES, values[document].tolist(), strict=True))))
    log.events.reverse()
    log.features = [log.features[place] for place in rng.permutation(len(log.features))]
    return log
