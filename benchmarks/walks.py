"""Counts the files of the package that a reader has to follow for one impression, request, suite, alarm and export.

A walk is traced with `sys.setprofile` in all threads; a file counts if one of its functions is called, compiled kernels included.
Each walk runs in a process of its own, after the same calls once without tracing, so that imports do not count. The script uses
the command line, HTTP and `duelrank.simulate` alone, so it also counts other states of the sources:
``python benchmarks/walks.py /tmp/before/src``.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).resolve().parents[1] / "src"
ROOMS = re.compile(r"(serving|service|storage)/")
SMALL = 60
FEATURES = ["a", "b", "c"]
#: Seconds of a visit, in which the service saves the weights and does its periodic work at least once.
SETTLED = 2.5


class Walk:
    """The files of the package whose functions were called while it was recording."""

    def __init__(self) -> None:
        import duelrank

        self.root = str(Path(str(duelrank.__file__)).parent) + os.sep
        self.files: set[str] = set()
        self.recording = False

    def enter(self, frame: FrameType, event: str, _: object) -> None:
        """Note the file of a function that is called; that a module is imported does not count."""
        code = frame.f_code
        if self.recording and event == "call" and code.co_name != "<module>":
            self.note(code.co_filename)

    def note(self, file: str) -> None:
        """Note a file, if it is a module of the package."""
        if file.startswith(self.root) and file.endswith(".py"):
            self.files.add(file.removeprefix(self.root))

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Record the calls of all threads within the block, and forget those recorded before."""
        self.files.clear()
        self.recording = True
        yield
        self.recording = False

    def trace(self) -> None:
        """Trace this thread and all that are started later."""
        threading.setprofile(self.enter)
        sys.setprofile(self.enter)


def command(*arguments: str) -> None:
    """Run a command of duelrank in this process, without its output."""
    from duelrank.cli import app

    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        app(list(arguments), standalone_mode=False)


def impression(walk: Walk, folder: Path) -> None:
    """Trace one impression in the middle of a run: from one call of `Learner.rank` to the next."""
    from duelrank import simulate

    ranked = 0

    def enter(frame: FrameType, event: str, argument: object) -> None:
        nonlocal ranked
        code = frame.f_code
        if event == "call" and code.co_name == "rank" and code.co_filename == f"{walk.root}learner.py":
            ranked += 1
            walk.recording = ranked == 700
            caller = frame.f_back
            while walk.recording and caller is not None:  # what called it is on the way, too
                if "simulat" in caller.f_code.co_filename:
                    walk.note(caller.f_code.co_filename)
                caller = caller.f_back
        walk.enter(frame, event, argument)

    for profile in (None, enter):
        sys.setprofile(profile)
        simulate("mgd-dsp", "synthetic(n_queries=50)", "perfect", impressions=1000)
    sys.setprofile(None)


def suite(walk: Walk, folder: Path) -> None:
    """Trace a suite with its report."""
    options = ("--runs", "1", "--impressions", "30", "--workers", "1", "--out")
    command("reproduce", "quick", *options, str(folder / "first"))
    walk.trace()
    with walk():
        command("reproduce", "quick", *options, str(folder / "second"))


def export(walk: Walk, folder: Path) -> None:
    """Trace the export of a snapshot for Solr."""
    from duelrank import Learner

    learner = Learner("mgd-dsp", feature_names=FEATURES, weights=dict.fromkeys(FEATURES, 0.5))
    model = folder / "model.npz"
    model.write_bytes(learner.snapshot().to_bytes())
    arguments = ("export", str(model), "--format", "solr", "--name", "shop", "--out", str(folder / "model.json"))
    command(*arguments)
    walk.trace()
    with walk():
        command(*arguments)


class Browser:
    """Sends requests to the service of this process, from a thread that is not traced."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"

    def ask(self, path: str, **body: Any) -> Any:
        """Return the answer to a request: a POST if there is a body."""
        data = json.dumps(body).encode() if body else None
        with urllib.request.urlopen(urllib.request.Request(self.address + path, data), timeout=60) as answer:
            return json.load(answer)

    def wait(self) -> None:
        """Wait until the service is ready."""
        while True:
            try:
                urllib.request.urlopen(f"{self.address}/readyz", timeout=60).close()
                return
            except OSError:
                time.sleep(0.05)

    def visit(self, number: int) -> None:
        """Show one list, click one document, and wait until the service has learned from it and saved the weights."""
        rows = {"d1": [3.0, 2.0, 1.0], "d2": [2.0, 1.0, 3.0], "d3": [1.0, 3.0, 2.0]}
        documents = [{"id": name, "features": row} for name, row in rows.items()]
        self.ask("/v1/rankers/shop/rank", impression_id=f"i{number}", documents=documents)
        event = {"impression_id": f"i{number}", "user_id": f"user {number}", "clicks": ["d1"], "close": True}
        self.ask("/v1/rankers/shop/feedback", **event)
        time.sleep(SETTLED)


def served(walk: Walk, folder: Path, drive: Callable[[Browser], None]) -> None:
    """Run `duelrank serve` in this process while a function sends requests; then stop it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    failures: list[BaseException] = []

    def work() -> None:
        sys.setprofile(None)
        try:
            browser = Browser(port)
            browser.wait()
            drive(browser)
        except BaseException as error:
            failures.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=work)
    walk.trace()
    thread.start()
    command("serve", "--store", f"sqlite:///{folder}/walk.db", "--port", str(port), "--rate", "0")
    thread.join()
    if failures:
        raise failures[0]


