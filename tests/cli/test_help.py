"""Help texts are sentences."""

import typer.main

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
    import logging

    assert cli("list", "updates").exit_code == 0
    logging.getLogger("duelrank.core.compiling").info("compiling kernels ...")
    assert capfd.readouterr().err.strip() == "compiling kernels ..."
