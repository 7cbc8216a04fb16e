"""``duelrank backfill``: from the files of a log into a ranker, whole, again, and after it was killed in between."""

import asyncio
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import msgspec
import pytest
from tests.adapters.logs import NAMES, event, features, generated, query
from tests.adapters.test_tables import rows_of, write
from tests.waiting import until
from typer.testing import CliRunner

import duelrank.client
from duelrank.cli import app
from duelrank.service import Service, backfill
from duelrank.service.http.schema import BackfillCounts, Invalid, LoggedImpression, RankerInfo, RankerSpec
from duelrank.storage import open_storage

SPEC = RankerSpec("shop", "pdgd", NAMES, representation="query-scaled", actions={"click": 1.0, "purchase": 10.0})
LISTS = 60


def options(paths):
    return [word for name, path in paths.items() for word in (f"--{name}", path)]


def made(path, spec=SPEC):
    """Make a store with a ranker in it."""

    async def create():
        with open_storage(f"sqlite:///{path}") as storage:
            service = Service(storage)
            await service.start()
            await service.wait_ready()
            await service.create(spec)
            await service.stop()

    asyncio.run(create())
    return path


def control(path, action):
    """Change how the ranker of a store goes on."""

    async def change():
        with open_storage(f"sqlite:///{path}") as storage:
            service = Service(storage)
            await service.start()
            await service.wait_ready()
            await service.control("shop", action)
            await service.stop()

    asyncio.run(change())


def ranker(path):
    """Return the ranker of a store, and its weights."""

    async def look():
        with open_storage(f"sqlite:///{path}") as storage:
            service = Service(storage, read_only=True)
            await service.start()
            await service.wait_ready()
            found = service.ranker("shop"), service.model("shop").weights
            await service.stop()
            return found

    return asyncio.run(look())


@pytest.fixture
def store(tmp_path):
    return made(tmp_path / "shop.db")


@pytest.fixture
def log(tmp_path):
    return generated(LISTS)


@pytest.fixture
def files(log, tmp_path):
    return options(log.write(tmp_path))


