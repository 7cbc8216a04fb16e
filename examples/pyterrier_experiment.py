"""A learned ranker in a PyTerrier experiment, without Java: candidates with features in, re-ranked documents out.

    python examples/pyterrier_experiment.py

Needs the extra: pip install 'duelrank[pyterrier]'
"""

from __future__ import annotations

import pandas as pd
import pyterrier as pt

from duelrank import Dataset, Learner, parse, simulate
from duelrank.datasets import Split

DATA = parse("synthetic(n_queries=100)", Dataset)


def frame(split: Split) -> pd.DataFrame:
    """Return all candidates with their features and labels; the first feature is the score of the first stage."""
    rows = [
        {"qid": query.id, "query": query.id, "docno": f"d{number}", "score": row[0], "features": row, "label": label}
        for query, labels in ((split.query(index), split.judgements(index)) for index in range(len(split)))
        for number, (row, label) in enumerate(zip(query.features, labels, strict=True))
    ]
    return pd.DataFrame(rows)


if __name__ == "__main__":
    record = simulate("mgd-dsp", DATA, "navigational", impressions=2_000)
    learner = Learner("mgd-dsp", weights=record.weights)
    candidates = frame(DATA.fold().test)
    topics = candidates[["qid", "query"]].drop_duplicates()
    qrels = candidates[["qid", "docno", "label"]].astype({"label": int})
    first, again = (pt.Transformer.from_df(candidates.drop(columns="label")) for _ in range(2))
    results = pt.Experiment(
        [first, again >> learner.to_pyterrier()],
        topics,
        qrels,
        eval_metrics=["ndcg_cut_10", "recip_rank"],
        names=["first stage", "duelrank"],
        baseline=0,
    )
    print(results[["name", "ndcg_cut_10", "recip_rank"]].to_string(index=False))
