"""Elasticsearch-LTR and OpenSearch LTR: the body of ``POST _ltr/_featureset/<set>/_createmodel``."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from duelrank.errors import InvalidValue
from duelrank.export.lowest import lowest_score, sufficient_offset
from duelrank.export.model import LinearModel
from duelrank.export.rules import Term, check_single_precision, finite, terms

__all__ = ["elasticsearch"]

ENGINE = "Elasticsearch-LTR or OpenSearch LTR"


def elasticsearch(
    model: LinearModel,
    *,
    offset_feature: str | None = None,
    offset: float | None = None,
    allow_negative: bool = False,
) -> str:
    """Return a ``model/linear``, under a name that is new for each version.

    Lucene refuses scores below 0, and the format has no bias. What keeps scores up is a feature that is 1 for every document.

    Parameters
    ----------
    model
        Unnormalised or with fixed scalings.
    offset_feature
        The name of such a feature in the feature set, to be added to the model.
    offset
        Its weight. Where all features that count are scaled by min-max, the smallest sufficient one unless given.
    allow_negative
        Write the model all the same, though some scores may be below 0.
    """
    summands = terms(model, ENGINE)
    check_single_precision(summands, ENGINE)
    if offset_feature is not None:
        summands = [*summands, _offset(model, summands, offset_feature, offset, allow_negative)]
    elif offset is not None:
        raise InvalidValue("an offset is the weight of a feature that is always 1: name it with offset_feature")
    elif not allow_negative:
        _refuse_negative(lowest_score(summands))
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


def _offset(model: LinearModel, summands: Sequence[Term], name: str, given: float | None, allow_negative: bool) -> Term:
    if not isinstance(name, str) or not name or name in model.features:
        raise InvalidValue(f"the feature that is always 1 needs a name that the model does not use, got {name!r}")
    lowest = lowest_score(summands)
    if lowest is None and given is None:
        raise InvalidValue(f"{_UNKNOWN}, so the weight of {name!r} cannot be worked out: give it as offset")
    least = sufficient_offset(summands, lowest) if lowest is not None else 0.0
    weight = least if given is None else finite(given, "the offset")
    if not 0.0 <= weight <= float(np.finfo(np.float32).max):
        raise InvalidValue(f"an offset is a number from 0 up that single precision can hold, got {weight!r}")
    if weight < least and not allow_negative:
        raise InvalidValue(f"an offset of {weight!r} leaves scores below 0, which Lucene refuses; {least!r} does not")
    return Term(name, weight, None)


_UNKNOWN = "how low the scores can get is not known unless every feature that counts is scaled by a fixed min-max"


def _refuse_negative(lowest: float | None) -> None:
    if lowest is None or lowest < 0.0:
        reason = _UNKNOWN if lowest is None else f"the scores of this model go down to {lowest:.6g}"
        weight = ", and its weight with offset" if lowest is None else ""
        raise InvalidValue(
            f"{reason}, and Lucene refuses scores below 0; name a feature that is 1 for every document with "
            f"offset_feature{weight}, or accept them with allow_negative"
        )
