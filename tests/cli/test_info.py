"""What a bug report should tell, and what shells complete."""

import importlib.metadata
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import duelrank
from duelrank.cli import app

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
        told = cli_json("info")
        assert told["duelrank"] == duelrank.__version__
        assert Path(told["folder"]) == Path(duelrank.__file__).parent
        assert told["python"]["version"] == platform.python_version()
        assert told["packages"] == {
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

    def test_without_metadata_the_rest_is_told(self, cli_json, monkeypatch):
        def missing(name):
            raise PackageNotFoundError(name)

        monkeypatch.setattr(importlib.metadata, "requires", missing)
        told = cli_json("info")
        assert told["extras"] == {}
        assert set(told["packages"]) == {"numpy", "numba", "llvmlite", "scipy"}


def completed(words: str) -> list[str]:
    """Return what bash offers for the last of some words."""
    asked = {"_DUELRANK_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    code = "import sys; sys.argv = ['duelrank']; from duelrank.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True, check=False
    )
    return done.stdout.split()


@pytest.mark.processes
class TestCompletion:
    def test_of_commands(self):
        assert {"run", "compare", "info", "data"} <= set(completed("duelrank "))
        assert set(completed("duelrank re")) == {"reproduce", "replay"}

    def test_of_inner_commands_and_options(self):
        assert {"create", "list", "revoke"} == set(completed("duelrank keys "))
        assert "--impressions" in completed("duelrank run --imp")

    def test_of_algorithms(self):
        for command in ("run", "compare", "tune"):
            assert set(completed(f"duelrank {command} mgd")) == {"mgd", "mgd-dsp"}

    def test_can_be_installed(self, cli):
        assert "--install-completion" in cli("--help").stdout

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_the_script_of_a_named_shell_can_be_had(self, shell, monkeypatch, capfd):
        """As the page about installations says; `--show-completion` knows only the shell that it runs in."""
        monkeypatch.setenv("_DUELRANK_COMPLETE", f"source_{shell}")
        with pytest.raises(SystemExit) as end:
            app(prog_name="duelrank")
        assert end.value.code == 0
        assert f"_DUELRANK_COMPLETE=complete_{shell}" in capfd.readouterr().out

    def test_a_home_that_cannot_be_written_is_told_in_one_line(self, monkeypatch, tmp_path, cli):
        (tmp_path / "file").touch()
        monkeypatch.setenv("HOME", str(tmp_path / "file"))
        monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
        done = cli("--install-completion")
        assert done.exit_code == 2
        assert done.stderr.startswith(f"error: could not write {tmp_path / 'file'}")
        assert done.stderr.count("\n") == 1
