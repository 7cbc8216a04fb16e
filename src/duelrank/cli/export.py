"""``duelrank export``: writes a learned model in the format of a search engine."""

from __future__ import annotations

import sys
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperCommand

from duelrank.cli.console import print_error
from duelrank.core.grammar import split_top_level

if TYPE_CHECKING:
    from duelrank.export import Model
    from duelrank.export.base import Option
    from duelrank.representation import Representation

ModelArgument = Annotated[Path, typer.Argument(help="Snapshot of a learner (.npz), or model exported as json.")]
FormatOption = Annotated[str, typer.Option("--format", "-f", help="Output format.")]
OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="Write to this file instead of stdout.")]
NameOption = Annotated[str | None, typer.Option("--name", help="Name of the model in the search engine.")]
VersionOption = Annotated[
    int | None, typer.Option("--model-version", help="Version of the model; by default its number of updates.")
]
FeaturesOption = Annotated[
    str | None, typer.Option("--features", help="Names of the features: a,b,c. By default those in the snapshot.")
]
FeaturesFileOption = Annotated[
    Path | None, typer.Option("--features-file", help="File with one feature name per line, instead of --features.")
]
RepresentationOption = Annotated[
    str | None,
    typer.Option(
        "--representation",
        metavar="TEXT|FILE.json",
        help="Representation applied to the features before learning: a text such as query-scaled, or fixed scalings as JSON.",
    ),
]


class ExportCommand(TyperCommand):
    """The command with the options of all registered formats, including those of files given with ``--load``.

    The options are created when the command is used, because the formats import numpy, which other commands do not need.
    """

    def get_params(self, ctx: Any) -> Any:  # the class of contexts depends on the version of typer
        """Return the parameters, with the formats and options that are registered now."""
        from duelrank.export import FORMATS

        *own, help = super().get_params(ctx)
        (format,) = (each for each in own if each.name == "format")
        vars(format)["help"] = f"Output format: {', '.join(sorted(FORMATS))}."
        return [*own, *_format_params(), help]

    def invoke(self, ctx: Any) -> Any:
        """Pass the options of the formats as the object of the context."""
        from duelrank.export import format_options

        ctx.obj = {each.name: ctx.params.pop(each.parameter) for each in format_options()}
        return super().invoke(ctx)


def _format_params() -> list[Any]:
    """Return one parameter of the command line for each option of the formats."""
    from duelrank.export import format_options

    def command() -> None:
        """Have the parameters of the formats."""

    command.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(each.parameter, Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(each))
            for each in format_options()
        ]
    )
    command.__annotations__ = {each.parameter: _annotation(each) for each in format_options()}
    carrier = typer.Typer(add_completion=False)
    carrier.command()(command)
    return list(typer.main.get_command(carrier).params)


def _annotation(option: Option) -> Any:
    flag = f"--{option.parameter.replace('_', '-')}"
    metavar = (
        "NAME=VALUE" if option.is_mapping else "|".join(get_args(option.type)) or ("" if option.type is bool else None)
    )
    type = list[str] if option.is_mapping else option.type if option.type in (int, float, bool) else str
    info = typer.Option(flag, help=option.description, metavar=metavar, rich_help_panel="Options of formats")
    return Annotated[type | None, info]


def export(
    context: typer.Context,
    model: ModelArgument,
    format: FormatOption,
    out: OutOption = None,
    name: NameOption = None,
    model_version: VersionOption = None,
    features: FeaturesOption = None,
    features_file: FeaturesFileOption = None,
    representation: RepresentationOption = None,
) -> None:
    """Export a learned model to the format of a search engine."""
    from duelrank.export import format_options

    found = _model(model, name, model_version, feature_names(features, features_file), representation)
    if not found.weights.any():
        print_error(
            "warning: all weights are zero, so all documents get the same score; has the model learned from any click?"
        )
    given = [(each, context.obj[each.name]) for each in format_options()]
    options = {each.name: each.value(value, format) for each, value in given if value not in (None, (), [])}
    _write(found, format, out, options)


def _write(model: Model, format: str, out: Path | None, options: dict[str, Any]) -> None:
    from duelrank.core.errors import InvalidValue
    from duelrank.core.files import write_bytes
    from duelrank.export import FORMATS
    from duelrank.export import export as write

    content = write(model, format, **options)
    if out is not None:
        write_bytes(out, content)
    elif not FORMATS[format].is_text and sys.stdout.isatty():
        raise InvalidValue(f"{format} is a binary format: write it to a file with --out, or redirect stdout")
    else:
        typer.echo(content, nl=False)


def _model(
    path: Path, name: str | None, version: int | None, features: list[str] | None, representation: str | None
) -> Model:
    """Read a snapshot, which is a zip archive, or the JSON of a model."""
    from dataclasses import replace

    from duelrank.core.errors import InvalidValue
    from duelrank.core.snapshot import Snapshot
    from duelrank.export import LinearModel, Model

    given: dict[str, Any] = {
        key: value for key, value in {"name": name, "version": version}.items() if value is not None
    }
    content = _read(path)
    if content.startswith(b"PK"):
        snapshot = Snapshot.from_bytes(content)
        names = features or list(snapshot.names)
        applied = None if representation is None else _representation(representation, names)
        return replace(Model.from_snapshot(snapshot, features=names, representation=applied), **given)
    if features is not None or representation is not None:
        raise InvalidValue(f"{path} is a model, which already contains feature names and representation")
    return replace(LinearModel.from_json(content), **given)


def _representation(given: str, names: list[str]) -> Representation:
    """Read the text of a representation, or a file with its JSON."""
    from duelrank.representation.fixed import read_representation

    return read_representation(read_json(Path(given)) if given.endswith(".json") else given, names)


def feature_names(names: str | None, path: Path | None) -> list[str] | None:
    """Return the names of features from a text a,b,c or from the lines of a file; None if neither is given."""
    from duelrank.core.errors import DataFormatError, InvalidValue

    if names is not None and path is not None:
        raise InvalidValue("give feature names with --features or with --features-file, not with both")
    if path is None:
        return None if names is None else split_top_level(names)
    try:
        return [line.strip() for line in _read(path).decode("utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise DataFormatError(f"{path} is not UTF-8 text: {error}") from None


def _read(path: Path) -> bytes:
    from duelrank.core.errors import MissingData

    try:
        return path.read_bytes()
    except OSError as error:
        raise MissingData(f"cannot read {path}: {error.strerror or error}") from None


def read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    import json

    from duelrank.core.errors import DataFormatError

    try:
        return json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise DataFormatError(f"{path} is not valid JSON: {error}") from None
