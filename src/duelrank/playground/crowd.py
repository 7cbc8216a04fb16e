"""Simulated users with a taste, who search with two rankers of the service at the same time."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Literal, TypeAlias

import msgspec
import numpy as np

from duelrank.algorithms import Algorithm
from duelrank.algorithms.represented import Represented
from duelrank.core.errors import DuelrankError, InvalidRecipe, InvalidValue, UnknownName
from duelrank.core.grammar import parse
from duelrank.core.randomness import stream, stream_key
from duelrank.core.types import Features, Labels, Weights
from duelrank.kernels.random import below, derive
from duelrank.kernels.ranking import linear_scores
from duelrank.metrics import nDCG
from duelrank.playground.search import FEATURES, Search, words
from duelrank.representation import QueryScaled
from duelrank.service import Service, Settings, definition
from duelrank.service.definition import Definition, converted
from duelrank.service.http.schema import DocumentTable, FeedbackEvent, RankerSpec, RankRequest
from duelrank.users import Preset, User

logger = logging.getLogger(__name__)

Noise: TypeAlias = Literal["perfect", "navigational", "informational"]

#: The rankers that the users search with.
NAMES = ("users-a", "users-b")
#: Weight of each feature in the users' taste, from −1 (dislike) to 1 (like); 0 for features that are not listed.
DEFAULT_TASTE: dict[str, float] = {
    "name": 0.4,
    "exact": 1.0,
    "module": 0.3,
    "private": -0.8,
    "depth": -0.6,
    "imports": 0.6,
}
N_GRADES = 5
# Shares of the candidates of a query with a grade of at least 1, 2, 3 and 4.
_SHARES = (0.5, 0.3, 0.16, 0.06)
# Maximum number of lists per second.
MAX_RATE = 1000.0
# Maximum number of simultaneous visits; the service appends their lists to its log in one batch.
AT_ONCE = 100
# Users pause while more lists than this wait for learning, so that they see current rankings.
MOST_WAITING = 200
# Seconds between two rounds of visits.
PAUSE = 0.02
N_QUERIES = 200
# Minimum number of candidates of a query.
FEWEST_CANDIDATES = 20
# Maximum number of points of a curve; an even number.
MOST_POINTS = 150
# Number of newest lists whose mean is shown as the current value.
RECENT = 200

_METRIC = nDCG(cutoff=10)
_QUERIES, _CLICKS = stream_key(1, "playground/queries"), stream_key(1, "playground/clicks")


class CrowdSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of the simulated users.

    Parameters
    ----------
    running
        Whether they search.
    rate
        Lists per second, from each of the two rankers.
    noise
        Click model: "perfect", "navigational" or "informational".
    taste
        Weight of each feature, from −1 (dislike) to 1 (like).
    algorithms
        The two recipes; a change starts both rankers again.
    anew
        Whether to start both rankers again.
    """

    running: bool = False
    rate: float = 100.0
    noise: Noise = "perfect"
    taste: dict[str, float] = msgspec.field(default_factory=DEFAULT_TASTE.copy)
    algorithms: tuple[str, str] = ("mgd", "mgd-dsp")
    anew: bool = False


class Side(msgspec.Struct, frozen=True):
    """One of the two rankers: its name, recipe, and mean nDCG@10 of its lists: as a curve, of the newest, and of all."""

    ranker: str
    algorithm: str
    curve: list[float]
    lately: float | None
    overall: float | None


class CrowdState(msgspec.Struct, frozen=True):
    """The state of the users: the number of lists of each ranker, the current rate, and the lists per point of a curve."""

    running: bool
    lists: int
    per_second: float
    per_point: int
    sides: list[Side]
    error: str = ""


