"""Measures the time of click models: to infer which of ten positions were seen, and to update the model."""

from __future__ import annotations

from statistics import median
from time import perf_counter_ns

import numpy as np

from duelrank import Feedback, Impression, Query, parse
from duelrank.core.types import Memory
from duelrank.projection import Examination

MODELS = [
    "LastClick()",
    "AdaptiveLastClick()",
    "PositionBased(forgetting=0.999)",
    "DependentClick(after_skip=0.9, forgetting=0.999)",
    "DynamicBayesian(forgetting=0.999)",
    "DynamicBayesian()",
]
SIZES = (46, 136, 700)
LISTS, ROUNDS = 200, 9


def lists(n_features: int) -> list[tuple[Impression, Feedback]]:
    random = np.random.default_rng(0)
    made = []
    for _ in range(LISTS):
        query = Query("q", random.random((100, n_features)))
        clicks = random.random(10) < 0.3 / np.arange(1, 11)
        made.append((Impression(query, random.permutation(100)[:10]), Feedback(clicks)))
    return made


def microseconds(model: Examination, shown: list[tuple[Impression, Feedback]]) -> float:
    memory: Memory = {}
    started = perf_counter_ns()
    for impression, feedback in shown:
        model.weights(memory, impression, feedback)
        memory = model.observe(memory, impression, feedback)
    return (perf_counter_ns() - started) / len(shown) / 1000


def main() -> None:
    models = [parse(text, Examination) for text in MODELS]
    times: dict[tuple[str, int], list[float]] = {}
    for n_features in SIZES:
        shown = lists(n_features)
        for turn in range(ROUNDS + 1):  # the first one compiles
            for text, model in zip(MODELS, models, strict=True):
                taken = microseconds(model, shown)
                if turn:
                    times.setdefault((text, n_features), []).append(taken)
    print(f"{'µs per impression, median of rounds':50}" + "".join(f"{n:>9} features" for n in SIZES))
    for text in MODELS:
        print(f"{text:50}" + "".join(f"{median(times[text, n]):18.1f}" for n in SIZES))


if __name__ == "__main__":
    main()
