"""The playground: its operations and page, added to the API of a service in the same process.

``GET /play/search`` finds candidates with their features, as a search engine does. Everything else uses the public API: the page
sends the candidates to ``POST /v1/rankers/mine/rank``, shows them in the order of the answer, sends clicks to ``POST
/v1/rankers/mine/feedback``, and reads ``GET /v1/rankers/mine/last-step``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
from starlette.applications import Starlette

from duelrank.algorithms import Algorithm
from duelrank.core.errors import InvalidRecipe, InvalidValue, LimitExceeded, UnknownName
from duelrank.core.grammar import parse
from duelrank.playground.crowd import (
    DEFAULT_TASTE,
    Crowd,
    CrowdSettings,
    CrowdState,
    check_ranker,
    crowd_rankers,
    scaled,
)
from duelrank.playground.search import FEATURES, Document, Search
from duelrank.service import Service, Settings
from duelrank.service.http import KeyRing, create_app
from duelrank.service.http.dashboard import POLICY
from duelrank.service.http.errors import NoSuchPage
from duelrank.service.http.routes import OPERATIONS, Call, Operation, Reply
from duelrank.service.http.schema import RankerSpec, Start
from duelrank.storage import Storage

#: Name and default recipe of the ranker that learns from the visitor's clicks. Large steps make one click visible in the weights;
#: the memory puts a document that was chosen once for a query above those that were passed over.
MINE, ALGORITHM = "mine", "remember(strength=2) >> wmgd-dsp(delta=0.3)"
#: Settings for one visitor: new versions are served at once, and events are deleted soon.
SETTINGS = Settings(publish_every=0.05, poll_every=0.05, retention=60.0, tidy_every=20.0, keep_versions=20)
#: First weights of the visitor's ranker: those of a search without learning.
_FIRST_WEIGHTS = {"name": 0.5, "intro": 0.3, "text": 0.2}

_ASSETS = {"play.js": b"text/javascript; charset=utf-8", "play.css": b"text/css; charset=utf-8"}


class SearchQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The query string of a search."""

    q: str


class DocumentQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The query string of a document."""

    id: str


class Candidate(msgspec.Struct, frozen=True):
    """A document that was found, with its features by name, as input of the ranker."""

    id: str
    kind: str
    summary: str
    features: dict[str, float]


class Found(msgspec.Struct, frozen=True):
    """The candidates of a query, in the order of the first stage."""

    query: str
    candidates: list[Candidate]


class Setup(msgspec.Struct, frozen=True):
    """The settings of the page: the visitor's ranker, whether it remembers queries, the features, and the simulated users."""

    ranker: str
    remembers: bool
    features: dict[str, str]
    documents: int
    taste: dict[str, float]
    wish: CrowdSettings  # the name in the page


def check_recipes(algorithm: str, users: CrowdSettings) -> None:
    """Raise an error if the recipe of the visitor's ranker or of one of the users' rankers cannot be served."""
    check_ranker("the recipe of your own ranker", own_ranker(algorithm), SETTINGS)
    for spec in crowd_rankers(users.algorithms):
        check_ranker("a recipe for users", spec, SETTINGS)


def own_ranker(algorithm: str = ALGORITHM) -> RankerSpec:
    """Return the visitor's ranker, with one column per feature unless the recipe has a representation."""
    spec = scaled(RankerSpec(MINE, algorithm, tuple(FEATURES), close_after=3600.0))
    if spec.representation is None:
        return spec
    start = None if parse(algorithm, Algorithm).weights_follow_memory else Start(weights=_FIRST_WEIGHTS)
    return msgspec.structs.replace(spec, start=start)


class Playground:
    """A service with a search engine and a page that shows how its rankers learn.

    Parameters
    ----------
    storage
        The store of the service.
    search
        The search engine.
    algorithm
        Recipe of the visitor's ranker.
    users
        First settings of the simulated users.
    """

    def __init__(
        self, storage: Storage, search: Search, algorithm: str = ALGORITHM, users: CrowdSettings | None = None
    ) -> None:
        self.service, self._search, self._mine = Service(storage, SETTINGS), search, own_ranker(algorithm)
        self.crowd = Crowd(self.service, search, users)
        self.app = create_app(self.service, KeyRing(storage), operations=(*OPERATIONS, *self._operations()))
        self.app.router.lifespan_context = self._around(self.app.router.lifespan_context)

    def _around(self, inner: Callable[[Starlette], Any]) -> Callable[[Starlette], Any]:
        """Return a lifespan that stops the users before the service stops."""

        @asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            async with inner(app):
                try:
                    yield
                finally:
                    await self.crowd.stop()

        return lifespan

    def _operations(self) -> list[Operation]:
        def one(method: str, path: str, handle: Callable[[Call], Awaitable[Any]], **others: Any) -> Operation:
            return Operation(method=method, path=path, handle=handle, needs="admin", hidden=True, **others)

        refused = (InvalidValue, InvalidRecipe, UnknownName, LimitExceeded)
        return [
            one("GET", "/play", self.page, before_ready=True),
            one("GET", "/play/setup", self.setup),
            one("GET", "/play/search", self.search, query=SearchQuery),
            one("GET", "/play/document", self.document, query=DocumentQuery),
            one("GET", "/play/users", self.users),
            one("POST", "/play/users", self.change_users, takes=CrowdSettings, raises=refused),
            one("POST", "/play/forget", self.forget),
            one("GET", "/play/assets/{file}", self.asset, before_ready=True),
        ]

    async def page(self, call: Call) -> Reply:
        """Send the page."""
        return Reply(_asset("play.html"), 200, b"text/html; charset=utf-8", POLICY)

    async def asset(self, call: Call) -> Reply:
        """Send a file of the page."""
        if (name := call.path["file"]) not in _ASSETS:
            raise NoSuchPage(f"there is no file {name[:200]!r}")
        return Reply(_asset(name), 200, _ASSETS[name], POLICY)

    async def setup(self, call: Call) -> Setup:
        """Return the settings of the page; the first call creates the visitor's ranker."""
        info, _ = await self.service.create(self._mine)
        return Setup(MINE, info.remembers, FEATURES, len(self._search.documents), DEFAULT_TASTE, self.crowd.settings)

    async def search(self, call: Call) -> Found:
        """Find the candidates of a query, with their features."""
        found = await asyncio.to_thread(self._search.candidates, call.query.q[:1000])
        rows = zip(found.documents, found.features.tolist(), strict=True)
        return Found(found.query, [_candidate(document, row) for document, row in rows])

    async def document(self, call: Call) -> Document:
        """Return a document."""
        if (found := self._search.document(call.query.id)) is None:
            raise UnknownName(f"there is no docstring of {call.query.id[:200]!r}")
        return found

    async def forget(self, call: Call) -> Reply:
        """Replace the visitor's ranker by an untrained one."""
        await self.service.delete(MINE)
        await self.service.create(self._mine)
        return Reply(b"", 204)

    async def users(self, call: Call) -> CrowdState:
        """Return the state of the simulated users."""
        return self.crowd.state()

    async def change_users(self, call: Call) -> CrowdState:
        """Change the settings of the simulated users, start them, or stop them."""
        return await self.crowd.change(call.body)


def _candidate(document: Document, row: list[float]) -> Candidate:
    return Candidate(document.id, document.kind, document.summary, dict(zip(FEATURES, row, strict=True)))


@cache
def _asset(name: str) -> bytes:
    return files("duelrank.playground").joinpath("assets", name).read_bytes()
