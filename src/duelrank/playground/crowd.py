"""Simulated users with a taste, who search with two rankers of the service side by side, as people would: rank, click, leave."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from time import perf_counter
from typing import Literal, TypeAlias

import msgspec
import numpy as np

from duelrank.core.errors import DuelrankError, InvalidRecipe, InvalidValue, UnknownName
from duelrank.core.randomness import stream, stream_key
from duelrank.core.types import Labels
from duelrank.kernels.random import below, derive
from duelrank.metrics import nDCG
from duelrank.playground.search import DEFAULT_TASTE, FEATURES, N_GRADES, Search, as_weights, grades, words
from duelrank.service import Service, Settings, definition
from duelrank.service.definition import Definition, converted
from duelrank.service.http.schema import DocumentTable, FeedbackEvent, RankerSpec, RankRequest
from duelrank.users import Preset, User

logger = logging.getLogger(__name__)

Noise: TypeAlias = Literal["perfect", "navigational", "informational"]

#: The rankers that the users search with.
NAMES = ("users-a", "users-b")
MOST_LISTS = 1000.0
# So many visits at most go on at once: the service writes the lists of all of them into its store together.
AT_ONCE = 32
# Where so many lists wait to be learned from, the users wait too: what they see should be what was learned.
MOST_WAITING = 200
# Seconds between two rounds of visits.
PAUSE = 0.02
N_QUERIES = 200
# Candidates of a query that users ask, at least; of fewer, ten would be all of them.
FEWEST_CANDIDATES = 20
# Points of a curve at most; an even number.
MOST_POINTS = 150
# The newest lists of which the mean is shown as what users see now.
LATELY = 200


class CrowdWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the visitor wants of the users.

    Parameters
    ----------
    running
        Whether they search.
    rate
        Lists a second, from each of the two rankers.
    noise
        How they click: "perfect", "navigational" or "informational".
    taste
        What they love (up to 1) and hate (down to −1), by feature.
    algorithms
        The two recipes; other ones than before begin anew.
    anew
        Whether to forget what was learned.
    """

    running: bool = False
    rate: float = 100.0
    noise: Noise = "perfect"
    taste: dict[str, float] = msgspec.field(default_factory=DEFAULT_TASTE.copy)
    algorithms: tuple[str, str] = ("mgd", "mgd-dsp")
    anew: bool = False


class Side(msgspec.Struct, frozen=True):
    """One of the two: its ranker, its recipe, and the nDCG@10 of what users saw: by equal numbers of lists, of late, and of all."""

    ranker: str
    algorithm: str
    curve: list[float]
    lately: float | None
    overall: float | None


class CrowdState(msgspec.Struct, frozen=True):
    """How it goes: so many ``lists`` each of the two has shown, ``per_second`` of late; a point of a curve has ``per_point``."""

    running: bool
    lists: int
    per_second: float
    per_point: int
    sides: list[Side]
    error: str = ""


class Curve:
    """Means of a number that comes again and again, in at most so many points: when there are too many, two become one."""

    def __init__(self) -> None:
        self.per_point, self.points = 5, list[float]()
        self._sum, self._count = 0.0, 0
        self._open: list[float] = []
        self._lately: deque[float] = deque(maxlen=LATELY)

    def add(self, value: float) -> None:
        """Take one more number."""
        self._sum, self._count = self._sum + value, self._count + 1
        self._lately.append(value)
        self._open.append(value)
        if len(self._open) == self.per_point:
            self.points.append(float(np.mean(self._open)))
            self._open.clear()
        if len(self.points) == MOST_POINTS:
            self.points = [(one + other) / 2 for one, other in zip(self.points[::2], self.points[1::2], strict=True)]
            self.per_point *= 2

    @property
    def lately(self) -> float | None:
        """The mean of the newest numbers."""
        return float(np.mean(self._lately)) if self._lately else None

    @property
    def overall(self) -> float | None:
        """The mean of all numbers."""
        return self._sum / self._count if self._count else None


