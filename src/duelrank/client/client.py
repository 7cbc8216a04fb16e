"""The two clients: `Client` blocks until each answer arrives, `AsyncClient` awaits it.

Each method is defined once for both clients, by a function that builds its call. Descriptions of parameters come from the schema of
the HTTP API. Functions that need httpx or asyncio import them, because these imports take longer than the rest of the module.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import sys
import time
from array import array
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence, ValuesView
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeVar, overload
from urllib.parse import quote

import msgspec

from duelrank.client.protocol import JSON, MESSAGEPACK, Call, Outcome, QueryValue, answer, encode, new_id
from duelrank.core.errors import DataFormatError, DuelrankError, InvalidValue
from duelrank.core.registry import singular
from duelrank.core.validation import whole_number
from duelrank.service.http import schema
from duelrank.service.http.schema import (
    BackfillCounts,
    Change,
    DocumentTable,
    ExperimentHistory,
    ExperimentInfo,
    ExperimentSpec,
    FeedbackCounts,
    FeedbackEvent,
    GuardInfo,
    GuardSpec,
    History,
    LastStep,
    LoggedImpression,
    MemoryInfo,
    ModelCurves,
    PageRequest,
    RankAnswer,
    RankerInfo,
    RankerSpec,
    RankRequest,
    ShowAnswer,
    ShowRequest,
    Start,
    VersionInfo,
    VersionLabel,
    VersionNumber,
)

if TYPE_CHECKING:
    import httpx

    from duelrank.export import LinearModel
    from duelrank.representation import Representation

P = ParamSpec("P")
T = TypeVar("T")

Features = Sequence[float] | Mapping[str, float]
# Not an Iterable, which a mapping is too: a type checker could not infer the type of {"d1": [1, 2], "d2": {"bm25": 0.5}}.
_Listed = Sequence[Mapping[str, Any]] | Iterator[Mapping[str, Any]] | ValuesView[Mapping[str, Any]]
Documents = Mapping[str, Features] | _Listed | tuple[Sequence[str], Any] | DocumentTable
Event = FeedbackEvent | Mapping[str, Any]
Guard = GuardSpec | Mapping[str, Any]

#: Seconds that the service may take for a slow call: it compiles the algorithm of a new ranker, and deletes all data of an old one.
SLOW = 60.0

_EXPERIMENTS, _EXPERIMENT = "/v1/experiments", "Name of the experiment."
#: Descriptions of parameters that many methods have.
COMMON = {
    "name": "Name of the ranker.",
    "version": "Number of a model version; the current one unless given.",
}


class _Method(Generic[P, T]):
    """A method that sends a call: it blocks in `Client`, and is a coroutine in `AsyncClient`."""

    def __init__(self, build: Callable[Concatenate[Any, P], Call[T]], descriptions: Mapping[str, str]) -> None:
        def blocking(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return self.send(build(self, *args, **kwargs))

        async def awaiting(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return await self.send(build(self, *args, **kwargs))

        signature = inspect.signature(build)
        result = str(signature.return_annotation).removeprefix("Call[").removesuffix("]")
        self._methods: list[Any] = [blocking, awaiting]
        for method in self._methods:
            functools.update_wrapper(method, build)
            method.__doc__ = _docstring(build, descriptions)
            method.__signature__ = signature.replace(return_annotation=result)

    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        return self._methods[issubclass(owner, AsyncClient)].__get__(client, owner)


def _method(
    *structs: type[msgspec.Struct], **descriptions: str
) -> Callable[[Callable[Concatenate[Any, P], Call[T]]], _Method[P, T]]:
    """Decorate a function that builds a call; its parameters have the given descriptions, or those of the fields of the structs."""
    known = dict(COMMON)
    for struct in reversed(structs):
        known |= _field_descriptions(struct)
    return lambda build: _Method(build, known | descriptions)


def _field_descriptions(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the description of each field, from the docstring of a struct."""
    found = re.findall(r"^(\w+)\n((?:    .+\n?)+)", inspect.cleandoc(struct.__doc__ or ""), re.MULTILINE)
    return {name: inspect.cleandoc(text) for name, text in found}


