"""Candidates: rankings whose worth on the lists of a log is estimated."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank.core.errors import DataFormatError, InvalidValue, ShapeMismatch, UnknownName
from duelrank.core.registry import spell
from duelrank.core.types import Gains, Query, Ranking
from duelrank.evaluation.lists import LoggedList, Ranked
from duelrank.export import LinearModel, Model
from duelrank.export.model import KIND
from duelrank.learner import Learner

#: What `as_candidate` accepts: a candidate, a learner, a model, weights, a function, or a text.
GivenCandidate: TypeAlias = (
    "Candidate | Learner | Model | Mapping[str, float] | ArrayLike | Callable[[Query], ArrayLike] | str"
)


class Documents(NamedTuple):
    """The documents of a list, as a candidate gets them.

    Parameters
    ----------
    query
        The query, with raw features in the order of the client.
    names
        Names of the features, if there are any.
    best
        Returns the rows as the ranker that made the list would show them without exploring; None if that is not known.
    """

    query: Query
    names: tuple[str, ...]
    best: Callable[[], Ranking] | None = None

    def columns(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Return the features with some names."""
        places = {name: place for place, name in enumerate(self.names)}
        if unknown := [name for name in names if name not in places]:
            raise UnknownName.among("feature", unknown[0], self.names)
        return self.query.features[:, [places[name] for name in names]]


