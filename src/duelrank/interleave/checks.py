"""Validates the arguments of a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from duelrank.core.errors import InvalidValue, UnknownName

__all__ = ["Document", "checked_documents", "checked_names", "checked_ranking", "place"]

Document: TypeAlias = str | int  # the search engine's own document ids


def place(name: str, rankers: tuple[str, ...]) -> int:
    """Return the index of the ranker with a name."""
    if name not in rankers:
        raise UnknownName.among("ranker of this comparison", str(name), rankers)
    return rankers.index(name)


def checked_names(rankers: Sequence[str]) -> tuple[str, ...]:
    """Return the names of two or more rankers, which must be unique."""
    names = () if isinstance(rankers, str) else tuple(rankers)
    if len(names) < 2 or not all(isinstance(name, str) and name.strip() for name in names):
        raise InvalidValue(f"a comparison needs the names of two or more rankers, got {rankers!r}")
    if len(set(names)) < len(names):
        raise InvalidValue(f"the names of rankers must be unique, got {', '.join(names)}")
    return names


def checked_ranking(name: str, rankings: Mapping[str, Sequence[Document]]) -> tuple[Document, ...]:
    """Return the documents of one ranker, which must be unique."""
    if name not in rankings:
        raise InvalidValue(f"the ranking of {name!r} is missing; if it returned nothing, give an empty list")
    ranking = checked_documents(rankings[name], f"the ranking of {name!r}")
    seen: set[Document] = set()
    for document in ranking:
        if document in seen:
            raise InvalidValue(f"the ranking of {name!r} contains {document!r} twice")
        seen.add(document)
    return ranking


def checked_documents(documents: Iterable[Document], what: str) -> tuple[Document, ...]:
    """Return the documents, each of which must be a string or a whole number; a single string is not a list."""
    if isinstance(documents, str):
        raise InvalidValue(f"{what} must be a list of documents, got a string; for one document give [{documents!r}]")
    listed = tuple(each.item() if isinstance(each, np.generic) else each for each in documents)
    for document in listed:
        if type(document) not in (str, int):
            raise InvalidValue(f"{what} must have a string or a whole number for each document, got {document!r}")
    return listed
