"""The service as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import PackageNotFoundError, version

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from duelrank.serving.service import Service
from duelrank.serving.web.bodies import BodyReader
from duelrank.serving.web.endpoint import Desk, Endpoint
from duelrank.serving.web.gate import Gate
from duelrank.serving.web.keys import KeyRing
from duelrank.serving.web.metrics import Metrics
from duelrank.serving.web.operations import OPERATIONS
from duelrank.serving.web.problems import problem
from duelrank.serving.web.refusals import NoSuchPage, WrongMethod
from duelrank.serving.web.schema import describe
from duelrank.serving.web.settings import WebSettings

__all__ = ["create_app"]


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
    app = FastAPI(title="duelrank", openapi_url=None, docs_url=None, redoc_url=None, lifespan=_lifespan)
    app.openapi = lambda: desk.document  # type: ignore[method-assign]
    app.router.redirect_slashes = False
    app.state.desk = desk
    for operation in OPERATIONS:
        app.add_route(operation.path, Endpoint(operation, desk), methods=[operation.method])  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, _not_routed)
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


async def _not_routed(request: Request, error: Exception) -> Response:
    """Answer what the router found nothing for."""
    assert isinstance(error, HTTPException)
    path, method = request.url.path[:200], request.method
    allowed = _methods(request)
    refusal: Exception
    if allowed and error.status_code in (404, 405):
        refusal = WrongMethod(f"{path} has {allowed}, not {method}", allowed)
    else:
        refusal = NoSuchPage(f"there is nothing at {path}; GET /docs lists what there is")
    desk: Desk = request.app.state.desk
    request_id = desk.gate.request_id(dict(request.scope["headers"]))
    reply = problem(refusal, request_id)
    desk.metrics.requests("other", "other")(reply.status, 0.0)
    headers = {"x-request-id": request_id} | {name.decode(): value.decode("latin-1") for name, value in reply.headers}
    return Response(reply.body, reply.status, headers, reply.media_type.decode())


def _methods(request: Request) -> str:
    """Return what methods this path has, over all of its operations."""
    found: set[str] = set()
    for route in request.app.routes:
        match, _ = route.matches(request.scope)
        found |= set(route.methods or ()) if match != Match.NONE else set()
    return ", ".join(sorted(found))