class Candidate(ABC):
    """A ranking whose worth is estimated.

    Parameters
    ----------
    name
        Its name in tables.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def rank(self, documents: Documents) -> Ranking:
        """Return the rows of the documents, best first."""


class ClientOrder(Candidate):
    """The order in which the client sent the documents."""

    def __init__(self) -> None:
        super().__init__("client")

    def rank(self, documents: Documents) -> Ranking:
        """Return the rows in their order."""
        return np.arange(documents.query.n_documents)


class OwnBest(Candidate):
    """The list of the ranker that made each list, at that time, without exploration."""

    def __init__(self) -> None:
        super().__init__("best")

    def rank(self, documents: Documents) -> Ranking:
        """Return the rows as that ranker would show them without exploring."""
        if documents.best is None:
            raise InvalidValue(
                "best is the ranker's own list without exploration, which only the store of a ranker has"
            )
        return documents.best()


class Scores(Candidate):
    """Documents by a score of their features; the client's order if scores are equal, and documents with a missing score last.

    Parameters
    ----------
    name
        Its name in tables.
    score
        Returns a score for each document, higher is better.
    """

    def __init__(self, name: str, score: Callable[[Documents], NDArray[np.float64]]) -> None:
        super().__init__(name)
        self._score = score

    def rank(self, documents: Documents) -> Ranking:
        """Return the rows by score, the highest first."""
        scores = self._score(documents)
        return np.argsort(np.where(np.isnan(scores), np.inf, -scores), kind="stable")


class _Given(Candidate):
    """A learner, without exploration, or a function that returns rows."""

    def __init__(self, name: str, order: Callable[[Query], ArrayLike]) -> None:
        super().__init__(name)
        self._order = order

    def rank(self, documents: Documents) -> Ranking:
        """Return the rows that it returns, which must be different rows of the query."""
        found = np.asarray(self._order(documents.query))
        rows = documents.query.n_documents
        whole = found.ndim == 1 and found.dtype.kind in "iu"
        if (
            not whole
            or np.unique(found).size < found.size
            or (found.size and not 0 <= found.min() <= found.max() < rows)
        ):
            raise InvalidValue(
                f"{self.name} must return different rows from 0 to {rows - 1}, best first, got {found.tolist()}"
            )
        return found.astype(np.int64)


def as_candidate(given: GivenCandidate, name: str | None = None) -> Candidate:
    """Return a candidate.

    Parameters
    ----------
    given
        A `Learner` (its best list), a model, weights (by the name of the feature, or in their order), a function of a `Query` that
        returns rows, best first; or a text: ``client``, ``best`` (of a store's ranker), ``feature:NAME``, ``feature:-NAME`` (lowest
        first), or the path of an exported model or of weights by name in JSON.
    name
        Its name in tables; by default it follows from what is given.

    Examples
    --------
    >>> from duelrank.evaluation.candidates import as_candidate
    >>> as_candidate("feature:-price").name, as_candidate({"price": -1.0}).name
    ('feature:-price', 'weights')
    """
    found = _candidate(given, name)
    found.name = found.name if name is None else name
    return found


def _candidate(given: Any, name: str | None) -> Candidate:
    if isinstance(given, Candidate):
        return given
    if isinstance(given, str):
        return _of_text(given)
    if isinstance(given, Learner):
        return _Given(name or spell(given.algorithm), given.best)
    if isinstance(given, Model):
        return _of_model(given, f"{given.name} {given.version}")
    if isinstance(given, Mapping):
        return _of_weights("weights", given)
    if callable(given):
        return _Given(name or str(getattr(given, "__name__", "function")), given)
    weights = np.asarray(given, np.float64)
    if weights.ndim != 1:
        raise InvalidValue(f"a candidate must be a learner, a model, weights, a function or a text, got {given!r}")
    return Scores("weights", lambda documents: _product(documents.query, weights))


def _product(query: Query, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    if query.features.shape[1] != len(weights):
        raise ShapeMismatch(f"there are {len(weights)} weights, but documents have {query.features.shape[1]} features")
    found: NDArray[np.float64] = query.features @ weights
    return found


def _of_text(text: str) -> Candidate:
    if text in ("client", "best"):
        return ClientOrder() if text == "client" else OwnBest()
    kind, _, name = text.partition(":")
    if kind == "feature" and name:
        rising = name.startswith("-")
        column = name[1:] if rising else name
        return Scores(text, lambda documents: (-1.0 if rising else 1.0) * documents.columns([column])[:, 0])
    path = Path(text)
    if path.suffix == ".json":
        return _of_file(path)
    raise InvalidValue(
        "a candidate is client, best, feature:NAME, feature:-NAME, ranker:NAME, ranker:NAME@VERSION, or a JSON file with a model "
        f"or weights, got {text!r}"
    )


def _of_file(path: Path) -> Candidate:
    try:
        text = path.read_text()
        content = json.loads(text)
    except (OSError, ValueError) as error:
        raise DataFormatError(f"{path} cannot be read as a model or weights: {error}") from None
    if isinstance(content, dict) and content.get("kind") == KIND:
        return _of_model(LinearModel.from_json(text), path.name)
    if isinstance(content, dict) and content and all(isinstance(each, (int, float)) for each in content.values()):
        return _of_weights(path.name, content)
    raise DataFormatError(f"{path} must be an exported model (duelrank export --format json), or weights by name")


def _of_model(model: Model, name: str) -> Candidate:
    return Scores(name, lambda documents: model.score(documents.columns(model.features)))


def _of_weights(name: str, weights: Mapping[str, float]) -> Candidate:
    vector = np.array(list(weights.values()), np.float64)
    if not np.isfinite(vector).all():
        raise InvalidValue(f"weights must be finite, got {dict(weights)}")
    return Scores(name, lambda documents: documents.columns(list(weights)) @ vector)


def with_candidates(
    documents: Documents,
    shown: Ranked,
    gains: Gains,
    sampled: Ranked,
    candidates: Sequence[Candidate],
    length: int,
) -> LoggedList:
    """Return a list with those that candidates would have shown, of at most ``length`` documents."""
    ranked = np.full((len(candidates), length), -1, np.int64)
    for place, each in enumerate(candidates):
        top = each.rank(documents)[:length]
        ranked[place, : len(top)] = top
    return LoggedList(documents.query.features, shown, gains, sampled, ranked)
