"""RankLib text, for RankLib itself and for ``model/ranklib`` of Elasticsearch-LTR and OpenSearch LTR."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

from duelrank.export.base import Format, register_format
from duelrank.export.model import LinearModel
from duelrank.export.terms import finite, terms

__all__ = ["RankLib"]


@register_format("ranklib")
@dataclass(frozen=True)
class RankLib(Format):
    """RankLib text, also for model/ranklib.

    A linear ranker: 1-based ordinals in the order of the features, the scales folded into the weights. Without an offset it is
    ``Coordinate Ascent``, which has no bias: its scores are those of the model up to a constant, which does not change any
    order. With an offset it is ``Linear Regression``, and its scores are those of the model plus the offset.
    """

    media_type = "text/plain"
    suffix = ".txt"

    offset: Annotated[float | None, "Constant added to all scores; it makes the ranker a Linear Regression."] = None

    def write(self, model: LinearModel) -> str:
        """Return the text that RankLib loads."""
        pairs, bias = [], finite(0.0 if self.offset is None else self.offset, "the offset")
        for number, each in enumerate(terms(model, "RankLib"), 1):
            shift, scale = (each.scaling.shift, each.scaling.scale) if each.scaling else (0.0, 1.0)
            weight = finite(each.weight / scale, f"the weight of {each.name!r}, divided by its scale,")
            pairs.append(f"{number}:{weight!r}")
            bias -= weight * shift
        if self.offset is not None:
            pairs.insert(0, f"0:{finite(bias, 'the bias')!r}")
        ranker = "Coordinate Ascent" if self.offset is None else "Linear Regression"
        about = [f"## {ranker}", f"## Model = {model.versioned_name}", f"## Features = {json.dumps(model.features)}"]
        return "\n".join([*about, " ".join(pairs)]) + "\n"
