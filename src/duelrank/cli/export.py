"""``duelrank export``: writes a learned model in the format of a search engine."""

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


ModelArgument = Annotated[Path, typer.Argument(help="Snapshot of a learner (.npz), or model exported as json.")]
FormatOption = Annotated[str, typer.Option("--format", "-f", help=f"Output format: {NAMES}.")]
OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="Write to this file instead of stdout.")]
NameOption = Annotated[str | None, typer.Option("--name", help="Name of the model in the search engine.")]
VersionOption = Annotated[
    int | None, typer.Option("--model-version", help="Version of the model; by default its number of updates.")
]
FeaturesOption = Annotated[
    str | None, typer.Option("--features", help="Names of the snapshot's features: a,b,c. By default f1,f2,….")
]
FeaturesFileOption = Annotated[
    Path | None, typer.Option("--features-file", help="File with one feature name per line, instead of --features.")
]
NormalisationOption = Annotated[
    Path | None,
    typer.Option("--normalisation", metavar="FILE.json", help="Normalisation that was applied to the features."),
]
StoreOption = Annotated[str | None, typer.Option("--store", help="solr: name of the feature store.")]
OffsetFeatureOption = Annotated[
    str | None,
    typer.Option("--offset-feature", help="elasticsearch, opensearch: feature that is 1 for all documents."),
]
OffsetOption = Annotated[
    float | None,
    typer.Option("--offset", help="Weight of --offset-feature; ranklib: constant added to all scores."),
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
    typer.Option("--rank-feature", metavar="NAME=EXPRESSION", help="vespa: expression that computes a feature."),
]
WeightsOption = Annotated[
    str | None, typer.Option("--weights", help="vespa: write the weights as inputs or as constants.")
]
RerankCountOption = Annotated[
    int | None, typer.Option("--rerank-count", help="vespa: number of hits that are normalised together.")
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
    """Export a learned model to the format of a search engine."""
    linear = _model(model, name, model_version, _feature_names(features, features_file), normalisation)
    if not linear.weights.any():
        complain(
            "warning: all weights are zero, so the model gives all documents the same score; has it learned from any click?"
        )
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
        raise InvalidValue(f"{format} is a binary format: write it to a file with --out, or redirect stdout")
    else:
        typer.echo(content, nl=False)


def _model(
    path: Path, name: str | None, version: int | None, features: list[str] | None, normalisation: Path | None
) -> LinearModel:
    """Read a snapshot, which is a zip archive, or else the JSON of a model."""
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
        raise InvalidValue(f"{path} is a model, which already contains feature names and normalisation")
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
        raise DataFormatError(f"{path} is not valid JSON: {error}") from None
    return Normalisation.from_dict(content, names)


def _feature_names(names: str | None, path: Path | None) -> list[str] | None:
    from duelrank.errors import DataFormatError, InvalidValue

    if names is not None and path is not None:
        raise InvalidValue("give feature names with --features or with --features-file, not with both")
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
                f"--rank-feature must be NAME=EXPRESSION, such as 'price=attribute(price)', got {pair!r}"
            )
    return {name.strip(): expression for name, _, expression in (pair.partition("=") for pair in pairs)}


def _read(path: Path) -> bytes:
    from duelrank.errors import MissingData

    try:
        return path.read_bytes()
    except OSError as error:
        raise MissingData(f"cannot read {path}: {error.strerror or error}") from None
