"""Workers: a record comes back as it is, so does every error that can be sent, and a worker that dies costs only time."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, fields, replace
from multiprocessing import active_children
from types import ModuleType
from typing import ClassVar

import pytest

from duelrank import DBGD, MGD, DuelrankError, simulate
from duelrank.experiments import load_extension, run_all
from duelrank.experiments.workers import TRIES, LocalProcesses, _cause, pack, perform, unpack, workers_died

EXTENSION = '''
import os, signal
from dataclasses import dataclass
from multiprocessing import parent_process
from pathlib import Path
from duelrank import MGD, register

def fail(how, path):
    if how == "kill" and Path(path).read_text():
        Path(path).write_text(Path(path).read_text()[1:])
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "raise":
        raise ValueError("odd")

@register
@dataclass(frozen=True, repr=False)
class Failing(MGD):
    """Fails in one of several ways, unless it runs in the first process."""

    how: str = ""
    path: str = ""

    def update(self, state, gradient):
        if parent_process() is not None:
            fail(self.how, self.path)
        return super().update(state, gradient)
'''


@pytest.fixture
def failing(tmp_path, clean_registry):
    """Return the class of an extension whose file is gone when the workers start."""
    path = tmp_path / "failing.py"
    path.write_text(EXTENSION, encoding="utf-8")
    module = load_extension(path)
    path.unlink()
    return module.Failing


def notes(error):
    return "".join(error.__notes__)


@pytest.mark.processes
class TestDeaths:
    def test_workers_that_are_killed_change_nothing_to_the_bit(self, specs, contents):
        wanted = specs(MGD(), impressions=3_000, n=3)
        killed = []

        def kill_all_once(done, _total):
            for child in active_children() if done == 1 else []:
                os.kill(child.pid, signal.SIGKILL)
                killed.append(child.pid)

        records = contents(run_all(wanted, workers=2, progress=kill_all_once))
        assert killed
        assert records == contents(run_all(wanted, workers=1))
        assert not active_children()

    def test_a_run_may_take_some_workers_with_it(self, failing, tmp_path, specs, contents):
        lives = tmp_path / "lives"
        lives.write_text("x" * (TRIES - 1), encoding="utf-8")
        wanted = specs(failing(how="kill", path=str(lives)))
        records = contents(LocalProcesses(1).run(wanted))
        assert lives.read_text(encoding="utf-8") == ""
        assert records == contents(run_all(wanted, workers=1))

    def test_a_run_that_always_does_is_given_up_after_the_others(self, failing, tmp_path, specs):
        lives = tmp_path / "lives"
        lives.write_text("x" * 99, encoding="utf-8")
        deadly, *fine = specs(failing(how="kill", path=str(lives)), MGD(), DBGD())
        fine += [replace(spec, seed=2) for spec in fine]
        done = []
        with pytest.raises(DuelrankError, match=r"killed by SIGKILL, most often because memory") as caught:
            done.extend(record.spec for record in run_all([deadly, *fine], workers=2))
        assert set(done) == set(fine)
        assert f"{deadly.id} ({deadly.digest})" in str(caught.value)
        assert len(lives.read_text(encoding="utf-8")) == 99 - TRIES
        assert not active_children()

    @pytest.mark.parametrize(
        ("exitcode", "words"), [(-signal.SIGSEGV, "killed by SIGSEGV"), (3, "exit code 3"), (None, "exit code None")]
    )
    def test_only_a_kill_speaks_of_memory(self, exitcode, words):
        assert words in _cause(exitcode)
        assert "memory" not in _cause(exitcode)

    def test_many_runs_given_up_are_counted(self, specs):
        message = str(workers_died(dict.fromkeys(specs(MGD(), DBGD(), n=2), "killed")))
        assert "one of these runs" in message
        assert "; 1 more." in message


@pytest.mark.processes
class TestErrors:
    def test_an_exception_while_learning(self, failing, specs):
        wanted = specs(failing(how="raise"))
        with pytest.raises(ValueError, match="odd") as caught:
            list(LocalProcesses(1).run(wanted))
        for part in (wanted[0].id, "worker process", "in update", 'raise ValueError("odd")'):
            assert part in notes(caught.value)
        assert not active_children()

    def test_a_class_that_cannot_be_pickled(self, specs):
        @dataclass(frozen=True, repr=False)
        class Locked(MGD):
            lock: ClassVar = threading.Lock()

        wanted = specs(Locked())
        with pytest.raises(TypeError, match=r"cannot pickle .*lock") as caught:
            list(LocalProcesses(1).run(wanted))
        assert wanted[0].id in notes(caught.value)
        assert "workers=1" in notes(caught.value)
        assert not active_children()

    def test_a_module_that_workers_do_not_have(self, specs, monkeypatch):
        @dataclass(frozen=True, repr=False)
        class Local(MGD):
            pass

        Local.__module__, Local.__qualname__ = "only_here", "Local"
        monkeypatch.setitem(sys.modules, "only_here", ModuleType("only_here"))
        sys.modules["only_here"].Local = Local
        wanted = specs(Local())
        with pytest.raises(ModuleNotFoundError, match="No module named 'only_here'") as caught:
            list(LocalProcesses(1).run(wanted))
        assert wanted[0].id in notes(caught.value)
        assert "load_extension" in notes(caught.value)


SCRIPT = """
from __future__ import annotations
from dataclasses import dataclass
from multiprocessing import parent_process
from numba import njit
from duelrank import MGD, RunSpec, Synthetic, parse, register
from duelrank.experiments import run_all
from duelrank.experiments.workers import LocalProcesses

