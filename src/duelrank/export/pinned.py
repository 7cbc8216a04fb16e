"""Export of what a ranker remembers of queries: documents that a search engine shows first for a query."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, TypeVar
from xml.sax.saxutils import quoteattr

from duelrank.core.errors import Conflict, UnknownName
from duelrank.export.base import json_text

F = TypeVar("F", bound="type[PinnedFormat]")

#: All formats of pinned documents by name.
PINNED_FORMATS: dict[str, type[PinnedFormat]] = {}

#: Characters that XML 1.0 cannot represent, not even as numbers.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: Difference of the scores of two pinned documents in OpenSearch, above all scores of its own.
_STEP = 1_000_000.0


class PinnedDocument(NamedTuple):
    """A document that users of a query chose: its clicks and views, and what they add to its score."""

    id: str
    clicks: float
    views: float
    boost: float


class PinnedQuery(NamedTuple):
    """A query, its number of lists, and the documents to show first, the best first."""

    query: str
    lists: int
    documents: Sequence[PinnedDocument]


@dataclass(frozen=True)
class PinnedFormat(ABC):
    """A format of pinned documents. The first line of the class's docstring describes it."""

    #: Media type of the content, for HTTP.
    media_type: ClassVar[str] = "application/json"
    #: Name of a file.
    file: ClassVar[str] = "pinned.json"

    @abstractmethod
    def write(self, queries: Sequence[PinnedQuery]) -> str:
        """Return the content."""


def register_pinned(name: str) -> Callable[[F], F]:
    """Register a subclass of `PinnedFormat` under a name."""

    def register(cls: F) -> F:
        known = PINNED_FORMATS.setdefault(name, cls)
        if (known.__module__, known.__name__) != (cls.__module__, cls.__name__):
            raise Conflict(
                f"a format of pinned documents is already called {name!r}: {known.__module__}.{known.__name__}"
            )
        PINNED_FORMATS[name] = cls
        return cls

    return register


def pinned_format(name: str) -> PinnedFormat:
    """Return the format with a name, or raise `UnknownName`."""
    if name not in PINNED_FORMATS:
        raise UnknownName.among("format", name, PINNED_FORMATS)
    return PINNED_FORMATS[name]()


def export_pinned(queries: Sequence[PinnedQuery], format: str) -> str:
    """Write pinned documents in one of the `PINNED_FORMATS`.

    Examples
    --------
    >>> from duelrank.export.pinned import PinnedDocument, PinnedQuery, export_pinned
    >>> chosen = [PinnedQuery("red shoes", 40, [PinnedDocument("B01Z", 21.0, 30.0, 1.5)])]
    >>> print(export_pinned(chosen, "solr"), end="")
    <?xml version="1.0" encoding="UTF-8"?>
    <elevate>
      <query text="red shoes">
        <doc id="B01Z"/>
      </query>
    </elevate>
    """
    return pinned_format(format).write(queries)


@register_pinned("json")
@dataclass(frozen=True)
class PinnedJson(PinnedFormat):
    """JSON with clicks, views and boosts, for programs of your own."""

    def write(self, queries: Sequence[PinnedQuery]) -> str:
        """Return an object with a list of queries."""
        found = [each._asdict() | {"documents": [one._asdict() for one in each.documents]} for each in queries]
        return json_text({"queries": found})


@register_pinned("solr")
@dataclass(frozen=True)
class Elevate(PinnedFormat):
    """``elevate.xml`` of Solr's QueryElevationComponent.

    A query or id with characters that XML cannot represent is left out, which a comment says.
    """

    media_type = "application/xml"
    file = "elevate.xml"

    def write(self, queries: Sequence[PinnedQuery]) -> str:
        """Return the file."""
        lines, left_out = [], 0
        for each in queries:
            ids = [one.id for one in each.documents]
            if any(map(_NOT_IN_XML.search, (each.query, *ids))):
                left_out += 1
                continue
            lines.append(f"  <query text={quoteattr(each.query)}>")
            lines += [f"    <doc id={quoteattr(id)}/>" for id in ids]
            lines.append("  </query>")
        note = [f"  <!-- {left_out} left out, with characters that XML cannot represent -->"] if left_out else []
        return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', "<elevate>", *note, *lines, "</elevate>", ""])


@register_pinned("elasticsearch")
@dataclass(frozen=True)
class QueryRules(PinnedFormat):
    """Body of ``PUT _query_rules/<id>`` of Elasticsearch: rules that pin documents if ``user_query`` is the query.

    Elasticsearch accepts 100 rules in a set, up to 1,000 with another setting of the cluster.
    """

    file = "query-rules.json"
    #: Name of the query in ``match_criteria`` of a rule query.
    metadata: ClassVar[str] = "user_query"

    def write(self, queries: Sequence[PinnedQuery]) -> str:
        """Return the rules, each with an id that depends on its query only."""
        return json_text({"rules": [self._rule(each) for each in queries]})

    def _rule(self, query: PinnedQuery) -> dict[str, Any]:
        digest = blake2b(query.query.encode(), digest_size=8).hexdigest()
        return {
            "rule_id": f"duelrank-{digest}",
            "type": "pinned",
            "criteria": [{"type": "exact", "metadata": self.metadata, "values": [query.query]}],
            "actions": {"ids": [each.id for each in query.documents]},
        }


@register_pinned("opensearch")
@dataclass(frozen=True)
class ShouldClauses(PinnedFormat):
    """``should`` clauses of a ``bool`` query by query, for OpenSearch, which stores no pinned documents.

    The application adds the clauses of the user's query to its own query, which is a ``should`` clause, too. Their scores are
    far above those of other documents.
    """

    file = "pinned-clauses.json"

    def write(self, queries: Sequence[PinnedQuery]) -> str:
        """Return an object with the clauses of each query."""
        return json_text({each.query: self._clauses(each) for each in queries})

    def _clauses(self, query: PinnedQuery) -> list[dict[str, Any]]:
        ids = [each.id for each in query.documents]
        return [
            {"constant_score": {"filter": {"ids": {"values": [id]}}, "boost": _STEP * (len(ids) - place)}}
            for place, id in enumerate(ids)
        ]
