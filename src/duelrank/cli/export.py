"""``duelrank export``: a learned model, written as a search engine takes it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duelrank.cli.console import complain
from duelrank.cli.options import split_top_level

if TYPE_CHECKING:
    from duelrank.export import LinearModel, Normalisation

__all__ = ["export"]

NAMES = "solr, elasticsearch, opensearch, ranklib, vespa, onnx, json"


ModelArgument = Annotated[Path, typer.Argument(help="A snapshot of a learner (.npz) or a model exported as json.")]
FormatOption = Annotated[str, typer.Option("--format", "-f", help=f"One of {NAMES}.")]
OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="Write to this file instead of stdout.")]
NameOption = Annotated[str | None, typer.Option("--name", help="The name of the model in the search engine.")]
VersionOption = Annotated[
    int | None, typer.Option("--model-version", help="The version of the model; by default the number of its updates.")
]
FeaturesOption = Annotated[
    str | None, typer.Option("--features", help="Names of the snapshot's features: a,b,c. By default f1,f2,….")
]
FeaturesFileOption = Annotated[
    Path | None, typer.Option("--features-file", help="A file with one feature name per line, instead of --features.")
]
NormalisationOption = Annotated[
    Path | None,
    typer.Option(
        "--normalisation", metavar="FILE.json", help="How the features were normalised before the model saw them."
    ),
]
StoreOption = Annotated[str | None, typer.Option("--store", help="solr: the feature store.")]
OffsetFeatureOption = Annotated[
    str | None,
    typer.Option("--offset-feature", help="elasticsearch, opensearch: a feature that is 1 for all documents."),
]
OffsetOption = Annotated[
    float | None,
    typer.Option("--offset", help="The weight of --offset-feature; ranklib: a constant to add to all scores."),
]
AllowNegativeOption = Annotated[
    bool,
    typer.Option(
        "--allow-negative",
        help="elasticsearch, opensearch: write models whose scores may be negative, which Lucene refuses.",
    ),
]
RankFeatureOption = Annotated[
    list[str] | None,
    typer.Option("--rank-feature", metavar="NAME=EXPRESSION", help="vespa: the expression that computes a feature."),
]
WeightsOption = Annotated[
    str | None, typer.Option("--weights", help="vespa: write the weights as inputs or as constants.")
]
RerankCountOption = Annotated[
    int | None, typer.Option("--rerank-count", help="vespa: how many hits are normalised together.")
]


def export(
    model: ModelArgument,
    format: FormatOption,
    out: OutOption = None,
    name: NameOption = None,
    model_version: VersionOption = None,
    features: FeaturesOption = None,
    features_file: FeaturesFileOption = None,
    normalisation: NormalisationOption = None,
    store: StoreOption = None,
    offset_feature: OffsetFeatureOption = None,
    offset: OffsetOption = None,
    allow_negative: AllowNegativeOption = False,
    rank_feature: RankFeatureOption = None,
    weights: WeightsOption = None,
    rerank_count: RerankCountOption = None,
) -> None:
    """Write a learned model in the format of a search engine, or say why that cannot be."""
    linear = _model(model, name, model_version, _feature_names(features, features_file), normalisation)
    if not linear.weights.any():
        complain("warning: all weights are zero, so this model orders nothing; has the learner seen a click?")
    options = {
        "store": store,
        "offset_feature": offset_feature,
        "offset": offset,
        "allow_negative": allow_negative or None,
        "rank_features": _mapping(rank_feature),
        "weights": weights,
        "rerank_count": rerank_count,
    }
    _write(linear, format, out, {key: value for key, value in options.items() if value is not None})


def _write(model: LinearModel, format: str, out: Path | None, options: dict[str, Any]) -> None:
    from duelrank.errors import InvalidValue
    from duelrank.experiments.files import write_bytes
    from duelrank.export import FORMATS
    from duelrank.export import export as write

    content = write(model, format, **options)
    if out is not None:
        write_bytes(out, content)
    elif not FORMATS[format].is_text and sys.stdout.isatty():
        raise InvalidValue(f"{format} is not text: name a file with --out, or send it to one with >")
    else:
        typer.echo(content, nl=False)


def _model(
    path: Path, name: str | None, version: int | None, features: list[str] | None, normalisation: Path | None
) -> LinearModel:
    """Read a snapshot, which is a zip archive by its first letters, or else the JSON of a model."""
    from dataclasses import replace

    from duelrank.errors import InvalidValue
    from duelrank.export import LinearModel
    from duelrank.snapshot import Snapshot

    given: dict[str, Any] = {
        key: value for key, value in {"name": name, "version": version}.items() if value is not None
    }
    content = _read(path)
    if content.startswith(b"PK"):
        model = LinearModel.from_snapshot(Snapshot.from_bytes(content), features=features)
        return replace(model, normalisation=_normalisation(normalisation, model.features), **given)
    if features is not None or normalisation is not None:
        raise InvalidValue(f"{path} is a model that has its own feature names and normalisation")
    return replace(LinearModel.from_json(content), **given)


def _normalisation(path: Path | None, names: tuple[str, ...]) -> Normalisation:
    import json

    from duelrank.errors import DataFormatError
    from duelrank.export import NoNormalisation, Normalisation

    if path is None:
        return NoNormalisation()
    try:
        content = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise DataFormatError(f"{path} is no JSON: {error}") from None
    return Normalisation.from_dict(content, names)


def _feature_names(names: str | None, path: Path | None) -> list[str] | None:
    from duelrank.errors import DataFormatError, InvalidValue

    if names is not None and path is not None:
        raise InvalidValue("feature names come from --features or from --features-file, not from both")
    if path is None:
        return None if names is None else split_top_level(names)
    try:
        return [line.strip() for line in _read(path).decode("utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise DataFormatError(f"{path} is not UTF-8 text: {error}") from None


def _mapping(pairs: list[str] | None) -> dict[str, str] | None:
    from duelrank.errors import InvalidValue

    if not pairs:
        return None
    for pair in pairs:
        if "=" not in pair:
            raise InvalidValue(
                f"a rank feature is given as NAME=EXPRESSION, such as 'price=attribute(price)', got {pair!r}"
            )
    return {name.strip(): expression for name, _, expression in (pair.partition("=") for pair in pairs)}


def _read(path: Path) -> bytes:
    from duelrank.errors import MissingData

    try:
        return path.read_bytes()
    except OSError as error:
        raise MissingData(f"cannot read {path}: {error.strerror or error}") from None
