"""The command line as a process: entry point, extensions in workers, encoding of the terminal."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

EXTENSION = '''
"""A user's own file."""
from dataclasses import dataclass
from multiprocessing import parent_process
from duelrank import MGD, alias, register
from duelrank.core.errors import InvalidValue

@register
@dataclass(frozen=True, repr=False)
class Mine(MGD):
    """My own algorithm."""

alias("mine", Mine())

@register
@dataclass(frozen=True, repr=False)
class Shy(MGD):
    """Refuses to learn in a worker."""

    def update(self, state, gradient):
        if parent_process() is not None:
            raise InvalidValue("not while I am in a worker")
        return super().update(state, gradient)
'''


def duelrank_process(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "duelrank", *map(str, words)],
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"} | environment,
        timeout=300,
    )


@pytest.fixture
def extension(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(EXTENSION, encoding="utf-8")
    return path


def test_own_algorithms_reach_the_workers(extension):
    words = ("compare", "mine", "mgd", "--users", "perfect", "--runs", 1, "--workers", 2, "--impressions", 40, "--json")
    done = duelrank_process("--load", extension, *words)
    assert done.returncode == 0, done.stderr
    mine, mgd = json.loads(done.stdout)["runs"]
    assert (mine["algorithm"], mgd["algorithm"]) == ("mine", "mgd")
    assert mine["online_performance"] == mgd["online_performance"]


def test_an_error_in_a_worker_is_one_line(extension):
    words = ("compare", "mgd", "Shy", "--users", "perfect", "--workers", 2, "--impressions", 40, "--json")
    done = duelrank_process("--load", extension, *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "error: not while I am in a worker\n")


def test_the_environment_names_files_as_well(extension):
    done = duelrank_process("list", "algorithms", DUELRANK_LOAD=str(extension))
    assert "My own algorithm." in done.stdout


def test_characters_that_the_terminal_lacks():
    done = duelrank_process("run", "mgd", "--impressions", 20, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "nDCG@10" in done.stdout
