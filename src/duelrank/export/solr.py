"""Apache Solr: the body of ``PUT /solr/<collection>/schema/model-store``."""

from __future__ import annotations

import json
from typing import Any

from duelrank.export.model import LinearModel
from duelrank.export.rules import Term, check_single_precision, terms
from duelrank.normalisation import MinMax

__all__ = ["solr"]

ENGINE = "Solr"


def solr(model: LinearModel, *, store: str | None = None) -> str:
    """Return a ``LinearModel`` of Solr LTR, under a name that is new for each version.

    Parameters
    ----------
    model
        Unnormalised or with fixed scalings.
    store
        The feature store that has the features; Solr's default one unless given.
    """
    summands = terms(model, ENGINE)
    check_single_precision(summands, ENGINE)
    content: dict[str, Any] = {"store": store} if store is not None else {}
    content |= {
        "name": model.versioned_name,
        "class": "org.apache.solr.ltr.model.LinearModel",
        "features": [_feature(each) for each in summands],
        "params": {"weights": {each.name: each.weight for each in summands}},
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _feature(term: Term) -> dict[str, Any]:
    if term.scaling is None:
        return {"name": term.name}
    if isinstance(term.scaling, MinMax):
        kind, params = "MinMax", {"min": term.scaling.minimum, "max": term.scaling.maximum}
    else:
        kind, params = "Standard", {"avg": term.scaling.mean, "std": term.scaling.deviation}
    # Texts, as in Solr's own examples: its setters take those in all versions.
    texts = {name: repr(float(value)) for name, value in params.items()}
    return {"name": term.name, "norm": {"class": f"org.apache.solr.ltr.norm.{kind}Normalizer", "params": texts}}