def _docstring(build: Callable[..., Any], descriptions: Mapping[str, str]) -> str:
    """Return the docstring of a function, with a section that describes its parameters."""
    names = [name for name in inspect.signature(build).parameters if name in descriptions]
    described = [f"{name}\n    " + descriptions[name].replace("\n", "\n    ") for name in names]
    section = ["", "Parameters\n----------\n" + "\n".join(described)] if names else []
    return "\n".join([inspect.cleandoc(build.__doc__ or ""), *section])


class _BaseClient:
    """The methods of both clients."""

    @_method()
    def health(self) -> Call[bool]:
        """Return whether the service is running."""
        return Call("GET", "/healthz", _is_ok, answers=range(200, 600))

    @_method()
    def ready(self) -> Call[bool]:
        """Return whether the service has restored all rankers and accepts calls; this call is not retried."""
        return Call("GET", "/readyz", _is_ok, answers=(200, 503))

    @_method(
        RankerSpec,
        representation="Representation of the features: a text such as ``'query-scaled >> curves'``, an object such as\n"
        '``{"kind": "fixed", "features": …}``, or a value of `duelrank.representation`. The service\'s default unless given.',
        start="The first weights: ``{'weights': {'bm25': 1.0}}``, ``{'from': 'shop', 'version': 40}`` (another ranker of the\n"
        "service), ``{'model': …}`` (as exported with format=json), or a `LinearModel`. All weights are 0 unless given.",
    )
    def create_ranker(
        self,
        name: str,
        algorithm: str,
        features: Iterable[str],
        *,
        representation: str | Representation | Mapping[str, Any] | None = None,
        length: int | None = None,
        exploration: float | None = None,
        mode: str | None = None,
        seed: int | None = None,
        close_after: float | None = None,
        start: Start | Mapping[str, Any] | LinearModel | None = None,
        precision: str | None = None,
        guard: Guard | None = None,
        actions: Mapping[str, float] | None = None,
        imitate: int | None = None,
        context: Mapping[str, Iterable[str]] | None = None,
        missing: Iterable[str] | Mapping[str, str | float] | None = None,
    ) -> Call[RankerInfo]:
        """Create a ranker, or return the one that the same call created before.

        A known name with another definition is refused (409). The first ranker of an algorithm may take long, because the
        service compiles it: each attempt waits for at least a minute, whatever the timeout of the client. Parameters that are
        not given have the defaults of the service.
        """
        given = {key: value for key, value in locals().items() if value is not None and key != "self"}
        given["features"] = names = list(features)
        given |= {} if missing is None else {"missing": _declared(missing)}
        given |= {} if context is None else {"context": {one: list(of) for one, of in context.items()}}
        given |= {} if representation is None else {"representation": _representation(representation, names)}
        given |= {} if start is None else {"start": _start(start)}
        return Call("POST", "/v1/rankers", answer(RankerInfo), encode(given), patience=SLOW)

    @_method(
        Change,
        RankerSpec,
        name=COMMON["name"],
        guard="A new guard, which replaces the old one completely; None removes it. Unchanged unless given.",
    )
    def change_ranker(
        self,
        name: str,
        *,
        exploration: float | None = None,
        close_after: float | None = None,
        length: int | None = None,
        mode: schema.Mode | None = None,
        add_features: Iterable[str] = (),
        retire_features: Iterable[str] = (),
        guard: Guard | msgspec.UnsetType | None = msgspec.UNSET,
        actions: Mapping[str, float] | None = None,
        representation: str | Mapping[str, Any] | None = None,
        context: Mapping[str, Iterable[str]] | None = None,
        missing: Iterable[str] | Mapping[str, str | float] | None = None,
    ) -> Call[RankerInfo]:
        """Change a ranker; it keeps what it has learned, and all parameters that are not given."""
        added, retired = _names(add_features), _names(retire_features)
        weights = None if actions is None else dict(actions)
        written = dict(representation) if isinstance(representation, Mapping) else representation
        products = None if context is None else {one: _names(of) for one, of in context.items()}
        change = Change(
            exploration, close_after, length, mode, added, retired, msgspec.UNSET, weights, written, products
        )
        content = msgspec.to_builtins(change) | ({} if missing is None else {"missing": _declared(missing)})
        content |= {} if guard is msgspec.UNSET else {"guard": guard}
        return Call("PATCH", _path(name), answer(RankerInfo), encode(content), patience=SLOW)

    @_method(confirm="The name of the ranker again.")
    def delete_ranker(self, name: str, *, confirm: str) -> Call[None]:
        """Delete a ranker with all its data: model, versions, impressions and clicks."""
        # After a lost answer, 404 means that an earlier attempt has deleted it.
        return Call(
            "DELETE", _path(name), lambda _: None, query={"confirm": confirm}, retried_answers=(404,), patience=SLOW
        )

    @_method()
    def rankers(self) -> Call[tuple[RankerInfo, ...]]:
        """Return all rankers of the service."""
        return Call("GET", "/v1/rankers", answer(tuple[RankerInfo, ...]))

    @_method()
    def ranker(self, name: str) -> Call[RankerInfo]:
        """Return the definition and the counts of one ranker."""
        return Call("GET", _path(name), answer(RankerInfo))

    @_method()
    def guard(self, name: str) -> Call[GuardInfo]:
        """Return the comparison of a guarded ranker with your own order; it is valid whenever you look."""
        return Call("GET", _path(name, "guard"), answer(GuardInfo))

    @_method(
        RankRequest,
        documents="Features by document id, dense or by name: ``{'d1': [0.1, 2.0], 'd2': {'bm25': 3.0}}``; or as in HTTP,\n"
        "``[{'id': 'd1', 'features': [0.1, 2.0]}]``; or, for many documents or features, a pair of ids and a 2-D array,\n"
        "``(['d1', 'd2'], array)``, which is sent as the bytes of its numbers and is several times as fast. An array of\n"
        "float32 is sent as such, all others as float64. In shadow mode the documents are shown in the given order.",
        impression_id="Id of the impression; a new one unless given. The same id again, such as for another page or after a\n"
        "crash, gives the same order.",
    )
    def rank(
        self,
        name: str,
        documents: Documents,
        *,
        impression_id: str | None = None,
        length: int | None = None,
        explain: bool = False,
        query: str | None = None,
        query_key: str | None = None,
        context: Mapping[str, float] | None = None,
        fixed: Mapping[str, int] | None = None,
        below_top: Mapping[str, int] | None = None,
        page: int | None = None,
    ) -> Call[RankAnswer]:
        """Return the order in which to show some documents."""
        content: dict[str, Any] = {"impression_id": impression_id or new_id()}
        given: dict[str, Any] = {"length": length, "query": query, "query_key": query_key}
        given |= {"context": context, "fixed": fixed, "below_top": below_top, "page": page}
        content |= {name: value for name, value in given.items() if value is not None}
        content |= {"explain": True} if explain else {}
        table = _table(documents)
        kind = JSON if table is None else MESSAGEPACK
        content["documents"] = _documents(documents) if table is None else table
        return Call("POST", _path(name, "rank"), answer(RankAnswer), encode(content, kind), kind)

    @_method(PageRequest)
    def page(self, name: str, impression_id: str, start: int, size: int = 10) -> Call[RankAnswer]:
        """Return another page of an impression that was ranked with a ``page``; only pages that were returned are learned from."""
        return Call("POST", _path(name, "page"), answer(RankAnswer), encode(PageRequest(impression_id, start, size)))

    @_method(events="One `FeedbackEvent` or many, or unchanged UBI events.")
    def feedback(self, name: str, events: Event | Iterable[Event]) -> Call[FeedbackCounts]:
        """Send the feedback of users on impressions."""
        return _feedback(name, [events] if isinstance(events, FeedbackEvent | Mapping) else events)

    @_method(impressions="One `LoggedImpression` or many.")
    def backfill(self, name: str, impressions: LoggedImpression | Iterable[LoggedImpression]) -> Call[BackfillCounts]:
        """Send lists that another system ranked, from which the ranker learns before it gets traffic; duplicates are ignored."""
        many = [impressions] if isinstance(impressions, LoggedImpression) else list(impressions)
        return Call("POST", _path(name, "impressions"), answer(BackfillCounts), encode(many), patience=SLOW)

    @_method(FeedbackEvent)
    def close_impression(
        self,
        name: str,
        impression_id: str,
        clicks: Sequence[str] = (),
        examined: int | None = None,
        user_id: str | None = None,
        removed: Sequence[str] = (),
    ) -> Call[FeedbackCounts]:
        """Close an impression, with its last clicks if any, so that the ranker learns from it."""
        clicked = [clicks] if isinstance(clicks, str) else list(clicks)
        event = FeedbackEvent(
            impression_id, clicked, examined, close=True, user_id=user_id, removed=list(_names(removed))
        )
        return _feedback(name, [event])

    @_method(ExperimentSpec)
    def create_experiment(
        self,
        name: str,
        systems: Iterable[str],
        *,
        rankers: Iterable[str] = (),
        multileaver: str | None = None,
        length: int | None = None,
        level: float | None = None,
        close_after: float | None = None,
        actions: Mapping[str, float] | None = None,
    ) -> Call[ExperimentInfo]:
        """Create an experiment, or return the one that the same call created before; another definition is refused (409).

        Parameters that are not given have the defaults of the service.
        """
        given = {key: value for key, value in locals().items() if value is not None and key != "self"}
        given |= {"systems": _names(systems), "rankers": _names(rankers)}
        return Call("POST", _EXPERIMENTS, answer(ExperimentInfo), encode(given), patience=SLOW)

    @_method(
        ShowRequest,
        query="Text of the query, for rankers that remember queries.",
        query_key="An opaque name of the query instead of its text.",
        context="Numbers that are the same for all documents, for rankers with a context.",
        name=_EXPERIMENT,
        lists="Ids of documents by system, best first; an empty list if a system has returned nothing.",
        documents="The documents with their features, in the forms of `rank`, if rankers are among the systems.",
        impression_id="Id of the impression; a new one unless given. The same id again gives the same list.",
    )
    def show(
        self,
        name: str,
        lists: Mapping[str, Sequence[str]],
        *,
        impression_id: str | None = None,
        user_id: str | None = None,
        documents: Documents | None = None,
        query: str | None = None,
        query_key: str | None = None,
        context: Mapping[str, float] | None = None,
        fixed: Mapping[str, int] | None = None,
    ) -> Call[ShowAnswer]:
        """Merge the lists of the systems of an experiment into the one to show."""
        content: dict[str, Any] = {"impression_id": impression_id or new_id()}
        content["lists"] = {system: _names(each) for system, each in lists.items()}
        given = {"user_id": user_id, "query": query, "query_key": query_key, "context": context, "fixed": fixed}
        content |= {key: value for key, value in given.items() if value is not None}
        if documents is not None:
            table = _table(documents)
            content["documents"] = _documents(documents) if table is None else table
        return Call("POST", _path(name, "show", base=_EXPERIMENTS), answer(ShowAnswer), encode(content))

    @_method(name=_EXPERIMENT, events="One `FeedbackEvent` or many, or unchanged UBI events.")
    def experiment_feedback(self, name: str, events: Event | Iterable[Event]) -> Call[FeedbackCounts]:
        """Send the feedback of users on lists of an experiment."""
        return _feedback(name, [events] if isinstance(events, FeedbackEvent | Mapping) else events, _EXPERIMENTS)

    @_method()
    def experiments(self) -> Call[tuple[ExperimentInfo, ...]]:
        """Return all experiments of the service."""
        return Call("GET", _EXPERIMENTS, answer(tuple[ExperimentInfo, ...]))

    @_method(name=_EXPERIMENT)
    def experiment(self, name: str) -> Call[ExperimentInfo]:
        """Return the counts, the comparison of each pair of systems and the verdict of an experiment; valid whenever you look."""
        return Call("GET", _path(name, base=_EXPERIMENTS), answer(ExperimentInfo))

    @_method(name=_EXPERIMENT)
    def experiment_history(self, name: str) -> Call[ExperimentHistory]:
        """Return the win rates of an experiment over time, with their bands."""
        return Call("GET", _path(name, "history", base=_EXPERIMENTS), answer(ExperimentHistory))

    @_method(name=_EXPERIMENT)
    def stop_experiment(self, name: str) -> Call[ExperimentInfo]:
        """Stop an experiment for good; open lists still count when they close, and the result stays."""
        return Call("POST", _path(name, "stop", base=_EXPERIMENTS), answer(ExperimentInfo))

    @_method(name=_EXPERIMENT, confirm="The name of the experiment again.")
    def delete_experiment(self, name: str, *, confirm: str) -> Call[None]:
        """Delete an experiment with all its data."""
        path, given = _path(name, base=_EXPERIMENTS), {"confirm": confirm}
        return Call("DELETE", path, lambda _: None, query=given, retried_answers=(404,), patience=SLOW)

    @_method()
    def model(self, name: str, version: int | None = None) -> Call[LinearModel]:
        """Return the weights by feature name."""
        return Call("GET", _path(name, "model"), _linear_model, query=_version(version))

    @_method(
        step="Length of a step: ``'minute'``, ``'hour'`` or ``'day'``.",
        start="First time, in seconds since 1970.",
        end="Last time, in seconds since 1970; the newest 2,000 steps before it are returned.",
    )
    def history(
        self,
        name: str,
        step: Literal["minute", "hour", "day"] = "minute",
        start: float | None = None,
        end: float | None = None,
    ) -> Call[History]:
        """Return the history of a ranker: lists, clicks, reward, weights, its guard, and what happened to it."""
        given = {"step": step, "start": start, "end": end}
        query = {key: str(value) for key, value in given.items() if value is not None}
        return Call("GET", _path(name, "history"), answer(History), query=query)

    @_method()
    def curves(self, name: str, version: int | None = None) -> Call[ModelCurves]:
        """Return what each feature adds to the score, as curves, the most important feature first."""
        return Call("GET", _path(name, "curves"), answer(ModelCurves), query=_version(version))

    @_method()
    def last_step(self, name: str) -> Call[LastStep]:
        """Return what was learned from the last impression: examined documents, directions before and after projection, weights."""
        return Call("GET", _path(name, "last-step"), answer(LastStep))

    @_method()
    def versions(self, name: str) -> Call[tuple[VersionInfo, ...]]:
        """Return the versions of the model that are kept, oldest first."""
        return Call("GET", _path(name, "model", "versions"), answer(tuple[VersionInfo, ...]))

    @_method()
    def freeze(self, name: str) -> Call[RankerInfo]:
        """Stop learning and exploring; events are kept."""
        return Call("POST", _path(name, "freeze"), answer(RankerInfo))

    @_method()
    def resume(self, name: str) -> Call[RankerInfo]:
        """Continue to learn after a freeze or an alarm of the guard."""
        return Call("POST", _path(name, "resume"), answer(RankerInfo))

    @_method(version="Number of the earlier version.")
    def rollback(self, name: str, version: int) -> Call[RankerInfo]:
        """Return to the weights of an earlier version, which become those of a new one."""
        return Call("POST", _path(name, "rollback"), answer(RankerInfo), encode(VersionNumber(version)))

    @_method(version="Number of the version.", label="Text of the label; an empty text removes the label.")
    def label(self, name: str, version: int, label: str) -> Call[VersionInfo]:
        """Label a version, so that it is not removed when old versions are thinned."""
        return Call("POST", _path(name, "label"), answer(VersionInfo), encode(VersionLabel(version, label)))

    @_method(
        query="Text of the query; without it, the queries in which the memory has the largest effect.",
        query_key="Key of the query, instead of its text.",
        limit="Maximum number of queries.",
    )
    def memory(
        self, name: str, query: str | None = None, query_key: str | None = None, limit: int = 100
    ) -> Call[MemoryInfo]:
        """Return what a ranker remembers of queries: documents, clicks, views, and what they add to scores."""
        given = {"query": query, "query_key": query_key, "limit": str(limit)}
        asked = {key: value for key, value in given.items() if value is not None}
        return Call("GET", _path(name, "memory"), answer(MemoryInfo), query=asked)

    @_method(
        format="Format of a search engine: ``'solr'``, ``'elasticsearch'``, ``'opensearch'`` or ``'json'``.",
        queries="Maximum number of queries, those with the most views.",
        evidence="Least number of clicks on a document.",
        documents="Maximum number of documents of a query.",
    )
    def export_memory(
        self, name: str, format: str = "json", queries: int = 100, evidence: float = 10.0, documents: int = 3
    ) -> Call[bytes]:
        """Return the documents that users of queries chose, in the format of a search engine that shows them first."""
        asked: dict[str, QueryValue] = {"format": format, "queries": queries, "evidence": evidence}
        path = _path(name, "memory", "export")
        return Call("GET", path, lambda response: response.content, query=asked | {"documents": documents})

    @_method(
        query="Text of a query to forget.",
        query_key="Key of a query to forget.",
        document="Id of a document to forget in all queries.",
        everything="Whether to forget everything.",
    )
    def forget(
        self,
        name: str,
        query: str | None = None,
        query_key: str | None = None,
        document: str | None = None,
        everything: bool = False,
    ) -> Call[RankerInfo]:
        """Remove a query, a document or everything from the memory of queries."""
        given = {"query": query, "query_key": query_key, "document": document, "confirm": name if everything else None}
        asked = {key: value for key, value in given.items() if value is not None}
        return Call("DELETE", _path(name, "memory"), answer(RankerInfo), query=asked)

    @_method(version="Number of the version.")
    def pin(self, name: str, version: int) -> Call[RankerInfo]:
        """Let a shadow serve the best rankings of one version instead of your own order, while it continues to learn."""
        return Call("POST", _path(name, "pin"), answer(RankerInfo), encode(VersionNumber(version)))

    @_method()
    def unpin(self, name: str) -> Call[RankerInfo]:
        """Let a shadow serve your own order again."""
        return Call("POST", _path(name, "unpin"), answer(RankerInfo))

    @_method(
        format="Format of a search engine, such as ``'solr'`` or ``'onnx'``.",
        options="Options of `duelrank.export.export`, such as ``rank_features={'price': 'attribute(price)'}``; docs/export.md\n"
        "lists them.",
    )
    def export(
        self,
        /,
        name: str,
        format: str = "json",
        version: int | None = None,
        **options: QueryValue | Mapping[str, str] | None,
    ) -> Call[bytes]:
        """Return the model in the format of a search engine."""
        query: dict[str, QueryValue] = {"format": format} | _version(version)
        for key, value in options.items():
            if isinstance(value, Mapping):  # in a query string: one parameter for each pair
                query[singular(key)] = [f"{each}={text}" for each, text in value.items()]
            elif value is not None:
                query[key] = value
        return Call("GET", _path(name, "export"), lambda response: response.content, query=query)


