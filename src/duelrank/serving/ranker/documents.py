"""From the documents of a request to a table of numbers, or to a sentence that names the document and the feature."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from duelrank.api import Document, DocumentTable
from duelrank.core.errors import InvalidValue, LimitExceeded, ShapeMismatch, UnknownName
from duelrank.core.types import Features
from duelrank.representation import Fixed, MinMax
from duelrank.serving.observer import Observer
from duelrank.serving.ranker.definition import Definition
from duelrank.serving.settings import Settings

__all__ = ["DocumentReader", "Troubles"]


class Troubles:
    """What is wrong with the features of one request, and does not keep it from being ranked; an observer is told too."""

    __slots__ = ("_observer", "missing", "out_of_range")

    def __init__(self, observer: Observer) -> None:
        self._observer, self.missing, self.out_of_range = observer, 0, 0

    def feature_trouble(self, name: str, kind: str, count: int) -> None:
        """So many values were in trouble."""
        self._observer.feature_trouble(name, kind, count)
        if kind == "missing":
            self.missing += count
        elif kind == "out_of_range":
            self.out_of_range += count


class DocumentReader:
    """Reads the documents of requests to one ranker.

    Parameters
    ----------
    definition
        Of the ranker.
    settings
        The limits.
    """

    def __init__(self, definition: Definition, settings: Settings) -> None:
        spec = definition.spec
        self._name, self._names, self._columns = spec.name, spec.features, definition.columns
        self._retired, self._single = frozenset(spec.retired), spec.precision == "float32"
        self._settings = settings
        self._range = _range(definition)
        self._pack = struct.Struct(f"<{len(self._names)}d").pack  # twice as fast as an array of numpy or of Python

    def read(
        self, given: Sequence[Document] | DocumentTable, observer: Observer | Troubles
    ) -> tuple[list[str], Features]:
        """Return the ids and the features, which are read-only."""
        if isinstance(given, DocumentTable):
            ids = given.ids
            self._check_ids(ids)
            raw = self._table(given)
        else:
            ids = [document.id for document in given]
            self._check_ids(ids)
            packed = b"".join([self._row(document, observer) for document in given])
            raw = np.frombuffer(packed, "<f8").reshape(len(ids), -1)
        if self._single:
            raw = _single(raw)
        if not math.isfinite(raw.sum()) and not (finite := np.isfinite(raw)).all():
            self._refuse(ids, raw, finite, observer)
        if self._range is not None:
            low, high = self._range
            if outside := np.count_nonzero((raw < low) | (raw > high)):
                observer.feature_trouble(self._name, "out_of_range", int(outside))
        raw.flags.writeable = False
        return ids, raw

    def _check_ids(self, ids: list[str]) -> None:
        most = self._settings.max_documents
        if not 1 <= len(ids) <= most:
            wrong = LimitExceeded if ids else InvalidValue
            raise wrong(f"a request has from 1 to {most:,} documents, got {len(ids):,}")
        if len(set(ids)) < len(ids):
            twice = Counter(ids).most_common(1)[0][0]
            raise InvalidValue(f"two documents have the id {twice!r}; each needs an id of its own")
        if len(max(ids, key=len)) > self._settings.max_id:
            raise LimitExceeded(f"the id of a document may have at most {self._settings.max_id} characters")
        if "" in ids:
            raise InvalidValue("the id of a document must not be empty")
        try:
            "".join(ids).encode()
        except UnicodeEncodeError as error:
            raise InvalidValue(f"the id of a document must be proper Unicode: {error}") from None

    def _table(self, given: DocumentTable) -> Features:
        """Return the features of a compact request."""
        kind = np.dtype("<f4" if given.type == "float32" else "<f8")
        expected = len(given.ids) * len(self._names) * kind.itemsize
        if len(given.features) != expected:
            raise ShapeMismatch(
                f"{len(given.ids)} documents with {len(self._names)} features as {given.type} take {expected:,} bytes, "
                f"got {len(given.features):,}"
            )
        return np.frombuffer(given.features, kind).reshape(len(given.ids), -1).astype(np.float64)

    def _row(self, document: Document, observer: Observer | Troubles) -> bytes:
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

    def _dense(self, document: Document, given: Mapping[str, float], observer: Observer | Troubles) -> list[float]:
        row = [0.0] * len(self._names)
        ignored = 0
        for name, value in given.items():
            column = self._columns.get(name)
            if column is not None:
                row[column] = value
            elif name in self._retired:
                ignored += 1
            else:
                unknown = UnknownName.among("feature", name, self._names[:50])
                raise InvalidValue(f"document {document.id!r}: {unknown}")
        if missing := len(row) - len(given) + ignored:
            observer.feature_trouble(self._name, "missing", missing)
        return row

    def _refuse(self, ids: list[str], raw: Features, finite: np.ndarray, observer: Observer | Troubles) -> None:
        observer.feature_trouble(self._name, "nan", int(np.isnan(raw).sum()))
        observer.feature_trouble(self._name, "infinite", int(np.isinf(raw).sum()))
        document, column = (int(index) for index in np.argwhere(~finite)[0])
        beyond = " (the ranker keeps features as float32)" if self._single else ""
        raise InvalidValue(
            f"features must be finite, found {raw[document, column]} in document {ids[document]!r}, "
            f"feature {self._names[column]!r}{beyond}"
        )


def _single(raw: Features) -> Features:
    """Round to single precision; what is beyond it becomes infinite, and is refused."""
    with np.errstate(over="ignore"):
        return raw.astype(np.float32).astype(np.float64)


def _range(definition: Definition) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the least and largest values that fixed scalings expect, None where nothing is expected."""
    first = definition.first_stage
    scalings = first.scalings if isinstance(first, Fixed) else ()
    if not any(isinstance(each, MinMax) for each in scalings):
        return None
    low = [each.minimum if isinstance(each, MinMax) else -math.inf for each in scalings]
    high = [each.maximum if isinstance(each, MinMax) else math.inf for each in scalings]
    return np.array(low), np.array(high)
