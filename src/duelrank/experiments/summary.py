"""Summarises runs: means, tests against a baseline, learning curves, changes of taste, and the replication of published numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from math import inf, isnan, nan, sqrt
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.core.statistics import holm, student_quantile, student_test
from duelrank.experiments.results import Frame
from duelrank.simulation.run import data_frame

if TYPE_CHECKING:
    import pandas

#: From a recipe, user or data set to its label; names without a label are shown as they are.
Labels = Mapping[str, str]
Measure = Literal["online", "offline"]
MEASURES: tuple[Measure, Measure] = ("online", "offline")

_SETTINGS = ("metric", "split", "impressions", "length", "guard", "log", "streams")
_PLACE = ("dataset", "user", "algorithm", "base")
_PAIR = ("dataset", "user", "fold", "seed")
_ROUNDING = 1e-12  # differences that vary by less than this, relative to the values subtracted, count as equal

#: Number of runs per published cell, over the same folds as ours.
PUBLISHED_RUNS = 15


@dataclass(frozen=True)
class Estimate:
    """The estimate of one measure from the runs of one algorithm with one user on one data set.

    Parameters
    ----------
    base
        The same algorithm without its projection or its memory of queries; empty if it has neither.
    mean, std
        Over the runs; ``std`` is the sample standard deviation, None if there is only one run.
    half_width
        Half the width of the 95% confidence interval of the mean; None if there is only one run.
    baseline
        The algorithm that it is compared with: the baseline of the summary, or else its base; empty if there is neither.
    change
        Relative change of the mean against the baseline: 0.05 is 5% more.
    pairs, single_p, p
        Number of runs that have a run of the baseline with the same fold and seed, the two-sided p-value of the paired t-test
        over these pairs, and the same with Holm's correction for all tests of its family, see `corrected`. None if there is no
        test.
    best
        Whether no other algorithm has a higher mean with that user on that data set.
    microseconds
        Mean time of an impression, without evaluation.
    worst
        The lowest of the runs.
    folds
        Number of folds that the runs are of.

    Examples
    --------
    >>> from duelrank.experiments import compare, summarise
    >>> results = compare(["mgd", "mgd-dsp"], "synthetic(n_queries=10)", "perfect", runs=2, impressions=50, workers=1)
    >>> estimate = summarise(results, "offline").estimates[1]
    >>> estimate.baseline, round(estimate.mean, 2), round(estimate.change, 3)
    ('mgd', 0.78, 0.203)
    """

    measure: Measure
    metric: str
    dataset: str
    user: str
    algorithm: str
    base: str
    runs: int
    mean: float
    std: float | None
    half_width: float | None
    baseline: str = ""
    change: float | None = None
    pairs: int = 0
    single_p: float | None = None
    p: float | None = None
    best: bool = False
    microseconds: float = 0.0
    worst: float | None = None
    folds: int = 1


@dataclass(frozen=True)
class Summary:
    """The estimates of one measure, by data set, user and algorithm, in the order in which tables show them.

    Parameters
    ----------
    devices
        Where the runs were made, as far as the rows say.
    family
        Number of tests that the p-values are corrected for.

    Examples
    --------
    >>> from duelrank.experiments import compare, summarise
    >>> results = compare(["mgd", "mgd-dsp"], "synthetic(n_queries=10)", "perfect", runs=2, impressions=50, workers=1)
    >>> summary = summarise(results, "online")
    >>> summary.metric, len(summary.estimates)
    ('nDCG@10', 2)
    """

    measure: Measure
    metric: str
    baseline: str
    estimates: tuple[Estimate, ...]
    devices: tuple[str, ...] = ()
    family: int = 0

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets, in order."""
        return tuple(dict.fromkeys(estimate.dataset for estimate in self.estimates))

    @property
    def users(self) -> tuple[str, ...]:
        """The users, in order."""
        return tuple(dict.fromkeys(estimate.user for estimate in self.estimates))

    @property
    def algorithms(self) -> dict[str, str]:
        """The algorithms, in order, each with its base; a projected algorithm follows its base."""
        return in_families({estimate.algorithm: estimate.base for estimate in self.estimates})

    def find(self, dataset: str, user: str, algorithm: str) -> Estimate | None:
        """Return one estimate, or None if there are no such runs."""
        place = dataset, user, algorithm
        return next((each for each in self.estimates if (each.dataset, each.user, each.algorithm) == place), None)

    def records(self) -> list[dict[str, Any]]:
        """Return the estimates as plain values."""
        return [asdict(estimate) for estimate in self.estimates]

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame with a row per estimate."""
        return data_frame(self.records())


@dataclass(frozen=True)
class MeanCurve:
    """The mean over runs of a value at each checkpoint; ``half_width`` is that of its 95% interval, empty for one run.

    Parameters
    ----------
    dataset, user, algorithm, base
        The runs, as in `Estimate`.
    impressions
        Number of shown lists at each checkpoint.
    mean, half_width
        Values at each checkpoint.

    Examples
    --------
    >>> from duelrank.experiments import compare, mean_curves
    >>> results = compare("mgd", "synthetic(n_queries=10)", "perfect", runs=2, impressions=50, workers=1)
    >>> curve = mean_curves(results)[0]
    >>> curve.impressions[-1], round(curve.mean[-1], 2)
    (50, 0.65)
    """

    dataset: str
    user: str
    algorithm: str
    base: str
    impressions: tuple[int, ...]
    mean: tuple[float, ...]
    half_width: tuple[float, ...]


def summarise(frame: Frame, measure: Measure, baseline: str = "", tests: bool = True) -> Summary:
    """Summarise the runs of each algorithm, user and data set.

    Users, algorithms and data sets keep the order in which they first appear. Runs that differ in metric, split, impressions
    list length, guard or log raise an error, because their mean would be meaningless.

    Parameters
    ----------
    baseline
        The algorithm that all others are compared with; without one, each projected algorithm is compared with its base.
    tests
        Whether to compute changes and tests; figures need only means and intervals.

    Examples
    --------
    >>> from duelrank.experiments import compare, summarise
    >>> results = compare(["mgd", "mgd-dsp"], "synthetic(n_queries=10)", "perfect", runs=2, impressions=50, workers=1)
    >>> summary = summarise(results, "offline")
    >>> [(estimate.algorithm, estimate.runs, round(estimate.mean, 2)) for estimate in summary.estimates]
    [('mgd', 2, 0.65), ('mgd-dsp', 2, 0.78)]
    """
    metric = check_comparable(frame)
    if baseline and baseline not in frame["algorithm"]:
        raise UnknownName.among("algorithm of these runs", baseline, set(frame["algorithm"].tolist()))
    found = [_estimate(measure, metric, place, runs) for place, runs in frame.groups(*_PLACE)]
    best = _with_best(found)
    compared = _with_changes(best, frame, measure, baseline) if tests else best
    devices = sorted(set(frame["device"].tolist())) if "device" in frame.columns else []
    return corrected([Summary(measure, metric, baseline, tuple(compared), tuple(devices))])[0]


def corrected(summaries: Sequence[Summary]) -> list[Summary]:
    """Correct the p-values of summaries that one page shows, by Holm's method: all tests of the page are one family.

    A test that several of the summaries have counts once.

    Examples
    --------
    >>> from duelrank.experiments import compare, summarise
    >>> from duelrank.experiments.summary import corrected
    >>> results = compare(["mgd", "mgd-dsp"], "synthetic(n_queries=10)", "perfect", runs=2, impressions=50, workers=1)
    >>> [summary.family for summary in corrected([summarise(results, "online"), summarise(results, "offline")])]
    [2, 2]
    """
    tests = {_test_key(each): each.single_p for summary in summaries for each in summary.estimates}
    family = {test: p for test, p in tests.items() if p is not None}
    found = dict(zip(family, holm(list(family.values())), strict=True))
    return [
        replace(
            summary,
            family=len(family),
            estimates=tuple(replace(each, p=found.get(_test_key(each))) for each in summary.estimates),
        )
        for summary in summaries
    ]


def _test_key(estimate: Estimate) -> tuple[str, ...]:
    return estimate.measure, estimate.dataset, estimate.user, estimate.algorithm, estimate.baseline


def check_comparable(frame: Frame) -> str:
    """Return the metric of the runs; raise an error if their settings differ."""
    if not len(frame):
        raise InvalidValue("there are no runs to summarise")
    for name in (each for each in _SETTINGS if each in frame.columns):  # runs of earlier versions have no guard
        found = sorted(set(frame[name].tolist()))
        if len(found) > 1:
            raise InvalidValue(f"the runs differ in {name} ({', '.join(map(str, found))}): select one with `where`")
    return str(frame["metric"][0])


def spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Return mean and sample standard deviation; None for the deviation of a single value."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def in_families(bases: dict[str, str]) -> dict[str, str]:
    """Return algorithms and their bases in an order in which projected algorithms follow their base."""
    families = list(dict.fromkeys(base or algorithm for algorithm, base in bases.items()))
    return dict(sorted(bases.items(), key=lambda item: (families.index(item[1] or item[0]), item[1] != "")))


def mean_curves(frame: Frame, column: str = "offline_curve") -> list[MeanCurve]:
    """Return the mean curve of each data set, user and algorithm.

    Examples
    --------
    >>> from duelrank.experiments import compare, mean_curves
    >>> results = compare(["mgd", "mgd-dsp"], "synthetic(n_queries=10)", "perfect", runs=2, impressions=50, workers=1)
    >>> curves = mean_curves(results)
    >>> [(curve.algorithm, curve.impressions[-1], round(curve.mean[-1], 2)) for curve in curves]
    [('mgd', 50, 0.65), ('mgd-dsp', 50, 0.78)]
    """
    check_comparable(frame)
    return [_curve(place, runs.sorted("fold", "seed"), column) for place, runs in frame.groups(*_PLACE)]


def _curve(place: tuple[str, ...], runs: Frame, column: str) -> MeanCurve:
    checkpoints = runs["checkpoints"][0]
    found = [curve for curve in runs[column] if len(curve) == len(checkpoints)]
    if len(found) < len(runs):
        why = "without the offline reference" if column == "cosine_curve" else "by an earlier version"
        raise InvalidValue(f"runs of {place[2]} have no {column}: they were made {why}")
    return _mean_curve(place, tuple(int(n) for n in checkpoints), np.array(found))


def _mean_curve(place: tuple[str, ...], impressions: tuple[int, ...], values: NDArray[np.float64]) -> MeanCurve:
    widths = half_widths(values).tolist() if len(values) > 1 else []
    dataset, user, algorithm, base = place
    return MeanCurve(dataset, user, algorithm, base, impressions, tuple(values.mean(axis=0).tolist()), tuple(widths))


def average_curves(frame: Frame, lists: int, window: int) -> list[MeanCurve]:
    """Return the mean over runs of the moving average of the metric, for runs whose users change their taste.

    Parameters
    ----------
    lists
        Number of lists in a block of the column ``online_blocks``.
    window
        Number of lists of the moving average.
    """
    check_comparable(frame)
    found, size = [], max(1, window // lists)
    for place, runs in frame.groups(*_PLACE):
        values = moving_average(np.array(list(runs["online_blocks"])), size)
        impressions = tuple(lists * n for n in range(size, size + values.shape[1]))
        found.append(_mean_curve(place, impressions, values))
    return found


def moving_average(blocks: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Return the mean of each run of ``size`` values along the last axis; the first is that of the first values."""
    sums = np.cumsum(np.concatenate([np.zeros((*blocks.shape[:-1], 1)), blocks], axis=-1), axis=-1)
    return np.asarray((sums[..., size:] - sums[..., :-size]) / size)


