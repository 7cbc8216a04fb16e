"""A/B tests of OpenSearch: clicks on interleaved lists, each attributed to the search configuration that placed the document.

The events are those of User Behavior Insights. UBI 1.3.0 does not say which field has the name of the configuration: OpenSearch's
examples write ``event_attributes.search_config`` or ``event_attributes.object.search_config``; both are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from duelrank.adapters.ubi import RecordErrors, UbiEvent, action_of, check_files, id_text, read_records, sources
from duelrank.core.errors import DataFormatError
from duelrank.core.progress import ProgressCallback
from duelrank.evidence import Result
from duelrank.evidence.interleaving import Tally, WinHistory

#: The maximum number of search configurations. More names are not configurations, and each pair of them would have a test.
MOST_CONFIGURATIONS = 10


def read_attributed(
    files: Sequence[str], max_errors: int = 100, progress: ProgressCallback = lambda done, total: None
) -> Result:
    """Return the preferences between the search configurations of an A/B test, with the test "anytime".

    A list is the events of one ``query_id``; each clicked document is one point for its configuration. Lists count in the order of
    their first events, so the files must be in the order of time.

    Parameters
    ----------
    files
        Paths of files with events, in any form of a search engine; ``-`` is stdin.
    max_errors
        Maximum number of unreadable records.
    progress
        Receives the bytes read, and the total.

    Examples
    --------
    >>> import json, tempfile
    >>> from duelrank.adapters.attributions import read_attributed
    >>> def click(query, document, configuration):
    ...     attributes = {"object": {"object_id": document, "search_config": configuration}}
    ...     return json.dumps({"action_name": "click", "query_id": query, "event_attributes": attributes})
    >>> with tempfile.NamedTemporaryFile("w", suffix=".ndjson") as file:
    ...     for query in range(60):
    ...         print(click(f"q{query}", "d1", "new" if query % 5 else "old"), file=file, flush=True)
    ...     result = read_attributed([file.name])
    >>> result.wins.tolist(), result.beats("new", "old")
    ([[0, 48], [12, 0]], True)
    """
    check_files(files)
    errors, lists = RecordErrors(max_errors), dict[str, set[tuple[str, str]]]()
    for record, place in read_records(files, errors, progress):
        try:
            for source in sources(record):
                _add(source, lists)
        except (DataFormatError, msgspec.ValidationError) as error:
            errors.add(place, error)
    systems = tuple(sorted({system for clicked in lists.values() for system, _ in clicked}))
    if len(systems) < 2:
        named = ", ".join(map(repr, systems)) or "none"
        raise DataFormatError(
            "an A/B test has clicks of two or more search configurations in event_attributes.search_config, or in "
            f"event_attributes.object.search_config; these events name {named}"
        )
    if len(systems) > MOST_CONFIGURATIONS:
        some = ", ".join(map(repr, systems[:3]))
        raise DataFormatError(
            f"an A/B test has at most {MOST_CONFIGURATIONS} search configurations; these events name {len(systems):,}: {some}, …"
        )
    return _counted(systems, lists.values())


def _add(source: Mapping[str, Any], lists: dict[str, set[tuple[str, str]]]) -> None:
    """Add an event to the list of its query: a click on a document of a configuration, or only that there is the list."""
    if "action_name" not in source:
        return
    event = msgspec.convert(source, UbiEvent)
    if event.query_id is None:
        return
    clicked, action = lists.setdefault(id_text(event.query_id), set()), action_of(event)
    attributes = source.get("event_attributes") or {}
    for place in (attributes, attributes.get("object") or {}):
        system = place.get("search_config")
        if action.name == "click" and action.document is not None and isinstance(system, str):
            clicked.add((system, action.document))


def _counted(systems: tuple[str, ...], lists: Any) -> Result:
    tally, history = Tally.empty(len(systems)), WinHistory()
    for clicked in lists:
        credit = np.array([sum(each == system for each, _ in clicked) for system in systems], np.float64)
        tally.add(credit[:, np.newaxis] - credit[np.newaxis, :], bool(clicked))
        history.add(tally.impressions, tally.wins)
    return tally.result(systems, history, "anytime")