def _path(name: str, *rest: str, base: str = "/v1/rankers") -> str:
    if not isinstance(name, str) or name in ("", ".", ".."):
        raise InvalidValue(f"a ranker or experiment has a name, got {name!r}")
    return "/".join([base, quote(name, safe=""), *rest])


def _version(version: int | None) -> dict[str, QueryValue]:
    return {} if version is None else {"version": version}


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _declared(missing: Iterable[str] | Mapping[str, str | float]) -> Any:
    return dict(missing) if isinstance(missing, Mapping) else _names(missing)


def _representation(given: Any, names: Sequence[str]) -> Any:
    if isinstance(given, str | Mapping):
        return given
    from duelrank.representation import Representation
    from duelrank.representation.fixed import write_representation

    if not isinstance(given, Representation):
        raise InvalidValue(f'a representation is a text such as "query-scaled", an object or a part, got {given!r}')
    return write_representation(given, names)


def _start(given: Start | Mapping[str, Any] | LinearModel) -> Any:
    if isinstance(given, Start | Mapping):
        return given
    if hasattr(given, "to_json"):
        return Start(model=msgspec.json.decode(given.to_json()))
    raise InvalidValue(
        f'start is {{"weights": …}}, {{"from": …, "version": …}}, {{"model": …}} or a LinearModel, got {given!r}'
    )


