"""Learn the weights of a hybrid search, words and vectors, from clicks. Run it: python examples/hybrid_search.py [PICTURE].

The documents are the docstrings of Python's own library. One sub-query is BM25 (SQLite's FTS5). The other is the cosine of vectors,
here of character trigrams, where yours are of a model. A query is what somebody remembers of a docstring's first lines: a few
words, some of them misspelt. The grid, which knows all labels, is the best that weights can do; the ranker knows clicks only.
"""

from __future__ import annotations

import re
import sqlite3
import sys
import weakref
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from duelrank import Feedback, Learner, parse
from duelrank.adapters.hybrid import RECIPE, table
from duelrank.core.randomness import stream
from duelrank.core.types import Weights
from duelrank.datasets import Split
from duelrank.drawing import COLOURS, figure_class, style_panel
from duelrank.export import LinearModel, export
from duelrank.metrics import nDCG, offline_performance
from duelrank.playground.search import Document, read_library

START = {"bm25": 1.0, "vector": 0.0}  # the search as it is today; vectors are new
USERS = ("perfect", "navigational", "informational")
GRID = np.linspace(0.0, 1.0, 101)  # the weight of bm25; the rest is that of the vectors
LOOKS = (50, 100, 200, 500, 1_000, 2_000, 5_000)
Looks = list[tuple[int, float]]


class Index:
    """A search with two sub-queries; each returns its best 50 documents with their scores, as an engine does."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = documents
        self._words = sqlite3.connect(":memory:")
        weakref.finalize(self, self._words.close)  # Python 3.13 warns of a connection that nobody closes
        self._words.execute("CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='porter unicode61')")
        texts = [f"{each.id.replace('.', ' ').replace('_', ' ')} {each.text}" for each in documents]
        self._words.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", enumerate(texts))
        counts = np.array([trigrams(f"{each.name} {each.summary}") for each in documents])
        self._rarity = np.log(len(documents) / (1.0 + (counts > 0).sum(axis=0)))
        self._vectors = self._unit(counts)

    def scores(self, query: str) -> dict[str, dict[str, float]]:
        """Return for each sub-query the scores of the documents that it found."""
        match = " OR ".join(f'"{word}"' for word in query.split())
        best = "SELECT rowid, -bm25(texts) FROM texts WHERE texts MATCH ? ORDER BY bm25(texts), rowid LIMIT 50"
        cosines = self._vectors @ self._unit(trigrams(query)[None])[0]
        nearest = np.argsort(-cosines, kind="stable")[:50].tolist()
        return {
            "bm25": {self.documents[row].id: score for row, score in self._words.execute(best, (match,))},
            "vector": {self.documents[row].id: float(cosines[row]) for row in nearest},
        }

    def _unit(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        weighed = counts * self._rarity
        scaled: NDArray[np.float64] = weighed / np.maximum(np.linalg.norm(weighed, axis=1, keepdims=True), 1e-9)
        return scaled


def trigrams(text: str) -> NDArray[np.float64]:
    """Return how often each trigram of letters is in a text; a hash makes 1,024 numbers of all that there can be."""
    plain = f"  {' '.join(re.findall('[a-z0-9]+', text.lower()))}  "
    places = [zlib.crc32(plain[start : start + 3].encode()) % 1024 for start in range(len(plain) - 2)]
    return np.bincount(places, minlength=1024).astype(np.float64)


def remembered(summary: str, draw: np.random.Generator) -> str:
    """Return two to five words of a summary, in their order, one in four of them misspelt."""
    words = re.findall("[a-z]{3,}", summary.lower())
    kept = sorted(draw.choice(len(words), min(len(words), int(draw.integers(2, 6))), replace=False))
    return " ".join(misspelt(words[place], draw) if draw.random() < 0.25 else words[place] for place in kept)


def misspelt(word: str, draw: np.random.Generator) -> str:
    """Leave a letter out, or swap it with the next one."""
    place = int(draw.integers(len(word) - 1))
    instead = word[place + 1] + word[place] if draw.random() < 0.5 else word[place + 1]
    return word[:place] + instead + word[place + 2 :]


def judged(index: Index, n_queries: int, seed: int) -> Split:
    """Make queries. Grade 2 is for the document that was meant, 1 for others of its module, 0 for the rest."""
    draw = np.random.default_rng(seed)
    modules = {each.id: each.module for each in index.documents}
    meant = [each for each in index.documents if len(re.findall("[a-z]{3,}", each.summary.lower())) >= 4]
    features, labels, offsets = [], [], [0]
    for row in draw.choice(len(meant), n_queries, replace=False).tolist():
        documents, own = table(index.scores(remembered(meant[row].summary, draw)))
        features.append(own)
        labels += [2 if each == meant[row].id else int(modules[each] == meant[row].module) for each in documents]
        offsets.append(len(labels))
    return Split(np.vstack(features), labels, offsets, [str(number) for number in range(n_queries)])


def quality(weights: Weights, queries: Split) -> float:
    """Return nDCG@10."""
    return offline_performance(weights, queries, nDCG @ 10, stream(7, "ties"))


def learned(
    train: Split, test: Split, user: str, n_lists: int, recipe: str = RECIPE, seed: int = 7
) -> tuple[Learner, Looks]:
    """Learn from a user's clicks; return the ranker, and how good it was on other queries after some numbers of lists."""
    learner = Learner(recipe, weights=START, seed=seed)
    clicking = parse(user).for_grades(3)
    looks = [(0, quality(learner.weights, test))]
    asked = np.random.default_rng(seed).integers(len(train), size=n_lists)
    for number, place in enumerate(asked.tolist(), 1):
        impression = learner.rank(train.query(place))
        shown = train.judgements(place)[impression.ranking]  # only the simulated user looks at these
        learner.learn(impression, Feedback(clicking.click(shown, stream(seed, user, number)).clicks))
        if number in LOOKS or number == n_lists:
            looks.append((number, quality(learner.weights, test)))
    return learner, looks


