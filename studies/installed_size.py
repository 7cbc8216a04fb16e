"""Measures what an installation of duelrank takes on the disk: each dependency of the core, and what each extra adds.

Makes an empty virtual environment, installs the package into it, and sums the files of every distribution, compiled ones included::

    python studies/installed_size.py                    # the core
    python studies/installed_size.py --extra plot       # and what an extra adds
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]


def install(folder: Path, *what: str) -> Path:
    """Install into the environment of a folder, made if it is not there, and return where its packages are."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    return site


def size(distribution: Distribution) -> int:
    """Return the bytes of all files of a distribution that exist."""
    paths = {Path(str(file.locate())).resolve() for file in distribution.files or ()}
    return sum(path.stat().st_size for path in paths if path.is_file())


def sizes(site: Path) -> dict[str, int]:
    """Return the bytes of each distribution of an environment, but for those that every environment has."""
    found = {each.metadata["Name"]: size(each) for each in distributions(path=[str(site)])}
    return {name: n_bytes for name, n_bytes in found.items() if name not in ("pip", "setuptools")}


def show(title: str, found: Mapping[str, int]) -> None:
    print(f"{title}: {sum(found.values()) / 1e6:.1f} MB")
    for name, n_bytes in sorted(found.items(), key=lambda item: -item[1]):
        print(f"  {n_bytes / 1e6:8.1f} MB  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--extra", action="append", default=[], help="also measure what this extra adds; may be repeated"
    )
    parser.add_argument("--source", default=str(ROOT), help="what to install: this checkout, or a wheel")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        core = sizes(install(Path(folder) / "core", arguments.source))
        show("core", core)
        for extra in arguments.extra:
            added = sizes(install(Path(folder) / extra, f"{arguments.source}[{extra}]"))
            show(f"extra {extra} adds", {name: n_bytes for name, n_bytes in added.items() if name not in core})


if __name__ == "__main__":
    main()