def request(walk: Walk, folder: Path) -> None:
    """Trace the first list, after three others, whose click changes the weights: from the request until they are saved."""

    def drive(browser: Browser) -> None:
        browser.ask("/v1/rankers", name="shop", algorithm="mgd-dsp", features=FEATURES)
        updates = 0
        for number in range(200):
            before = updates
            with walk():
                browser.visit(number)
            updates = browser.ask("/v1/rankers/shop")["updates"]
            if number > 2 and updates > before:
                return
        raise AssertionError("the weights did not change")

    served(walk, folder, drive)


def alarm(walk: Walk, folder: Path) -> None:
    """Trace the list whose click makes a guard raise an alarm: users prefer the client's order to the learned one."""
    guard = {"share": 1.0, "false_alarm_every": 10.0, "promote": [1.0]}
    start = {"weights": {"a": -5.0, "b": 0.0, "c": 0.0}}

    def drive(browser: Browser) -> None:
        settings = {"algorithm": "mgd-dsp", "features": FEATURES, "guard": guard, "start": start}
        browser.ask("/v1/rankers", name="shop", representation="raw", length=2, **settings)
        for number in range(200):
            with walk():
                browser.visit(number)
            if browser.ask("/v1/rankers/shop/guard")["alarms"]:
                return
        raise AssertionError("there was no alarm")

    served(walk, folder, drive)


WALKS: dict[str, tuple[str, Callable[[Walk, Path], None]]] = {
    "impression": ("one simulated impression of mgd-dsp", impression),
    "request": ("HTTP rank and feedback, until the weights are saved", request),
    "suite": ("duelrank reproduce quick", suite),
    "alarm": ("rank and feedback that raise an alarm of the guard", alarm),
    "export": ("duelrank export", export),
}


def modules(sources: Path) -> dict[str, str]:
    """Return the text of each module by its dotted name; packages are those that end with ``__init__``."""
    return {
        ".".join(path.relative_to(sources).with_suffix("").parts): path.read_text()
        for path in sorted((sources / "duelrank").rglob("*.py"))
    }


def imports(name: str, text: str) -> Iterator[str]:
    """Yield the dotted names that a module imports, relative ones in full."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = ".".join(name.split(".")[: -node.level]) if node.level else ""
            base = ".".join(filter(None, (above, node.module)))
            yield from (f"{base}.{each.name}" for each in node.names)


def sizes(sources: Path) -> dict[str, int]:
    """Count modules and lines of the sources, small modules, and those that one other module imports."""
    texts = modules(sources)
    plain = {name for name in texts if not name.endswith("__init__")}
    importers: dict[str, set[str]] = {name: set() for name in plain}
    for name, text in texts.items():
        for found in imports(name, text):
            for module in (found, found.rpartition(".")[0]):
                if module in plain and module != name:
                    importers[module].add(name)
    return {
        "modules, packages included": len(texts),
        "modules": len(plain),
        "lines": sum(text.count("\n") for text in texts.values()),
        "modules with one importer": sum(len(each) == 1 for each in importers.values()),
        f"modules of at most {SMALL} lines": sum(texts[name].count("\n") <= SMALL for name in plain),
    }


def traced(name: str, sources: Path) -> list[str]:
    """Run a walk in a process of its own with these sources, and return its files."""
    environment = os.environ | {"PYTHONPATH": str(sources)}
    done = subprocess.run(
        [sys.executable, __file__, "--walk", name], stdout=subprocess.PIPE, check=True, env=environment
    )
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="?", type=Path, default=HERE, help="folder that contains the package")
    parser.add_argument("--files", action="store_true", help="also list the files of each walk")
    parser.add_argument("--walk", choices=WALKS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.walk:
        walk = Walk()
        with tempfile.TemporaryDirectory(prefix="duelrank-walk-") as folder:
            WALKS[options.walk][1](walk, Path(folder))
        print(json.dumps(sorted(walk.files)))
        return
    for name, (what, _) in WALKS.items():
        files = traced(name, options.sources.resolve())
        rooms = sum(bool(ROOMS.match(file)) for file in files)
        print(
            f"{what:54} {len(files):6} files" + (f", {rooms} of them in service and storage" if rooms else ""),
            flush=True,
        )
        if options.files:
            print("".join(f"    {file}\n" for file in files))
    for what, number in sizes(options.sources).items():
        print(f"{what:54} {number:6,}")


if __name__ == "__main__":
    main()
