"""The pool: a worker that dies costs its run some time, and nobody anything else."""

import os
import signal
from dataclasses import replace
from multiprocessing import active_children

import pytest

from duelrank import DBGD, MGD, DuelrankError, RunSpec, parse
from duelrank.experiments import run_all
from duelrank.experiments.pool import TRIES, Pool, given_up
from duelrank.testing.tiny import Tiny

NAMES = ("online", "offline", "update_norms", "trajectory")

EXTENSION = '''
import os, signal
from dataclasses import dataclass
from multiprocessing import parent_process
from pathlib import Path
from duelrank import MGD, register

@register
@dataclass(frozen=True, repr=False)
class Deadly(MGD):
    """Kills the process it runs in, unless that is the first one, as often as its file has lines to take away."""

    path: str = ""

    def update(self, state, gradient):
        left = Path(self.path).read_text()
        if parent_process() is not None and left:
            Path(self.path).write_text(left[1:])
            os.kill(os.getpid(), signal.SIGKILL)
        return super().update(state, gradient)


@register
@dataclass(frozen=True, repr=False)
class Unspeakable(MGD):
    """Raises what cannot be sent anywhere."""

    def update(self, state, gradient):
        if parent_process() is not None:
            raise ValueError("odd", lambda: None)
        return super().update(state, gradient)
'''


@pytest.fixture
def extension(tmp_path, monkeypatch, clean_registry):
    from duelrank.experiments.extensions import VARIABLE, load_extension

    path = tmp_path / "deadly.py"
    path.write_text(EXTENSION, encoding="utf-8")
    monkeypatch.setenv(VARIABLE, str(path))
    return load_extension(path)


def specs(*algorithms, impressions=300, n=2):
    user = parse("perfect")
    return [RunSpec(a, Tiny(), user, fold=f, impressions=impressions) for f in range(1, n + 1) for a in algorithms]


def contents(records):
    return {record.spec: [getattr(record, name).tobytes() for name in NAMES] for record in records}


def test_workers_that_are_killed_change_nothing_to_the_bit():
    wanted = specs(MGD(), DBGD(), impressions=3_000)
    killed = []

    def kill_all_once(done, _total):
        for child in active_children() if done == 1 else []:
            os.kill(child.pid, signal.SIGKILL)
            killed.append(child.pid)

    records = contents(run_all(wanted, workers=2, progress=kill_all_once))
    assert killed
    assert records == contents(run_all(wanted, workers=1))
    assert not active_children()


def test_a_run_may_take_some_workers_with_it(extension, tmp_path):
    lives = tmp_path / "lives"
    lives.write_text("x" * (TRIES - 1), encoding="utf-8")
    wanted = specs(extension.Deadly(path=str(lives)), MGD(), n=1)
    records = contents(run_all(wanted, workers=2))
    assert lives.read_text(encoding="utf-8") == ""
    assert records == contents(run_all(wanted, workers=1))


def test_a_run_that_always_does_is_given_up_after_the_others(extension, tmp_path):
    lives = tmp_path / "lives"
    lives.write_text("x" * 99, encoding="utf-8")
    deadly, *fine = specs(extension.Deadly(path=str(lives)), MGD(), DBGD(), n=1)
    fine += [replace(spec, seed=2) for spec in fine]
    done = []
    with pytest.raises(DuelrankError, match="memory") as caught:
        done.extend(record.spec for record in run_all([deadly, *fine], workers=2))
    assert set(done) == set(fine)
    assert deadly.id in str(caught.value)
    assert deadly.digest in str(caught.value)
    assert len(lives.read_text(encoding="utf-8")) == 99 - TRIES
    assert not active_children()


def test_errors_that_do_not_travel_are_told_in_words(extension):
    with pytest.raises(DuelrankError, match=r"ValueError: \('odd', .*cannot be sent"):
        list(Pool(2).run(specs(extension.Unspeakable(), MGD(), n=1)))


def test_many_runs_given_up_are_counted():
    words = str(given_up(specs(MGD(), DBGD())))
    assert words.startswith("4 runs killed")
    assert "and 1 more" in words