class Question:
    """A query that users ask: its candidates as the service takes them, and how they like them."""

    def __init__(self, search: Search, text: str) -> None:
        found = search.candidates(text)
        self.features = found.features
        self.documents = DocumentTable([each.id for each in found.documents], found.features.tobytes(), "float64")
        self.places = {id: place for place, id in enumerate(self.documents.ids)}
        self.grades: Labels = np.zeros(len(self.places), np.int8)


class Crowd:
    """The users. One crowd at a time searches with the two rankers `NAMES`, which it makes itself.

    Parameters
    ----------
    service
        That has the rankers; called in its own process, by the operations that HTTP requests lead to.
    search
        That finds the candidates.
    wish
        To begin with.
    """

    def __init__(self, service: Service, search: Search, wish: CrowdWish | None = None) -> None:
        self._service, self._search, self.wish = service, search, wish or CrowdWish()
        self._changing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._wanted, self._made = False, ("", "")  # whether they should go on, and the recipes of the rankers
        self._questions: list[Question] = []
        self._user = _user(self.wish.noise)
        self._forget()

    def _forget(self) -> None:
        self.lists, self.error = 0, ""
        self.curves = (Curve(), Curve())
        self._when: deque[float] = deque(maxlen=50)
        self._counts: deque[int] = deque(maxlen=50)

    @property
    def running(self) -> bool:
        """Whether users search."""
        return self._task is not None and not self._task.done()

    def state(self) -> CrowdState:
        """Return how it goes."""
        rows = zip(NAMES, self.wish.algorithms, self.curves, strict=True)
        sides = [Side(name, text, curve.points, curve.lately, curve.overall) for name, text, curve in rows]
        per_point = self.curves[0].per_point
        return CrowdState(self.running, self.lists, self._per_second(), per_point, sides, self.error)

    def _per_second(self) -> float:
        if not self.running or len(self._when) < 2 or self._when[-1] == self._when[0]:
            return 0.0
        return (self._counts[-1] - self._counts[0]) / (self._when[-1] - self._when[0])

    async def change(self, wish: CrowdWish) -> CrowdState:
        """Do as the visitor wishes; raise where a wish makes no sense, and go on as before."""
        weights = as_weights(wish.taste)
        if not 1.0 <= wish.rate <= MOST_LISTS:
            raise InvalidValue(f"users search from 1 to {MOST_LISTS:,.0f} times a second, got {wish.rate!r}")
        if wish.algorithms != self._made:  # before anything that takes long
            await self._check(wish.algorithms)
        async with self._changing:
            if not self._questions:
                self._questions = await asyncio.to_thread(questions, self._search)
            if wish.anew or wish.algorithms != self._made or (wish.running and not self._there()):
                await self._make(wish.algorithms)
            for each in self._questions:
                each.grades = grades(weights, each.features)
            self.wish, self._user = msgspec.structs.replace(wish, anew=False), _user(wish.noise)
            if wish.running and not self.running:
                self._when.clear()
                self._counts.clear()
                self.error, self._wanted = "", True
                self._task = asyncio.create_task(self._go_on())
            elif not wish.running:
                await self.stop()
        return self.state()

    def _there(self) -> bool:
        """Whether both rankers are there; anybody may delete one over HTTP."""
        try:
            return all(self._service.ranker(name) for name in NAMES)
        except UnknownName:
            return False

    async def _check(self, algorithms: tuple[str, str]) -> None:
        for which, spec in zip(("first", "second"), crowd_rankers(algorithms), strict=True):
            await asyncio.to_thread(check_ranker, f"the {which} recipe", spec, self._service.settings)

    async def _make(self, algorithms: tuple[str, str]) -> None:
        """Make the two rankers anew, which know nothing; their recipes were checked before."""
        await self.stop()
        self._made = ("", "")
        for spec in crowd_rankers(algorithms):
            with suppress(UnknownName):
                await self._service.delete(spec.name)
            await self._service.create(spec)
        self._made = algorithms
        self._forget()

    async def stop(self) -> None:
        """Let those who search finish, and no more come; what was learned stays."""
        self._wanted = False
        if self._task is not None:
            await self._task

    async def _go_on(self) -> None:
        try:
            await self._search_on()
        except DuelrankError as error:
            logger.warning("simulated users had to stop: %s", error)
            self.error = str(error)

    async def _search_on(self) -> None:
        """Visit at the wanted rate; who comes late because the service is busy, does not come at all."""
        last, owed = perf_counter(), 0.0
        while self._wanted:
            now = perf_counter()
            owed = min(owed + (now - last) * self.wish.rate, float(AT_ONCE))
            last = now
            if owed >= 1.0 and not self._behind():
                visits = int(owed)
                owed -= visits
                await asyncio.gather(*(self._visit(self.lists + each) for each in range(visits)))
                self.lists += visits
                self._when.append(perf_counter())
                self._counts.append(self.lists)
            else:
                await asyncio.sleep(PAUSE)

    def _behind(self) -> bool:
        return any(self._service.ranker(name).open > MOST_WAITING for name in NAMES)

    async def _visit(self, number: int) -> None:
        """One user asks one query, in both rankers."""
        question = self._questions[int(below(derive(_QUERIES, number), len(self._questions)))]
        seen = await asyncio.gather(*(self._ask(name, question, number) for name in NAMES))
        for curve, value in zip(self.curves, seen, strict=True):
            curve.add(value)

    async def _ask(self, ranker: str, question: Question, number: int) -> float:
        """Ask, click and leave; return the nDCG@10 of what was shown. The same user has the same luck with both rankers."""
        answer = await self._service.rank(ranker, RankRequest(question.documents))
        shown = question.grades[[question.places[id] for id in answer.ids]]
        feedback = self._user.click(shown, derive(_CLICKS, number))
        clicked = [id for id, click in zip(answer.ids, feedback.clicks.tolist(), strict=True) if click]
        await self._service.feedback(ranker, [FeedbackEvent(answer.impression_id, clicked, close=True)])
        return _METRIC.of(shown, question.grades)


