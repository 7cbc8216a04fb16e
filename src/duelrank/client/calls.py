"""Every question to the service as a value: what to send and how to read the answer; nothing here does any I/O.

`Client` and `AsyncClient` have one method for each public function of this module, made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import numpy as np

from duelrank.client.values import FeedbackCounts, FeedbackEvent, RankAnswer, RankerInfo, VersionInfo, new_id
from duelrank.client.wire import Call, Value, decoded, encoded
from duelrank.errors import DataFormatError, DuelrankError, InvalidValue
from duelrank.export import LinearModel, Normalisation

T = TypeVar("T")

Features = Sequence[float] | Mapping[str, float]
Documents = Mapping[str, Features] | Iterable[Mapping[str, Any]]
Event = FeedbackEvent | Mapping[str, Any]


def health() -> Call[bool]:
    """Whether the service runs at all."""
    return Call("GET", "/healthz", _is_ok, answers=range(200, 600))


def ready() -> Call[bool]:
    """Whether the service has restored all rankers and can be asked; False while it has not, without retrying."""
    return Call("GET", "/readyz", _is_ok, answers=(200, 503))


def create_ranker(
    name: str,
    algorithm: str,
    features: Iterable[str],
    *,
    normalisation: Mapping[str, Any] | None = None,
    length: int | None = None,
    exploration: float | None = None,
    mode: str | None = None,
    seed: int | None = None,
    close_after: float | None = None,
) -> Call[RankerInfo]:
    """Create a ranker, or find the one that was created by the same call before.

    Parameters
    ----------
    name
        Of the ranker; a known name with another definition is refused (409).
    algorithm
        A recipe such as ``"mgd-dsp"`` or ``"pdgd"``.
    features
        The names of the features, in the order in which dense arrays will have them.
    normalisation
        ``{"kind": "none"}``, ``{"kind": "per_query"}`` or ``{"kind": "fixed", "features": …}``; see docs/export.md.
    length
        How many documents a list has, where the request does not say.
    exploration
        The share of lists that explore; the others are the best list of the model, and are not learned from.
    mode
        ``"learn"``, ``"shadow"`` or ``"frozen"``.
    seed
        Of all randomness of this ranker.
    close_after
        Seconds after which a list is learned from where nobody closed it.
    """
    given = {
        "normalisation": normalisation,
        "length": length,
        "exploration": exploration,
        "mode": mode,
        "seed": seed,
        "close_after": close_after,
    }
    content: dict[str, Any] = {"name": name, "algorithm": algorithm, "features": list(features)}
    content |= {key: value for key, value in given.items() if value is not None}
    return Call("POST", "/v1/rankers", _answer(RankerInfo.read), encoded(content))


def rankers() -> Call[tuple[RankerInfo, ...]]:
    """All rankers of the service."""
    return Call("GET", "/v1/rankers", _answer(RankerInfo.read_all))


def ranker(name: str) -> Call[RankerInfo]:
    """One ranker: its definition and how far it has come."""
    return Call("GET", _path(name), _answer(RankerInfo.read))


def rank(
    name: str,
    documents: Documents,
    *,
    impression_id: str | None = None,
    length: int | None = None,
    explain: bool = False,
) -> Call[RankAnswer]:
    """Ask for the order in which to show some documents.

    Parameters
    ----------
    name
        Of the ranker.
    documents
        Features by document id, dense or by name: ``{"d1": [0.1, 2.0], "d2": {"bm25": 3.0}}``; or, as the service has
        them, ``[{"id": "d1", "features": [0.1, 2.0]}]``. In shadow mode their order is the one that is shown.
    impression_id
        One is made up. The same id again, such as for another page or after a crash, gives the same order.
    length
        How many documents to return; the ranker's length unless given.
    explain
        Also return each document's score and what each feature adds to it.
    """
    content: dict[str, Any] = {"impression_id": impression_id or new_id(), "documents": _documents(documents)}
    content |= {} if length is None else {"length": length}
    content |= {"explain": True} if explain else {}
    return Call("POST", _path(name, "rank"), _answer(RankAnswer.read), encoded(content))


def feedback(name: str, events: Event | Iterable[Event]) -> Call[FeedbackCounts]:
    """Send what users did with their lists: one `FeedbackEvent` or many, or UBI events as they are."""
    many = [events] if isinstance(events, FeedbackEvent | Mapping) else events
    content = [each.as_dict() if isinstance(each, FeedbackEvent) else each for each in many]
    return Call("POST", _path(name, "feedback"), _answer(FeedbackCounts.read), encoded(content))


def close_impression(
    name: str, impression_id: str, clicks: Sequence[str] = (), examined: int | None = None
) -> Call[FeedbackCounts]:
    """Say that nothing more will come for a list, with the last clicks if there are any: it is learned from now."""
    return feedback(name, FeedbackEvent(impression_id, clicks, examined, close=True))


def model(name: str, version: int | None = None) -> Call[LinearModel]:
    """The weights by feature name, of the current version or of another one."""
    return Call("GET", _path(name, "model"), _model, query=_version(version))


def versions(name: str) -> Call[tuple[VersionInfo, ...]]:
    """The versions of the model that can be rolled back to."""
    return Call("GET", _path(name, "model", "versions"), _answer(VersionInfo.read_all))


def freeze(name: str) -> Call[RankerInfo]:
    """Stop learning and exploring; events are kept."""
    return Call("POST", _path(name, "freeze"), _answer(RankerInfo.read))


def resume(name: str) -> Call[RankerInfo]:
    """Go on learning."""
    return Call("POST", _path(name, "resume"), _answer(RankerInfo.read))


def rollback(name: str, version: int) -> Call[RankerInfo]:
    """Go back to the weights of an earlier version, which become those of a new one."""
    return Call("POST", _path(name, "rollback"), _answer(RankerInfo.read), encoded({"version": version}))


def pin(name: str, version: int) -> Call[RankerInfo]:
    """Have a shadow serve the best lists of one version, in place of your own order, while it goes on learning."""
    return Call("POST", _path(name, "pin"), _answer(RankerInfo.read), encoded({"version": version}))


def unpin(name: str) -> Call[RankerInfo]:
    """Have a shadow serve your own order again."""
    return Call("POST", _path(name, "unpin"), _answer(RankerInfo.read))


def export(name: str, format: str = "json", version: int | None = None, **options: str | float | bool) -> Call[bytes]:
    """The model in the format of another engine, such as ``"solr"`` or ``"onnx"``, with the options of docs/export.md."""
    query: dict[str, Value] = {"format": format} | _version(version) | options
    return Call("GET", _path(name, "export"), lambda response: response.content, query=query)


def _path(name: str, *rest: str) -> str:
    if not isinstance(name, str) or name in ("", ".", ".."):
        raise InvalidValue(f"a ranker has a name, got {name!r}")
    return "/".join(["/v1/rankers", quote(name, safe=""), *rest])


def _version(version: int | None) -> dict[str, Value]:
    return {} if version is None else {"version": version}


def _documents(given: Documents) -> list[Mapping[str, Any]]:
    if isinstance(given, Mapping):
        return [{"id": id, "features": features} for id, features in given.items()]
    return list(given)


def _is_ok(response: httpx.Response) -> bool:
    return response.status_code == 200


def _answer(read: Callable[[Any], T]) -> Callable[[httpx.Response], T]:
    return lambda response: read(decoded(response))


def _model(response: httpx.Response) -> LinearModel:
    content = decoded(response)
    try:
        names = tuple(content["weights"])
        normalisation = Normalisation.from_dict(content["normalisation"], names)
        return LinearModel(
            content["name"], content["model_version"], names, np.array(list(content["weights"].values())), normalisation
        )
    except (KeyError, TypeError, AttributeError, DuelrankError) as error:
        raise DataFormatError(f"the service answered what is no model: {error!r}") from None