class Crowd:
    """Simulated users who search with the two rankers `NAMES`, which they create.

    Parameters
    ----------
    service
        The service, in this process; users call the same functions as HTTP requests.
    search
        The search engine.
    settings
        First settings.
    """

    def __init__(self, service: Service, search: Search, settings: CrowdSettings | None = None) -> None:
        self._service, self._search, self.settings = service, search, settings or CrowdSettings()
        self._changing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._wanted, self._made = False, ("", "")  # whether to continue, and the recipes of the rankers
        self._questions: list[Question] = []
        self._user = _user(self.settings.noise)
        self._forget()

    def _forget(self) -> None:
        self.lists, self.error = 0, ""
        self.curves = (MeanCurve(), MeanCurve())
        self._when: deque[float] = deque(maxlen=50)
        self._counts: deque[int] = deque(maxlen=50)

    @property
    def running(self) -> bool:
        """Whether users search."""
        return self._task is not None and not self._task.done()

    def state(self) -> CrowdState:
        """Return the state of the users."""
        rows = zip(NAMES, self.settings.algorithms, self.curves, strict=True)
        sides = [Side(name, text, curve.points, curve.recent, curve.overall) for name, text, curve in rows]
        per_point = self.curves[0].per_point
        return CrowdState(self.running, self.lists, self._per_second(), per_point, sides, self.error)

    def _per_second(self) -> float:
        if not self.running or len(self._when) < 2 or self._when[-1] == self._when[0]:
            return 0.0
        return (self._counts[-1] - self._counts[0]) / (self._when[-1] - self._when[0])

    async def change(self, settings: CrowdSettings) -> CrowdState:
        """Apply new settings; invalid settings raise an error and change nothing."""
        weights = as_weights(settings.taste)
        if not 1.0 <= settings.rate <= MAX_RATE:
            raise InvalidValue(f"the rate must be from 1 to {MAX_RATE:,.0f} lists per second, got {settings.rate!r}")
        if settings.algorithms != self._made:  # before the slow steps
            await self._check(settings.algorithms)
        async with self._changing:
            if not self._questions:
                self._questions = await asyncio.to_thread(questions, self._search)
            if settings.anew or settings.algorithms != self._made or (settings.running and not self._exist()):
                await self._make(settings.algorithms)
            for each in self._questions:
                each.grades = grades(weights, each.features)
            self.settings, self._user = msgspec.structs.replace(settings, anew=False), _user(settings.noise)
            if settings.running and not self.running:
                self._when.clear()
                self._counts.clear()
                self.error, self._wanted = "", True
                self._task = asyncio.create_task(self._run())
            elif not settings.running:
                await self.stop()
        return self.state()

    def _exist(self) -> bool:
        """Whether both rankers exist; a visitor may delete one over HTTP."""
        try:
            return all(self._service.ranker(name) for name in NAMES)
        except UnknownName:
            return False

    async def _check(self, algorithms: tuple[str, str]) -> None:
        for which, spec in zip(("first", "second"), crowd_rankers(algorithms), strict=True):
            await asyncio.to_thread(check_ranker, f"the {which} recipe", spec, self._service.settings)

    async def _make(self, algorithms: tuple[str, str]) -> None:
        """Replace the two rankers by untrained ones; the recipes have been checked."""
        await self.stop()
        self._made = ("", "")
        for spec in crowd_rankers(algorithms):
            with suppress(UnknownName):
                await self._service.delete(spec.name)
            await self._service.create(spec)
        self._made = algorithms
        self._forget()

    async def stop(self) -> None:
        """Stop after the current visits; the rankers stay."""
        self._wanted = False
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        try:
            await self._search_repeatedly()
        except DuelrankError as error:
            logger.warning("simulated users stopped: %s", error)
            self.error = str(error)

    async def _search_repeatedly(self) -> None:
        """Search at the requested rate; visits for which a busy service has no time are dropped."""
        last, owed = perf_counter(), 0.0
        while self._wanted:
            now = perf_counter()
            owed = min(owed + (now - last) * self.settings.rate, float(AT_ONCE))
            last = now
            if owed >= 1.0 and not self._behind():
                visits = int(owed)
                owed -= visits
                await self._visit(range(self.lists, self.lists + visits))
                self.lists += visits
                self._when.append(perf_counter())
                self._counts.append(self.lists)
            else:
                await asyncio.sleep(PAUSE)

    def _behind(self) -> bool:
        return any(self._service.ranker(name).open > MOST_WAITING for name in NAMES)

    async def _visit(self, numbers: Sequence[int]) -> None:
        """Let one user for each number search for one query with both rankers."""
        asked = [self._questions[int(below(derive(_QUERIES, number), len(self._questions)))] for number in numbers]
        seen = await asyncio.gather(*(self._ask(name, asked, numbers) for name in NAMES))
        for curve, values in zip(self.curves, seen, strict=True):
            for value in values:
                curve.add(value)

    async def _ask(self, ranker: str, asked: Sequence[Question], numbers: Sequence[int]) -> list[float]:
        """Rank, click and close the impressions; return the nDCG@10 of each list. Both rankers get the same random numbers."""
        ranked = (self._service.rank(ranker, RankRequest(each.documents, query=each.text)) for each in asked)
        events, values = [], []
        for answer, question, number in zip(await asyncio.gather(*ranked), asked, numbers, strict=True):
            ids = answer.ids
            shown = question.grades[[question.places[id] for id in ids]]
            clicks = self._user.click(shown, derive(_CLICKS, number)).clicks.tolist()
            clicked = [id for id, click in zip(ids, clicks, strict=True) if click]
            events.append(FeedbackEvent(answer.impression_id, clicked, close=True))
            values.append(_METRIC.of(shown, question.grades))
        await self._service.feedback(ranker, events)
        return values


