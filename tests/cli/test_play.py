"""``duelrank play`` as a real process, and when it opens a browser."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import webbrowser
from pathlib import Path

import httpx
import pytest
from tests.waiting import FOR_EVER, until

from duelrank.cli import play


@pytest.mark.processes
def test_one_command_until_ctrl_c(tmp_path):
    """It reads this Python's own library, serves the page, and leaves nothing behind."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "duelrank", "play", "--port", "0", "--no-open"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", env=environment, cwd=tmp_path
    )
    try:
        said = process.stdout.readline()
        assert re.fullmatch(r"[\d,]{5,} docstrings of Python 3[\d.]+ read and indexed in [\d.]+ s\n", said)
        said = process.stdout.readline()
        address = re.fullmatch(r"the playground is at (http://127\.0\.0\.1:\d+/play) \(Ctrl-C to stop\)\n", said)[1]
        assert "<title>duelrank playground</title>" in httpx.get(address).text
        found = httpx.get(f"{address}/search", params={"q": "json"}).json()
        assert any(each["id"] == "json.dumps" for each in found["candidates"])
    finally:
        process.send_signal(signal.SIGINT)
        rest, log = process.communicate(timeout=FOR_EVER)
    assert (process.returncode, rest) == (0, "stopped; nothing was stored\n"), log
    assert [path for path in Path(tmp_path).rglob("*") if "numba" not in str(path)] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--algorithm", "mdg-dsp"], "mdg-dsp"),
        (["--algorithm", "cascade-kl-ucb"], "the recipe of your own ranker: "),
        (["--second", "pdgd("], "a recipe for users: "),
    ],
)
def test_a_recipe_that_cannot_be_served(cli, words, said):
    done = cli("play", "--port", "0", "--no-open", *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("screen", "wanted", "opened"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_a_browser_is_opened_where_there_is_one(monkeypatch, capsys, screen, wanted, opened):
    seen = []
    monkeypatch.setattr(webbrowser, "open", seen.append)
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    if screen:
        monkeypatch.setenv("DISPLAY", ":0")
    play._ready("http://127.0.0.1:8000/play", wanted)
    assert "http://127.0.0.1:8000/play" in capsys.readouterr().out
    if opened:
        until(lambda: seen)
    assert seen == (["http://127.0.0.1:8000/play"] if opened else [])
