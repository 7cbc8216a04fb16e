"""``duelrank rankers``: lists, creates, changes and deletes the rankers of a running service."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duelrank.cli.console import local_time, out, print_json, print_note
from duelrank.cli.options import URL, JsonOption, KeyOption, UrlOption, connect
from duelrank.core.registry import counted

if TYPE_CHECKING:
    from duelrank.client import Client, FeatureCurve, RankerInfo

app = typer.Typer(no_args_is_help=True, help="List, create, change and delete the rankers of a running service.")

BARS = "▁▂▃▄▅▆▇█"

NameArgument = Annotated[str, typer.Argument(help="Name of the ranker.")]
VersionArgument = Annotated[int, typer.Argument(help="Version of the model (see duelrank rankers versions).")]
FeaturesOption = Annotated[str | None, typer.Option("--features", help="Names of the features: a,b,c.")]
FeaturesFileOption = Annotated[
    Path | None, typer.Option("--features-file", help="File with one feature name per line, instead of --features.")
]
RepresentationOption = Annotated[
    str | None,
    typer.Option(
        "--representation",
        metavar="RECIPE|FILE.json",
        help="Representation of the features: a recipe such as 'query-scaled >> curves', or a file of fixed scalings.",
    ),
]
LengthOption = Annotated[int | None, typer.Option("--length", help="Number of documents per impression.")]
ExplorationOption = Annotated[float | None, typer.Option("--exploration", help="Share of impressions that explore.")]
ModeOption = Annotated[
    str | None, typer.Option("--mode", metavar="learn|shadow|frozen", help="Whether the ranker serves and learns.")
]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Random seed.")]
CloseOption = Annotated[
    float | None, typer.Option("--close-after", help="Seconds after which an open impression is closed.")
]
WeightOption = Annotated[
    list[str] | None,
    typer.Option("--weight", metavar="NAME=NUMBER", help="First weight of a feature; by default 0. May be repeated."),
]
FromOption = Annotated[
    str | None, typer.Option("--from", help="Start with the weights of this ranker of the same service.")
]
FromVersionOption = Annotated[
    int | None, typer.Option("--from-version", help="With --from: version of the model; by default the current one.")
]
ModelOption = Annotated[
    Path | None, typer.Option("--model", help="Start with the weights of this model, exported as json.")
]
PrecisionOption = Annotated[
    str | None,
    typer.Option("--precision", metavar="float32|float64", help="Precision in which features are stored."),
]
GuardOption = Annotated[
    bool | None,
    typer.Option(
        "--guard/--no-guard",
        help="Whether to compare the ranker with your own order, and to reduce its share if it is worse.",
        show_default=False,
    ),
]
GuardWithOption = Annotated[
    list[str] | None,
    typer.Option(
        "--guard-with",
        metavar="NAME=VALUE",
        help="Setting of the guard: share=0.2, on_alarm=rollback, promote=[0.5,1.0], anonymous=ignore, webhook=https://…. "
        "May be repeated.",
    ),
]
ImitateOption = Annotated[
    int | None,
    typer.Option(
        "--imitate",
        min=0,
        help="Number of lists in your own order before anything else, while the ranker learns to imitate it; by default 300 for a "
        "guarded ranker without start weights.",
        show_default=False,
    ),
]
ActionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--action",
        metavar="NAME=WEIGHT",
        help="Weight of an action; by default click=1 only. Repeat it for all actions.",
    ),
]
MissingOption = Annotated[
    list[str] | None,
    typer.Option(
        "--missing",
        metavar="NAME[=NUMBER]",
        help="Feature that documents may lack, and the number that it then counts as; by default a neutral one. May be repeated.",
    ),
]
ContextOption = Annotated[
    list[str] | None,
    typer.Option(
        "--context",
        metavar="NAME=FEATURE",
        help="Context, such as mobile, and a feature that counts differently in it. May be repeated.",
    ),
]
AddOption = Annotated[
    list[str] | None, typer.Option("--add-feature", help="Name of a new feature, with weight 0. May be repeated.")
]
RetireOption = Annotated[
    list[str] | None, typer.Option("--retire-feature", help="Name of a feature to ignore from now on. May be repeated.")
]
YesOption = Annotated[
    str | None,
    typer.Option("--yes", metavar="NAME", help="Name of the ranker again, to delete it without a prompt."),
]


@app.command("list")
def list_rankers(url: UrlOption = URL, api_key: KeyOption = None, json: JsonOption = False) -> None:
    """List all rankers of a service."""
    from rich.table import Table

    with connect(url, api_key) as client:
        found = client.rankers()
    if json:
        write_json(found)
        return
    if not found:
        print_note(f"{url} has no rankers yet (duelrank rankers create)")
        return
    table = Table("name", "algorithm", "mode", "version", "impressions", "learned", "open")
    for each in found:
        counts = (each.model_version, each.impressions, each.learned, each.open)
        table.add_row(each.name, each.algorithm, _mode(each), *(f"{count:,}" for count in counts))
    out().print(table)


@app.command()
def show(name: NameArgument, url: UrlOption = URL, api_key: KeyOption = None, json: JsonOption = False) -> None:
    """Show the definition and the counts of a ranker."""
    with connect(url, api_key) as client:
        _print(client.ranker(name), json)


@app.command()
def create(
    name: NameArgument,
    algorithm: Annotated[
        str, typer.Argument(help="Algorithm, such as mgd-dsp or pdgd (see duelrank list algorithms).")
    ],
    features: FeaturesOption = None,
    features_file: FeaturesFileOption = None,
    representation: RepresentationOption = None,
    length: LengthOption = None,
    exploration: ExplorationOption = None,
    mode: ModeOption = None,
    seed: SeedOption = None,
    close_after: CloseOption = None,
    weight: WeightOption = None,
    from_ranker: FromOption = None,
    from_version: FromVersionOption = None,
    model: ModelOption = None,
    precision: PrecisionOption = None,
    guard: GuardOption = None,
    guard_with: GuardWithOption = None,
    imitate: ImitateOption = None,
    action: ActionOption = None,
    missing: MissingOption = None,
    context: ContextOption = None,
    url: UrlOption = URL,
    api_key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Create a ranker; repeating the same command changes nothing."""
    settings = {"length": length, "exploration": exploration, "mode": mode, "seed": seed, "close_after": close_after}
    with connect(url, api_key) as client:
        info = client.create_ranker(
            name,
            algorithm,
            _feature_names(features, features_file),
            representation=_representation(representation),
            start=_start(weight, from_ranker, from_version, model),
            precision=precision,
            guard=_guard(guard, guard_with),
            actions=numbers_by_name("--action", action, "purchase=10"),
            imitate=imitate,
            missing=_missing(missing),
            context=_context(context),
            **settings,  # type: ignore[arg-type]  # of several types
        )
    _print(info, json)


