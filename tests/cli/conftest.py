"""A command line that never touches the home of whoever runs the tests."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from duelrank.cli import app


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUELRANK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("DUELRANK_LOAD", raising=False)


@pytest.fixture
def cli() -> Callable[..., Result]:
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def cli_json(cli: Callable[..., Result]) -> Callable[..., Any]:
    def call(*words: Any) -> Any:
        result = cli(*words, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return call
