"""What users may give to a comparison, and the sentences that say so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from duelrank.errors import InvalidValue, UnknownName

__all__ = ["Document", "checked_count", "checked_documents", "checked_names", "checked_ranking", "place"]

Document: TypeAlias = str | int  # whatever the search engine calls its documents


def place(name: str, rankers: tuple[str, ...]) -> int:
    """Return which of the rankers has a name."""
    if name not in rankers:
        raise UnknownName.among("ranker of this comparison", str(name), rankers)
    return rankers.index(name)


def checked_names(rankers: Sequence[str]) -> tuple[str, ...]:
    """Return the names of two rankers or more, all different."""
    names = () if isinstance(rankers, str) else tuple(rankers)
    if len(names) < 2 or not all(isinstance(name, str) and name.strip() for name in names):
        raise InvalidValue(f"a comparison needs the names of two rankers or more, got {rankers!r}")
    if len(set(names)) < len(names):
        raise InvalidValue(f"rankers need different names, got {', '.join(names)}")
    return names


def checked_ranking(name: str, rankings: Mapping[str, Sequence[Document]]) -> tuple[Document, ...]:
    """Return what one ranker returned: documents, none of them twice."""
    if name not in rankings:
        raise InvalidValue(f"there is no ranking of {name!r}; where it returned nothing, give an empty list")
    ranking = checked_documents(rankings[name], f"the ranking of {name!r}")
    seen: set[Document] = set()
    for document in ranking:
        if document in seen:
            raise InvalidValue(f"{name!r} ranks {document!r} twice")
        seen.add(document)
    return ranking


def checked_documents(documents: Iterable[Document], what: str) -> tuple[Document, ...]:
    """Return documents as they were given, a text or a whole number each; one text alone is no list of them."""
    if isinstance(documents, str):
        raise InvalidValue(f"{what} must be a list of documents, got the text {documents!r}; for one: [{documents!r}]")
    listed = tuple(documents)
    for document in listed:
        if type(document) not in (str, int):
            raise InvalidValue(f"{what} must have a text or a whole number for each document, got {document!r}")
    return listed


def checked_count(value: object, what: str, least: int) -> int:
    """Return a whole number that is not too small."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidValue(f"{what} is a whole number from {least} up, got {value!r}")
    return value
