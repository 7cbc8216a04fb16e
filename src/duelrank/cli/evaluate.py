"""``duelrank evaluate``: says what rankings would have been worth on the traffic of the past."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duelrank.cli.backfill import (
    ColumnsOption,
    ErrorsOption,
    EventsOption,
    FeaturesOption,
    Files,
    IgnoreOption,
    LengthOption,
    LogOption,
    QueriesOption,
)
from duelrank.cli.console import print_json, print_note
from duelrank.cli.options import (
    SQLITE,
    BiasOption,
    JsonOption,
    RewardChoice,
    RewardOption,
    StoreOption,
    check_file,
    opened_store,
)
from duelrank.cli.serve import need_extra
from duelrank.core.progress import bytes_bar, count_bar

if TYPE_CHECKING:
    from duelrank.evaluation import Evaluation
    from duelrank.service.http.schema import RankerInfo


CandidatesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[CANDIDATE]",
        help="best (the ranker's own list without exploring), client (the order that the client sent), feature:NAME, feature:-NAME "
        "(lowest first), ranker:NAME or ranker:NAME@VERSION of the store, or a JSON file: an exported model, or weights by name. "
        "best and client by default, for lists of a ranker.",
    ),
]
RankerOption = Annotated[
    str | None, typer.Option("--ranker", "-r", help="Evaluate on the lists of this ranker of the store.")
]
ActionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--action",
        metavar="NAME=WEIGHT",
        help="Weight of an action in a log, beside click=1. May be repeated. Rankers have weights of their own.",
    ),
]
NamesOption = Annotated[
    str | None,
    typer.Option(
        "--names",
        metavar="A,B,C",
        help="Names of the features in a log; for tables by default all columns without another meaning.",
    ),
]
EstimatorOption = Annotated[
    str | None,
    typer.Option("--estimator", help="Estimator, DoublyRobust() by default (see duelrank list estimators)."),
]
LevelOption = Annotated[float, typer.Option("--level", help="Probability that an interval misses the true value.")]
PlotOption = Annotated[Path | None, typer.Option("--plot", help="Draw the differences to this file (.png, …).")]


def evaluate(
    candidates: CandidatesArgument = None,
    ranker: RankerOption = None,
    store: StoreOption = SQLITE,
    log: LogOption = None,
    columns: ColumnsOption = None,
    queries: QueriesOption = None,
    events: EventsOption = None,
    features: FeaturesOption = None,
    names: NamesOption = None,
    action: ActionOption = None,
    length: LengthOption = None,
    ignore: IgnoreOption = None,
    max_errors: ErrorsOption = 100,
    reward: RewardOption = RewardChoice.clicks,
    estimator: EstimatorOption = None,
    level: LevelOption = 0.05,
    bias: BiasOption = None,
    plot: PlotOption = None,
    json: JsonOption = False,
) -> None:
    """Estimate what rankings would have been worth on the lists of a live ranker, or of a log, with confidence intervals."""
    from duelrank.core.errors import InvalidValue

    files = Files(log or [], columns or [], queries or [], events or [], features or [])
    how: dict[str, Any] = {"reward": reward.value, "estimator": estimator, "level": level, "bias": bias}
    check_plot(plot)
    if ranker is not None and any(files):
        raise InvalidValue("evaluate on the lists of a --ranker or on a log, not on both")
    if ranker is not None:
        found = _of_store(store, ranker, candidates or ["best", "client"], how)
    elif any(files):
        reading = {"length": length, "ignore": ignore or [], "max_errors": max_errors}
        found = _of_log(files, candidates or [], names, parse_weights(action or []), reading, how)
    else:
        raise InvalidValue("give --ranker, the name of a ranker of the store, or a log: --log, or --queries and others")
    show(found, plot, json)


def _of_store(store: str, ranker: str, candidates: list[str], how: dict[str, Any]) -> Evaluation:
    need_extra("duelrank.service.replay")
    from duelrank.evaluation.sources import evaluate_store

    with opened_store(store, read_only=True) as storage, count_bar("reading events") as progress:
        return evaluate_store(storage, ranker, candidates, progress=progress, **how)


def _of_log(
    files: Files,
    candidates: list[str],
    names: str | None,
    actions: dict[str, float],
    reading: dict[str, Any],
    how: dict[str, Any],
) -> Evaluation:
    from duelrank.core.errors import InvalidValue
    from duelrank.core.grammar import split_top_level
    from duelrank.evaluation import Lists, as_candidate, evaluate_lists
    from duelrank.evaluation.sources import OtherLog
    from duelrank.representation import Interactions

    files.check()
    if not candidates:
        raise InvalidValue("name a candidate, such as feature:NAME or a model in a JSON file")
    own = files.feature_names() if names is None else split_top_level(names)
    reader = files.reader(own, actions=list(actions), lacking=own, keep_untouched=True, **reading)
    chosen = [as_candidate(each) for each in candidates]
    lists = Lists.of(OtherLog(Interactions(own, {}), actions).lists(reader.lists(bytes_bar), chosen))
    for reason in reader.errors.first:
        print_note(reason)
    return evaluate_lists(lists, [each.name for each in chosen], **how)


def evaluate_backfill(
    files: Files, info: RankerInfo, share: float, reading: dict[str, Any], how: dict[str, Any]
) -> Evaluation:
    """Learn from the first lists of a log, as a ranker would, and evaluate what was learned on the others."""
    from itertools import islice

    from duelrank.evaluation import Lists, as_candidate, evaluate_lists
    from duelrank.evaluation.sources import OtherLog
    from duelrank.learner import Learner
    from duelrank.representation import Interactions
    from duelrank.service.definition import Definition, RankerSpec

    total = sum(1 for _ in files.log(info, keep_untouched=True, **reading).lists(bytes_bar))
    lists = files.log(info, keep_untouched=True, **reading).lists(bytes_bar)
    spec = RankerSpec(info.name, info.algorithm, info.features, info.representation, context=info.context)
    learner = Learner(Definition(spec, 0.0).algorithm, feature_names=info.features)
    other = OtherLog(Interactions(info.features, info.context), info.actions)
    count = other.learned(learner, islice(lists, int(share * total)))
    print_note(f"learned from the {count:,} lists with an action among the first {int(share * total):,}")
    chosen = [as_candidate(learner, info.name)]
    return evaluate_lists(Lists.of(other.lists(lists, chosen)), [info.name], **how)


def parse_weights(given: list[str]) -> dict[str, float]:
    """Return weights of actions of texts such as ``purchase=5``; a click weighs 1 if it is not given."""
    from duelrank.core.errors import InvalidValue

    weights = {"click": 1.0}
    for text in given:
        name, _, weight = text.partition("=")
        try:
            weights[name] = float(weight)
        except ValueError:
            weights[name] = 0.0
        if not name or not 0.0 < weights[name] < float("inf"):
            raise InvalidValue(f"an action is NAME=WEIGHT with a weight above 0, such as purchase=5, got {text!r}")
    return weights


def check_plot(plot: Path | None) -> None:
    """Raise an error if a figure cannot be written, before any work is done."""
    if plot is not None:
        from duelrank.experiments.figures import check_target

        check_file(plot)
        check_target(plot)


def show(found: Evaluation, plot: Path | None, json: bool) -> None:
    """Print an evaluation, and draw it."""
    if json:
        print_json(found.to_dict())
    else:
        typer.echo(str(found))
    if plot is not None:
        from duelrank.experiments.figures import write_figure

        write_figure(found.plot(), plot)
        print_note(f"figure: {plot}")
