"""The executor: all runs, once each, equal to the bit wherever they run; errors arrive as themselves."""

import os
import signal
import sys
from dataclasses import replace
from multiprocessing import active_children

import pytest

from duelrank import parse, simulate
from duelrank.core.errors import InvalidValue
from duelrank.experiments import Grid, executors, run_all, workers

DATASET = parse("synthetic(n_queries=20)")


def grid(runs=3):
    return Grid((parse("mgd"), parse("dbgd-dsp")), DATASET, (parse("perfect"),), runs=runs, impressions=40)


@pytest.mark.processes
def test_processes_equal_this_process_to_the_bit():
    specs = grid().specs()
    told = []
    apart = {record.spec: record for record in run_all(specs, workers=2, progress=lambda *now: told.append(now))}
    assert told == [(done, len(specs)) for done in range(len(specs) + 1)]
    assert apart.keys() == set(specs)
    for spec in specs:
        here = simulate(spec)
        for name in ("online", "offline", "update_norms", "weights"):
            assert getattr(here, name).tobytes() == getattr(apart[spec], name).tobytes()


@pytest.mark.processes
@pytest.mark.parametrize("n", [1, 2])
def test_errors_arrive_as_themselves_name_their_run_and_leave_no_worker(n):
    fine = grid(runs=1).specs()[0]
    wrong = replace(fine, fold=9)
    with pytest.raises(InvalidValue, match="from 1 to 5") as caught:  # the warm-up opens the fold of the first only
        list(run_all([fine, wrong], workers=n))
    assert f"in the run {wrong.id}" in "".join(caught.value.__notes__)
    assert not active_children()


@pytest.mark.processes
def test_stopping_early_ends_the_workers():
    records = workers.LocalProcesses(1).run(grid().specs())
    next(records)
    records.close()
    assert not active_children()


def test_workers_inherit_settings_that_are_restored_here(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before, main = dict(os.environ), sys.modules["__main__"]
    handler = signal.getsignal(signal.SIGINT)
    values = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with workers._environment(values), workers._interrupts_ignored(), workers._main_hidden():
        assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "1"
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert not hasattr(sys.modules["__main__"], "__file__")
    assert dict(os.environ) == before
    assert signal.getsignal(signal.SIGINT) is handler
    assert sys.modules["__main__"] is main


@pytest.mark.parametrize(("wanted", "n_specs", "used"), [(4, 2, 2), (1, 9, 1), (3, 9, 3), (None, 1, 1), (2, 0, 1)])
def test_never_more_workers_than_specs(wanted, n_specs, used):
    assert executors._n_workers(wanted, n_specs) == used


def test_no_specs_no_records():
    assert list(run_all([])) == []


def test_either_workers_or_a_scheduler():
    with pytest.raises(InvalidValue, match="exclude each other"):
        list(run_all([], workers=2, scheduler="tcp://127.0.0.1:8786"))
