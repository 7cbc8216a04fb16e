"""Dask: the same records to the bit, whoever dies on the way, and clear errors where there is no cluster."""

import os
import socketserver
import sys
import threading
from contextlib import closing
from dataclasses import dataclass, replace

import pytest
from tests.waiting import until

from duelrank import DBGD, MGD, DuelrankError, RunSpec, parse
from duelrank.core.errors import InvalidValue, MissingData, MissingExtra, UnreachableScheduler
from duelrank.experiments import dask as dask_module
from duelrank.experiments import load_extension, run_all
from duelrank.experiments.dask import connect

distributed = pytest.importorskip("distributed", reason="the extra 'cluster' is not installed")

# Dask leaves sockets and event loops to the garbage collector when a cluster ends; they are not ours to close.
pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def local_cluster(n_workers, **options):
    """Start a cluster whose scheduler leaves it to duelrank to repeat the runs of workers that have died."""
    here = {"dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    options = options or {"host": "127.0.0.1", "processes": True, "scheduler_kwargs": {"allowed_failures": 0}}
    return distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, **here, **options)


@pytest.fixture(scope="module")
def cluster():
    with local_cluster(2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def only_client(cluster):
    with distributed.Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture
def client(only_client):
    """A client of two workers: those that an earlier test has killed are started again, which takes a moment."""
    until(lambda: len(only_client.nthreads()) == 2)
    return only_client


def test_equal_to_this_process_to_the_bit(cluster, specs, contents, caplog):
    caplog.set_level("INFO", "duelrank.experiments")
    wanted = specs(MGD(), DBGD(), n=3)
    told = []
    records = run_all(
        wanted,
        scheduler=cluster.scheduler_address,
        progress=lambda *now: told.append(now),
    )
    assert contents(records) == contents(run_all(wanted, workers=1))
    assert told == [(done, len(wanted)) for done in range(len(wanted) + 1)]
    announced = [record.getMessage() for record in caplog.records if record.name.startswith("duelrank")]
    assert announced == ["2 workers; each compiles its kernels before its first run"]


class TestObjects:
    def test_a_client_is_accepted_and_stays_open(self, client, specs):
        assert len(list(run_all(specs(MGD()), scheduler=client))) == 1
        assert client.status == "running"
        assert client.submit(abs, -3).result() == 3

    def test_a_cluster_is_accepted_and_stays_open(self, specs):
        threads_before = dict(os.environ)
        with local_cluster(1, processes=False) as cluster:
            for _ in range(2):
                assert len(list(run_all(specs(MGD()), scheduler=cluster))) == 1
            assert cluster.status.name == "running"
        assert dict(os.environ) == threads_before  # its worker is a thread here, whose process is not changed
        with pytest.raises(UnreachableScheduler, match="is closed"):
            list(run_all(specs(MGD()), scheduler=cluster))

    def test_anything_else_is_refused(self, specs):
        with pytest.raises(InvalidValue, match=r"a Dask Client or a Dask cluster, got 8786"):
            list(run_all(specs(MGD()), scheduler=8786))


class TestCode:
    def test_a_class_that_no_worker_can_import(self, client, specs, contents):
        @dataclass(frozen=True, repr=False)
        class Halved(MGD):
            """As in a notebook: only this process has it."""

            def update(self, state, gradient):
                return super().update(state, 0.5 * gradient)

        wanted = specs(Halved(), MGD())
        assert contents(run_all(wanted, scheduler=client)) == contents(run_all(wanted, workers=1))

    @pytest.mark.usefixtures("clean_registry")
    def test_an_extension_reaches_workers_that_do_not_have_the_file(self, client, specs, contents, tmp_path):
        results = []
        for factor in (0.5, 0.9):  # the file is changed, and the workers are still the same
            path = tmp_path / "scaled.py"
            path.write_text(SCALED.format(factor=factor), encoding="utf-8")
            wanted = specs(load_extension(path).Scaled())
            path.unlink()
            results.append(contents(run_all(wanted, scheduler=client)))
            assert results[-1] == contents(run_all(wanted, workers=1))
        assert list(results[0].values()) != list(results[1].values())


SCALED = """
from dataclasses import dataclass
from duelrank import MGD, register

@register
@dataclass(frozen=True, repr=False)
class Scaled(MGD):
    def update(self, state, gradient):
        return super().update(state, {factor} * gradient)
"""

DEADLY = '''
import os, signal
from dataclasses import dataclass
from multiprocessing import parent_process
from pathlib import Path
from duelrank import MGD, register

@register
@dataclass(frozen=True, repr=False)
class DeadlyFar(MGD):
    """Kills its worker in the middle of the run, as often as its file has letters to take away."""

    path: str = ""

    def update(self, state, gradient):
        left = Path(self.path).read_text()
        if parent_process() is not None and state.step >= 50 and left:
            Path(self.path).write_text(left[1:])
            os.kill(os.getpid(), signal.SIGKILL)
        return super().update(state, gradient)
'''


@pytest.fixture
def deadly(tmp_path, clean_registry):
    """Return a function that makes an algorithm which kills so many workers."""
    (tmp_path / "deadly_far.py").write_text(DEADLY, encoding="utf-8")
    module = load_extension(tmp_path / "deadly_far.py")

    def kill(workers):
        (tmp_path / "lives").write_text("x" * workers, encoding="utf-8")
        return module.DeadlyFar(path=str(tmp_path / "lives"))

    return kill


class TestDeaths:
    def test_a_killed_worker_changes_nothing_to_the_bit(self, client, deadly, tmp_path, specs, contents):
        wanted = specs(deadly(1), MGD(), DBGD())
        records = contents(run_all(wanted, scheduler=client))
        assert (tmp_path / "lives").read_text(encoding="utf-8") == ""
        assert records == contents(run_all(wanted, workers=1))

    def test_a_run_that_always_kills_is_given_up_after_the_others(self, client, deadly, specs):
        fatal, *fine = specs(deadly(99), MGD(), DBGD())
        done = []
        with pytest.raises(DuelrankError, match=r"see the log of tcp://\S+") as caught:
            done.extend(record.spec for record in run_all([fatal, *fine], scheduler=client))
        assert set(done) == set(fine)
        assert fatal.id in str(caught.value)

    def test_a_scheduler_that_goes_away(self, monkeypatch, specs):
        monkeypatch.setattr(dask_module, "_SECONDS", 1.0)
        with local_cluster(1) as cluster:
            wanted = specs(MGD()) + specs(MGD(), impressions=10_000_000)
            records = run_all(wanted, scheduler=cluster.scheduler_address)
            next(records)
            cluster.close()
            with pytest.raises(UnreachableScheduler, match="stopped"):
                list(records)


def test_errors_arrive_as_themselves(client, specs):
    fine = specs(MGD())[0]
    wrong = RunSpec(MGD(), parse("Imported('mq2008')"), parse("perfect"), impressions=300)
    with pytest.raises(MissingData, match="mq2008") as caught:
        list(run_all([fine, wrong], scheduler=client))
    notes = "".join(caught.value.__notes__)
    assert f"in the run {wrong.id}, on the worker tcp://" in notes
    assert "in fold" in notes


def test_stopping_early_stops_the_workers_in_mid_run(client, specs):
    short, *long = specs(MGD(), DBGD(), n=2)
    long = [replace(spec, impressions=10_000_000, seed=9) for spec in long]
    with closing(run_all([short, *long], scheduler=client)) as records:
        next(records)
    assert client.run(wait_until_idle) == dict.fromkeys(client.nthreads(), True)


async def wait_until_idle(dask_worker):
    from asyncio import sleep

    while dask_worker.state.executing_count or dask_worker.state.tasks:  # for ever, if it fails: the test has a limit
        await sleep(0.05)
    return True


def test_another_version_on_a_worker(client, specs, monkeypatch):
    monkeypatch.setattr("duelrank.__version__", "9.9")
    with pytest.raises(DuelrankError, match=r"the worker tcp://\S+ has duelrank 0.*needs 9\.9"):
        list(run_all(specs(MGD()), scheduler=client))


def test_one_blas_thread(monkeypatch):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    for name in dask_module.ONE_THREAD:
        monkeypatch.setenv(name, "7")
    with threadpoolctl.threadpool_limits():  # gives back what the worker's function takes
        dask_module._limit_threads.__wrapped__()
        assert {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"} <= {1}
    assert {os.environ[name] for name in dask_module.ONE_THREAD} == {"1"}


@pytest.mark.parametrize("address", ["", "nonsense", "tcp://127.0.0.1", "tcp:/127.0.0.1:8786", "tcp://a b:8786"])
def test_what_is_no_address(address, specs):
    with pytest.raises(InvalidValue, match="tcp://host:8786"):
        list(run_all(specs(MGD()), scheduler=address))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "127.0.0.1:1", "pigeon://127.0.0.1:1"])
