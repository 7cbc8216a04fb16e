"""Export to RankLib, whose text the Elasticsearch and OpenSearch plug-ins also read as ``model/ranklib``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from duelrank.export.base import Format, register_format
from duelrank.export.decomposition import finite, terms
from duelrank.export.model import LinearModel
from duelrank.export.trees import MAX_ERROR_HELP, Staircase, error_of, staircases

ENGINE = "RankLib"


@register_format("ranklib")
@dataclass(frozen=True)
class RankLib(Format):
    """RankLib text, also for model/ranklib.

    The features are numbered from 1, in their order. A linear model becomes ``Coordinate Ascent``, with the scales folded into
    the weights; that ranker has no bias, so its scores differ from those of the model by a constant, which does not change any
    order. With an offset it becomes ``Linear Regression``, whose scores are those of the model plus the offset. Any other model
    becomes an ensemble of trees, one for each feature, as in ``LambdaMART``.

    Examples
    --------
    >>> from duelrank.export import LinearModel, export
    >>> model = LinearModel("shop", 7, ("bm25", "vector"), [0.75, 0.25])
    >>> text = export(model, "ranklib").decode()
    >>> text.splitlines()[-1]
    '1:0.75 2:0.25'
    """

    media_type = "text/plain"
    suffix = ".txt"

    offset: Annotated[
        float | None, "Constant added to all scores; a linear model with an offset is written as a Linear Regression."
    ] = None
    max_error: Annotated[float | None, MAX_ERROR_HELP] = None

    def write(self, model: LinearModel) -> str:
        """Return the text that RankLib loads."""
        return self._linear(model) if model.is_linear else self._trees(model)

    def _linear(self, model: LinearModel) -> str:
        pairs, bias = [], finite(0.0 if self.offset is None else self.offset, "the offset")
        for number, each in enumerate(terms(model, ENGINE), 1):
            shift, scale = (each.scaling.shift, each.scaling.scale) if each.scaling else (0.0, 1.0)
            weight = finite(each.weight / scale, f"the weight of {each.name!r}, divided by its scale,")
            pairs.append(f"{number}:{weight!r}")
            bias -= weight * shift
        if self.offset is not None:
            pairs.insert(0, f"0:{finite(bias, 'the bias')!r}")
        ranker = "Coordinate Ascent" if self.offset is None else "Linear Regression"
        return "\n".join([*_head(ranker, model), " ".join(pairs)]) + "\n"

    def _trees(self, model: LinearModel) -> str:
        found = staircases(model, ENGINE, self.max_error)
        error = error_of(found)
        if self.offset is not None:
            constant = np.array([finite(self.offset, "the offset")])
            found = [*found, Staircase("offset", 0, np.empty(0), constant, 0.0)]
        head = [*_head("LambdaMART", model), *([f"## Error = {error}"] if error else [])]
        trees = [_tree(number, each) for number, each in enumerate(found, 1)]
        return "\n".join([*head, "", "<ensemble>", *map(_indented, trees), "</ensemble>"]) + "\n"


def _head(ranker: str, model: LinearModel) -> list[str]:
    return [f"## {ranker}", f"## Model = {model.versioned_name}", f"## Features = {json.dumps(model.features)}"]


def _tree(number: int, staircase: Staircase) -> str:
    def split(threshold: float, left: str, right: str) -> str:
        sides = (
            f'<split pos="{side}">\n{_indented(own)}\n</split>' for side, own in (("left", left), ("right", right))
        )
        feature = f"<feature> {staircase.number} </feature>\n<threshold> {threshold!r} </threshold>"
        return "\n".join([feature, *sides])

    root = staircase.tree(split, lambda height: f"<output> {height!r} </output>")
    return f'<tree id="{number}" weight="1.0">\n{_indented(_split(root))}\n</tree>'


def _split(content: str) -> str:
    return f"<split>\n{_indented(content)}\n</split>"


def _indented(text: str) -> str:
    return "\n".join(f"\t{line}" for line in text.split("\n"))
