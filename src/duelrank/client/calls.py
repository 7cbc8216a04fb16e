"""Every question to the service as a value: what to send and how to read the answer; nothing here does any I/O.

`Client` and `AsyncClient` have one method for each public function of this module, made from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx

from duelrank.client.errors import ServiceError, ServiceUnreachable
from duelrank.client.retrying import Outcome, retry_after
from duelrank.client.values import FeedbackCounts, FeedbackEvent, RankAnswer, RankerInfo, VersionInfo, new_id
from duelrank.errors import DataFormatError, InvalidValue
from duelrank.export import LinearModel

T = TypeVar("T")

Features = Sequence[float] | Mapping[str, float]
Documents = Mapping[str, Features] | Iterable[Mapping[str, Any]]
Event = FeedbackEvent | Mapping[str, Any]


@dataclass(frozen=True)
class Call(Generic[T]):
    """One question: method, path, query and body, how to read the answer, and which statuses are one.

    The id is the same over all attempts: it is the service's key of what it is asked to do once.
    """

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    body: bytes | None = None
    query: Mapping[str, str | int] = field(default_factory=dict)
    answers: range | tuple[int, ...] = range(200, 300)
    id: str = field(default_factory=new_id)

    @property
    def headers(self) -> dict[str, str]:
        """What goes with every attempt."""
        return {"X-Request-ID": self.id} | ({} if self.body is None else {"Content-Type": "application/json"})

    def is_answer(self, outcome: Outcome) -> bool:
        """Whether an attempt has brought what was asked for."""
        return isinstance(outcome, httpx.Response) and outcome.status_code in self.answers

    def result(self, outcome: Outcome) -> T:
        """Read the answer, or raise what went wrong."""
        if isinstance(outcome, httpx.RequestError):
            text = str(outcome) or type(outcome).__name__
            raise ServiceUnreachable(f"no answer to {self.method} {self.path}: {text}") from outcome
        if not self.is_answer(outcome):
            raise _problem(outcome)
        return self.read(outcome)


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
    return Call("POST", "/v1/rankers", _one(RankerInfo.read), _encoded(content))


def rankers() -> Call[tuple[RankerInfo, ...]]:
    """All rankers of the service."""
    return Call("GET", "/v1/rankers", _many(RankerInfo.read_all, "rankers"))


def ranker(name: str) -> Call[RankerInfo]:
    """One ranker: its definition and how far it has come."""
    return Call("GET", _path(name), _one(RankerInfo.read))


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
    return Call("POST", _path(name, "rank"), _one(RankAnswer.read), _encoded(content))


def feedback(name: str, events: Event | Iterable[Event]) -> Call[FeedbackCounts]:
    """Send what users did with their lists: one `FeedbackEvent` or many, or UBI events as they are."""
    many = [events] if isinstance(events, FeedbackEvent | Mapping) else events
    content = [each.as_dict() if isinstance(each, FeedbackEvent) else each for each in many]
    return Call("POST", _path(name, "feedback"), _one(FeedbackCounts.read), _encoded(content))


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
    return Call("GET", _path(name, "versions"), _many(VersionInfo.read_all, "versions"))


def freeze(name: str) -> Call[RankerInfo]:
    """Stop learning and exploring; events are kept."""
    return Call("POST", _path(name, "freeze"), _one(RankerInfo.read))


def resume(name: str) -> Call[RankerInfo]:
    """Go on learning."""
    return Call("POST", _path(name, "resume"), _one(RankerInfo.read))


def rollback(name: str, version: int) -> Call[RankerInfo]:
    """Go back to what an earlier version had learned."""
    return Call("POST", _path(name, "rollback"), _one(RankerInfo.read), _encoded({"version": version}))


def export(name: str, format: str = "json", version: int | None = None) -> Call[bytes]:
    """The model in the format of another engine, such as ``"solr"``, ``"opensearch"`` or ``"onnx"``; see docs/export.md."""
    return Call(
        "GET", _path(name, "export"), lambda response: response.content, query={"format": format} | _version(version)
    )


def _path(name: str, *rest: str) -> str:
    if not isinstance(name, str) or name in ("", ".", ".."):
        raise InvalidValue(f"a ranker has a name, got {name!r}")
    return "/".join(["/v1/rankers", quote(name, safe=""), *rest])


def _version(version: int | None) -> dict[str, str | int]:
    return {} if version is None else {"version": version}


def _documents(given: Documents) -> list[Mapping[str, Any]]:
    if isinstance(given, Mapping):
        return [{"id": id, "features": features} for id, features in given.items()]
    return list(given)


def _encoded(content: Any) -> bytes:
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"this cannot be sent to the service: {error}") from None


def _plain(value: Any) -> Any:
    """Turn arrays and numbers of NumPy, and the like, into what JSON has; mappings into objects, sequences into arrays."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no part of a request")


def _is_ok(response: httpx.Response) -> bool:
    return response.status_code == 200


def _decoded(response: httpx.Response) -> Any:
    try:
        return json.loads(response.content)
    except ValueError:
        raise DataFormatError(f"the answer to {response.request.url} is no JSON: is this a duelrank service?") from None


def _one(read: Callable[[Any], T]) -> Callable[[httpx.Response], T]:
    return lambda response: read(_decoded(response))


def _many(read: Callable[[Any], T], name: str) -> Callable[[httpx.Response], T]:
    """Read an array, alone or in an object under a name."""

    def reader(response: httpx.Response) -> T:
        content = _decoded(response)
        return read(content[name] if isinstance(content, dict) and name in content else content)

    return reader


def _model(response: httpx.Response) -> LinearModel:
    return LinearModel.from_json(response.content)


def _problem(response: httpx.Response) -> ServiceError:
    """Make an error of a problem+json answer, or of whatever stands between us and the service."""
    title, detail = response.reason_phrase or "error", ""
    if response.headers.get("Content-Type", "").partition(";")[0].strip().endswith("json"):
        try:
            content = _decoded(response)
        except DataFormatError:
            content = None
        if isinstance(content, dict):
            title, detail = str(content.get("title", title)), str(content.get("detail", ""))
    return ServiceError(response.status_code, title, detail, retry_after(response))