def draw(grid: Sequence[float], found: dict[str, tuple[Learner, Looks]], path: str) -> None:
    """Draw the grid with what was learned on it, and the way there."""
    figure = figure_class()(figsize=(9.0, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    style_panel(left, "Every pair of weights, and those learned")
    left.plot(GRID, grid, color="0.4", label="grid")
    left.set(xlabel="weight of bm25 (vector has the rest)", ylabel="nDCG@10 on other queries")
    style_panel(right, "Learning from clicks")
    right.axhspan(0.99 * max(grid), max(grid), color="0.9", label="within 1% of the best of the grid")
    right.set(xlabel="lists shown")
    right.set_xscale("symlog", linthresh=50)
    right.set_xticks([0, 50, 200, 1_000, 5_000], ["0", "50", "200", "1,000", "5,000"], minor=False)
    for colour, (user, (learner, looks)) in zip(COLOURS, found.items(), strict=False):
        left.plot(learner.weights[0] / learner.weights.sum(), looks[-1][1], "o", color=colour)
        right.plot(*zip(*looks, strict=True), "o-", color=colour, markersize=4, label=user)
    right.legend(frameon=False, fontsize="small", loc="lower right")
    figure.savefig(path, dpi=120)


def main(n_queries: int = 500, n_lists: int = 5_000, picture: str | None = None, root: Path | None = None) -> None:
    """Compare the weights that three users teach with the best of a grid that knows the labels."""
    index = Index(read_library(root).documents)
    train, test = judged(index, n_queries, seed=11), judged(index, n_queries, seed=12)
    grid = [quality(np.array([share, 1.0 - share]), test) for share in GRID]
    best = int(np.argmax(grid))
    print(
        f"{len(index.documents):,} documents, {n_queries} queries to learn from and {n_queries} others for these numbers"
    )
    print(f"{'vector only':16} nDCG@10 {grid[0]:.4f}\n{'bm25 only':16} nDCG@10 {grid[-1]:.4f}")
    print(f"{'best of the grid':16} nDCG@10 {grid[best]:.4f}  bm25 {GRID[best]:.2f}")
    found = {user: learned(train, test, user, n_lists) for user in USERS}
    for user, (learner, looks) in found.items():
        share = learner.weights[0] / learner.weights.sum()
        way = ", ".join(f"{100 * (score / grid[best] - 1):+.2f}% after {number:,}" for number, score in looks)
        print(f"{user:16} nDCG@10 {looks[-1][1]:.4f}  bm25 {share:.2f}  against the grid: {way}")
    model = LinearModel.from_snapshot(found["navigational"][0].snapshot(), "docs", list(START))
    print(export(model, "opensearch-hybrid").decode(), end="")
    if picture:
        draw(grid, found, picture)


if __name__ == "__main__":
    main(picture=sys.argv[1] if len(sys.argv) > 1 else None)
