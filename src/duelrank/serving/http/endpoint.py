"""The way of one request: let in, read, decoded, answered, encoded, counted. No framework takes part in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, get_origin
from urllib.parse import parse_qsl

import msgspec

from duelrank.errors import NotReady
from duelrank.serving.http.bodies import BodyReader
from duelrank.serving.http.gate import Gate
from duelrank.serving.http.metrics import Metrics
from duelrank.serving.http.problems import problem
from duelrank.serving.http.refusals import ClientGone, MalformedBody
from duelrank.serving.http.replies import Receive, Reply, Scope, Send, send_reply
from duelrank.serving.service import Service

__all__ = ["Call", "Desk", "Endpoint", "Operation", "decode_query"]

_encode = msgspec.json.Encoder().encode


@dataclass
class Desk:
    """What all endpoints share."""

    service: Service
    gate: Gate
    bodies: BodyReader
    metrics: Metrics
    document: dict[str, Any] = field(default_factory=dict)


class Call(msgspec.Struct):
    """One request as a handler sees it: the ranker's name, the decoded body, the decoded query."""

    desk: Desk
    service: Service
    name: str
    body: Any
    query: Any
    headers: Mapping[bytes, bytes]


@dataclass(frozen=True)
class Operation:
    """One method of one path: everything that the router, the documentation and the gate have to know of it.

    Parameters
    ----------
    method, path
        Where it is.
    handle
        Answers a call with a value that is encoded as JSON, or with a `Reply`; its docstring is its documentation.
    needs
        The scope that a key needs; None for everybody.
    takes
        The type that the body is decoded into; `bytes` for handlers that decode it themselves.
    query
        The struct that the query string is decoded into.
    answers
        The type of the answer; None where it is not JSON.
    always
        Whether it answers before everything was restored too.
    bodies
        Schemas to document the body with, by media type, where that is not just ``takes`` as JSON.
    mentions
        Types that those schemas refer to.
    media_types
        Of the answer.
    """

    method: str
    path: str
    handle: Callable[[Call], Awaitable[Any]]
    needs: str | None = None
    takes: Any = None
    query: Any = None
    answers: Any = None
    status: int = 200
    always: bool = False
    bodies: Mapping[str, Any] = field(default_factory=dict)
    mentions: tuple[Any, ...] = ()
    media_types: tuple[str, ...] = ("application/json",)


class Endpoint:
    """An operation as an ASGI application."""

    def __init__(self, operation: Operation, desk: Desk) -> None:
        self.operation = operation
        self.desk = desk
        self._decode = None if operation.takes in (None, bytes) else msgspec.json.Decoder(operation.takes).decode
        self._count = desk.metrics.requests(operation.method, operation.path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens."""
        began = perf_counter()
        desk = self.desk
        headers = dict(scope["headers"])
        request_id = desk.gate.request_id(headers)
        try:
            desk.gate.enter()
            try:
                reply = await self._reply(scope, headers, receive)
            finally:
                desk.gate.leave()
        except ClientGone:
            return
        except Exception as error:
            reply = problem(error, request_id)
        await send_reply(send, reply, request_id)
        self._count(reply.status, perf_counter() - began)

    async def _reply(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive) -> Reply:
        operation, desk = self.operation, self.desk
        desk.gate.admit(scope, headers, operation.needs)
        if not operation.always and not desk.service.ready:
            raise NotReady("what was learned is being restored; GET /readyz says when that is done")
        body = None if operation.takes is None else self._decoded(await desk.bodies.read(headers, receive))
        query = None if operation.query is None else decode_query(scope["query_string"], operation.query)
        name = scope["path_params"].get("name", "")
        answer = await operation.handle(Call(desk, desk.service, name, body, query, headers))
        return answer if type(answer) is Reply else Reply(_encode(answer), operation.status)

    def _decoded(self, body: bytes) -> Any:
        if self._decode is None:
            return body
        try:
            return self._decode(body)
        except msgspec.ValidationError:
            raise
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise MalformedBody(f"the body is no JSON: {error}") from None


def decode_query(text: bytes, wanted: Any) -> Any:
    """Decode a query string into a struct; what may be given more than once is a tuple there."""
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=10_000)
    except ValueError as error:
        raise msgspec.ValidationError(f"the query string cannot be read: {error}") from None
    several = {field.name for field in msgspec.structs.fields(wanted) if get_origin(field.type) is tuple}
    values: dict[str, Any] = {}
    for name, value in pairs:
        values[name] = (*values.get(name, ()), value) if name in several else value
    return msgspec.convert(values, wanted, strict=False)
