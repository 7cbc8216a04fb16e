"""The service as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from starlette.types import ASGIApp

from duelrank.serving.http.bodies import BodyReader
from duelrank.serving.http.endpoint import Desk, Endpoint
from duelrank.serving.http.gate import Gate
from duelrank.serving.http.keys import KeyRing
from duelrank.serving.http.metrics import Metrics
from duelrank.serving.http.operations import OPERATIONS
from duelrank.serving.http.problems import problem
from duelrank.serving.http.refusals import NoSuchPage, WrongMethod
from duelrank.serving.http.replies import Receive, Scope, Send, send_reply
from duelrank.serving.http.schema import describe
from duelrank.serving.http.settings import WebSettings
from duelrank.serving.service import Service

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig

__all__ = ["create_app"]

# FastAPI would look at each request whether OpenTelemetry was set up, at a cost; earlier versions ignore the setting.
_UNWATCHED: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}


def create_app(service: Service, keys: KeyRing, settings: WebSettings | None = None) -> FastAPI:
    """Put a service on the web; it starts and stops with the application.

    The endpoints are ASGI applications of their own, which FastAPI only routes to: bodies are decoded by msgspec straight
    into the values that the service takes, and nothing else is done on the way.
    """
    settings = settings or WebSettings()
    metrics = Metrics()
    service.observer = metrics
    desk = Desk(
        service,
        Gate(keys, settings),
        BodyReader(settings.max_body, settings.max_waiting),
        metrics,
        describe(OPERATIONS, _version()),
    )
    app = _Application(
        title="duelrank", openapi_url=None, docs_url=None, redoc_url=None, lifespan=_lifespan, telemetry=_UNWATCHED
    )
    app.openapi = lambda: desk.document  # type: ignore[method-assign]
    app.router.redirect_slashes = False
    app.state.desk = desk
    for operation in OPERATIONS:
        app.add_route(operation.path, Endpoint(operation, desk), methods=[operation.method])  # type: ignore[arg-type]
    return app


def _version() -> str:
    try:
        return version("duelrank")
    except PackageNotFoundError:  # run from its source, not installed
        return "unknown"


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    desk: Desk = app.state.desk
    await desk.service.start()
    refreshing = asyncio.create_task(desk.gate.keys.keep_fresh())
    try:
        yield
    finally:
        refreshing.cancel()
        with suppress(asyncio.CancelledError):
            await refreshing
        await desk.service.stop()


class _Application(FastAPI):
    """FastAPI without its layers around the router, which cost a third of a request.

    They turn exceptions into answers and close what dependencies have opened; our endpoints do the one themselves and have none
    of the other.
    """

    def build_middleware_stack(self) -> ASGIApp:
        """Return the router, with our own answer to what it finds nothing for."""

        async def routed(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await self.router(scope, receive, send)
            except HTTPException:
                await _not_routed(self, scope, send)

        return routed


async def _not_routed(app: FastAPI, scope: Scope, send: Send) -> None:
    """Answer what the router found nothing for."""
    desk: Desk = app.state.desk
    path, method, allowed = scope["path"][:200], scope["method"], _methods(app, scope)
    refusal: Exception = NoSuchPage(f"there is nothing at {path}; GET /docs lists what there is")
    if allowed:
        refusal = WrongMethod(f"{path} has {allowed}, not {method}", allowed)
    request_id = desk.gate.request_id(dict(scope["headers"]))
    reply = problem(refusal, request_id)
    desk.metrics.requests("other", "other")(reply.status, 0.0)
    await send_reply(send, reply, request_id)


def _methods(app: FastAPI, scope: Scope) -> str:
    """Return what methods this path has, over all of its operations."""
    found: set[str] = set()
    for route in app.routes:
        if isinstance(route, Route) and route.matches(scope)[0] != Match.NONE:
            found |= route.methods or set()
    return ", ".join(sorted(found))
