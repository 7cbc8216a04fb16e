"""The application itself: help, version, extensions, errors in one line, shell completion."""

import logging
import platform

import numpy
import pytest
import typer.main

import duelrank
from duelrank.cli import app


def commands(group, path=()):
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def test_every_option_and_command_is_explained_in_whole_sentences():
    bad = []
    for name, command in commands(typer.main.get_command(app)):
        texts = {
            name: command.help,
            **{
                f"{name} {each.name}": each.help
                for each in command.get_params(typer.Context(command))
                if each.name != "help"
            },
        }
        bad += [place for place, text in texts.items() if not text or not text.strip().endswith(".")]
    assert bad == []


def test_compiling_is_announced_on_stderr_whatever_the_command(cli, capfd):
    assert cli("list", "updates").exit_code == 0
    logging.getLogger("duelrank.core.compiling").info("compiling kernels ...")
    assert capfd.readouterr().err.strip() == "compiling kernels ..."


def test_version(cli):
    shown = cli("--version").stdout
    assert shown.startswith(
        f"duelrank {duelrank.__version__}, Python {platform.python_version()}, numpy {numpy.__version__}, "
    )
    assert shown.count("\n") == 1


def test_help_names_every_command(cli):
    shown = cli("--help").stdout
    assert all(word in shown for word in ("list", "run", "compare", "data", "--load", "--version"))


def test_missing_file(cli):
    assert "cannot load nowhere.py" in cli("--load", "nowhere.py", "list").stderr


def test_an_error_in_an_extension_is_one_line(cli, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0", encoding="utf-8")
    done = cli("--load", broken, "list")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"error: cannot load {broken}: ZeroDivisionError: division by zero\n"


@pytest.fixture
def completed(monkeypatch, capfd):
    """Return the words that bash offers for the last of some words."""

    def complete(words: str) -> set[str]:
        asked = {"_DUELRANK_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        for name, value in asked.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit):
            app(prog_name="duelrank")
        return set(capfd.readouterr().out.split())

    return complete


class TestCompletion:
    def test_of_commands_and_options(self, completed):
        assert {"run", "compare", "info", "data"} <= completed("duelrank ")
        assert completed("duelrank re") == {"reproduce", "replay"}
        assert completed("duelrank keys ") == {"create", "list", "revoke"}
        assert "--impressions" in completed("duelrank run --imp")

    def test_of_algorithms(self, completed):
        for command in ("run", "compare", "tune"):
            assert completed(f"duelrank {command} mgd") == {"mgd", "mgd-dsp"}

    def test_can_be_installed(self, cli):
        assert "--install-completion" in cli("--help").stdout

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_the_script_of_a_named_shell(self, shell, monkeypatch, capfd):
        """As described on the page about installation; `--show-completion` supports only the current shell."""
        monkeypatch.setenv("_DUELRANK_COMPLETE", f"source_{shell}")
        with pytest.raises(SystemExit) as end:
            app(prog_name="duelrank")
        assert end.value.code == 0
        assert f"_DUELRANK_COMPLETE=complete_{shell}" in capfd.readouterr().out

    def test_a_home_that_cannot_be_written_is_an_error_in_one_line(self, monkeypatch, tmp_path, cli):
        (tmp_path / "file").touch()
        monkeypatch.setenv("HOME", str(tmp_path / "file"))
        monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
        done = cli("--install-completion")
        assert done.exit_code == 2
        assert done.stderr.startswith(f"error: could not write {tmp_path / 'file'}")
        assert done.stderr.count("\n") == 1


def test_help_shows_no_type_beside_flags_and_no_python_type_of_lists(cli):
    paths = [name.split() for name, _ in commands(typer.main.get_command(app))]
    shown = {" ".join(path): cli(*path, "--help").stdout for path in ([], ["data"], *paths)}
    assert {
        name: text for name, text in shown.items() if "<bool>" in text or " <list" in text.partition("Options")[2]
    } == {}
    assert "--json" in shown["run"]
