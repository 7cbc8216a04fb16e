"""Runs on a Dask cluster: the same records to the bit, whoever dies on the way, and clear words where there is no cluster."""

import os
import socketserver
import sys
import threading
from contextlib import closing

import pytest

from duelrank import DBGD, MGD, DuelrankError, RunSpec, parse
from duelrank.errors import InvalidValue, MissingData, MissingExtra, UnreachableScheduler
from duelrank.experiments import cluster as cluster_module
from duelrank.experiments import connecting, remote, run_all
from duelrank.experiments.connecting import connect
from duelrank.experiments.extensions import VARIABLE, load_extension
from duelrank.testing.tiny import Tiny

distributed = pytest.importorskip("distributed", reason="the extra 'cluster' is not installed")
dask = pytest.importorskip("dask")

# Dask leaves sockets and event loops to the garbage collector when a cluster ends; they are not ours to close.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NAMES = ("online", "offline", "update_norms", "trajectory")


def local_cluster(n_workers):
    """A cluster that gives up a run after the second worker that it has killed: a new worker takes seconds."""
    here = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with dask.config.set({"distributed.scheduler.allowed-failures": 1}):
        return distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, silence_logs=50, **here
        )


@pytest.fixture(scope="module")
def cluster():
    with local_cluster(2) as cluster:
        yield cluster


def specs(*algorithms, impressions=300, n=2):
    user = parse("perfect")
    return [RunSpec(a, Tiny(), user, fold=f, impressions=impressions) for f in range(1, n + 1) for a in algorithms]


def contents(records):
    return {record.spec: [getattr(record, name).tobytes() for name in NAMES] for record in records}


def test_equal_to_this_process_to_the_bit(cluster):
    wanted = specs(MGD(), DBGD(), n=3)
    told = []
    records = run_all(wanted, scheduler=cluster.scheduler_address, progress=lambda *now: told.append(now))
    assert contents(records) == contents(run_all(wanted, workers=1))
    assert told == [(done, len(wanted)) for done in range(len(wanted) + 1)]


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


@pytest.fixture(scope="module")
def own_file(tmp_path_factory):
    """Return a user's own file, one for all tests: workers keep what they have loaded."""
    path = tmp_path_factory.mktemp("own") / "deadly_far.py"
    path.write_text(DEADLY, encoding="utf-8")
    return path


@pytest.fixture
def deadly(own_file, tmp_path, monkeypatch):
    """Return an algorithm of a user's own file that kills so many workers."""
    monkeypatch.setenv(VARIABLE, str(own_file))
    module = load_extension(own_file)

    def kill(workers):
        (tmp_path / "lives").write_text("x" * workers, encoding="utf-8")
        return module.DeadlyFar(path=str(tmp_path / "lives"))

    return kill


def test_a_killed_worker_changes_nothing_to_the_bit(cluster, deadly, tmp_path):
    wanted = specs(deadly(2), MGD(), DBGD())
    records = contents(run_all(wanted, scheduler=cluster.scheduler_address))
    assert (tmp_path / "lives").read_text(encoding="utf-8") == ""
    assert records == contents(run_all(wanted, workers=1))


def test_a_run_that_always_kills_is_given_up_after_the_others(cluster, deadly):
    fatal, *fine = specs(deadly(99), MGD(), DBGD(), n=1)
    done = []
    with pytest.raises(DuelrankError, match="killed each worker") as caught:
        done.extend(record.spec for record in run_all([fatal, *fine], scheduler=cluster.scheduler_address))
    assert set(done) == set(fine)
    assert fatal.id in str(caught.value)


def test_an_own_file_that_was_changed_is_not_run_as_it_was(cluster, deadly, own_file):
    wanted = specs(deadly(0), n=1)
    assert len(list(run_all(wanted, scheduler=cluster.scheduler_address))) == 1
    with own_file.open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    with pytest.raises(DuelrankError, match=r"deadly_far\.py .* restart the workers"):
        list(run_all(wanted * 2, scheduler=cluster.scheduler_address))
    own_file.write_text(DEADLY, encoding="utf-8")


