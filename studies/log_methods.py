"""Compares methods to learn from lists of another ranker: nDCG@10 on test queries of weights learned from a log alone.

Two ways that are often advised are here only to be measured: pairs of a click and what was skipped above it, and an effect of
each position, so that the position explains clicks away.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from duelrank import Learner
from duelrank.algorithms import Algorithm, LogPairs
from duelrank.core.grammar import as_part
from duelrank.core.randomness import stream, stream_key
from duelrank.core.registry import register
from duelrank.core.types import Feedback, Gradient, Impression, Memory, State, Stream, Weights
from duelrank.datasets import Dataset
from duelrank.kernels.random import derive
from duelrank.metrics import offline_performance
from duelrank.simulation import Baseline, Logged
from duelrank.users import User

PRODUCTION = ("BestFeature()", "FrozenWeights(mgd-dsp, impressions=100)")
USERS, METRIC = ("perfect", "navigational", "informational"), "nDCG@10"


@register
@dataclass(frozen=True, repr=False)
class SkipAbove(LogPairs):
    """A click is better than a skipped document above it; nothing else is used."""

    def gradient(
        self, state: State, impression: Impression, feedback: Feedback, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the mean over the pairs."""
        rows, clicks = impression.query.features[impression.ranking], feedback.clicks
        upper, lower = np.triu_indices(len(clicks), 1)
        chosen = clicks[lower] & ~clicks[upper]
        apart = rows[lower[chosen]] - rows[upper[chosen]]
        if not len(apart):
            return np.zeros(len(state.weights)), state.memory
        return (apart / (1.0 + np.exp(apart @ state.weights))[:, np.newaxis]).mean(axis=0), state.memory


@register
@dataclass(frozen=True, repr=False)
class PositionEffect(LogPairs):
    """All pairs of a list, with P(i ≻ j) = σ(w·(x_i − x_j) + b_i − b_j) and an effect b of each position, learned as w is."""

    def gradient(
        self, state: State, impression: Impression, feedback: Feedback, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the mean over the pairs, and the effects after a step."""
        rows, clicks = impression.query.features[impression.ranking], feedback.clicks
        better, worse = np.nonzero(clicks[:, np.newaxis] > clicks)
        effects = state.memory.get("effects", np.zeros(100))
        if not len(better):
            return np.zeros(len(state.weights)), state.memory
        apart = rows[better] - rows[worse]
        pull = 1.0 / (1.0 + np.exp(apart @ state.weights + effects[better] - effects[worse])) / len(better)
        shift = np.bincount(better, pull, 100) - np.bincount(worse, pull, 100)
        rate = 2.0 / np.sqrt(1.0 + state.step)
        return pull @ apart, {"effects": effects + rate * shift}


METHODS = (
    "log-pairs",
    "log-pairs(examination=WholeList())",
    "log-pairs(examination=LastClick(beyond=1))",
    "SkipAbove()",
    "PositionEffect()",
    "pdgd",
    "pdgd(observed=DependentClick(forgetting=1.0))",
    "mgd-dsp",
    "wmgd-dsp",
)


def learned(method: str, name: str, user: str, production: str, lists: int, seed: int) -> float:
    """Return nDCG@10 after a log of a fold; seeds go through the folds."""
    dataset = as_part(name, Dataset)
    number = 1 + (seed - 1) % dataset.n_folds
    fold = dataset.fold(number)
    algorithm, log = as_part(method, Algorithm), Logged(as_part(production, Baseline), lists)
    learner = Learner(algorithm, fold.n_features, seed)
    clicking = as_part(user, User).for_grades(fold.n_grades)
    state, key = learner.state, stream_key(seed, "log")
    shown = log.shown(learner, fold, log.production.weights(dataset, number), clicking)
    for query, ranking, feedback in shown:
        impression = algorithm.observe_list(state, query, ranking, derive(key, state.step))
        state = algorithm.learn(state, impression, feedback, derive(key, state.step))
    return offline_performance(np.ascontiguousarray(state.weights), fold.test, METRIC, stream(seed, "evaluation"))


def quality(weights: Weights, name: str, seed: int) -> float:
    """Return nDCG@10 of given weights on the test queries of the fold of a seed."""
    dataset = as_part(name, Dataset)
    return offline_performance(
        weights, dataset.fold(1 + (seed - 1) % dataset.n_folds).test, METRIC, stream(seed, "evaluation")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", default="mq2007,mq2008")
    parser.add_argument("--lists", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=5, help="runs per cell: one per fold first")
    parser.add_argument("--methods", nargs="*", default=METHODS)
    options = parser.parse_args()
    seeds = range(1, options.seeds + 1)
    print(f"| {options.lists:,} lists | {' | '.join(USERS)} |\n|---|---|---|---|")
    for name in options.datasets.split(","):
        dataset = as_part(name, Dataset)
        for text in PRODUCTION:
            own = [as_part(text, Baseline).weights(dataset, 1 + (seed - 1) % dataset.n_folds) for seed in seeds]
            mean = np.mean([quality(weights, name, seed) for weights, seed in zip(own, seeds, strict=True)])
            print(f"| **{name}, {text}: {mean:.3f}** | | | |")
            for method in options.methods:
                found = [
                    np.mean([learned(method, name, user, text, options.lists, seed) for seed in seeds])
                    for user in USERS
                ]
                print(f"| `{method}` | {' | '.join(f'{each:.3f}' for each in found)} |", flush=True)


if __name__ == "__main__":
    main()