@app.command()
def change(
    name: NameArgument,
    exploration: ExplorationOption = None,
    close_after: CloseOption = None,
    length: LengthOption = None,
    mode: ModeOption = None,
    add_feature: AddOption = None,
    retire_feature: RetireOption = None,
    guard: GuardOption = None,
    guard_with: GuardWithOption = None,
    action: ActionOption = None,
    representation: RepresentationOption = None,
    missing: MissingOption = None,
    context: ContextOption = None,
    url: UrlOption = URL,
    api_key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Change the settings of a ranker, or its representation; settings of the guard that are not given do not change."""
    from duelrank.core.errors import InvalidValue

    changes: dict[str, Any] = {
        "exploration": exploration,
        "close_after": close_after,
        "length": length,
        "mode": mode,
        "add_features": add_feature or None,
        "retire_features": retire_feature or None,
        "actions": numbers_by_name("--action", action, "purchase=10"),
        "representation": _representation(representation),
        "missing": _missing(missing),
        "context": _context(context),
    }
    given = {key: value for key, value in changes.items() if value is not None}
    settings = _guard(guard, guard_with)
    if not given and guard is None and settings is None:
        raise InvalidValue("nothing to change: give an option, such as --exploration 0.5")
    with connect(url, api_key) as client:
        if guard is False:
            given["guard"] = None
        elif settings is not None:
            given["guard"] = _current_guard(client, name) | settings
        _print(client.change_ranker(name, **given), json)


@app.command()
def delete(name: NameArgument, yes: YesOption = None, url: UrlOption = URL, api_key: KeyOption = None) -> None:
    """Delete a ranker with all its data: model, versions, impressions and clicks."""
    from duelrank.core.errors import InvalidValue

    with connect(url, api_key) as client:
        info = client.ranker(name)
        if yes is None:
            print_note(
                f"{name}: {counted(info.impressions, 'impression')}, {info.learned:,} learned; this cannot be undone"
            )
            yes = typer.prompt("Type the name of the ranker to delete it", err=True)
        if yes != name:
            raise InvalidValue(f"{yes!r} is not {name!r}: nothing was deleted")
        client.delete_ranker(name, confirm=yes)
    print_note(f"deleted {name}")


@app.command()
def freeze(name: NameArgument, url: UrlOption = URL, api_key: KeyOption = None, json: JsonOption = False) -> None:
    """Stop learning and exploring; events are still stored."""
    with connect(url, api_key) as client:
        _print(client.freeze(name), json)


@app.command()
def resume(name: NameArgument, url: UrlOption = URL, api_key: KeyOption = None, json: JsonOption = False) -> None:
    """Resume learning after a freeze or an alarm of the guard."""
    with connect(url, api_key) as client:
        _print(client.resume(name), json)


@app.command()
def rollback(
    name: NameArgument,
    version: VersionArgument,
    url: UrlOption = URL,
    api_key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Return to the weights of an earlier version, as a new version."""
    with connect(url, api_key) as client:
        _print(client.rollback(name, version), json)


@app.command()
def label(
    name: NameArgument,
    version: VersionArgument,
    label: Annotated[str, typer.Argument(help="Label of the version; empty to remove it.")],
    url: UrlOption = URL,
    api_key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Label a version, so that it is kept when older versions are removed."""
    with connect(url, api_key) as client:
        found = client.label(name, version, label)
    if json:
        write_json(found)
    else:
        out().print(
            f"version {version:,} of {name} " + (f"is kept as {found.label!r}" if found.label else "has no label")
        )


@app.command()
def pin(
    name: NameArgument,
    version: VersionArgument,
    url: UrlOption = URL,
    api_key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Serve the best rankings of one version from a shadow, while it continues to learn."""
    with connect(url, api_key) as client:
        _print(client.pin(name, version), json)


@app.command()
def unpin(name: NameArgument, url: UrlOption = URL, api_key: KeyOption = None, json: JsonOption = False) -> None:
    """Serve the order of the requests from a shadow again."""
    with connect(url, api_key) as client:
        _print(client.unpin(name), json)


@app.command()
def curves(
    name: NameArgument,
    version: Annotated[int | None, typer.Option("--version", help="Version; the current one by default.")] = None,
    url: UrlOption = URL,
    api_key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Show the contribution of each feature to the score, the most important first."""
    from rich.table import Table

    with connect(url, api_key) as client:
        found = client.curves(name, version)
    if json:
        write_json(found)
        return
    belief = any(each.deviation is not None for each in found.curves)
    table = Table("feature", "importance", *(["rise"] * belief), "from", "contribution", "to", "of")
    highest = max((max(each.heights) - min(each.heights) for each in found.curves), default=0.0)
    for each in found.curves:
        low, high = _ends(each)
        rise = [f"{each.heights[-1] - each.heights[0]:.3g} ± {each.deviation:.2g}"] if belief else []
        ends = (f"{low:.4g}", _bars(each, highest), f"{high:.4g}")
        table.add_row(each.name, f"{each.importance:.3g}", *rise, *ends, each.domain)
    out().print(table)


@app.command()
def versions(name: NameArgument, url: UrlOption = URL, api_key: KeyOption = None, json: JsonOption = False) -> None:
    """List the stored versions of a model."""
    from rich.table import Table
    from rich.text import Text

    with connect(url, api_key) as client:
        found = client.versions(name)
    if json:
        write_json(found)
        return
    table = Table("version", "made", "event", "", "label")
    for each in found:
        current = "current" if each.current else ""
        table.add_row(f"{each.version:,}", local_time(each.time), f"{each.number:,}", current, Text(each.label))
    out().print(table)


def _feature_names(names: str | None, file: Path | None) -> Iterable[str]:
    from duelrank.cli.export import feature_names
    from duelrank.core.errors import InvalidValue

    found = feature_names(names, file)
    if not found:
        raise InvalidValue("a ranker needs features: give their names with --features or --features-file")
    return found


def _start(
    weights: list[str] | None, ranker: str | None, version: int | None, model: Path | None
) -> dict[str, Any] | None:
    """Return the origin of the first weights, in the form of the API."""
    from duelrank.cli.export import read_json
    from duelrank.core.errors import InvalidValue

    if sum(bool(each) for each in (weights, ranker, model)) > 1:
        raise InvalidValue("give the first weights with only one of --weight, --from and --model")
    if version is not None and not ranker:
        raise InvalidValue("--from-version is the version of a ranker: give its name with --from")
    if weights:
        return {"weights": numbers_by_name("--weight", weights, "bm25=1.5")}
    if model:
        return {"model": read_json(model)}
    return {"from": ranker} | ({} if version is None else {"version": version}) if ranker else None


def numbers_by_name(option: str, given: list[str] | None, example: str) -> dict[str, float] | None:
    """Return the numbers of an option by name, or None if there are none."""
    from duelrank.core.errors import InvalidValue

    found = {}
    for text in given or ():
        name, _, number = text.rpartition("=")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            raise InvalidValue(f"{option} must be NAME=NUMBER, such as {example}, got {text!r}") from None
    return found or None


def _missing(given: list[str] | None) -> dict[str, str | float] | None:
    """Return what replaces missing values by feature, or None if no feature is given."""
    numbers = numbers_by_name("--missing", [each for each in given or () if "=" in each], "price=35") or {}
    return {each: "neutral" for each in given or () if "=" not in each} | numbers or None


def _context(given: list[str] | None) -> dict[str, list[str]] | None:
    """Return the features of each context, or None if there is none."""
    from duelrank.core.errors import InvalidValue

    found: dict[str, list[str]] = {}
    for text in given or ():
        name, equals, feature = text.partition("=")
        if not (name and equals and feature):
            raise InvalidValue(f"--context must be NAME=FEATURE, such as mobile=price, got {text!r}")
        found.setdefault(name, []).append(feature)
    return found or None


def _guard(wanted: bool | None, settings: list[str] | None) -> dict[str, Any] | None:
    """Return the settings of a guard, {} for the defaults, or None without a guard."""
    from duelrank.core.errors import InvalidValue

    if wanted is False and settings:
        raise InvalidValue("--no-guard and --guard-with exclude each other")
    if not wanted and not settings:
        return None
    return dict(map(_guard_setting, settings or ()))


def _guard_setting(text: str) -> tuple[str, Any]:
    """Return the name and the value of a setting; a value that is not JSON is a text."""
    import json

    from duelrank.core.errors import InvalidValue

    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidValue(f"--guard-with must be NAME=VALUE, such as share=0.2, got {text!r}")
    try:
        return name.strip(), json.loads(value)
    except (ValueError, RecursionError):
        return name.strip(), value


def _current_guard(client: Client, name: str) -> dict[str, Any]:
    """Return the settings of the ranker's guard, in the form of the API; {} if it has none."""
    import msgspec

    found = client.ranker(name).guard
    return {} if found is None else msgspec.to_builtins(found)


def _representation(given: str | None) -> Any:
    from duelrank.cli.export import read_json

    return read_json(Path(given)) if given is not None and given.endswith(".json") else given


def write_json(value: Any) -> None:
    """Write a response of the service to stdout as JSON."""
    import msgspec

    print_json(msgspec.to_builtins(value))


def _print(info: RankerInfo, json: bool) -> None:
    from rich.table import Table

    if json:
        write_json(info)
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, value in _rows(info):
        table.add_row(name.replace("_", " "), value)
    out().print(table)
    for warning in info.warnings:
        print_note(f"warning: {warning}")


def _rows(info: RankerInfo) -> Iterable[tuple[str, str]]:
    import msgspec

    for name, value in msgspec.to_builtins(info).items():
        if name == "created":
            yield name, local_time(value)
        elif name == "guard" and value is not None:
            yield name, _guard_text(value)
        elif name == "fit" and value is not None:
            yield name, f"{value['share']:.1%} of {value['pairs']:,} pairs of documents keep their order"
        elif name in ("actions", "skipped_by_reason"):
            numbers = ", ".join(f"{each} {number:,g}" for each, number in value.items())
            yield from [(name, numbers)] if numbers else []
        elif isinstance(value, list | tuple):
            yield from [] if name == "warnings" or not value else [(name, ", ".join(value))]
        elif value is not None:
            yield name, f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _guard_text(settings: dict[str, Any]) -> str:
    given = {key.replace("_", " "): value for key, value in settings.items() if value is not None}
    listed = {key: " ".join(map(str, value)) if isinstance(value, tuple) else value for key, value in given.items()}
    return ", ".join(f"{key} {value}" for key, value in listed.items())


def _ends(curve: FeatureCurve) -> tuple[float, float]:
    """Return the range of values to draw."""
    if curve.domain != "value":
        return 0.0, 1.0
    found = curve.edges or curve.values
    return found[0], found[-1]


def _bars(curve: FeatureCurve, highest: float) -> str:
    """Return a curve as a row of bars; all features have the same scale."""
    import numpy as np

    from duelrank.representation import Curve

    drawn = Curve(np.array(curve.values), np.array(curve.heights), curve.shape)
    heights = drawn.at(np.linspace(*_ends(curve), 24))
    levels = (heights - heights.min()) * ((len(BARS) - 1) / (highest or 1.0))
    return "".join(BARS[min(round(level), len(BARS) - 1)] for level in levels.tolist())


def _mode(info: RankerInfo) -> str:
    mode = "frozen" if info.frozen else info.mode
    return mode if info.pinned is None else f"{mode}, serves {info.pinned:,}"
