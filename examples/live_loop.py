"""The whole library in one loop: show a list, take the clicks, learn. Run it: python examples/live_loop.py."""

from __future__ import annotations

from duelrank import Feedback, Learner, Snapshot, parse
from duelrank.core.randomness import stream
from duelrank.datasets import Synthetic
from duelrank.metrics import nDCG, offline_performance


def main() -> None:
    """Learn from a simulated user, store the learner half-way, and go on from the stored bytes."""
    fold = Synthetic().fold(1)
    user = parse("navigational").for_grades(fold.n_grades)  # in production: your users
    learner = Learner("mgd-dsp", n_features=fold.n_features, seed=7)
    for t in range(2_000):
        if t == 1_000:
            stored = learner.snapshot().to_bytes()  # a restart: nothing is lost
            learner = Learner.from_snapshot(Snapshot.from_bytes(stored))
        index = t % len(fold.train)
        impression = learner.rank(fold.train.query(index))
        shown = fold.train.judgements(index)[impression.ranking]  # only the simulated user looks at these
        clicks = user.click(shown, stream(7, "user", t)).clicks
        learner.learn(impression, Feedback(clicks))
        if t + 1 in (10, 100, 1_000, 2_000):
            quality = offline_performance(learner.weights, fold.test, nDCG @ 10, stream(7, "test"))
            print(f"after {t + 1:5} impressions: nDCG@10 {quality:.3f} on unseen queries")


if __name__ == "__main__":
    main()
