"""From the documents of a request to a table of numbers, or to a sentence that names the document and the feature."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence

import numpy as np

from duelrank.api import Document
from duelrank.errors import InvalidValue, LimitExceeded, ShapeMismatch, UnknownName
from duelrank.export import Fixed, MinMax
from duelrank.serving.observer import Observer
from duelrank.serving.ranker.definition import Definition
from duelrank.serving.settings import Settings
from duelrank.types import Features

__all__ = ["Reader"]


class Reader:
    """Reads the documents of requests to one ranker.

    Parameters
    ----------
    definition
        Of the ranker.
    settings
        The limits.
    """

    def __init__(self, definition: Definition, settings: Settings) -> None:
        self._name, self._names, self._columns = definition.spec.name, definition.spec.features, definition.columns
        self._settings = settings
        self._range = _range(definition)
        self._pack = struct.Struct(f"<{len(self._names)}d").pack  # twice as fast as an array of numpy or of Python

    def read(self, documents: Sequence[Document], observer: Observer) -> tuple[list[str], bytes, Features]:
        """Return the ids, and the features as bytes and as a read-only view of these."""
        if not 1 <= len(documents) <= self._settings.max_documents:
            most = self._settings.max_documents
            wrong = LimitExceeded if documents else InvalidValue
            raise wrong(f"a request has from 1 to {most:,} documents, got {len(documents):,}")
        ids = [document.id for document in documents]
        self._check_ids(ids)
        packed = b"".join([self._row(document, observer) for document in documents])
        raw = np.frombuffer(packed, "<f8").reshape(len(ids), -1)
        if not math.isfinite(raw.sum()) and not (finite := np.isfinite(raw)).all():
            self._refuse(ids, raw, finite, observer)
        if self._range is not None:
            low, high = self._range
            if outside := np.count_nonzero((raw < low) | (raw > high)):
                observer.feature_trouble(self._name, "out_of_range", int(outside))
        return ids, packed, raw

    def _check_ids(self, ids: list[str]) -> None:
        if len(set(ids)) < len(ids):
            twice = next(id for index, id in enumerate(ids) if id in ids[:index])
            raise InvalidValue(f"two documents have the id {twice!r}; each needs one of its own")
        if len(max(ids, key=len)) > self._settings.max_id:
            raise LimitExceeded(f"the id of a document may have at most {self._settings.max_id} characters")
        if "" in ids:
            raise InvalidValue("the id of a document must not be empty")
        try:
            "".join(ids).encode()
        except UnicodeEncodeError as error:
            raise InvalidValue(f"the id of a document must be proper Unicode: {error}") from None

    def _row(self, document: Document, observer: Observer) -> bytes:
        given = document.features
        if isinstance(given, dict):
            given = self._dense(document, given, observer)
        elif len(given) != len(self._names):
            expected, found = len(self._names), len(given)
            raise ShapeMismatch(f"the ranker has {expected} features, document {document.id!r} has {found}")
        try:
            return self._pack(*given)
        except (struct.error, OverflowError) as error:
            raise InvalidValue(f"the features of document {document.id!r} must be numbers: {error}") from None

    def _dense(self, document: Document, given: Mapping[str, float], observer: Observer) -> list[float]:
        row = [0.0] * len(self._names)
        for name, value in given.items():
            column = self._columns.get(name)
            if column is None:
                unknown = UnknownName.among("feature", name, self._names[:50])
                raise InvalidValue(f"document {document.id!r}: {unknown}")
            row[column] = value
        if len(given) < len(row):
            observer.feature_trouble(self._name, "missing", len(row) - len(given))
        return row

    def _refuse(self, ids: list[str], raw: Features, finite: np.ndarray, observer: Observer) -> None:
        observer.feature_trouble(self._name, "nan", int(np.isnan(raw).sum()))
        observer.feature_trouble(self._name, "infinite", int(np.isinf(raw).sum()))
        document, column = (int(index) for index in np.argwhere(~finite)[0])
        raise InvalidValue(
            f"features must be finite, found {raw[document, column]} in document {ids[document]!r}, "
            f"feature {self._names[column]!r}"
        )


def _range(definition: Definition) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the least and largest values that a fixed normalisation expects, None where it expects nothing."""
    scalings = definition.normalisation.scalings if isinstance(definition.normalisation, Fixed) else ()
    if not any(isinstance(each, MinMax) for each in scalings):
        return None
    low = [each.minimum if isinstance(each, MinMax) else -math.inf for each in scalings]
    high = [each.maximum if isinstance(each, MinMax) else math.inf for each in scalings]
    return np.array(low), np.array(high)