def view_curves(frame: Frame) -> list[MeanCurve]:
    """Return the mean metric of lists by the number of earlier lists of their query, in the bins of the column ``reward_by_views``.

    ``impressions`` are the numbers of the bins from 0; a bin that some run of an algorithm lacks is left out.
    """
    check_comparable(frame)
    found = []
    for place, runs in frame.groups(*_PLACE):
        rewards = list(runs.sorted("fold", "seed")["reward_by_views"])
        n_bins = min(map(len, rewards))
        if not n_bins:
            raise InvalidValue(f"runs of {place[2]} have no reward_by_views: they were made by an earlier version")
        found.append(_mean_curve(place, tuple(range(n_bins)), np.array([each[:n_bins] for each in rewards])))
    return found


def view_bins(n: int) -> list[str]:
    """Return the names of the first bins of the column ``reward_by_views``.

    Examples
    --------
    >>> view_bins(4)
    ['0', '1', '2–3', '4–7']
    """
    return ["0", "1", *(f"{1 << i}–{(2 << i) - 1}" for i in range(1, n))][:n]


@dataclass(frozen=True)
class Recovery:
    """A run before and after its users changed their taste; NaN if it is too short.

    Parameters
    ----------
    before
        Mean metric of the last lists before the change.
    dip
        The lowest moving average after the change, as a share of ``before`` that is missing.
    lost
        Sum of the metric that is missing in all lists after the change, compared with ``before``.
    until
        Number of lists from the change until the moving average has recovered; 0 if it was never low, infinity if it stays low.
    end
        Mean metric of the last lists of the run.
    """

    before: float = nan
    dip: float = nan
    lost: float = nan
    until: float = nan
    end: float = nan


