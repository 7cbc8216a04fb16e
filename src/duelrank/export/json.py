"""Export to JSON, which `LinearModel.from_json` reads."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.export.base import Format, register_format
from duelrank.export.model import LinearModel


@register_format("json")
@dataclass(frozen=True)
class JsonModel(Format):
    """JSON with the complete model, for duelrank.

    Examples
    --------
    >>> from duelrank.export import LinearModel, export
    >>> model = LinearModel("shop", 7, ("bm25", "vector"), [0.75, 0.25])
    >>> text = export(model, "json").decode()
    >>> LinearModel.from_json(text).score([[1.0, 2.0]]).tolist()
    [1.25]
    """

    def write(self, model: LinearModel) -> str:
        """Return the text that `LinearModel.from_json` reads."""
        return model.to_json()
