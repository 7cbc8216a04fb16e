"""A `duelrank serve` in a process of its own, to be measured, restarted and killed."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

HERE = Path(__file__).parent


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Process:
    """A program that answers HTTP on a port of this machine; its output goes to a file."""

    def __init__(self, command: list[str], port: int, ready: str, log: Path) -> None:
        self.command, self.port, self.ready, self.log = command, port, ready, log
        self.url = f"http://127.0.0.1:{port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, patience: float = 120.0) -> float:
        """Start it, and return the seconds until it was ready."""
        began = time.perf_counter()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        while time.perf_counter() < began + patience:
            if self.process.poll() is not None:
                raise RuntimeError(f"{' '.join(self.command)} ended: {self.log.read_text()[-2000:]}")
            try:
                urllib.request.urlopen(self.url + self.ready, timeout=5).close()
                return time.perf_counter() - began
            except urllib.error.HTTPError as error:
                if error.code != 503:
                    raise
            except OSError:
                pass
            time.sleep(0.02)
        raise RuntimeError(f"not ready after {patience} s: {self.log.read_text()[-2000:]}")

    def signal(self, number: int) -> None:
        """Send a signal, and wait until the process has ended."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(60)
            self.process = None

    def kill(self) -> None:
        """End all its processes as a power cut would."""
        for each in self._processes()[1:]:
            each.kill()
        self.signal(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end."""
        self.signal(signal.SIGTERM)

    def memory(self) -> list[float]:
        """Return the megabytes that each of its processes holds: the supervisor, those that serve, and the learner."""
        return [float(each.memory_info().rss) / 1e6 for each in self._processes()]

    def computed(self) -> float:
        """Return the seconds that its processes have been computing, over all threads."""
        times = [each.cpu_times() for each in self._processes()]
        return float(sum(each.user + each.system for each in times))

    def _processes(self) -> list[psutil.Process]:
        """Return its processes, the first one first, without the tracker of resources that multiprocessing starts."""
        if self.process is None:
            return []
        own = psutil.Process(self.process.pid)
        return [own, *(each for each in own.children() if "resource_tracker" not in " ".join(each.cmdline()))]

    def child(self, role: str) -> psutil.Process | None:
        """Return the newest process of a role, such as "worker 1" or "learner"; None if it has ended."""
        found = re.findall(rf"{role}: process (\d+)", self.log.read_text())
        return psutil.Process(int(found[-1])) if found and psutil.pid_exists(int(found[-1])) else None

    def get(self, path: str) -> Any:
        """Return the JSON at a path."""
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return json.load(answer)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind:
            sys.stderr.write(self.log.read_text()[-5000:])
        self.kill() if kind else self.stop()


def duelrank(*arguments: str) -> list[str]:
    """Return the command line of a duelrank command."""
    return [sys.executable, "-m", "duelrank", *arguments]


def service(store: str, folder: Path, *options: str) -> Process:
    """Return a service on a store, not started yet."""
    port = free_port()
    command = duelrank("serve", "--store", store, "--port", str(port), *options)
    return Process(command, port, "/readyz", folder / "service.log")


def bare(folder: Path) -> Process:
    """Return the endpoint to compare with, not started yet."""
    port = free_port()
    return Process([sys.executable, str(HERE / "bare.py"), str(port)], port, "/ready", folder / "bare.log")


def load(target: Process, *options: object) -> dict[str, Any]:
    """Run the load generator against a process; return its measurements and the CPU time of the process."""
    command = [sys.executable, str(HERE / "load.py"), target.url, *map(str, options)]
    before = target.computed()
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:] + target.log.read_text()[-2000:])
    result: dict[str, Any] = json.loads(done.stdout)
    result["computed"] = target.computed() - before
    return result