def recovery(blocks: NDArray[np.float64], lists: int, start: int, window: int, share: float) -> Recovery:
    """Return how a run recovers from a change.

    Parameters
    ----------
    blocks, lists
        The mean metric of each block of lists, and the number of lists in a block.
    start
        Number of lists before the change.
    window
        Number of lists of the moving average.
    share
        The moving average has recovered when it reaches this share of the level before the change.

    Examples
    --------
    >>> import numpy as np
    >>> found = recovery(np.array([0.8, 0.8, 0.4, 0.6, 0.8, 0.8]), lists=100, start=200, window=100, share=0.95)
    >>> found.before, round(found.dip, 3), round(found.lost, 3), found.until
    (0.8, 0.5, 60.0, 300.0)
    """
    size, first = max(1, window // lists), -(-start // lists)
    averages = moving_average(blocks, size)
    last = start // lists - size  # the last average that is not affected by the change
    if last < 0 or len(averages) <= first:
        return Recovery()
    before, after = float(averages[last]), averages[first - size + 1 :]
    lowest = int(after.argmin())
    reached = np.flatnonzero(after[lowest:] >= share * before)
    until = inf if not len(reached) else 0.0 if after[lowest] >= share * before else lowest + float(reached[0]) + 1.0
    lost = float((before - blocks[first:]).sum()) * lists
    return Recovery(before, 1.0 - float(after[lowest]) / before, lost, until * lists, float(averages[-1]))


def _estimate(measure: Measure, metric: str, place: tuple[str, ...], runs: Frame) -> Estimate:
    dataset, user, algorithm, base = place
    runs = runs.sorted("fold", "seed")  # the last bit of a sum depends on the order
    values = runs[f"{measure}_performance"].tolist()
    mean, std = spread(values)
    width = half_width(values) if std is not None else None
    micro = float(np.mean(1e6 * runs["seconds"] / runs["impressions"]))
    cell = (measure, metric, dataset, user, algorithm, base, len(values), mean, std, width)
    return Estimate(*cell, microseconds=micro, worst=float(np.min(values)), folds=len(set(runs["fold"].tolist())))


def _with_best(estimates: Sequence[Estimate]) -> list[Estimate]:
    highest: dict[tuple[str, str], float] = {}
    for each in estimates:
        place = each.dataset, each.user
        highest[place] = max(each.mean, highest.get(place, each.mean))
    return [replace(each, best=each.mean == highest[each.dataset, each.user]) for each in estimates]


def _with_changes(estimates: Sequence[Estimate], frame: Frame, measure: str, baseline: str) -> Iterable[Estimate]:
    """Compare each algorithm with the baseline, or else with its base, if that has runs with the same user and data set."""
    means = {(each.dataset, each.user, each.algorithm): each.mean for each in estimates}
    for each in estimates:
        rival = _rival(each, baseline, means)
        if not rival:
            yield each
            continue
        runs = frame.where(dataset=each.dataset, user=each.user)
        test = paired(runs, each.algorithm, rival, f"{measure}_performance")
        before = means[each.dataset, each.user, rival]
        change = each.mean / before - 1.0 if before else None
        single = None if isnan(test.p) else test.p
        yield replace(each, baseline=rival, change=change, pairs=test.n, single_p=single)


def _rival(estimate: Estimate, baseline: str, means: dict[tuple[str, str, str], float]) -> str:
    rival = baseline or estimate.base
    there = (estimate.dataset, estimate.user, rival) in means
    return rival if rival and rival != estimate.algorithm and there else ""


@dataclass(frozen=True)
class Paired:
    """A paired t-test of an algorithm against its base.

    Parameters
    ----------
    n
        Number of cells that both have.
    difference
        Mean over those cells of the algorithm minus the base; NaN if there are none.
    t, p
        Student's t and its two-sided p-value. Both are NaN if the test is undefined: fewer than two cells, or all
        differences equal but not zero. If all differences are zero, t = 0 and p = 1.
    """

    n: int
    difference: float
    t: float
    p: float


def paired(frame: Frame, algorithm: str, base: str, measure: str) -> Paired:
    """Test an algorithm against another over the (fold, seed) cells, of each data set and user, that both have.

    Runs with the same seed use the same queries and users, so paired differences have less variance than the difference of means.
    """
    ours, theirs = _by_cell(frame, algorithm, measure), _by_cell(frame, base, measure)
    common = sorted(ours.keys() & theirs.keys())
    return _student(np.array([ours[cell] for cell in common]), np.array([theirs[cell] for cell in common]))


def half_width(values: Sequence[float] | NDArray[np.float64], level: float = 0.95) -> float:
    """Return the half width of Student's confidence interval of a mean; NaN for fewer than two values."""
    return float(half_widths(np.asarray(values, float)[:, np.newaxis], level)[0])


def half_widths(values: NDArray[np.float64], level: float = 0.95) -> NDArray[np.float64]:
    """Return the half width for each column of (runs, columns)."""
    n, columns = values.shape
    if n < 2:
        return np.full(columns, nan)
    widths: NDArray[np.float64] = student_quantile(level, n - 1) * np.std(values, axis=0, ddof=1) / sqrt(n)
    return widths


def _by_cell(frame: Frame, algorithm: str, measure: str) -> dict[tuple[Any, ...], float]:
    runs = frame.where(algorithm=algorithm)
    cells = list(zip(*(runs[name].tolist() for name in _PAIR), strict=True))
    if len(set(cells)) < len(cells):
        raise InvalidValue(
            f"{algorithm} has several runs with the same fold and seed: select comparable runs with `where`"
        )
    return dict(zip(cells, runs[measure].tolist(), strict=True))


def _student(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> Paired:
    difference = ours - theirs
    n = len(difference)
    if n < 2:
        return Paired(n, float(difference[0]) if n else nan, nan, nan)
    mean = float(difference.mean())
    scale = max(np.abs(ours).max(), np.abs(theirs).max())
    if np.ptp(difference) <= _ROUNDING * scale:
        same = abs(mean) <= _ROUNDING * scale
        return Paired(n, mean, 0.0 if same else nan, 1.0 if same else nan)
    t = mean / float(difference.std(ddof=1)) * sqrt(n)
    return Paired(n, mean, t, student_test(t, n - 1))


@dataclass(frozen=True)
class ReplicationCell:
    """One of our cells and the published one.

    Parameters
    ----------
    published
        The name of the algorithm in the paper's table.
    mean, std
        Ours: the mean over the folds of the mean of their runs, and the standard deviation over all runs.
    published_mean, published_std
        As printed; the paper's deviation is over all its runs, too.
    within
        Standard deviation of our runs within folds, pooled over the folds; None if no fold has two runs.
    freedom
        Degrees of freedom of that deviation, and of z as Student's t: runs less folds.
    difference
        Our mean minus the published one.
    standard_error
        Standard error of the difference. Both sides use the same folds, so the variance between folds is not noise: only the
        variance within folds counts. The paper does not report it, so ours, from the same cell, is used for both sides.
    z
        The difference in standard errors.
    """

    measure: Measure
    metric: str
    user: str
    algorithm: str
    published: str
    dataset: str
    runs: int
    mean: float
    std: float | None
    published_mean: float
    published_std: float
    within: float | None
    freedom: int
    difference: float
    standard_error: float | None
    z: float | None


@dataclass(frozen=True)
class Replication:
    """Our cells of one measure, each with the published one."""

    measure: Measure
    metric: str
    cells: tuple[ReplicationCell, ...]

    def agreement(self, z: float = 2.0) -> tuple[int, int]:
        """Return the number of cells within the given number of standard errors, and the number of cells with a z value."""
        found = [cell.z for cell in self.cells if cell.z is not None]
        return sum(abs(value) <= z for value in found), len(found)

    def by_chance(self, z: float = 2.0) -> float:
        """Return the number of cells expected there if every cell were an exact replication: z is then Student's t."""
        return sum(1.0 - student_test(z, cell.freedom) for cell in self.cells if cell.z is not None)


def published() -> Frame:
    """Return the paper's two tables, one row per cell: measure, user, algorithm, dataset, mean, std.

    Some relative changes in the paper's tables are wrong: compute them from the means.
    """
    text = files("duelrank.experiments").joinpath("published.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return Frame.of({**row, "mean": float(row["mean"]), "std": float(row["std"])} for row in rows)


def replicate(frame: Frame, measure: Measure, names: Mapping[str, str]) -> Replication:
    """Compare the cells of a frame with the published ones.

    Parameters
    ----------
    names
        From an algorithm of the frame, such as ``"mgd(n_candidates=49)"``, to the published row, such as ``"mgd"``;
        algorithms and data sets without published numbers are left out.
    """
    metric = check_comparable(frame)
    known = {(r["user"], r["algorithm"], r["dataset"]): r for r in published().where(measure=measure).rows()}
    order = list(names)
    cells = []
    for (user, algorithm, dataset), runs in frame.groups("user", "algorithm", "dataset"):
        paper = known.get((user, names.get(algorithm, ""), dataset))
        if paper:
            place = user, algorithm, names[algorithm], dataset
            cells.append(
                _replication_cell(measure, metric, place, runs.sorted("fold", "seed"), paper["mean"], paper["std"])
            )
    users = list(dict.fromkeys(cell.user for cell in cells))
    cells.sort(key=lambda cell: (users.index(cell.user), order.index(cell.algorithm)))
    return Replication(measure, metric, tuple(cells))


def _replication_cell(
    measure: Measure, metric: str, place: tuple[str, str, str, str], runs: Frame, paper: float, paper_std: float
) -> ReplicationCell:
    column = f"{measure}_performance"
    folds = [fold[column] for _, fold in runs.groups("fold")]
    mean = float(np.mean([fold.mean() for fold in folds]))
    freedom = len(runs) - len(folds)
    within = _within(folds, freedom)
    # The variances of our mean of fold means and of the paper's mean, in units of the variance within folds.
    units = sum(1.0 / len(fold) for fold in folds) / len(folds) ** 2 + 1.0 / PUBLISHED_RUNS
    error = within * sqrt(units) if within else None
    difference = mean - paper
    return ReplicationCell(
        measure,
        metric,
        *place,
        runs=len(runs),
        mean=mean,
        std=spread(runs[column].tolist())[1],
        published_mean=paper,
        published_std=paper_std,
        within=within,
        freedom=freedom,
        difference=difference,
        standard_error=error,
        z=difference / error if error else None,
    )


def _within(folds: list[np.ndarray], freedom: int) -> float | None:
    """Pool the standard deviation of the runs over the folds."""
    squares = sum(float(((fold - fold.mean()) ** 2).sum()) for fold in folds)
    return sqrt(squares / freedom) if freedom else None