def test_errors_arrive_as_themselves(cluster):
    fine = specs(MGD(), n=1)[0]
    wrong = RunSpec(MGD(), parse("Imported('mq2008')"), parse("perfect"), impressions=300)
    with pytest.raises(MissingData, match="mq2008") as caught:
        list(run_all([fine, wrong], scheduler=cluster.scheduler_address))
    assert "on the worker tcp://" in "".join(caught.value.__notes__)


def test_stopping_early_stops_the_workers_in_mid_run(cluster):
    short, *long = specs(MGD(), DBGD(), impressions=300)
    long = [RunSpec(spec.algorithm, spec.dataset, spec.user, impressions=10_000_000, seed=9) for spec in long]
    with closing(run_all([short, *long], scheduler=cluster.scheduler_address)) as records:
        next(records)
    with distributed.Client(cluster, set_as_default=False) as client:
        assert client.run(wait_until_idle) == dict.fromkeys(client.nthreads(), True)


async def wait_until_idle(dask_worker):
    from asyncio import sleep
    from time import monotonic

    end = monotonic() + 60
    while dask_worker.state.executing_count or dask_worker.state.tasks:
        if monotonic() > end:
            return False
        await sleep(0.02)
    return True


def test_another_version_on_a_worker(cluster, monkeypatch):
    monkeypatch.setattr("duelrank.__version__", "9.9")
    with pytest.raises(DuelrankError, match=r"the worker tcp://\S+ has duelrank 0.*9\.9 asked"):
        list(run_all(specs(MGD()), scheduler=cluster.scheduler_address))


def test_one_blas_thread(monkeypatch):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    for name in remote.ONE_THREAD:
        monkeypatch.setenv(name, "7")
    with threadpoolctl.threadpool_limits():  # gives back what the worker's function takes
        remote._one_thread.__wrapped__()
        assert {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"} <= {1}
    assert {os.environ[name] for name in remote.ONE_THREAD} == {"1"}


def test_a_scheduler_that_goes_away(monkeypatch):
    monkeypatch.setattr(connecting, "_SECONDS", 1.0)
    with local_cluster(1) as cluster:
        wanted = specs(MGD(), impressions=300, n=1) + specs(MGD(), impressions=10_000_000, n=1)
        records = run_all(wanted, scheduler=cluster.scheduler_address)
        next(records)
        cluster.close()
        with pytest.raises(UnreachableScheduler, match="is gone"):
            list(records)


@pytest.mark.parametrize("address", ["", "nonsense", "tcp://127.0.0.1", "tcp:/127.0.0.1:8786", "tcp://a b:8786"])
def test_what_is_no_address(address):
    with pytest.raises(InvalidValue, match="tcp://host:8786"):
        list(run_all(specs(MGD()), scheduler=address))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "127.0.0.1:1", "pigeon://127.0.0.1:1"])
def test_nobody_answers(address, monkeypatch):
    monkeypatch.setattr(connecting, "_SECONDS", 0.5)
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


def test_a_worker_without_duelrank(cluster):
    def hide(dask_worker):
        import sys

        hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "duelrank"}
        sys.modules["duelrank"] = None
        dask_worker.hidden = hidden

    def show(dask_worker):
        import sys

        del sys.modules["duelrank"]
        sys.modules.update(dask_worker.hidden)

    with distributed.Client(cluster, set_as_default=False) as client:
        client.run(hide)
        try:
            with pytest.raises(DuelrankError, match=r"cannot load duelrank .*duelrank\[cluster\]"):
                list(run_all(specs(MGD()), scheduler=cluster.scheduler_address))
        finally:
            client.run(show)


def test_errors_of_other_modules_stay_as_they_are():
    own = [ModuleNotFoundError("No module named 'torch'", name="torch"), RuntimeError("else"), MissingData("no set")]
    assert [cluster_module._in_our_words(error) for error in own] == own


def test_without_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtra, match=r"duelrank\[cluster\]"):
        list(run_all(specs(MGD()), scheduler="tcp://127.0.0.1:8786"))


def test_no_specs_need_no_scheduler():
    assert list(run_all([], scheduler="tcp://127.0.0.1:1")) == []