class TestStore:
    def test_the_whole_log(self, cli, cli_json, store, files):
        found = cli_json("backfill", store, "shop", *files)
        assert (found["lists"], found["taken"], found["there_already"], found["refused"]) == (LISTS, LISTS, 0, 0)
        info, weights = ranker(store)
        assert info.backfilled == LISTS
        assert info.impressions == 0
        assert weights[NAMES.index("rating")] > weights[NAMES.index("price")], "users clicked what was rated best"
        assert cli("replay", store, "--verify").exit_code == 0

    def test_the_texts_of_queries_fill_the_memory_of_a_ranker_that_remembers(self, cli_json, tmp_path, files):
        remembering = RankerSpec("shop", "remember >> wmgd-dsp", NAMES, representation="raw")
        store = made(tmp_path / "remembering.db", remembering)
        cli_json("backfill", store, "shop", *files)

        async def look():
            with open_storage(f"sqlite:///{store}") as storage:
                service = Service(storage)
                await service.start()
                await service.wait_ready()
                found = service.memory("shop")
                await service.stop()
            return found

        assert [(each.query, each.lists) for each in asyncio.run(look()).remembered] == [("shoes", LISTS)]

    def test_again_nothing_happens(self, cli_json, store, files):
        cli_json("backfill", store, "shop", *files)
        before = ranker(store)[1].tolist()
        found = cli_json("backfill", store, "shop", *files)
        assert (found["taken"], found["there_already"]) == (0, LISTS)
        info, weights = ranker(store)
        assert (info.backfilled, weights.tolist()) == (LISTS, before)

    def test_the_name_comes_first_and_the_address_is_an_option(self, cli_json, store, files):
        taken = cli_json("backfill", "shop", "--store", store, *files)["taken"]
        assert cli_json("backfill", store, "shop", *files)["there_already"] == taken > 0

    def test_a_log_that_has_grown(self, cli_json, store, tmp_path):
        cli_json("backfill", store, "shop", *options(generated(20).write(tmp_path)))
        found = cli_json("backfill", store, "shop", *options(generated(LISTS).write(tmp_path)))
        assert (found["taken"], found["there_already"]) == (LISTS - 20, 20)

    def test_a_dry_run_changes_nothing(self, cli, store, files):
        before = store.read_bytes()
        result = cli("backfill", store, "shop", *files, "--dry-run")
        assert result.exit_code == 0, result.stderr
        assert f"{LISTS}  can be learned from" in result.stdout
        assert store.read_bytes() == before
        assert ranker(store)[0].backfilled == 0

    @pytest.mark.parametrize("words", [(), ("--dry-run",)])
    def test_what_cannot_be_taught_is_said_before_anything_is_read(self, cli, store, tmp_path, words):
        control(store, "freeze")
        pairs = made(tmp_path / "pairs.db", RankerSpec("shop", "pairrank", NAMES))
        (tmp_path / "log").write_text("no log at all\n" * 200)
        files = options({name: str(tmp_path / "log") for name in ("queries", "events", "features")})
        for place, reason in ((store, "is frozen"), (pairs, "pairrank")):
            result = cli("backfill", place, "shop", *files, *words)
            assert (result.exit_code, result.stdout) == (2, "")
            assert reason in result.stderr.replace("\n", " ")

    def test_a_table(self, cli, cli_json, store, log, tmp_path):
        """It teaches what the same log teaches in the format of UBI."""
        other = made(tmp_path / "other.db")
        cli_json("backfill", other, "shop", *options(log.write(tmp_path)))
        rows = [{"sku" if name == "document" else name: value for name, value in row.items()} for row in rows_of(log)]
        words = ("--log", write(tmp_path / "clicks.csv", rows), "--columns", "document=sku")
        found = cli_json("backfill", store, "shop", *words)
        assert (found["lists"], found["taken"], found["events"]) == (LISTS, LISTS, LISTS + LISTS // 5)
        assert ranker(store)[1].tolist() == ranker(other)[1].tolist()
        assert cli_json("backfill", store, "shop", *words)["there_already"] == LISTS

    def test_the_table_of_the_page(self, cli, store, tmp_path):
        page = (Path(__file__).parents[2] / "docs" / "logs.md").read_text()
        (tmp_path / "searches.csv").write_text(page.split("searches.csv\n", 1)[1].split("```")[0])
        columns = page.split("--log searches.csv --columns ")[1].split()[0]
        result = cli("backfill", "shop", "--store", store, "--log", tmp_path / "searches.csv", "--columns", columns)
        assert [line.strip() for line in result.stdout.splitlines()] == [
            "2  lists read", "1  accepted", "1  skipped: no action that has a weight in the ranker",
        ]  # fmt: skip

    def test_a_table_for_a_ranker_with_contexts_and_missing_values(self, cli_json, tmp_path, log):
        spec = RankerSpec("shop", "pdgd", NAMES, context={"mobile": ("price",)}, missing=("price",))
        store = made(tmp_path / "mobile.db", spec)
        rows = [row | {"mobile": int(row["list"][1:]) % 2, "price": ""} for row in rows_of(log)]
        found = cli_json("backfill", store, "shop", "--log", write(tmp_path / "clicks.csv", rows))
        assert (found["taken"], found["refused"], found["missing_features"]) == (LISTS, 0, {})
        assert found["with_context"] == LISTS

    def test_a_log_without_the_contexts_of_the_ranker(self, cli, tmp_path, log):
        store = made(tmp_path / "mobile.db", RankerSpec("shop", "pdgd", NAMES, context={"mobile": ("price",)}))
        table = "--log", write(tmp_path / "clicks.csv", list(rows_of(log)))
        ubi = [word for option, path in log.write(tmp_path).items() for word in (f"--{option}", path)]
        for files, where in ((table, "in a column"), (ubi, "in query_attributes")):
            result = cli("backfill", "shop", "--store", store, *files, "--dry-run")
            assert f"no list has a value of mobile {where}" in " ".join(result.stderr.split())

    @pytest.mark.parametrize(
        ("table", "reason"),
        [
            ("document,clicked,bm25\n", "has no column for query, rating, price"),
            ("list,document,clicked,bm25,rating,price\nq,a,0,1,2,3\n", "which column has them?"),
            ("list,document,clicked,bm25,rating,price\nq,a,1,x,2,3\n", "bm25 must be a number, got 'x'"),
            ("list,document,clicked,bm25,rating,price\nq,a,0,1,2,3\n", "1  skipped: no action"),
        ],
    )
    def test_what_is_wrong_with_a_table(self, cli, store, tmp_path, table, reason):
        (tmp_path / "clicks.csv").write_text(table)
        result = cli("backfill", "shop", "--store", store, "--log", tmp_path / "clicks.csv", "--dry-run")
        assert reason in " ".join((result.stdout + result.stderr).split()).replace("1 skipped", "1  skipped")

    def test_a_log_of_clicks_only(self, cli, store, tmp_path):
        rows = "".join(f"q{number},a,1,1,2,3\n" for number in range(10))
        (tmp_path / "clicks.csv").write_text("list,document,clicked,bm25,rating,price\n" + rows)
        result = cli("backfill", "shop", "--store", store, "--log", tmp_path / "clicks.csv", "--dry-run")
        assert "every document of these lists was clicked" in " ".join(result.stderr.split())

    def test_an_error_reports_the_accepted_lists(self, cli, store, log, tmp_path, monkeypatch):
        monkeypatch.setattr(backfill, "MOST_LISTS", 25)
        log.queries += [{"nonsense": 1}] * 2
        result = cli("backfill", store, "shop", *options(log.write(tmp_path)), "--max-errors", 1)
        assert result.exit_code == 2
        assert "50 lists accepted before this" in " ".join(result.stderr.split())
        assert ranker(store)[0].backfilled == 50

    def test_a_service_on_the_same_store(self, cli, store, files):
        with open_storage(f"sqlite:///{store}") as storage:
            Service(storage).claim()
            result = cli("backfill", store, "shop", *files)
        assert result.exit_code == 2
        assert "duelrank backfill RANKER --url" in " ".join(result.stderr.split())

    def test_what_is_wrong_with_the_arguments(self, cli, store, files, tmp_path):
        for words, reason in (
            ((tmp_path / "not.db", "shop", *files), "does not exist"),
            (("shop", "--store", tmp_path / "not.db", *files), "does not exist"),
            ((store, "shup", *files), "did you mean shop?"),
            ((store, "shop", *files[:-1], tmp_path / "not"), "not does not exist"),
            ((store, "shop", *files[:-1], "-", "--queries", "-"), "only one of the files can be -"),
            ((store, "shop", *files[:-2]), "--features is missing"),
            ((store, "shop"), "--queries, --events, --features is missing"),
            ((store, "shop", *files, "--log", files[1]), "not both"),
            ((store, "shop", *files, "--columns", "query=q"), "--columns are those of --log"),
            ((store, "shop", "--log", files[1], "--columns", "q"), "MEANING=COLUMN"),
        ):
            result = cli("backfill", *words)
            assert (result.exit_code, result.stdout) == (2, "")
            assert reason in " ".join(result.stderr.split())

    @pytest.mark.processes
    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a pipe with a name")
    def test_killed_in_between_it_goes_on(self, cli, cli_json, store, tmp_path):
        """Exactly once: what is learned is what an undisturbed run learns."""
        log, whole, pipe = generated(LISTS), made(tmp_path / "whole.db"), tmp_path / "pipe"
        paths = log.write(tmp_path)
        cli_json("backfill", whole, "shop", *options(paths))
        os.mkfifo(pipe)  # half of the queries come, and then nothing more
        words = ["backfill", str(store), "shop", *options(paths | {"queries": str(pipe)})]
        code = (
            "import sys; from duelrank.cli import main; from duelrank.service import backfill; "
            f"backfill.MOST_LISTS = 5; sys.argv[1:] = {words!r}; main()"
        )
        with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as process:
            writing = os.open(pipe, os.O_RDWR)
            os.write(writing, "".join(json.dumps(each) + "\n" for each in log.queries[: LISTS // 2]).encode())
            until(lambda: _logged(store) >= 10)
            process.kill()
            os.close(writing)
        found = cli_json("backfill", store, "shop", *options(paths))
        assert found["there_already"] >= 10
        assert found["taken"] + found["there_already"] == LISTS
        one, other = ranker(store), ranker(whole)
        assert one[0].backfilled == other[0].backfilled == LISTS
        assert one[1].tolist() == other[1].tolist()
        assert cli("replay", store, "--verify").exit_code == 0


def _logged(store):
    with open_storage(f"sqlite:///{store}") as storage:
        return storage.log.last_number() - 1


class Running:
    """A running service that keeps the lists it was sent, knows some of them already and refuses others."""

    def __init__(self):
        self.known, self.refused = set(), set()
        self.chunks = []
        self.busy, self.max_body, self.frozen = 0, 8 << 20, False
        self.precision = "float64"

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            info = RankerInfo(
                "shop", "pdgd", NAMES, impressions=0, learned=0, model_version=1, precision=self.precision
            )
            return httpx.Response(200, content=msgspec.json.encode(info))
        assert (request.method, request.url.path) == ("POST", "/v1/rankers/shop/impressions")
        assert request.headers["authorization"] == "Bearer secret"
        if self.busy:
            self.busy -= 1
            return httpx.Response(503)
        if self.frozen:
            return httpx.Response(409, json={"title": "A conflict", "detail": "the ranker is frozen"})
        if len(request.content) > self.max_body:
            return httpx.Response(413, json={"title": "The body is too large", "detail": "send less at a time"})
        chunk = msgspec.json.decode(request.content, type=list[LoggedImpression])
        if not chunk:
            return httpx.Response(200, content=msgspec.json.encode(BackfillCounts()))
        ids = [each.impression_id for each in chunk]
        bad = [Invalid(place, id, "it makes no sense") for place, id in enumerate(ids) if id in self.refused]
        again = sum(id in self.known for id in ids)
        self.chunks.append(chunk)
        self.known.update(set(ids) - self.refused)
        return httpx.Response(200, content=msgspec.json.encode(BackfillCounts(len(ids) - again - len(bad), again, bad)))


@pytest.fixture
def running(monkeypatch):
    service = Running()
    transport = httpx.MockTransport(service)
    monkeypatch.setattr(duelrank.client, "Client", functools.partial(duelrank.client.Client, transport=transport))
    monkeypatch.setattr("duelrank.client.client.time.sleep", lambda seconds: None)
    monkeypatch.setenv("DUELRANK_API_KEY", "secret")
    return service


class TestRunningService:
    def test_in_chunks(self, cli_json, running, files, monkeypatch):
        monkeypatch.setattr(backfill, "MOST_LISTS", 25)
        running.known, running.refused, running.busy = {"q3"}, {"q7", "q30"}, 2
        found = cli_json("backfill", "http://example.com", "shop", *files)
        assert [len(chunk) for chunk in running.chunks] == [25, 25, 10]
        assert (found["taken"], found["there_already"], found["refused"]) == (LISTS - 3, 1, 2)
        assert found["reasons"] == [f"list '{id}': it makes no sense" for id in ("q7", "q30")]

    def test_no_request_is_larger_than_it_may_be(self, cli_json, running, files, monkeypatch):
        monkeypatch.setattr(backfill, "MOST_BYTES", 3000)
        running.max_body = 3001  # with the brackets
        assert cli_json("backfill", "http://example.com", "shop", *files)["taken"] == LISTS
        assert all(len(msgspec.json.encode(chunk)) > 2000 for chunk in running.chunks[:-1]), "as many as fit"

    def test_a_service_that_takes_less(self, cli_json, running, log, tmp_path):
        """Lists come in the same order, in smaller requests; one that is too large for any request is refused."""
        long = [f"d{number}" for number in range(200)]
        log.queries[30] = query("long", long)
        log.events.append(event("long", document="d1"))
        log.features += [features("long", each, [1.0, 2.0, 3.0]) for each in long]
        running.max_body = 3000
        found = cli_json("backfill", "http://example.com", "shop", *options(log.write(tmp_path)))
        assert (found["taken"], found["refused"]) == (LISTS - 1, 1)
        assert found["reasons"] == ["list 'long': 413 The body is too large: send less at a time"]
        taken = [each.impression_id for chunk in running.chunks for each in chunk]
        assert taken == [each["query_id"] for each in log.queries if each["query_id"] != "long"]

    def test_in_the_precision_of_the_ranker(self, cli_json, running, files):
        running.precision = "float32"
        assert cli_json("backfill", "http://example.com", "shop", *files)["taken"] == LISTS
        tables = [each.documents for chunk in running.chunks for each in chunk]
        assert {(table.type, len(table.features)) for table in tables} == {("float32", 6 * len(NAMES) * 4)}

    def test_a_dry_run_sends_nothing(self, cli_json, running, files):
        assert cli_json("backfill", "http://example.com", "shop", *files, "--dry-run")["complete"] == LISTS
        assert running.chunks == []

    @pytest.mark.parametrize("words", [(), ("--dry-run",)])
    def test_what_cannot_be_taught_is_said_at_once(self, cli, running, tmp_path, words):
        running.frozen = True
        (tmp_path / "log").write_text("no log at all\n" * 200)
        files = options({name: str(tmp_path / "log") for name in ("queries", "events", "features")})
        result = cli("backfill", "http://example.com", "shop", *files, *words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "the ranker is frozen" in " ".join(result.stderr.split())

    def test_stdin(self, running, log, tmp_path):
        paths = log.write(tmp_path)
        words = ["backfill", "http://example.com", "shop", *options(paths | {"features": "-"})]
        result = CliRunner().invoke(app, words, input=Path(paths["features"]).read_bytes())
        assert result.exit_code == 0, result.stderr
        assert sum(map(len, running.chunks)) == LISTS

    def test_nobody_there(self, cli, files, monkeypatch):
        transport = httpx.MockTransport(lambda request: (_ for _ in ()).throw(httpx.ConnectError("refused")))
        monkeypatch.setattr(duelrank.client, "Client", functools.partial(duelrank.client.Client, transport=transport))
        monkeypatch.setattr("duelrank.client.client.time.sleep", lambda seconds: None)
        monkeypatch.setenv("DUELRANK_URL", "http://environment")
        for words, address in (
            (("shop",), "http://environment"),
            (("shop", "--url", "http://option"), "http://option"),
            (("http://argument", "shop"), "http://argument"),
        ):
            result = cli("backfill", *words, *files)
            assert result.exit_code == 2
            sentence = f"is a service running at {address}? Give its address with --url or DUELRANK_URL"
            assert sentence in " ".join(result.stderr.split())


class TestSummary:
    def test_of_all_that_can_happen(self, cli, running, tmp_path):
        log = generated(3)
        log.queries += [query("untouched", ["d1"]), query("featureless", ["d1", "d2"]), query("empty", [])]
        log.events += [
            event("featureless", document="d1"),
            event("elsewhere", document="d1"),
            event("q1", document="d99"),
        ]
        log.features += [{"nonsense": 1}]
        running.refused, running.known = {"q0"}, {"q1"}
        said = cli("backfill", "http://example.com", "shop", *options(log.write(tmp_path)))
        assert [line.strip() for line in said.stdout.splitlines()] == [
            "6  lists read",
            "1  accepted",
            "1  known already: sent by an earlier run, or the same query_id twice",
            "1  refused",
            "1  skipped: no action that has a weight in the ranker",
            "1  skipped: 2 of their shown documents have no features in the log",
            "1  skipped: no documents were shown",
            "1  records could not be read",
            "1  of 7 events belong to other lists",
            "1  actions ignored: their documents were not in the list",
        ]
        assert said.stderr.splitlines()[0] == "list 'q0': it makes no sense"
        assert said.stderr.splitlines()[1].startswith("line 19 of ")

    def notes(self, cli, log, tmp_path):
        said = cli("backfill", "http://example.com", "shop", *options(log.write(tmp_path))).stderr
        return [line.removeprefix("note: ") for line in said.splitlines() if line.startswith("note: ")]

    def test_nothing_is_noted_where_all_is_well(self, cli, running, log, tmp_path):
        assert self.notes(cli, log, tmp_path) == []

    def test_events_of_other_days(self, cli, running, log, tmp_path):
        log.events = [event("other", document="d1")]
        (note,) = self.notes(cli, log, tmp_path)
        assert "no event belongs to any of these lists" in note

    def test_features_of_other_queries(self, cli, running, log, tmp_path):
        log.features = [features("other", "d1", [1, 2, 3])]
        (note,) = self.notes(cli, log, tmp_path)
        assert "most lists have a document without features" in note

    def test_other_features(self, cli, running, log, tmp_path):
        for each in log.features:
            each["features"]["color"] = each["features"].pop("price")
        assert self.notes(cli, log, tmp_path) == [
            f"feature 'price' has no value in {len(log.features)} documents; it is taken as 0",
            "features that the ranker does not have are ignored: color",
        ]

    def test_impressions_of_what_is_rendered(self, cli, running, tmp_path):
        log = generated(100)
        log.events += [event(each["query_id"], "scroll", ordinal=6) for each in log.queries]
        (note,) = self.notes(cli, log, tmp_path)
        assert "--ignore impression" in note
        log.events[-1] = event("q99", "scroll", ordinal=5)
        assert self.notes(cli, log, tmp_path) == []

    def test_a_file_of_another_kind(self, cli, running, log, tmp_path):
        log.events = [{"time": 1, "what": "click"}] * 101
        result = cli("backfill", "http://example.com", "shop", *options(log.write(tmp_path)))
        assert (result.exit_code, running.chunks) == (2, [])
        assert "101 records cannot be read" in " ".join(result.stderr.split())
        assert "action_name" in result.stderr
