"""``duelrank info``: shows the facts about this installation that a bug report needs."""

from __future__ import annotations

import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

import typer

from duelrank import __version__
from duelrank.cli.console import print_json
from duelrank.cli.options import JsonOption

#: A requirement of the package: its name and, if it is optional, the extra.
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)[^;]*(?:;.*\bextra == ['\"](?P<extra>[\w-]+)['\"])?")
_FOR_DEVELOPERS = {"test", "dev", "docs"}


def info(as_json: JsonOption = False) -> None:
    """Show versions, folders and the machine, for a bug report."""
    facts = _facts()
    if as_json:
        print_json(facts)
        return
    extras = facts.pop("extras")
    for name, value in facts.items():
        typer.echo(f"{name}: {_text(value)}")
    for name, value in extras.items():
        typer.echo(f"extra {name}: {_text(value)}")


def versions() -> str:
    """Return the versions of duelrank, Python, numpy, numba and llvmlite in one line."""
    names = ("numpy", "numba", "llvmlite")
    return ", ".join(
        [
            f"duelrank {__version__}",
            f"Python {platform.python_version()}",
            *(f"{name} {_version(name)}" for name in names),
        ]
    )


def _facts() -> dict[str, Any]:
    from duelrank.core.home import home

    core, extras = _requirements()
    return {
        "duelrank": __version__,
        "folder": str(Path(__file__).parents[1]),
        "python": {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "executable": sys.executable,
        },
        "platform": platform.platform(),
        "processors": _processors(),
        "home": {"folder": str(home()), "DUELRANK_HOME": os.environ.get("DUELRANK_HOME")},
        "kernels": _kernels(),
        "packages": core,
        "extras": extras,
    }


def _requirements() -> tuple[dict[str, str | None], dict[str, dict[str, str | None]]]:
    """Return the versions of the packages that duelrank needs, and of those that each extra needs; None if not installed.

    They are read from the metadata of the package; llvmlite and SciPy are always included.
    """
    core = dict.fromkeys(("numpy", "numba", "llvmlite", "scipy"))
    extras: dict[str, dict[str, str | None]] = {}
    for requirement in _metadata():
        found = _REQUIREMENT.match(requirement)
        assert found is not None, requirement
        name, extra = found["name"], found["extra"]
        if extra in _FOR_DEVELOPERS or name == "duelrank":
            continue
        (extras.setdefault(extra, {}) if extra else core)[name] = None
    for group in (core, *extras.values()):
        group.update({name: _version(name) for name in group})
    return core, extras


def _metadata() -> list[str]:
    from importlib.metadata import PackageNotFoundError, requires  # imported here, because it is slow

    try:
        return requires("duelrank") or []
    except PackageNotFoundError:  # run from its sources
        return []


def _version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processors() -> dict[str, Any]:
    from llvmlite.binding import get_host_cpu_name

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"count": os.cpu_count(), "usable": usable, "name": get_host_cpu_name()}


def _kernels() -> dict[str, Any]:
    """Return the folder of compiled kernels and its size; no folder if none is writable."""
    from duelrank.core.compiling import kernel_folder

    folder = kernel_folder()
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()] if folder else []
    return {"folder": str(folder) if folder else None, "files": len(sizes), "bytes": sum(sizes)}


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    return "none" if value is None else str(value)
