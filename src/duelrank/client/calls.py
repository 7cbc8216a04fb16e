"""The calls of the service as values. `Client` and `AsyncClient` have one method for each public function of this module."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import msgspec

from duelrank import api
from duelrank.api import (
    BackfillCounts,
    Change,
    DocumentTable,
    FeedbackCounts,
    FeedbackEvent,
    GuardInfo,
    GuardSpec,
    History,
    LastStep,
    LoggedImpression,
    ModelCurves,
    RankAnswer,
    RankerInfo,
    Start,
    VersionInfo,
    VersionLabel,
    VersionNumber,
)
from duelrank.client.protocol import JSON, MESSAGEPACK, Call, Value, answer, encode_json, encode_messagepack, new_id
from duelrank.core.errors import DataFormatError, DuelrankError, InvalidValue

if TYPE_CHECKING:  # importing these takes time: httpx waits for the first client, the others for the first `model`
    import httpx

    from duelrank.export import LinearModel
    from duelrank.representation import Representation

Features = Sequence[float] | Mapping[str, float]
Documents = Mapping[str, Features] | Iterable[Mapping[str, Any]] | tuple[Sequence[str], Any] | DocumentTable
Event = FeedbackEvent | Mapping[str, Any]
Guard = GuardSpec | Mapping[str, Any]

#: Seconds that the service may take to create a ranker, which compiles its algorithm, or to delete one with all its data.
LONG = 60.0

_read_ranker = answer(RankerInfo)
_read_rankers = answer(tuple[RankerInfo, ...])
_read_ranking = answer(RankAnswer)
_read_counts = answer(FeedbackCounts)
_read_backfilled = answer(BackfillCounts)
_read_versions = answer(tuple[VersionInfo, ...])
_read_version = answer(VersionInfo)
_read_model = answer(api.Model)
_read_curves = answer(ModelCurves)
_read_guard = answer(GuardInfo)
_read_last_step = answer(LastStep)
_read_history = answer(History)


def health() -> Call[bool]:
    """Return whether the service runs at all."""
    return Call("GET", "/healthz", _is_ok, answers=range(200, 600))


def ready() -> Call[bool]:
    """Return whether the service has restored all rankers and accepts calls; this call is not retried."""
    return Call("GET", "/readyz", _is_ok, answers=(200, 503))


def create_ranker(
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
) -> Call[RankerInfo]:
    """Create a ranker, or find the one that the same call created before.

    The first ranker of an algorithm may take a while, because the service compiles it: each attempt waits for a minute at
    least, whatever the timeout of the client.

    Parameters
    ----------
    name
        Name of the ranker; a known name with another definition is refused (409).
    algorithm
        A recipe such as ``"mgd-dsp"`` or ``"pdgd"``; it may begin with a representation.
    features
        The names of the features, in the order of dense arrays.
    representation
        What the algorithm sees of the features, such as ``"query-scaled >> curves"`` or ``{"kind": "fixed", "features": …}``, or
        a value of `duelrank.representation`. The service's default unless given.
    length
        Number of documents that an impression shows, unless a request says otherwise.
    exploration
        The share of impressions that explore; the others show the best ranking of the model, and teach nothing.
    mode
        ``"learn"``, ``"shadow"`` or ``"frozen"``.
    seed
        Random seed of this ranker.
    close_after
        Seconds after which an open impression is closed.
    start
        The first weights: ``{"weights": {"bm25": 1.0}}``, ``{"from": "shop", "version": 40}`` (another ranker of this
        service), ``{"model": …}`` (as exported with format=json), or a `LinearModel`. All weights are 0 unless given.
    precision
        ``"float64"``, or ``"float32"`` to halve the space that features take in the store.
    guard
        How the ranker is compared with your own order, and what happens when it does worse: a `GuardSpec`, or an object such as
        ``{"share": 0.2}``; ``{}`` for the defaults. No guard unless given.
    actions
        What actions weigh, by name: ``{"click": 1, "purchase": 10}``. Only clicks count unless given.
    """
    names = list(features)
    content = {
        "name": name,
        "algorithm": algorithm,
        "features": names,
        "representation": _representation(representation, names),
        "length": length,
        "exploration": exploration,
        "mode": mode,
        "seed": seed,
        "close_after": close_after,
        "start": _start(start),
        "precision": precision,
        "guard": guard,
        "actions": None if actions is None else dict(actions),
    }
    given = {key: value for key, value in content.items() if value is not None}
    return Call("POST", "/v1/rankers", _read_ranker, encode_json(given), patience=LONG)


def change_ranker(
    name: str,
    *,
    exploration: float | None = None,
    close_after: float | None = None,
    length: int | None = None,
    mode: api.Mode | None = None,
    add_features: Iterable[str] = (),
    retire_features: Iterable[str] = (),
    guard: Guard | msgspec.UnsetType | None = msgspec.UNSET,
    actions: Mapping[str, float] | None = None,
) -> Call[RankerInfo]:
    """Change a ranker; it keeps what it has learned, and everything that is not given.

    Parameters
    ----------
    name
        Name of the ranker.
    exploration, close_after, length, mode
        The new values; see `create_ranker`.
    add_features
        Names of new features, behind the others in dense arrays; they start by adding nothing.
    retire_features
        Names of features that no longer count; documents may still have them by name.
    guard
        Another guard, as a whole: what it does not say has its default. None ends it. It stays as it is unless given.
    actions
        Other weights of actions, all of them.
    """
    added, retired = _names(add_features), _names(retire_features)
    weights = None if actions is None else dict(actions)
    change = Change(exploration, close_after, length, mode, added, retired, actions=weights)
    content = msgspec.to_builtins(change) | ({} if guard is msgspec.UNSET else {"guard": guard})
    return Call("PATCH", _path(name), _read_ranker, encode_json(content))


def delete_ranker(name: str, *, confirm: str) -> Call[None]:
    """Delete a ranker with all its data: model, versions, impressions and clicks. ``confirm`` repeats its name."""
    # After a lost answer, 404 means that the attempt before has deleted it.
    return Call(
        "DELETE", _path(name), lambda _: None, query={"confirm": confirm}, retried_answers=(404,), patience=LONG
    )


def rankers() -> Call[tuple[RankerInfo, ...]]:
    """Return all rankers of the service."""
    return Call("GET", "/v1/rankers", _read_rankers)


def ranker(name: str) -> Call[RankerInfo]:
    """Return the definition and the counts of one ranker."""
    return Call("GET", _path(name), _read_ranker)


def guard(name: str) -> Call[GuardInfo]:
    """Return how a guarded ranker does against your own order: valid whenever you look."""
    return Call("GET", _path(name, "guard"), _read_guard)


def rank(
    name: str,
    documents: Documents,
    *,
    impression_id: str | None = None,
    length: int | None = None,
    explain: bool = False,
) -> Call[RankAnswer]:
    """Return the order in which to show some documents.

    Parameters
    ----------
    name
        Name of the ranker.
    documents
        Features by document id, dense or by name: ``{"d1": [0.1, 2.0], "d2": {"bm25": 3.0}}``; or as the service has them,
        ``[{"id": "d1", "features": [0.1, 2.0]}]``; or, for many documents or features, a pair of ids and a 2-D array,
        ``(["d1", "d2"], array)``, which travels as the bytes of its numbers and is several times as fast. An array of
        float32 is sent as such, all others as float64. In shadow mode the order of the documents is the one that is shown.
    impression_id
        A new one unless given. The same id again, such as for another page or after a crash, gives the same order.
    length
        How many documents to return; the ranker's length unless given.
    explain
        Also return the score of each document and what each feature adds to it.
    """
    content: dict[str, Any] = {"impression_id": impression_id or new_id()}
    content |= {} if length is None else {"length": length}
    content |= {"explain": True} if explain else {}
    table = _table(documents)
    if table is None:
        body, kind = encode_json(content | {"documents": _documents(documents)}), JSON
    else:
        body, kind = encode_messagepack(content | {"documents": table}), MESSAGEPACK
    return Call("POST", _path(name, "rank"), _read_ranking, body, kind)


def feedback(name: str, events: Event | Iterable[Event]) -> Call[FeedbackCounts]:
    """Send what users did with impressions: one `FeedbackEvent` or many, or unchanged UBI events."""
    many = [events] if isinstance(events, FeedbackEvent | Mapping) else events
    body = encode_json([_event(each) if isinstance(each, FeedbackEvent) else each for each in many])
    return Call("POST", _path(name, "feedback"), _read_counts, body)


def backfill(name: str, impressions: LoggedImpression | Iterable[LoggedImpression]) -> Call[BackfillCounts]:
    """Teach a ranker with lists that another system ranked, before it gets traffic; each teaches once, however often it is sent."""
    many = [impressions] if isinstance(impressions, LoggedImpression) else list(impressions)
    return Call("POST", _path(name, "impressions"), _read_backfilled, encode_json(many), patience=LONG)


def close_impression(
    name: str,
    impression_id: str,
    clicks: Sequence[str] = (),
    examined: int | None = None,
    user_id: str | None = None,
) -> Call[FeedbackCounts]:
    """Close an impression, with its last clicks if there are any: the ranker may learn from it now.

    ``user_id`` is any text that stands for one user, who has one vote a day in the guard; the service keeps only a hash of it.
    """
    clicked = [clicks] if isinstance(clicks, str) else list(clicks)
    return feedback(name, FeedbackEvent(impression_id, clicked, examined, close=True, user_id=user_id))


def model(name: str, version: int | None = None) -> Call[LinearModel]:
    """Return the weights by feature name, of the current version or of another one."""
    return Call("GET", _path(name, "model"), _linear_model, query=_version(version))


def history(
    name: str, step: Literal["minute", "hour", "day"] = "minute", start: float | None = None, end: float | None = None
) -> Call[History]:
    """Return what a ranker did over time: lists, clicks, reward, weights, its guard, and what happened to it.

    Parameters
    ----------
    name
        Of the ranker.
    step
        "minute", "hour" or "day".
    start, end
        Seconds since 1970; the newest 2,000 steps between them are returned.
    """
    given = {"step": step, "start": start, "end": end}
    query = {key: str(value) for key, value in given.items() if value is not None}
    return Call("GET", _path(name, "history"), _read_history, query=query)


def curves(name: str, version: int | None = None) -> Call[ModelCurves]:
    """Return what each feature adds to the score, as curves, the most important feature first."""
    return Call("GET", _path(name, "curves"), _read_curves, query=_version(version))


def last_step(name: str) -> Call[LastStep]:
    """Return what was learned from the last impression: examined documents, directions before and after projection, weights."""
    return Call("GET", _path(name, "last-step"), _read_last_step)


def versions(name: str) -> Call[tuple[VersionInfo, ...]]:
    """Return the versions of the model that are kept, oldest first."""
    return Call("GET", _path(name, "model", "versions"), _read_versions)


def freeze(name: str) -> Call[RankerInfo]:
    """Stop learning and exploring; events are kept."""
    return Call("POST", _path(name, "freeze"), _read_ranker)


def resume(name: str) -> Call[RankerInfo]:
    """Learn again, after a freeze or an alarm of the guard."""
    return Call("POST", _path(name, "resume"), _read_ranker)


def rollback(name: str, version: int) -> Call[RankerInfo]:
    """Return to the weights of an earlier version, which become those of a new one."""
    return Call("POST", _path(name, "rollback"), _read_ranker, encode_json(VersionNumber(version)))


def label(name: str, version: int, label: str) -> Call[VersionInfo]:
    """Keep a version under a label, so that it is not thinned; "" removes the label."""
    return Call("POST", _path(name, "label"), _read_version, encode_json(VersionLabel(version, label)))


def pin(name: str, version: int) -> Call[RankerInfo]:
    """Let a shadow serve the best rankings of one version instead of your own order, while it continues to learn."""
    return Call("POST", _path(name, "pin"), _read_ranker, encode_json(VersionNumber(version)))


def unpin(name: str) -> Call[RankerInfo]:
    """Let a shadow serve your own order again."""
    return Call("POST", _path(name, "unpin"), _read_ranker)


def export(
    name: str, format: str = "json", version: int | None = None, **options: Value | Mapping[str, str] | None
) -> Call[bytes]:
    """Return the model in the format of a search engine, such as ``"solr"`` or ``"onnx"``.

    The options are those of `duelrank.export.export`, such as ``rank_features={"price": "attribute(price)"}``; docs/export.md
    lists them.
    """
    query: dict[str, Value] = {"format": format} | _version(version)
    for key, value in options.items():
        if isinstance(value, Mapping):  # in a query string: one parameter for each pair
            query[api.parameter_of_pair(key)] = [f"{each}={text}" for each, text in value.items()]
        elif value is not None:
            query[key] = value
    return Call("GET", _path(name, "export"), lambda response: response.content, query=query)


def _path(name: str, *rest: str) -> str:
    if not isinstance(name, str) or name in ("", ".", ".."):
        raise InvalidValue(f"a ranker has a name, got {name!r}")
    return "/".join(["/v1/rankers", quote(name, safe=""), *rest])


def _version(version: int | None) -> dict[str, Value]:
    return {} if version is None else {"version": version}


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _representation(given: Any, names: Sequence[str]) -> Any:
    if given is None or isinstance(given, str | Mapping):
        return given
    from duelrank.representation import Representation
    from duelrank.representation.fixed import write_representation

    if not isinstance(given, Representation):
        raise InvalidValue(f'a representation is a text such as "query-scaled", an object or a part, got {given!r}')
    return write_representation(given, names)


def _start(given: Start | Mapping[str, Any] | LinearModel | None) -> Any:
    if given is None or isinstance(given, Start | Mapping):
        return given
    if hasattr(given, "to_json"):
        return Start(model=msgspec.json.decode(given.to_json()))
    raise InvalidValue(
        f'start is {{"weights": …}}, {{"from": …, "version": …}}, {{"model": …}} or a LinearModel, got {given!r}'
    )


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
    ids, rows = _plain_ids(given[0]), given[1]
    packed = _packed_array(rows) if hasattr(rows, "astype") else _packed_rows(rows)
    features, n_rows, precision = packed
    if n_rows != len(ids):
        raise InvalidValue(f"{len(ids)} document ids need {len(ids)} rows of features, got {n_rows}")
    return DocumentTable(ids, features, precision)


def _plain_ids(given: Any) -> list[str]:
    return list(given.tolist() if hasattr(given, "tolist") else given)


def _packed_array(rows: Any) -> tuple[bytes, int, api.Precision]:
    if len(rows.shape) != 2:
        raise InvalidValue(f"the features of documents are a 2-D array, got shape {tuple(rows.shape)}")
    precision: api.Precision = "float32" if str(rows.dtype) in ("float32", "float16") else "float64"
    try:
        return rows.astype("<f4" if precision == "float32" else "<f8").tobytes(), rows.shape[0], precision
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"this cannot be sent to the service: {error}") from None


def _packed_rows(rows: Any) -> tuple[bytes, int, api.Precision]:
    try:
        lists = [list(row) for row in rows]
        numbers = array("d", chain.from_iterable(lists))
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

    found = _read_model(response)
    names = tuple(found.weights)
    try:
        weights = np.array(list(found.weights.values())).T.ravel()
        knots = None if found.knots is None else np.array([found.knots[name] for name in names])
        representation = read_representation(found.representation, names)
        return LinearModel(found.name, found.model_version, names, weights, representation, knots)
    except (DuelrankError, ValueError, KeyError) as error:
        raise DataFormatError(f"the answer to {response.request.url} is not a model: {error}") from None