def _feedback(name: str, events: Iterable[Event], base: str = "/v1/rankers") -> Call[FeedbackCounts]:
    content = [_event(each) if isinstance(each, FeedbackEvent) else each for each in events]
    return Call("POST", _path(name, "feedback", base=base), answer(FeedbackCounts), encode(content))


def _event(event: FeedbackEvent) -> FeedbackEvent:
    """Return the event with its clicks as a list; a single id stands for a list of one."""
    clicks = [event.clicks] if isinstance(event.clicks, str) else list(event.clicks)
    return msgspec.structs.replace(event, clicks=clicks)


def _documents(given: Any) -> list[Mapping[str, Any]]:
    if isinstance(given, Mapping):
        return [{"id": id, "features": features} for id, features in given.items()]
    return list(given)


def _table(given: Any) -> DocumentTable | None:
    """Return documents in compact form if they were given as a pair of ids and rows."""
    if isinstance(given, DocumentTable):
        return given
    if not isinstance(given, tuple) or len(given) != 2 or isinstance(given[0], Mapping):
        return None
    ids = list(given[0].tolist() if hasattr(given[0], "tolist") else given[0])
    features, n_rows, precision = (_packed_array if hasattr(given[1], "astype") else _packed_rows)(given[1])
    if n_rows != len(ids):
        raise InvalidValue(f"each document id needs one row of features: {len(ids)} and {n_rows} given")
    return DocumentTable(ids, features, precision)


