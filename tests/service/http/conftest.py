"""A service that only remembers, to test the web layer alone; and clients of both it and the real one."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.service.guards import guard_info
from tests.waiting import until
from typer.testing import CliRunner, Result

from duelrank.cli import app
from duelrank.core.errors import Conflict, InvalidValue, LimitExceeded, ShapeMismatch, UnknownName
from duelrank.core.validation import whole_number
from duelrank.export import LinearModel
from duelrank.export.pinned import PinnedDocument, PinnedQuery
from duelrank.representation.fixed import read_representation
from duelrank.service import Observer, Rejected, Service, Settings
from duelrank.service.definition import converted
from duelrank.service.experiments import ExperimentDefinition
from duelrank.service.experiments import ExperimentSpec as DefinedExperiment
from duelrank.service.history import HistoryState
from duelrank.service.http import KeyRing, WebSettings, create_app
from duelrank.service.http.schema import (
    BackfillCounts,
    Change,
    Comparison,
    Document,
    DocumentTable,
    ExperimentHistory,
    ExperimentInfo,
    ExperimentSpec,
    FeatureCurve,
    FeedbackCounts,
    FeedbackEvent,
    GuardInfo,
    History,
    ImpressionInfo,
    Invalid,
    LastStep,
    MemoryInfo,
    Model,
    ModelCurves,
    Overview,
    PageRequest,
    RankAnswer,
    RankedDocument,
    RankerInfo,
    RankerSpec,
    RankRequest,
    RememberedDocument,
    RememberedQuery,
    ShowAnswer,
    ShowRequest,
    StepDocument,
    VersionInfo,
    VersionRanking,
)
from duelrank.service.intake import DocumentArray
from duelrank.service.rankers import Experiment
from duelrank.service.views import experiment_history, experiment_info, history_answer, model_answer
from duelrank.storage import Storage, open_storage

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have a successor of httpx
    from starlette.testclient import TestClient

SHOP = {"name": "shop", "algorithm": "mgd-dsp", "features": ["bm25", "price"]}
DOCUMENTS = [{"id": f"d{i}", "features": [i / 4, 1 - i / 4]} for i in range(5)]


class FakeService(Service):
    """Keeps everything in dictionaries, leaves documents in their order, learns nothing."""

    observer = Observer()
    read_only = False
    leads = learning = True
    ending = True  # so that a live stream has an end: a test client waits for the whole answer

    def __init__(self) -> None:
        self.settings = Settings()
        self.is_ready = True
        self.trouble: Exception | None = None
        self.specs: dict[str, RankerSpec] = {}
        self.lists: dict[tuple[str, str], RankAnswer] = {}
        self.events: dict[str, FeedbackEvent] = {}
        self.raised: Exception | None = None
        self.stopped = False
        self.compared: dict[str, Experiment] = {}
        self.seen: list[Document] = []

    @property
    def ready(self) -> bool:
        return self.is_ready

    @property
    def failure(self) -> Exception | None:
        return self.trouble

    async def start(self) -> None:
        pass

    async def wait_ready(self, timeout: float | None = None) -> None:
        if self.trouble is not None:
            raise self.trouble

    async def stop(self) -> None:
        self.stopped = True

    async def create(self, spec: RankerSpec) -> tuple[RankerInfo, bool]:
        if not spec.name.isidentifier() or len(spec.name) > 100:
            raise InvalidValue(f"the name of a ranker has letters and digits, got {spec.name!r}")
        new = spec.name not in self.specs
        if self.specs.setdefault(spec.name, spec) != spec:
            raise Conflict(f"the ranker {spec.name} exists with another spec")
        return self.ranker(spec.name), new

    async def change(self, name: str, change: Change) -> RankerInfo:
        self.ranker(name)
        given = {field: getattr(change, field) for field in ("exploration", "close_after", "length", "mode")}
        given = {field: value for field, value in given.items() if value is not None}
        if change.guard is not msgspec.UNSET:
            given["guard"] = change.guard
        self.specs[name] = msgspec.structs.replace(self.specs[name], **given)
        return self.ranker(name)

    def overview(self) -> list[Overview]:
        return [Overview(self.ranker(name), spec.guard and self.guard(name), 1.5) for name, spec in self.specs.items()]

    def guard(self, name: str) -> GuardInfo:
        spec = self.ranker(name).guard
        if spec is None:
            raise InvalidValue(f"{name!r} has no guard; give it one with PATCH")
        return guard_info(name=name, guard=spec)

    async def delete(self, name: str) -> None:
        self.ranker(name)
        del self.specs[name]

    def rankers(self) -> list[RankerInfo]:
        return [self.ranker(name) for name in sorted(self.specs)]

    def ranker(self, name: str) -> RankerInfo:
        if name not in self.specs:
            raise UnknownName.among("ranker", name, self.specs)
        spec = {field: getattr(self.specs[name], field) for field in RankerSpec.__struct_fields__ if field != "missing"}
        counts = dict.fromkeys(("learned", "skipped", "failed", "open", "updates"), 0)
        return RankerInfo(**spec, **counts, impressions=len(self.lists), model_version=1, created=0.0, frozen=False)

    async def rank(self, name: str, request: RankRequest, caller: str = "") -> RankAnswer:
        if self.raised is not None:
            raise self.raised
        n_features = len(self.ranker(name).features)
        documents = request.documents
        if isinstance(documents, DocumentArray):
            rows = zip(documents.ids, documents.array.tolist(), strict=True)
            documents = [Document(id, row) for id, row in rows]
        elif isinstance(documents, DocumentTable):
            values = np.frombuffer(documents.features, "<f4" if documents.type == "float32" else "<f8")
            documents = [
                Document(id, row.tolist())
                for id, row in zip(documents.ids, values.reshape(-1, n_features), strict=True)
            ]
        if any(len(document.features) != n_features for document in documents):
            raise ShapeMismatch(f"the ranker {name} has {n_features} features")
        self.seen = documents
        if len(documents) > self.settings.max_documents:
            raise LimitExceeded(f"a request may have {self.settings.max_documents} documents")
        if not documents:
            raise InvalidValue("a request needs documents")
        self.observer.ranked(name, len(documents))
        key = (name, request.impression_id or f"i{len(self.lists)}")
        if key not in self.lists:
            order = [RankedDocument(document.id, i + 1) for i, document in enumerate(documents)]
            self.lists[key] = RankAnswer(key[1], 1, order)
        return self.lists[key]

    async def page(self, name: str, request: PageRequest) -> RankAnswer:
        self.ranker(name)
        known = self.lists.get((name, request.impression_id))
        if known is None:
            raise UnknownName(f"the impression {request.impression_id!r} is not known")
        whole_number("start", request.start)
        whole_number("size", request.size)
        part = known.ranking[request.start - 1 : request.start - 1 + request.size]
        return msgspec.structs.replace(known, ranking=part, prepared=len(known.ranking))

    async def feedback(self, name: str, events: Any, caller: str = "") -> FeedbackCounts:
        self.ranker(name)
        counts = {"accepted": 0, "duplicate": 0, "unknown": 0}
        invalid = []
        for index, event in enumerate(events):
            if isinstance(event, Rejected):
                invalid.append(Invalid(index, event.event_id, event.reason))
                continue
            key = event.event_id or repr(event)
            known = (name, event.impression_id) in self.lists
            outcome = "unknown" if not known else "duplicate" if key in self.events else "accepted"
            counts[outcome] += 1
            self.observer.fed(name, outcome, 1)
            self.events[key] = event
        return FeedbackCounts(**counts, invalid=invalid)

    async def backfill(self, name: str, impressions: Any) -> BackfillCounts:
        self.ranker(name)
        bad = [Invalid(0, each.event_id, each.reason) for each in impressions if isinstance(each, Rejected)]
        return BackfillCounts(len(impressions) - len(bad), 0, bad)

    async def control(self, name: str, action: Any, version: int | None = None) -> RankerInfo:
        if version not in (None, 1):
            raise UnknownName(f"the ranker {name} has no version {version}")
        return self.ranker(name)

    async def label(self, name: str, version: int, label: str) -> VersionInfo:
        await self.control(name, "label", version)
        return VersionInfo(1, 0.0, 1, True, label)

    async def create_experiment(self, spec: ExperimentSpec) -> tuple[ExperimentInfo, bool]:
        asked, new = ExperimentDefinition(converted(spec, DefinedExperiment)), spec.name not in self.compared
        asked.check_new(self.settings)
        if not self.compared.setdefault(spec.name, Experiment(asked)).created.same_as(asked):
            raise Conflict(f"the experiment {spec.name} exists with another spec")
        return self.experiment(spec.name), new

    def experiments(self) -> list[ExperimentInfo]:
        return [self.experiment(name) for name in sorted(self.compared)]

    def experiment(self, name: str) -> ExperimentInfo:
        if name not in self.compared:
            raise UnknownName.among("experiment", name, self.compared)
        return experiment_info(self.compared[name])

    def experiment_history(self, name: str) -> ExperimentHistory:
        self.experiment(name)
        return experiment_history(self.compared[name])

    async def show(self, name: str, request: ShowRequest) -> ShowAnswer:
        self.experiment(name)
        lists = self.compared[name].created.given_lists(request.lists, self.settings)
        shown = list(dict.fromkeys(document for each in lists.values() for document in each))
        if not shown:
            raise InvalidValue("nothing to show")
        return ShowAnswer(request.impression_id or "s1", shown)

    async def experiment_feedback(self, name: str, events: Any) -> FeedbackCounts:
        self.experiment(name)
        bad = [Invalid(i, each.event_id, each.reason) for i, each in enumerate(events) if isinstance(each, Rejected)]
        return FeedbackCounts(accepted=len(events) - len(bad), invalid=bad)

    async def stop_experiment(self, name: str) -> ExperimentInfo:
        return self.experiment(name)

    async def delete_experiment(self, name: str) -> None:
        self.experiment(name)
        del self.compared[name]

    def versions(self, name: str) -> list[VersionInfo]:
        self.ranker(name)
        return [VersionInfo(1, 0.0, 1, True)]

    def model(self, name: str, version: int | None = None) -> LinearModel:
        info = self.ranker(name)
        if version not in (None, 1):
            raise UnknownName(f"the ranker {name} has no version {version}")
        weights = np.arange(1.0, len(info.features) + 1)
        seen = read_representation(info.representation or "raw", info.features)
        return LinearModel(name, 1, info.features, weights, seen)

    def weights(self, name: str, version: int | None = None) -> Model:
        return model_answer(self.model(name, version))

    def memory(self, name: str, query: str = "", limit: int = 100) -> MemoryInfo:
        if "remember" not in self.ranker(name).algorithm:
            raise InvalidValue(f"{name!r} does not remember queries")
        document = RememberedDocument("d1", 3.0, 4.5, 0.75)
        return MemoryInfo(name, 1, 1, 96, 0.25, [RememberedQuery(query or "red shoes", 5, 0.75, [document])][:limit])

    def pinned(self, name: str, queries: int = 100, evidence: float = 10.0, documents: int = 3) -> list[PinnedQuery]:
        if min(queries, documents) < 1:
            raise InvalidValue("queries and documents must be 1 or more")
        remembered = self.memory(name).remembered[0]
        return [PinnedQuery(remembered.query, remembered.lists, [PinnedDocument("d1", 3.0, 4.5, 0.75)])]

    async def forget(self, name: str, query: str = "", document: str = "") -> RankerInfo:
        self.memory(name, query)
        return self.ranker(name)

    def history(self, name: str, step: Any = "minute", start: float | None = None, end: float | None = None) -> History:
        self.ranker(name)
        return history_answer(name, step, [], HistoryState(0), ("bm25", "price"), b"")

    def impressions(self, name: str) -> list[ImpressionInfo]:
        self.ranker(name)
        return [ImpressionInfo("i1", 0.0, 1, "greedy", 2, ["d1", "d2"], ["d2"])]

    def compare(self, name: str, id: str, one: int | None = None, other: int | None = None) -> Comparison:
        if {one, other} - {None, 1} or id != "i1":
            raise UnknownName(f"the ranker {name} has no such version or impression")
        ranked = VersionRanking(1, [RankedDocument("d1", 1, 0.5), RankedDocument("d2", 2, 0.25)])
        return Comparison(self.impressions(name)[0], ranked, ranked)

    def curves(self, name: str, version: int | None = None) -> ModelCurves:
        model = self.model(name, version)
        lines = [
            FeatureCurve(feature, "value", [0.0, 1.0], [0.0, weight], "line", weight)
            for feature, weight in zip(model.features, model.weights.tolist(), strict=True)
        ]
        return ModelCurves(name, 1, lines)

    def last_step(self, name: str) -> LastStep:
        weights = dict.fromkeys(self.ranker(name).features, 0.5)
        documents = [StepDocument("d1", 1, True, None)]
        return LastStep(
            name=name,
            impression_id="i1",
            made_by_version=1,
            model_version=1,
            step=1,
            documents=documents,
            direction=weights,
            followed=weights,
            direction_length=1.0,
            followed_length=1.0,
            angle=None,
            weights_before=weights,
            weights_after=weights,
        )


@pytest.fixture
def storage() -> Iterator[Storage]:
    with open_storage("sqlite://") as store:
        yield store


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def serve(storage: Any) -> Iterator[Callable[..., TestClient]]:
    """Start an application on a service and return a client of it that lets no exception through as an answer."""
    with ExitStack() as stack:

        def start(
            service: Service, settings: WebSettings | None = None, base_url: str = "http://127.0.0.1"
        ) -> TestClient:
            application = create_app(service, KeyRing(storage), settings)
            return stack.enter_context(TestClient(application, base_url, client=("127.0.0.1", 50000)))

        yield start


@pytest.fixture
def bare_client(tmp_path: Path) -> Iterator[TestClient]:
    """A client of the real service on a file, which has no ranker yet."""
    with open_storage(f"sqlite:///{tmp_path}/real.db") as storage:
        service = Service(storage, Settings(publish_every=0.02, salt=b"tests"))
        service.ending = True  # so that a live stream has an end: a test client waits for the whole answer
        application = create_app(service, KeyRing(storage))
        with TestClient(application, "http://127.0.0.1", client=("127.0.0.1", 50000)) as client:
            until(lambda: client.get("/readyz").status_code == 200)
            yield client


@pytest.fixture
def real_client(bare_client: TestClient) -> TestClient:
    """A client of the real service on a file, which has a ranker called shop."""
    assert bare_client.post("/v1/rankers", json=SHOP).status_code == 201
    return bare_client


@pytest.fixture
def client(serve: Callable[..., TestClient], service: FakeService) -> TestClient:
    """A client of the fake service, which has a ranker called shop."""
    client = serve(service)
    assert client.post("/v1/rankers", json=SHOP).status_code == 201
    return client


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run a command of the command line in this process."""
    monkeypatch.setenv("COLUMNS", "500")
    monkeypatch.delenv("DUELRANK_STORE", raising=False)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def cli_json(cli: Callable[..., Result]) -> Callable[..., Any]:
    """Run a command and decode what it writes."""
    return lambda *words: json.loads(cli(*words, "--json").stdout)
