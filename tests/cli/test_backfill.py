"""``duelrank backfill``: from the files of a log into a ranker, whole, again, and after it was killed in between."""

import asyncio
import functools
import json
import os
import signal
import subprocess
import sys

import httpx
import msgspec
import pytest
from tests.ubi.logs import NAMES, event, features, made_up, query
from tests.waiting import until

import duelrank.client
from duelrank.api import BackfillCounts, Invalid, LoggedImpression, RankerInfo
from duelrank.cli import backfill as command
from duelrank.serving import RankerSpec, Service
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
    return made_up(LISTS)


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

    def test_again_nothing_happens(self, cli_json, store, files):
        cli_json("backfill", store, "shop", *files)
        before = ranker(store)[1].tolist()
        found = cli_json("backfill", store, "shop", *files)
        assert (found["taken"], found["there_already"]) == (0, LISTS)
        info, weights = ranker(store)
        assert (info.backfilled, weights.tolist()) == (LISTS, before)

    def test_a_log_that_has_grown(self, cli_json, store, tmp_path):
        cli_json("backfill", store, "shop", *options(made_up(20).write(tmp_path)))
        found = cli_json("backfill", store, "shop", *options(made_up(LISTS).write(tmp_path)))
        assert (found["taken"], found["there_already"]) == (LISTS - 20, 20)

    def test_a_dry_run_changes_nothing(self, cli, store, files):
        before = store.read_bytes()
        result = cli("backfill", store, "shop", *files, "--dry-run")
        assert result.exit_code == 0, result.stderr
        assert f"{LISTS}  can teach" in " ".join(result.stdout.split("\n"))
        assert store.read_bytes() == before
        assert ranker(store)[0].backfilled == 0

    def test_a_service_on_the_same_store(self, cli, store, files):
        with open_storage(f"sqlite:///{store}") as storage:
            Service(storage).claim()
            result = cli("backfill", store, "shop", *files)
        assert result.exit_code == 2
        assert "give its address: duelrank backfill http" in " ".join(result.stderr.split())

    def test_what_is_wrong_with_the_arguments(self, cli, store, files, tmp_path):
        for words, reason in (
            ((tmp_path / "not.db", "shop", *files), "does not exist"),
            ((store, "shup", *files), "did you mean shop?"),
            ((store, "shop", *files[:-1], tmp_path / "not"), "there is no file"),
            ((store, "shop", *files[:-1], "-", "--queries", "-"), "only one of the files can be -"),
        ):
            result = cli("backfill", *words)
            assert (result.exit_code, result.stdout) == (2, "")
            assert reason in " ".join(result.stderr.split())

    def test_killed_in_between_it_goes_on(self, cli, cli_json, store, tmp_path, monkeypatch):
        """Exactly once: what is learned is what an undisturbed run learns."""
        log = made_up(LISTS)
        paths = log.write(tmp_path)
        whole = made(tmp_path / "whole.db")
        cli_json("backfill", whole, "shop", *options(paths))
        os.mkfifo(tmp_path / "pipe")  # the queries come one by one, and never all of them
        words = ["backfill", str(store), "shop", *options(paths | {"queries": str(tmp_path / "pipe")})]
        code = f"from duelrank.cli import backfill, main; backfill.MOST_LISTS = 5; import sys; sys.argv[1:] = {words!r}; main()"
        with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as process:
            with open(tmp_path / "pipe", "w") as pipe:
                for number, each in enumerate(log.queries[: LISTS // 2]):
                    pipe.write(json.dumps(each) + "\n")
                    pipe.flush()
                until(lambda: _logged(store) >= 10)
                process.send_signal(signal.SIGKILL)
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