@njit
def half(x):
    return 0.5 * x

class Mishap(Exception):
    pass

@register
@dataclass(frozen=True, repr=False)
class Mine(MGD):
    broken: bool = False

    def update(self, state, gradient):
        if self.broken and parent_process():
            raise Mishap(repr(self))
        return super().update(state, half(gradient))

print("started")
data = Synthetic(n_queries=12)
specs = [RunSpec(Mine(), data, parse("perfect"), seed=seed, impressions=100) for seed in (1, 2)]
here, there = ({r.spec: r.trajectory.tobytes() for r in run_all(specs, workers=n)} for n in (1, 2))
assert here == there
try:
    list(LocalProcesses(1).run([RunSpec(Mine(broken=True), data, parse("perfect"))]))
except Mishap as error:
    print(type(error) is Mishap, error)
"""


@pytest.mark.processes
def test_a_class_of_main_reaches_the_workers(tmp_path):
    """Also in a script without ``if __name__ == "__main__"``, which must not start again in its workers."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["started", "True Mine(broken=True)"]


class Fussy(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, one, two):
        super().__init__(one)

    def __reduce__(self):  # also where a package, such as tblib, has changed how exceptions are sent
        return Fussy, self.args


def raising_in_update(raising):
    @dataclass(frozen=True, repr=False)
    class Failing(MGD):
        size: int = 3

        def update(self, state, gradient):
            raising()

    return Failing(size=4)


def test_a_record_comes_back_to_the_bit(specs):
    spec = specs(MGD())[0]
    back, here = unpack(perform(pack(spec), "a worker"), spec), simulate(spec)
    assert back.spec is spec
    assert back.guard is here.guard is None
    assert back.device == here.device == "cpu"
    assert back.learner is None, "it may be large, and nobody over there asks for it"
    for item in fields(here):
        if item.name not in ("spec", "seconds", "evaluation_seconds", "learner", "guard", "device"):
            assert getattr(back, item.name).tobytes() == getattr(here, item.name).tobytes()


def test_an_error_comes_back_with_its_notes_and_its_traceback(specs):
    def raising():
        error = KeyError("odd")
        error.add_note("of its own")
        raise error

    spec = specs(raising_in_update(raising))[0]
    with pytest.raises(KeyError, match="odd") as caught:
        unpack(perform(pack(spec), "the worker 7"), spec)
    own, ours = caught.value.__notes__
    assert own == "of its own"
    assert ours.startswith(f"in the run {spec.id}, on the worker 7:\nTraceback")
    assert "in raising" in ours


def unpicklable():
    raise ValueError("odd", sys._getframe())


def fussy():
    raise Fussy("it takes", "two")


def leave():
    sys.exit(3)


@pytest.mark.parametrize(
    ("raising", "message"),
    [(unpicklable, r"ValueError: \('odd', <frame"), (fussy, r"Fussy: it takes"), (leave, "SystemExit: 3")],
)
def test_what_cannot_be_sent_or_would_end_this_process_is_told_by_name(specs, raising, message):
    spec = specs(raising_in_update(raising))[0]
    with pytest.raises(DuelrankError, match=message) as caught:
        unpack(perform(pack(spec), "a worker"), spec)
    assert f"in {raising.__name__}" in "".join(caught.value.__notes__)
