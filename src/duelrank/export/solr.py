"""Apache Solr: the body of ``PUT /solr/<collection>/schema/model-store``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

from duelrank.export.base import Format, register_format
from duelrank.export.model import LinearModel
from duelrank.export.terms import Term, check_single_precision, terms
from duelrank.normalisation import MinMax

__all__ = ["Solr"]

ENGINE = "Solr"


@register_format("solr")
@dataclass(frozen=True)
class Solr(Format):
    """Solr LTR, body for the model store.

    It is a ``LinearModel`` of Solr, under a name that is new for each version; unnormalised or with fixed scalings.
    """

    store: Annotated[str | None, "Name of the feature store; Solr's default store unless given."] = None

    def write(self, model: LinearModel) -> str:
        """Return the JSON that Solr takes."""
        summands = terms(model, ENGINE)
        check_single_precision(summands, ENGINE)
        content: dict[str, Any] = {"store": self.store} if self.store is not None else {}
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