def _packed_array(rows: Any) -> tuple[bytes, int, schema.Precision]:
    if len(rows.shape) != 2:
        raise InvalidValue(f"the features of documents are a 2-D array, got shape {tuple(rows.shape)}")
    precision: schema.Precision = "float32" if str(rows.dtype) in ("float32", "float16") else "float64"
    try:
        return rows.astype("<f4" if precision == "float32" else "<f8").tobytes(), rows.shape[0], precision
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"this cannot be sent to the service: {error}") from None


def _packed_rows(rows: Any) -> tuple[bytes, int, schema.Precision]:
    try:
        lists = [list(row) for row in rows]
        numbers = array("d", itertools.chain.from_iterable(lists))
    except TypeError as error:
        raise InvalidValue(f"the features of documents are a 2-D array or rows of numbers: {error}") from None
    if len({len(row) for row in lists}) > 1:
        raise InvalidValue("all documents need the same number of features")
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes(), len(lists), "float64"


def _is_ok(response: httpx.Response) -> bool:
    return response.status_code == 200


def _linear_model(response: httpx.Response) -> LinearModel:
    import numpy as np

    from duelrank.export.model import LinearModel
    from duelrank.representation.fixed import read_representation

    found = answer(schema.Model)(response)
    names = tuple(found.weights)
    try:
        weights = np.array(list(found.weights.values())).T.ravel()
        knots = None if found.knots is None else np.array([found.knots[name] for name in names])
        representation = read_representation(found.representation, names)
        return LinearModel(found.name, found.model_version, names, weights, representation, knots)
    except (DuelrankError, ValueError, KeyError) as error:
        raise DataFormatError(f"the answer to {response.request.url} is not a model: {error}") from None