class MeanCurve:
    """Means of consecutive numbers, in at most `MOST_POINTS` points: pairs of points are merged when there are more."""

    def __init__(self) -> None:
        self.per_point, self.points = 5, list[float]()
        self._sum, self._count = 0.0, 0
        self._open: list[float] = []
        self._recent: deque[float] = deque(maxlen=RECENT)

    def add(self, value: float) -> None:
        """Add a number."""
        self._sum, self._count = self._sum + value, self._count + 1
        self._recent.append(value)
        self._open.append(value)
        if len(self._open) == self.per_point:
            self.points.append(float(np.mean(self._open)))
            self._open.clear()
        if len(self.points) == MOST_POINTS:
            self.points = [(one + other) / 2 for one, other in zip(self.points[::2], self.points[1::2], strict=True)]
            self.per_point *= 2

    @property
    def recent(self) -> float | None:
        """The mean of the newest numbers."""
        return float(np.mean(self._recent)) if self._recent else None

    @property
    def overall(self) -> float | None:
        """The mean of all numbers."""
        return self._sum / self._count if self._count else None


class Question:
    """A query of the users: its text, its candidates in the form of the API, and their grades."""

    def __init__(self, search: Search, text: str) -> None:
        self.text, found = text, search.candidates(text)
        self.features = found.features
        self.documents = DocumentTable([each.id for each in found.documents], found.features.tobytes(), "float64")
        self.places = {id: place for place, id in enumerate(self.documents.ids)}
        self.grades: Labels = np.zeros(len(self.places), np.int8)


def questions(search: Search) -> list[Question]:
    """Return plausible queries: words of the names of randomly chosen documents, always the same ones."""
    _METRIC.of(np.ones(2, np.int8), np.ones(2, np.int8))  # compiles the kernels in advance
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
        raise InvalidValue(f"no query finds {FEWEST_CANDIDATES} documents, so users cannot search")
    return list(found.values())


def _query_of(found: Sequence[str]) -> str:
    return " ".join(dict.fromkeys(found[:2]))


def as_weights(taste: Mapping[str, float]) -> Weights:
    """Return a taste as weights, in the order of the features."""
    for name, value in taste.items():
        if name not in FEATURES:
            raise UnknownName.among("feature", name, FEATURES)
        if not -1.0 <= value <= 1.0:
            raise InvalidValue(f"a taste must be from -1 (dislike) to 1 (like), got {value!r} for {name!r}")
    return np.array([taste.get(name, 0.0) for name in FEATURES])


def grades(weights: Weights, features: Features) -> Labels:
    """Return the grades of the candidates of one query: the few best ones have 4, about half of them have 0.

    The utility of a candidate is a linear function of its features, each scaled to [0, 1] within the query. Candidates of equal
    utility have equal grades; if all are equal, the grade is 0.
    """
    utility = linear_scores(weights, QueryScaled().apply(features, {}))
    ordered = np.sort(utility)[::-1]
    least = [ordered[max(1, round(share * len(ordered))) - 1] for share in _SHARES]
    reached = np.sum([utility >= each for each in least], axis=0)
    return np.where(utility > ordered[-1], reached, 0).astype(np.int8)


def _user(noise: Noise) -> User:
    return Preset(noise).for_grades(N_GRADES)


def crowd_rankers(algorithms: tuple[str, str]) -> list[RankerSpec]:
    """Return the two rankers, with one column per feature unless a recipe has a representation."""
    rows = zip(NAMES, algorithms, strict=True)
    return [scaled(RankerSpec(name, text, tuple(FEATURES), seed=1)) for name, text in rows]


def scaled(spec: RankerSpec) -> RankerSpec:
    """Return a ranker with one column per feature, scaled within each query, unless its recipe has a representation."""
    try:
        represented = isinstance(parse(spec.algorithm, Algorithm), Represented)
    except DuelrankError:
        return spec  # `check_ranker` says what is wrong
    return spec if represented else msgspec.structs.replace(spec, representation="query-scaled")


def check_ranker(what: str, spec: RankerSpec, settings: Settings) -> None:
    """Raise an error if a recipe cannot be served, before anything is deleted for it."""
    try:
        made = Definition(converted(spec, definition.RankerSpec), 0.0)
        made.algorithm.check_linear("the page shows the weight of each feature")
        made.check_limits(settings)
    except DuelrankError as error:
        raise InvalidRecipe(f"{what}: {error}") from None
