"""Learn from a log of clicks with scikit-learn's interface: lists that the ranker in use has shown, and what was clicked.

    python examples/click_log.py

Needs the extra: pip install 'duelrank[sklearn]'
"""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from duelrank import Dataset, nDCG, offline_performance, parse
from duelrank.adapters.sklearn import ClickRanker
from duelrank.core.randomness import stream
from duelrank.users import User

FOLD = parse("synthetic(n_queries=100)", Dataset).fold()
IN_USE = np.eye(FOLD.n_features)[0]  # the ranker in use knows a single feature
USER = parse("navigational", User).for_grades(FOLD.n_grades)


def click_log(n_lists: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the documents as they were shown, whether they were clicked, and to which list they belong."""
    rng, draws = np.random.default_rng(seed), stream(seed, "user")
    features, clicks = [], []
    for index in rng.integers(len(FOLD.train), size=n_lists).tolist():
        query, labels = FOLD.train.query(index), FOLD.train.judgements(index)
        shown = np.argsort(-(query.features @ IN_USE + rng.normal(scale=0.3, size=query.n_documents)))[:10]
        features.append(query.features[shown])
        clicks.append(USER.click(labels[shown], draws).clicks)
    lists = np.repeat(np.arange(n_lists), [len(shown) for shown in features])
    return np.concatenate(features), np.concatenate(clicks), lists


def quality(weights: np.ndarray) -> float:
    """Return the mean nDCG@10 of weights on queries that nobody has clicked on."""
    return offline_performance(weights, FOLD.test, nDCG @ 10, stream(0, "evaluation"))


if __name__ == "__main__":
    print(f"in use: nDCG@10 {quality(IN_USE):.3f}")
    ranker = ClickRanker("pdgd", seed=1)
    for day in range(3):
        ranker.partial_fit(*click_log(n_lists=500, seed=day))
        print(f"{500 * (day + 1):>6} lists: nDCG@10 {quality(ranker.coef_):.3f}")
    other = clone(ranker).set_params(algorithm="mgd-dsp").fit(*click_log(n_lists=500, seed=0))
    print(f"mgd-dsp: nDCG@10 {quality(other.coef_):.3f}")