def _options(base_url: str, api_key: str | None, timeout: float | None, retries: int) -> dict[str, Any]:
    """Check the arguments of a client, and return those of the client of httpx."""
    import httpx

    whole_number("retries", retries, least=0)
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, TypeError) as error:
        raise InvalidValue(f"the address of the service is not valid: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise InvalidValue(f"the address of the service must be like http://127.0.0.1:8000, got {base_url!r}")
    if api_key is not None and not (api_key.isascii() and api_key.isprintable() and " " not in api_key and api_key):
        raise InvalidValue("an API key must be one word of printable ASCII characters")  # the key is never shown
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    return {"base_url": url, "headers": headers, "timeout": timeout}


class Client(_BaseClient):
    """Calls a duelrank service, and blocks until each answer arrives. Threads may share one client.

    Connection errors and the statuses 429, 502, 503 and 504 are retried, after growing pauses and no earlier than Retry-After
    allows. This is safe: an impression keeps its id over all attempts, and an event counts once, by its event id or by its
    content. A refusal raises `ServiceError`, a missing answer `ServiceUnreachable`.

    Parameters
    ----------
    base_url
        Address of the service, such as ``"http://127.0.0.1:8000"``.
    api_key
        API key that ``duelrank keys create`` printed; not needed if the service runs without keys.
    timeout
        Seconds for each step of one attempt: connecting, sending, waiting for the answer. None waits for ever.
        Creating and deleting a ranker wait for at least a minute.
    retries
        Number of attempts after the first one.
    transport
        Transport of httpx that replaces the network, for tests.

    Examples
    --------
    >>> from duelrank.client import Client
    >>> answer = {"impression_id": "i1", "model_version": 17, "ranking": [{"id": "d7", "position": 1}]}
    >>> import httpx  # in place of a real service, for this example
    >>> service = httpx.MockTransport(lambda request: httpx.Response(200, json=answer))
    >>> with Client("http://127.0.0.1:8000", transport=service) as client:
    ...     shown = client.rank("shop", {"d6": [0.1, 3.0], "d7": [0.9, 1.0]}, impression_id="i1")
    >>> shown.ids, shown.model_version
    (['d7'], 17)
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        timeout: float | None = 10.0,
        retries: int = 4,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        import httpx

        self._http = httpx.Client(**_options(base_url, api_key, timeout, retries), transport=transport)
        self._retries = retries

    def send(self, call: Call[T]) -> T:
        """Make a call, retry it if a retry may succeed, and return its result."""
        for attempt in itertools.count():
            outcome = self._attempt(call)
            wait = call.next_pause(outcome, attempt, self._retries)
            if wait is None:
                return call.result(outcome, attempt)
            time.sleep(wait)
        raise AssertionError("counting never ends")

    def _attempt(self, call: Call[T]) -> Outcome:
        from httpx import RequestError

        try:
            return self._http.send(call.request(self._http))
        except RequestError as error:
            return error

    def close(self) -> None:
        """Close the connections; may be called twice."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_BaseClient):
    """Calls a duelrank service from coroutines; otherwise a `Client`, with the same parameters and methods.

    Examples
    --------
    >>> import asyncio, httpx
    >>> from duelrank.client import AsyncClient, FeedbackEvent
    >>> counts = {"accepted": 1, "duplicate": 0, "unknown": 0, "expired": 0, "invalid": []}
    >>> service = httpx.MockTransport(lambda request: httpx.Response(200, json=counts))  # in place of a real one
    >>> async def click():
    ...     async with AsyncClient("http://127.0.0.1:8000", transport=service) as client:
    ...         return await client.feedback("shop", FeedbackEvent("i1", clicks=["d7"], close=True))
    >>> asyncio.run(click()).accepted
    1
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        timeout: float | None = 10.0,
        retries: int = 4,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        import httpx

        self._http = httpx.AsyncClient(**_options(base_url, api_key, timeout, retries), transport=transport)
        self._retries = retries

    async def send(self, call: Call[T]) -> T:
        """Make a call, retry it if a retry may succeed, and return its result."""
        import asyncio

        for attempt in itertools.count():
            outcome = await self._attempt(call)
            wait = call.next_pause(outcome, attempt, self._retries)
            if wait is None:
                return call.result(outcome, attempt)
            await asyncio.sleep(wait)
        raise AssertionError("counting never ends")

    async def _attempt(self, call: Call[T]) -> Outcome:
        from httpx import RequestError

        try:
            return await self._http.send(call.request(self._http))
        except RequestError as error:
            return error

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
