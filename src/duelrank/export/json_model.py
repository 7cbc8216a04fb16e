"""JSON of duelrank itself: everything about a model, to be read back by `LinearModel.from_json`."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.export.base import Format, register_format
from duelrank.export.model import LinearModel

__all__ = ["JsonModel"]


@register_format("json")
@dataclass(frozen=True)
class JsonModel(Format):
    """JSON with everything, to be read back by duelrank."""

    def write(self, model: LinearModel) -> str:
        """Return what `LinearModel.from_json` reads."""
        return model.to_json()
