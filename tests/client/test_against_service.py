"""Both clients against the real service, over a real socket."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from tests.waiting import FOR_EVER, until
from typer.testing import CliRunner, Result

from duelrank.cli import app
from duelrank.client import (
    AsyncClient,
    BackfillCounts,
    Client,
    Document,
    FeedbackEvent,
    LoggedImpression,
    ServiceError,
    protocol,
)
from duelrank.export import LinearModel
from duelrank.service.http import make_key
from duelrank.storage import open_storage

DOCUMENTS = {f"d{n}": [n / 8, 1 - n / 8] for n in range(8)}


class Awaited:
    """An `AsyncClient` whose methods block, so that one test is for both kinds of client."""

    def __init__(self, url: str, *args, **kwargs) -> None:
        self.runner = asyncio.Runner()
        self.client = AsyncClient(url, *args, **kwargs)

    def __getattr__(self, name: str) -> Callable:
        method = getattr(self.client, name)
        return lambda *args, **kwargs: self.runner.run(method(*args, **kwargs))

    def __enter__(self):
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        self.runner.close()


@pytest.fixture(params=[Client, Awaited])
def kind(request):
    """The class of a client, with a long timeout for busy machines."""
    return partial(request.param, timeout=FOR_EVER)


@pytest.fixture(scope="module")
def shared(serve, tmp_path_factory):
    """A client of a service that several tests share."""
    with (
        open_storage(f"sqlite:///{tmp_path_factory.mktemp('shared')}/store.db") as storage,
        serve(storage) as port,
        Client(f"http://127.0.0.1:{port}", timeout=FOR_EVER) as client,
    ):
        yield client


@pytest.fixture
def client(shared):
    """A client of a service without rankers."""
    yield shared
    for each in shared.rankers():
        shared.delete_ranker(each.name, confirm=each.name)


def test_an_experiment(kind, url):
    with kind(url) as client:
        until(client.ready)
        client.create_ranker("both", "mgd-dsp", ["bm25", "price"], mode="frozen")
        made = client.create_experiment("spring", ["engine"], rankers=["both"], length=3)
        assert client.create_experiment("spring", ["engine"], rankers=["both"], length=3) == made
        assert (client.experiments(), client.experiment("spring")) == ((made,), made)
        lists = {"engine": list(DOCUMENTS)}
        shown = [client.show("spring", lists, documents=DOCUMENTS, user_id=f"u{number}") for number in range(6)]
        assert all(len(each.documents) == 3 for each in shown)
        table = (list(DOCUMENTS), np.array(list(DOCUMENTS.values())))
        assert client.show("spring", lists, documents=table, impression_id=shown[0].impression_id) == shown[0]
        events = [FeedbackEvent(each.impression_id, each.documents[:1], close=True) for each in shown]
        assert client.experiment_feedback("spring", events).accepted == 6
        assert client.experiment_feedback("spring", events).duplicate == 6
        until(lambda: client.experiment("spring").counted == 6)
        assert client.experiment_history("spring").lists[-1] == 6
        assert client.stop_experiment("spring").stopped is not None
        with pytest.raises(ServiceError, match="was stopped"):
            client.show("spring", lists, documents=DOCUMENTS)
        client.delete_experiment("spring", confirm="spring")
        assert client.experiments() == ()


def test_the_whole_tour(kind, url):
    with kind(url) as client:
        assert client.health()
        until(client.ready)
        made = client.create_ranker("shop", "mgd-dsp", ["bm25", "price"], length=5, seed=3, representation="raw")
        assert (made.name, made.length, made.impressions, made.model_version) == ("shop", 5, 0, 1)
        assert client.create_ranker("shop", "mgd-dsp", ["bm25", "price"], length=5, seed=3) == made
        assert [each.name for each in client.rankers()] == ["shop"]

        shown = [client.rank("shop", DOCUMENTS) for _ in range(10)]
        assert all(len(each.ids) == 5 and set(each.ids) <= set(DOCUMENTS) for each in shown)
        assert [each.position for each in shown[0].ranking] == [1, 2, 3, 4, 5]
        again = client.rank("shop", DOCUMENTS, impression_id=shown[0].impression_id)
        assert again == shown[0]

        events = [FeedbackEvent(each.impression_id, each.ids[2:3], close=True) for each in shown]
        assert client.feedback("shop", events).accepted == 10
        assert client.feedback("shop", events).duplicate == 10
        assert client.close_impression("shop", "never shown").unknown == 1
        until(lambda: client.ranker("shop").learned == 10 and client.ranker("shop").model_version > 1)
        until(lambda: (client.ranker("shop").impressions, client.ranker("shop").open) == (10, 0))

        model = client.model("shop")
        assert model.weights.any()
        step = client.last_step("shop")
        assert (step.impression_id, step.step, step.model_version) == (shown[9].impression_id, 10, model.version)
        assert [each.id for each in step.documents if each.clicked] == shown[9].ids[2:3]
        assert step.weights_after == dict(zip(model.features, model.weights.tolist(), strict=True))
        assert LinearModel.from_json(client.export("shop", version=model.version)) == model
        assert json.loads(client.export("shop", "solr"))["features"] == [{"name": "bm25"}, {"name": "price"}]
        features = {"bm25": "bm25(title)", "price": "attribute(price)"}
        assert b"attribute(price)" in client.export("shop", "vespa", rank_features=features)
        current = [each.version for each in client.versions("shop") if each.current]
        assert current == [model.version]
        assert client.label("shop", model.version, "kept") in client.versions("shop")
        heights = {each.name: each.heights for each in client.curves("shop", model.version).curves}
        assert heights == dict(zip(model.features, [[0.0, weight] for weight in model.weights.tolist()], strict=True))

        assert client.freeze("shop").frozen
        best = client.rank("shop", DOCUMENTS, explain=True)
        scores = [each.score for each in best.ranking]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] == pytest.approx(sum(best.ranking[0].explain.values()))
        assert not client.resume("shop").frozen
        assert client.rollback("shop", model.version).model_version > model.version
        assert client.model("shop").weights.tolist() == model.weights.tolist()


def test_a_guarded_ranker_from_alarm_to_resume(client):
    """Users who click what the client had first, and whatever it has learned (to turn the order round) loses."""
    features, start = ["place"], {"weights": {"place": 1.0}}
    guard = {"share": 1.0, "false_alarm_every": 20, "promote": [1.0]}
    more = {"representation": "raw", "start": start, "exploration": 0.0, "guard": guard}
    client.create_ranker("shop", "mgd", features, **more)
    documents = {f"d{n}": [float(n)] for n in range(8)}
    for number in range(30):
        shown = client.rank("shop", documents)
        client.feedback("shop", FeedbackEvent(shown.impression_id, ["d0"], close=True, user_id=f"u{number}"))
    until(lambda: client.guard("shop").state == "alarm", lambda: client.guard("shop"))
    info = client.guard("shop")
    assert (info.alarms, info.learned_share, info.last_alarm.did) == (1, 0.0, "baseline")
    assert info.last_alarm.losses > info.last_alarm.wins
    until(lambda: client.guard("shop").lists == 30)
    client.change_ranker("shop", guard=guard | {"share": 0.001})
    assert client.guard("shop").state == "alarm", "a change of the share ends no alarm"
    assert client.rank("shop", documents, impression_id="i1").ids == list(documents)
    assert not client.resume("shop").frozen
    assert client.guard("shop").state == "watching"
    assert client.rank("shop", documents, impression_id="i2").ids[0] == "d7", "it serves what it has learned again"
    assert client.change_ranker("shop", guard=None).guard is None
    with pytest.raises(ServiceError, match="no guard"):
        client.guard("shop")


def test_one_vote_per_user_and_day(client):
    client.create_ranker(
        "shop", "mgd", ["place"], representation="raw", start={"weights": {"place": 1.0}}, guard={"share": 1.0}
    )
    documents = {f"d{n}": [float(n)] for n in range(8)}
    for user in ("u1", "u2", "u1", "u1", None, None):
        shown = client.rank("shop", documents)
        client.feedback("shop", FeedbackEvent(shown.impression_id, ["d0"], close=True, user_id=user))
    until(lambda: client.guard("shop").lists == 6)
    info = client.guard("shop")
    assert info.decisive + info.repeated == 6
    assert info.repeated in (1, 2)  # one where midnight was in between


def test_a_shadow_that_serves_a_version(client):
    made = client.create_ranker("shop", "pdgd", ["bm25", "price"], mode="shadow")
    assert (made.mode, made.pinned) == ("shadow", None)
    assert client.rank("shop", DOCUMENTS).ids == list(DOCUMENTS)
    assert client.pin("shop", 1).pinned == 1
    assert client.ranker("shop").pinned == 1
    assert client.unpin("shop").pinned is None


def test_features_by_name_and_ubi_events(client):
    client.create_ranker("shop", "pdgd", ["bm25", "price"], representation="query-scaled")
    documents = {"d1": {"bm25": 2.0, "price": 9.0}, "d2": {"bm25": 1.0}}
    shown = client.rank("shop", documents, impression_id="q1")
    click = {
        "action_name": "click",
        "query_id": "q1",
        "timestamp": "2024-05-01T12:00:00Z",
        "event_attributes": {"object": {"object_id": shown.ids[1]}, "position": {"ordinal": 2}},
    }
    assert client.feedback("shop", click).accepted == 1
    counts = client.feedback("shop", [click, {"nonsense": 1}])
    assert (counts.accepted, counts.duplicate) == (0, 1)
    assert [each.index for each in counts.invalid] == [1]


def test_what_the_service_refuses(client):
    client.create_ranker("shop", "mgd", ["bm25"])
    for status, method, arguments in (
        (404, "ranker", ("shoe",)),
        (409, "create_ranker", ("shop", "mgd", ["price"])),
        (422, "create_ranker", ("other", "no such recipe", ["bm25"])),
        (422, "rank", ("shop", {"d1": [1.0, 2.0]})),
        (422, "rank", ("shop", [{"id": 7, "features": [1.0]}])),
        (404, "rollback", ("shop", 99)),
        (422, "pin", ("shop", 1)),
        (422, "unpin", ("shop",)),
        (422, "export", ("shop", "no such format")),
    ):
        with pytest.raises(ServiceError) as caught:
            getattr(client, method)(*arguments)
        assert caught.value.status == status, method
        assert caught.value.title
        assert caught.value.detail
        assert caught.value.request_id


def test_keys(kind, storage, serve):
    token, key = make_key(["rank"])
    storage.keys.add(key)
    with serve(storage) as port:
        url = f"http://127.0.0.1:{port}"
        with kind(url) as client, pytest.raises(ServiceError, match="401"):
            client.rankers()
        with kind(url, token) as client:
            assert client.rankers() == ()
            with pytest.raises(ServiceError, match="403"):
                client.create_ranker("shop", "mgd", ["bm25"])


@pytest.fixture
def port():
    """A port that nobody else gets while the service is away: it is held, but nobody listens."""
    with socket.socket() as holding:
        holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holding.bind(("127.0.0.1", 0))
        yield holding.getsockname()[1]


def test_a_restart_goes_unnoticed(kind, tmp_path, serve, port, monkeypatch):
    """The service is away while the client asks; the very same list is there afterwards."""
    store, failed = f"sqlite:///{tmp_path}/store.db", threading.Event()

    usual = protocol.pause

    def pause(outcome, attempt, retries):
        failed.set()
        seconds = usual(outcome, attempt, retries)
        return None if seconds is None else min(seconds, 0.05)

    monkeypatch.setattr(protocol, "pause", pause)
    with open_storage(store) as storage, serve(storage, port), kind(f"http://127.0.0.1:{port}") as client:
        client.create_ranker("shop", "mgd", ["bm25", "price"])
        shown = client.rank("shop", DOCUMENTS)
    answers = []

    def ask() -> None:
        with kind(f"http://127.0.0.1:{port}", retries=1000) as client:
            answers.append(client.rank("shop", DOCUMENTS, impression_id=shown.impression_id))

    asking = threading.Thread(target=ask)
    asking.start()
    assert failed.wait(60)
    with open_storage(store) as storage, serve(storage, port):
        asking.join()
    assert answers == [shown]


def test_a_client_is_shared_by_threads(client):
    client.create_ranker("shop", "mgd", ["bm25", "price"])
    seen: list[str] = []
    threads = [
        threading.Thread(target=lambda: seen.extend(client.rank("shop", DOCUMENTS).impression_id for _ in range(10)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 40
    until(lambda: client.ranker("shop").impressions == 40)


def test_a_ranker_starts_from_what_one_has(client):
    weights = {"bm25": 1.0, "price": -0.5}
    made = client.create_ranker(
        "shop", "mgd", ["bm25", "price"], start={"weights": weights}, precision="float32", representation="raw"
    )
    assert (made.precision, made.start.weights) == ("float32", weights)
    model = client.model("shop")
    assert dict(zip(model.features, model.weights.tolist(), strict=True)) == weights
    client.create_ranker("heir", "pdgd", ["price", "bm25"], start={"from": "shop", "version": model.version})
    assert client.model("heir").weights.tolist() == [-0.5, 1.0]
    client.create_ranker("import", "mgd", ["bm25", "price"], start=model)
    assert client.model("import").weights.tolist() == [1.0, -0.5]
    best = max(DOCUMENTS, key=lambda id: DOCUMENTS[id][0] - 0.5 * DOCUMENTS[id][1])
    assert client.freeze("shop").frozen
    assert client.rank("shop", DOCUMENTS).ids[0] == best


def test_a_ranker_is_changed_and_keeps_what_it_has_learned(client):
    client.create_ranker(
        "shop", "mgd", ["bm25", "price"], start={"weights": {"bm25": 1.0, "price": -0.5}}, representation="raw"
    )
    changed = client.change_ranker("shop", exploration=0.25, length=3, close_after=60)
    assert (changed.exploration, changed.length, changed.close_after, changed.mode) == (0.25, 3, 60, "learn")
    changed = client.change_ranker("shop", add_features=["age"], retire_features=["price"])
    assert (changed.features, changed.retired) == (("bm25", "age"), ("price",))
    until(lambda: client.model("shop").features == ("bm25", "age"))
    assert client.model("shop").weights.tolist() == [1.0, 0.0]
    assert client.rank("shop", {"d1": {"bm25": 1.0, "price": 2.0, "age": 3.0}}).ids == ["d1"]
    with pytest.raises(ServiceError, match="4"):
        client.change_ranker("shop", retire_features=["no such feature"])


def test_the_representation_of_a_ranker_changes(client):
    start = {"weights": {"bm25": 1.0, "price": -0.5}}
    made = client.create_ranker("shop", "mgd", ["bm25", "price"], start=start, representation="query-scaled")
    assert "cannot be exported to" in made.warnings[0]
    with pytest.raises(ServiceError, match=r"409 .* at least 50 lists .* has 0"):
        client.change_ranker("shop", representation="curves")
    draws = np.random.default_rng(1)
    for _ in range(50):
        answer = client.rank("shop", (["a", "b", "c", "d"], draws.random((4, 2))))
        assert answer.kind == "explored"
    changed = client.change_ranker("shop", representation="curves")
    assert (changed.representation, changed.warnings, changed.fit.lists) == ("curves", (), 50)
    with pytest.raises(ServiceError, match=r"422 .*did you mean curves\?"):
        client.change_ranker("shop", representation="curvs")


def test_a_ranker_is_taught_with_a_log_and_told_what_actions_weigh(client):
    made = client.create_ranker("shop", "mgd", ["bm25", "price"], actions={"click": 1, "purchase": 5})
    assert made.actions == {"click": 1.0, "purchase": 5.0}
    shown, week = [Document(id, features) for id, features in DOCUMENTS.items()], 7 * 86400.0
    lists = [LoggedImpression(f"log-{number}", shown, actions={"purchase": [shown[2].id]}) for number in range(5)]
    assert client.backfill("shop", lists[0]) == BackfillCounts(accepted=1, known_for=week)
    assert client.backfill("shop", lists) == BackfillCounts(accepted=4, duplicate=1, known_for=week)
    until(lambda: client.ranker("shop").backfilled == 5)
    assert client.change_ranker("shop", actions={"click": 2}).actions == {"click": 2.0}
    answer = client.rank("shop", DOCUMENTS)
    client.feedback("shop", FeedbackEvent(answer.impression_id, [answer.ids[0]], close=True))
    until(lambda: client.ranker("shop").learned == 1)
    with pytest.raises(ServiceError, match="lists of its own"):
        client.backfill("shop", lists)


def test_a_ranker_is_deleted_by_its_name_only(client):
    client.create_ranker("shop", "mgd", ["bm25", "price"])
    client.rank("shop", DOCUMENTS)
    with pytest.raises(ServiceError, match="4"):
        client.delete_ranker("shop", confirm="shoe")
    assert client.ranker("shop").name == "shop"
    client.delete_ranker("shop", confirm="shop")
    assert client.rankers() == ()
    assert client.create_ranker("shop", "mgd", ["other"]).impressions == 0


def test_documents_as_an_array_are_ranked_as_the_same_documents(client):
    ids, rows = [f"d{n}" for n in range(8)], [[n % 3, n] for n in range(8)]
    weights = {"bm25": 1.0, "price": -0.125}
    client.create_ranker("shop", "mgd", list(weights), start={"weights": weights}, representation="raw")
    client.freeze("shop")
    plain = client.rank("shop", dict(zip(ids, rows, strict=True)), explain=True)
    for array in (rows, *(np.array(rows, kind) for kind in (np.float32, np.float64, np.int64))):
        assert client.rank("shop", (ids, array), explain=True).ranking == plain.ranking
    for wrong in (np.zeros((8, 3)), np.full((8, 2), np.nan)):
        with pytest.raises(ServiceError) as caught:
            client.rank("shop", (ids, wrong))
        assert caught.value.status == 422


def test_the_command_line(url):
    def rankers(*words: str) -> Result:
        done = CliRunner().invoke(app, ["rankers", *words, "--url", url])
        assert done.exit_code == 0, done.output
        return done

    created = rankers(
        "create", "shop", "mgd", "--features", "bm25,price", "--weight", "bm25=1", "--representation", "raw", "--json"
    )
    assert json.loads(created.stdout)["start"] == {"weights": {"bm25": 1.0}}
    assert json.loads(rankers("change", "shop", "--add-feature", "age", "--json").stdout)["features"][-1] == "age"
    assert json.loads(rankers("freeze", "shop", "--json").stdout)["frozen"]
    assert "shop" in rankers("list").stdout
    assert [each["current"] for each in json.loads(rankers("versions", "shop", "--json").stdout)][-1]
    rankers("delete", "shop", "--yes", "shop")
    assert json.loads(rankers("list", "--json").stdout) == []