_METRIC = nDCG(cutoff=10)
_QUERIES, _CLICKS = stream_key(1, "playground/queries"), stream_key(1, "playground/clicks")


def _user(noise: Noise) -> User:
    return Preset(noise).for_grades(N_GRADES)


def crowd_rankers(algorithms: tuple[str, str]) -> list[RankerSpec]:
    """Return the two rankers; with one column per feature, unless a recipe says otherwise."""
    specs = [RankerSpec(name, text, tuple(FEATURES), seed=1) for name, text in zip(NAMES, algorithms, strict=True)]
    scaled = [msgspec.structs.replace(each, representation="query-scaled") for each in specs]
    return [spec if ">>" in spec.algorithm else other for spec, other in zip(specs, scaled, strict=True)]


def check_ranker(what: str, spec: RankerSpec, settings: Settings) -> None:
    """Raise where a recipe cannot be served, before anything is thrown away for it."""
    try:
        Definition(converted(spec, definition.RankerSpec), 0.0).check_limits(settings)
    except DuelrankError as error:
        raise InvalidRecipe(f"{what}: {error}") from None


def questions(search: Search) -> list[Question]:
    """Return queries that people might ask: words of the names of some documents, chosen by chance once and for all."""
    _METRIC.of(np.ones(2, np.int8), np.ones(2, np.int8))  # compiles, here where nobody waits for it
    _user("perfect").click(np.ones(2, np.int8), derive(_CLICKS, 0))
    chance, found = stream(1, "playground/questions"), dict[str, Question]()
    for _ in range(20 * N_QUERIES):
        name = search.documents[int(below(chance, len(search.documents)))].name
        text = _query_of([word.lower() for word in words(name).split() if word.isalpha() and len(word) > 2])
        if text and text not in found:
            question = Question(search, text)
            if len(question.places) >= FEWEST_CANDIDATES:
                found[text] = question
        if len(found) == N_QUERIES:
            break
    if not found:
        raise InvalidValue(
            f"no query finds {FEWEST_CANDIDATES} documents here, so there is nothing for users to search"
        )
    return list(found.values())


def _query_of(found: Sequence[str]) -> str:
    return " ".join(dict.fromkeys(found[:2]))
