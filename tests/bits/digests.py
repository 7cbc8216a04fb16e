"""Prints digests of runs, data sets, snapshots and measures, for processes that imitate other processors."""

from __future__ import annotations

import hashlib
import json
import sys

import numpy as np

from duelrank import Dataset, Feedback, Learner, Query, RunSpec, parse, simulate
from duelrank.evidence import EValue
from duelrank.experiments.reference import Training, train
from duelrank.experiments.results import fingerprint
from duelrank.simulation import Record

RUNS = {
    "dbgd-dsp": "perfect",
    "mgd(n_candidates=49)": "navigational",
    "mgd-dsp": "informational",
    "mgd-dsp(basis='svd')": "navigational",
    "nsgd": "informational",
    "nsgd-dsp": "perfect",
    "wmgd-dsp": "pbm",
    "wmgd-dsp-curves": "navigational",
    "pdgd": "informational",
    "mlp-pdgd(layers=2)": "navigational",
    "pairrank": "perfect",
    "thompson-pairs-curves": "informational",
    "thompson-pairs(covariances=0)": "navigational",
    "cps": "navigational",
    "c-mgd(decay=0.999)": "perfect",
    "log-pairs": "informational",
    "cascade-kl-ucb": "navigational",
    "dbgd(multileaver=OptimizedInterleaving())": "navigational",
    "mgd-dsp(examination=PositionBased())": "pbm",
}
DATA = ("synthetic(n_features=700, n_queries=4)", "bumpy(n_queries=20)", "synthetic(n_grades=5, n_queries=30)")


def digest(*arrays: np.ndarray | bytes) -> str:
    return hashlib.sha256(b"".join(bytes(each) for each in arrays)).hexdigest()[:16]


def run(algorithm: str, user: str) -> Record:
    data = "bumpy(n_queries=20, scale='none')" if "curves" in algorithm else "synthetic(n_queries=20, n_features=46)"
    return simulate(RunSpec(algorithm, data, user, seed=5, impressions=1500 if "nsgd" in algorithm else 400))


def digests() -> dict[str, str]:
    found = {}
    for algorithm, user in RUNS.items():
        record = run(algorithm, user)
        found[algorithm] = digest(record.trajectory, record.online, record.offline, record.update_norms)
        found[f"row of {algorithm}"] = digest(json.dumps(record.row()["online_curve"]).encode())
    for name in DATA:
        found[name] = fingerprint(parse(name, Dataset).fold(2))
    for start, later in parse("Drifting(synthetic(n_queries=20), over=100)", Dataset).fold(1).later:
        found[f"grades from {start} on"] = fingerprint(later)
    fold = parse(DATA[-1], Dataset).fold(1)
    found["reference"] = digest(train(fold, settings=Training(max_epochs=3)).weights)
    learner = Learner("wmgd-dsp", n_features=700, seed=3)
    query = Query("q", np.random.default_rng(1).integers(0, 3, (40, 700)).astype(float))  # with many ties
    for _ in range(20):
        impression = learner.rank(query)
        learner.learn(impression, Feedback(impression.ranking % 3 == 0))
    found["snapshot"] = digest(learner.snapshot().to_bytes(), learner.score(query))
    found["e-values"] = digest(np.array([EValue(wins, 100 - wins).log for wins in range(101)]))
    return found


if __name__ == "__main__":
    json.dump(digests(), sys.stdout)