def test_nobody_answers(address, monkeypatch):
    monkeypatch.setattr(dask_module, "_SECONDS", 0.5)
    with pytest.raises(UnreachableScheduler, match=r"no Dask scheduler answers at .*check"), connect(address):
        pass


def test_somebody_else_answers(cluster):
    class Rude(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socketserver.TCPServer(("127.0.0.1", 0), Rude) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with (
            pytest.raises(UnreachableScheduler, match="no Dask scheduler"),
            connect(f"tcp://127.0.0.1:{server.server_address[1]}"),
        ):
            pass
        server.shutdown()


def test_a_worker_is_no_scheduler(cluster):
    address = next(iter(cluster.scheduler_info["workers"]))
    with pytest.raises(UnreachableScheduler, match="a Dask worker, not a scheduler"), connect(address):
        pass


def test_a_worker_without_duelrank(client, specs):
    def hide(dask_worker):
        import sys

        hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "duelrank"}
        sys.modules["duelrank"] = None
        dask_worker.hidden = hidden

    def show(dask_worker):
        import sys

        del sys.modules["duelrank"]
        sys.modules.update(dask_worker.hidden)

    client.run(hide)
    try:
        with pytest.raises(DuelrankError, match=r"cannot load duelrank .*duelrank\[cluster\]"):
            list(run_all(specs(MGD()), scheduler=client))
    finally:
        client.run(show)


def test_errors_of_other_modules_stay_as_they_are():
    own = [ModuleNotFoundError("No module named 'torch'", name="torch"), RuntimeError("else"), MissingData("no set")]
    assert [dask_module._explained(error) for error in own] == own


def test_without_dask(monkeypatch, specs):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtra, match=r"duelrank\[cluster\]"):
        list(run_all(specs(MGD()), scheduler="tcp://127.0.0.1:8786"))


def test_no_specs_need_no_scheduler():
    assert list(run_all([], scheduler="tcp://127.0.0.1:1")) == []
