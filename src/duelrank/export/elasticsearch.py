"""Elasticsearch-LTR and OpenSearch LTR: the body of ``POST _ltr/_featureset/<set>/_createmodel``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from duelrank.errors import InvalidValue
from duelrank.export.base import Format, register_format
from duelrank.export.model import LinearModel
from duelrank.export.score_bounds import minimum_offset, minimum_score
from duelrank.export.terms import Term, check_single_precision, finite, terms

__all__ = ["Elasticsearch"]

ENGINE = "Elasticsearch-LTR or OpenSearch LTR"


@register_format("elasticsearch", "opensearch")
@dataclass(frozen=True)
class Elasticsearch(Format):
    """Elasticsearch-LTR and OpenSearch LTR, body of _createmodel.

    A ``model/linear``, under a name that is new for each version; unnormalised or with fixed scalings. Lucene refuses scores
    below 0, and the format has no bias; a feature that is 1 for every document keeps scores at 0 or above.
    """

    offset_feature: Annotated[
        str | None, "Name of a feature that is 1 for all documents, to be added to the model."
    ] = None
    offset: Annotated[
        float | None,
        "Weight of offset_feature; the smallest sufficient one unless given, if all features that count are scaled by min-max.",
    ] = None
    allow_negative: Annotated[bool, "Write models whose scores may be negative, which Lucene refuses."] = False

    def write(self, model: LinearModel) -> str:
        """Return the JSON that both plug-ins take."""
        summands = terms(model, ENGINE)
        check_single_precision(summands, ENGINE)
        if self.offset_feature is not None:
            summands = [*summands, self._offset_term(model, summands, self.offset_feature)]
        elif self.offset is not None:
            raise InvalidValue("an offset is the weight of a feature that is always 1: name it with offset_feature")
        elif not self.allow_negative:
            _refuse_negative(minimum_score(summands))
        content = {
            "model": {
                "name": model.versioned_name,
                "model": {
                    "type": "model/linear",
                    "definition": json.dumps({each.name: each.weight for each in summands}, ensure_ascii=False),
                    "feature_normalizers": {each.name: each.scaling.as_dict() for each in summands if each.scaling},
                },
            }
        }
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def _offset_term(self, model: LinearModel, summands: Sequence[Term], name: str) -> Term:
        if not isinstance(name, str) or not name or name in model.features:
            raise InvalidValue(f"the feature that is always 1 needs a name that the model does not use, got {name!r}")
        minimum = minimum_score(summands)
        if minimum is None and self.offset is None:
            raise InvalidValue(f"{_UNKNOWN}, so the weight of {name!r} cannot be worked out: give it as offset")
        least = minimum_offset(summands, minimum) if minimum is not None else 0.0
        weight = least if self.offset is None else finite(self.offset, "the offset")
        if not 0.0 <= weight <= float(np.finfo(np.float32).max):
            raise InvalidValue(f"an offset is a number from 0 up that single precision can hold, got {weight!r}")
        if weight < least and not self.allow_negative:
            raise InvalidValue(
                f"an offset of {weight!r} leaves scores below 0, which Lucene refuses; {least!r} does not"
            )
        return Term(name, weight, None)


_UNKNOWN = "the minimum score is not known unless every feature that counts is scaled by a fixed min-max"


def _refuse_negative(minimum: float | None) -> None:
    if minimum is None or minimum < 0.0:
        reason = _UNKNOWN if minimum is None else f"the scores of this model go down to {minimum:.6g}"
        weight = ", and its weight with offset" if minimum is None else ""
        raise InvalidValue(
            f"{reason}, and Lucene refuses scores below 0; name a feature that is 1 for every document with "
            f"offset_feature{weight}, or accept them with allow_negative"
        )
