"""``duelrank info``: the facts for a bug report."""

import importlib.metadata
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import duelrank

REQUIREMENTS = [
    "numpy>=1.26",
    "lazy_loader>=0.4",
    "nowhere-to-be-found>=1; extra == 'plot'",
    "psycopg[binary,pool]>=3.2; extra == 'postgres'",
    "uvloop>=0.20; (platform_system != 'Windows' and platform_python_implementation == 'CPython') and extra == 'serve'",
    "duelrank[plot]; extra == 'test'",
    "pytest>=8; extra == 'test'",
]


@pytest.fixture(autouse=True)
def _requirements(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: REQUIREMENTS)


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


class TestInfo:
    def test_has_the_versions_of_what_runs_here(self, cli_json):
        found = cli_json("info")
        assert found["duelrank"] == duelrank.__version__
        assert Path(found["folder"]) == Path(duelrank.__file__).parent
        assert found["python"]["version"] == platform.python_version()
        assert found["packages"] == {
            name: installed(name) for name in ("numpy", "numba", "llvmlite", "scipy", "lazy_loader")
        }

    def test_extras_are_those_of_the_package(self, cli_json):
        """Those for developers are left out; a package that is not installed has no version."""
        assert cli_json("info")["extras"] == {
            "plot": {"nowhere-to-be-found": None},
            "postgres": {"psycopg": installed("psycopg")},
            "serve": {"uvloop": installed("uvloop")},
        }

    def test_has_the_folders(self, cli_json, monkeypatch, tmp_path):
        assert cli_json("info")["home"] == {"folder": str(tmp_path / "home"), "DUELRANK_HOME": str(tmp_path / "home")}
        monkeypatch.delenv("DUELRANK_HOME")
        home = cli_json("info")["home"]
        assert home["DUELRANK_HOME"] is None
        assert home["folder"].endswith("duelrank")

    def test_kernels_are_counted(self, cli_json, monkeypatch, tmp_path):
        (tmp_path / "one.nbc").write_bytes(b"12345")
        monkeypatch.setattr("duelrank.core.compiling.kernel_folder", lambda: tmp_path)
        assert cli_json("info")["kernels"] == {"folder": str(tmp_path), "files": 1, "bytes": 5}
        monkeypatch.setattr("duelrank.core.compiling.kernel_folder", lambda: None)
        assert cli_json("info")["kernels"] == {"folder": None, "files": 0, "bytes": 0}

    def test_as_text_each_fact_is_a_line(self, cli):
        lines = cli("info").stdout.splitlines()
        assert lines[0] == f"duelrank: {duelrank.__version__}"
        assert "extra plot: nowhere-to-be-found none" in lines
        assert any(line.startswith(f"packages: numpy {version('numpy')}, numba ") for line in lines)

    def test_without_metadata(self, cli_json, monkeypatch):
        def missing(name):
            raise PackageNotFoundError(name)

        monkeypatch.setattr(importlib.metadata, "requires", missing)
        found = cli_json("info")
        assert found["extras"] == {}
        assert set(found["packages"]) == {"numpy", "numba", "llvmlite", "scipy"}
