"""RankLib text, for RankLib itself and for ``model/ranklib`` of Elasticsearch-LTR and OpenSearch LTR."""

from __future__ import annotations

import json

from duelrank.export.model import LinearModel
from duelrank.export.rules import finite, terms

__all__ = ["ranklib"]


def ranklib(model: LinearModel, *, offset: float | None = None) -> str:
    """Return a linear ranker: 1-based ordinals in the order of the features, the scales folded into the weights.

    Parameters
    ----------
    model
        Unnormalised or with fixed scalings.
    offset
        Unless given, the ranker is ``Coordinate Ascent``, which has no bias: its scores are those of the model up to one constant,
        which no order depends on. If given, it is ``Linear Regression``, and its scores are those of the model plus the offset.
    """
    pairs, bias = [], finite(0.0 if offset is None else offset, "the offset")
    for number, each in enumerate(terms(model, "RankLib"), 1):
        shift, scale = (each.scaling.shift, each.scaling.scale) if each.scaling else (0.0, 1.0)
        weight = finite(each.weight / scale, f"the weight of {each.name!r}, divided by its scale,")
        pairs.append(f"{number}:{weight!r}")
        bias -= weight * shift
    if offset is not None:
        pairs.insert(0, f"0:{finite(bias, 'the bias')!r}")
    ranker = "Coordinate Ascent" if offset is None else "Linear Regression"
    about = [f"## {ranker}", f"## Model = {model.versioned_name}", f"## Features = {json.dumps(model.features)}"]
    return "\n".join([*about, " ".join(pairs)]) + "\n"
