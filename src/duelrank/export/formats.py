"""The formats by name, and one function that writes any of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from duelrank.errors import InvalidValue, UnknownName
from duelrank.export.elasticsearch import elasticsearch
from duelrank.export.model import LinearModel
from duelrank.export.onnx_graph import onnx_graph
from duelrank.export.ranklib import ranklib
from duelrank.export.solr import solr
from duelrank.export.vespa import vespa

__all__ = ["FORMATS", "Format", "export"]


@dataclass(frozen=True)
class Format:
    """One way to write a model down."""

    function: Callable[..., str | bytes]
    media_type: str
    suffix: str
    description: str
    is_text: bool = True

    @property
    def options(self) -> tuple[str, ...]:
        """What it can be told."""
        return tuple(inspect.signature(self.function).parameters)[1:]


FORMATS: dict[str, Format] = {
    "elasticsearch": Format(elasticsearch, "application/json", ".json", "Elasticsearch-LTR, body of _createmodel"),
    "json": Format(LinearModel.to_json, "application/json", ".json", "everything, to be read back"),
    "onnx": Format(onnx_graph, "application/octet-stream", ".onnx", "ONNX, float32 (N, features) to (N, 1)", False),
    "opensearch": Format(elasticsearch, "application/json", ".json", "OpenSearch LTR, body of _createmodel"),
    "ranklib": Format(ranklib, "text/plain", ".txt", "RankLib text, also for model/ranklib"),
    "solr": Format(solr, "application/json", ".json", "Solr LTR, body for the model store"),
    "vespa": Format(vespa, "text/plain", ".profile", "Vespa, a rank profile"),
}


def export(model: LinearModel, format: str, **options: Any) -> bytes:
    """Write a model in one of the `FORMATS`, or refuse with the reason why that format cannot hold it.

    Examples
    --------
    >>> from duelrank.export import LinearModel, export
    >>> print(export(LinearModel("shop", 7, ("bm25", "price"), [0.41, -0.12]), "ranklib").decode(), end="")
    ## Coordinate Ascent
    ## Model = shop_000007
    ## Features = ["bm25", "price"]
    1:0.41 2:-0.12
    """
    if format not in FORMATS:
        raise UnknownName.among("format", format, FORMATS)
    known = FORMATS[format].options
    for name in options:
        if name not in known:
            raise InvalidValue(f"the format {format} has no option {name}; it has {', '.join(known) or 'none'}")
    content = FORMATS[format].function(model, **options)
    return content.encode() if isinstance(content, str) else content
