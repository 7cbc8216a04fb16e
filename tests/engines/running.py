"""Java programs for tests: class paths from Maven, programs that run to their end, and servers with a log."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest
from filelock import FileLock
from tests.waiting import FOR_EVER

HERE = Path(__file__).parent
#: Where class paths are remembered; the jars are where Maven keeps them.
CACHE = Path(os.environ["DUELRANK_TESTS_KEEP"]) / "engines"
#: A test that never ends fails by pytest's own limit, which is a little longer.
DOWNLOAD_SECONDS = 540.0
RESOLVE = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"
#: Programs live for seconds: the second compiler of the JVM would cost more than it gains.
OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx1g")


def unavailable(reason: str) -> NoReturn:
    """Skip the test, or fail it where DUELRANK_ENGINES says that the engines are required."""
    if os.environ.get("DUELRANK_ENGINES") == "required":
        pytest.fail(f"{reason} (DUELRANK_ENGINES=required)", pytrace=False)
    pytest.skip(reason)


def program(name: str, package: str) -> str:
    """Return the path of a program that has to be installed."""
    found = shutil.which(name)
    if found is None:
        unavailable(f"needs {name} (apt-get install {package})")
    return found


def class_path(engine: str) -> str:
    """Return the class path of tests/engines/<engine>/pom.xml; the first time, Maven downloads the jars."""
    pom = HERE / engine / "pom.xml"
    remembered = CACHE / f"{engine}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:16]}.txt"
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(CACHE / "maven.lock"):  # two Mavens would write the same files
        if not _complete(remembered):
            _resolve(pom, remembered)
        return remembered.read_text().strip()


def _complete(remembered: Path) -> bool:
    return remembered.exists() and all(map(os.path.exists, remembered.read_text().strip().split(os.pathsep)))


def _resolve(pom: Path, file: Path) -> None:
    maven = program("mvn", "maven")
    command = [maven, "--batch-mode", "--quiet", "--file", str(pom), RESOLVE, f"-Dmdep.outputFile={file}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS)
    except subprocess.TimeoutExpired:
        unavailable(f"Maven did not download the jars of {pom.parent.name} in {DOWNLOAD_SECONDS:.0f} seconds")
    if done.returncode != 0:
        unavailable(f"Maven cannot download the jars of {pom.parent.name}: {(done.stdout + done.stderr)[-2000:]}")


class Java:
    """Starts the Java sources of one engine, tests/engines/<engine>/*.java, with the class path of its pom.xml."""

    def __init__(self, engine: str) -> None:
        program("javac", "default-jdk-headless")  # without the compiler, `java` does not take sources
        self.engine = engine
        self.java = program("java", "default-jdk-headless")
        self.class_path = class_path(engine)

    def command(self, main: str, *arguments: object, options: tuple[str, ...] = ()) -> list[str]:
        """Return the command for a source file of the engine's folder, or for a class of the jars."""
        what = str(HERE / self.engine / main) if main.endswith(".java") else main
        return [self.java, *OPTIONS, *options, "-cp", self.class_path, what, *map(str, arguments)]

    def run(self, main: str, *arguments: object, input: str = "") -> str:
        """Run a program to its end and return what it printed."""
        done = subprocess.run(
            self.command(main, *arguments), input=input, capture_output=True, text=True, timeout=FOR_EVER
        )
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
        return done.stdout

    def serve(self, folder: Path, main: str, *arguments: object, options: tuple[str, ...] = ()) -> Server:
        """Start a server that works in a folder of its own; use it in a `with`, which ends it."""
        return Server(self.command(main, *arguments, options=options), folder, self.engine)


class Server:
    """A server process and its log, which a failing test shows."""

    running: list[Server] = []  # noqa: RUF012, all of this process, for the report of a failure

    def __init__(self, command: list[str], folder: Path, name: str, env: Mapping[str, str] | None = None) -> None:
        self.name, self.log = name, folder / "server.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env and {**os.environ, **env}
            )

    def __enter__(self) -> Server:
        self.running.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.running.remove(self)
        self.process.kill()  # what it wrote goes with its folder
        self.process.wait()

    def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until a condition holds and return what it gave; fail with the log if the server ends before."""
        end = time.monotonic() + FOR_EVER
        while not (found := condition()):
            alive = self.process.poll() is None and time.monotonic() < end
            assert alive, f"{self.name} is not ready (exit code {self.process.returncode}):\n{self.tail()}"
            time.sleep(0.05)
        return found

    def printed(self, label: str) -> str:
        """Wait for a line of the log that begins with a label and return the rest of it."""

        def line() -> str | None:
            lines = self.log.read_text(errors="replace").splitlines(keepends=True)
            found = [each for each in lines if each.startswith(label) and each.endswith("\n")]
            return found[0].removeprefix(label).strip() if found else None

        return self.until(line)

    def tail(self, characters: int = 8000) -> str:
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-characters:]


class Refused(Exception):
    """An engine answered a request with an error."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"HTTP {status}: {body}")
        self.status, self.body = status, body


def ask(url: str, body: object = None, method: str | None = None, **parameters: object) -> Any:
    """Send a request with a JSON body (bytes and texts go as they are) and return the JSON of the answer."""
    if parameters:
        url = f"{url}?{urllib.parse.urlencode(parameters, doseq=True)}"
    if not isinstance(body, bytes | None):
        body = (body if isinstance(body, str) else json.dumps(body)).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=FOR_EVER) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            raise Refused(error.code, error.read().decode(errors="replace")) from None
