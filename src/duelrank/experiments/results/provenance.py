"""Collects the provenance of results: data, seeds, versions, machine and time."""

from __future__ import annotations

import hashlib
import os
import platform
from collections import Counter
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from math import ceil
from pathlib import Path

from duelrank import __version__
from duelrank.datasets import Fold
from duelrank.experiments.results.frame import Frame

__all__ = ["duration", "fingerprint", "machine", "provenance", "versions"]

_PACKAGES = ("numpy", "scipy", "numba", "matplotlib")
_SAMPLED_ROWS = 1000  # number of documents whose features are hashed per split; all labels and queries are hashed


def fingerprint(fold: Fold) -> str:
    """Return a hash, twenty hexadecimal digits, of the queries, the labels and a thousand documents of each split.

    It distinguishes two data sets that were imported from different files under the same name.
    """
    digest = hashlib.blake2b(digest_size=10)
    for split in (fold.train, fold.validation, fold.test):
        sampled = split.features[:: ceil(split.n_documents / _SAMPLED_ROWS) or 1]
        for array in (split.offsets, split.labels, sampled):
            digest.update(array.tobytes())
    return digest.hexdigest()


def provenance(frame: Frame, wall_seconds: float | None = None, command: str = "") -> dict[str, str]:
    """Return the facts about the runs, this machine and the time they took, for the end of a report."""
    folds, seeds = (_ranges(sorted(set(frame[name].tolist()))) for name in ("fold", "seed"))
    busy = float(frame["seconds"].sum() + frame["evaluation_seconds"].sum())
    found = {
        "Runs": f"{len(frame):,}",
        "Data sets": ", ".join(dict.fromkeys(frame["dataset"].tolist())),
        "Folds": folds,
        "Seeds": seeds,
        "Impressions per run": " and ".join(f"{n:,}" for n in sorted(set(frame["impressions"].tolist()))),
        "List length": " and ".join(str(n) for n in sorted(set(frame["length"].tolist()))),
        "Evaluated on": " and ".join(f"{name} queries" for name in sorted(set(frame["split"].tolist()))),
        "Time in runs": f"{duration(busy)}, evaluation included, summed over processes",
        "Wall time": f"{duration(wall_seconds)}, over all sessions that made runs" if wall_seconds else "",
        "Versions": versions(),
        "Machine": machine(),
        "Runs made on": _devices(frame),
        "Command": command,
    }
    return {name: value for name, value in found.items() if value}


def _devices(frame: Frame) -> str:
    """Return how many runs each device has made; nothing if all were made by the CPU engine."""
    counts = Counter(frame["device"].tolist() if "device" in frame.columns else ())
    return "" if set(counts) <= {"cpu"} else ", ".join(f"{device} ({n:,})" for device, n in sorted(counts.items()))


def versions() -> str:
    """Return the versions of Python and of the numerical packages."""
    found = [f"Python {platform.python_version()}", f"duelrank {__version__}"]
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:  # SciPy and matplotlib are extras
            continue
    return ", ".join(found)


def machine() -> str:
    """Return processor, number of cores and operating system."""
    cores = os.cpu_count() or 1
    return f"{_processor()}, {cores} core{'s' if cores > 1 else ''}, {_system()}"


def duration(seconds: float) -> str:
    """Return a duration as readable text.

    Examples
    --------
    >>> duration(3.21), duration(75), duration(7_260)
    ('3.2 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        if models:
            return models[0]
    return platform.processor() or platform.machine()


def _system() -> str:
    with suppress(OSError):
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    return f"{platform.system()} {platform.release()}"


def _ranges(numbers: list[int]) -> str:
    """Return sorted whole numbers as text, with consecutive numbers as ranges."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]}–{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
