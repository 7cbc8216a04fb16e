"""Defines experiments: each answers one question of a suite with tables and figures made from the runs of the suite.

A kind of experiment is a registered class: ``kind = "curves"`` in a suite is the class `Curves`. To add one, register a
subclass of `Experiment` that overrides `tables` or `figures`; its fields are the keys of the suite file.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from duelrank.algorithms import Algorithm
from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.core.grammar import as_part, listed
from duelrank.core.registry import P, Part, spell
from duelrank.core.validation import whole_number
from duelrank.datasets import Dataset
from duelrank.experiments.report import Picture, Section
from duelrank.experiments.results import Frame
from duelrank.experiments.summary import MEASURES, Measure, Summary, corrected, summarise
from duelrank.experiments.tables import Table
from duelrank.metrics import Metric, nDCG
from duelrank.simulation import Guarded, Logged, RunSpec
from duelrank.users import User

_NDCG = nDCG(cutoff=10)

#: The label of a baseline, which may be empty, and the labels of the recipes to compare; none means all.
Comparison: TypeAlias = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Grid:
    """The runs of an experiment; `specs` returns them. Every part may be given as text.

    Parameters
    ----------
    algorithms, dataset, users
        The algorithms, the data set and the simulated users; duplicates run once.
    runs
        Number of runs per algorithm and user: one per fold first, then further seeds.
    impressions, length, metric, split
        As in `RunSpec`.
    guards
        Each algorithm runs with each of them; None is no guard.
    logs
        Each algorithm runs after each of them; None is no log.

    Examples
    --------
    >>> from duelrank.experiments import Grid
    >>> grid = Grid(["mgd", "mgd-dsp"], "synthetic", "perfect", runs=2)
    >>> [spec.id for spec in grid.specs()][:2]
    ['mgd/perfect/synthetic/fold1/seed1', 'mgd/perfect/synthetic/fold2/seed1']
    """

    algorithms: tuple[Algorithm, ...]
    dataset: Dataset
    users: tuple[User, ...]
    runs: int = 3
    impressions: int = 10_000
    length: int = 10
    metric: Metric = _NDCG
    split: Literal["test", "validation"] = "test"
    guards: tuple[Guarded | None, ...] = (None,)
    logs: tuple[Logged | None, ...] = (None,)

    if TYPE_CHECKING:  # the constructor accepts more types than the fields have

        def __init__(
            self,
            algorithms: Sequence[Algorithm | str] | Algorithm | str,
            dataset: Dataset | str,
            users: Sequence[User | str] | User | str,
            runs: int = 3,
            impressions: int = 10_000,
            length: int = 10,
            metric: Metric | str = ...,
            split: Literal["test", "validation"] = "test",
            guards: Sequence[Guarded | None] = (None,),
            logs: Sequence[Logged | None] = (None,),
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "algorithms", parts(self.algorithms, Algorithm))
        object.__setattr__(self, "users", parts(self.users, User))
        object.__setattr__(self, "dataset", as_part(self.dataset, Dataset))
        object.__setattr__(self, "metric", as_part(self.metric, Metric))
        if not self.algorithms or not self.users:
            raise InvalidValue("an experiment needs at least one algorithm and one user")
        whole_number("runs", self.runs)

    def specs(self) -> list[RunSpec]:
        """Return the runs, user by user, algorithm by algorithm, guard by guard and log by log."""
        return [
            self._spec(algorithm, user, guard, log, number)
            for user in self.users
            for algorithm in self.algorithms
            for guard in self.guards
            for log in self.logs
            for number in range(self.runs)
        ]

    def _spec(
        self, algorithm: Algorithm, user: User, guard: Guarded | None, log: Logged | None, number: int
    ) -> RunSpec:
        seed, fold = divmod(number, self.dataset.n_folds)
        return RunSpec(
            algorithm=algorithm,
            dataset=self.dataset,
            user=user,
            fold=fold + 1,
            seed=seed + 1,
            impressions=self.impressions,
            length=self.length,
            metric=self.metric,
            split=self.split,
            guard=guard,
            log=log,
        )


def parts(given: Any, kind: type[P]) -> tuple[P, ...]:
    """Return one or several parts, given as objects or texts, without duplicates."""
    return tuple(dict.fromkeys(as_part(each, kind) for each in listed(given)))


@dataclass(frozen=True)
class Study:
    """The input of an experiment's tables and figures: the runs of a whole suite, with the labels of its recipes.

    Parameters
    ----------
    recipes
        From each label to the algorithm.
    published
        From a label to the paper's row for it.
    skylines
        The performance of the offline reference by data set; empty if the suite does not need it.
    guards
        From each label to the guard.
    impressions
        Length of the suite's own runs; 0 if all runs have the same length.
    comparisons
        The baseline and the recipes of each table with tests on the page: p-values are corrected for all of their tests.

    Examples
    --------
    >>> from duelrank import parse
    >>> from duelrank.experiments import Study, compare
    >>> runs = compare(["mgd", "mgd-dsp"], "synthetic(n_queries=10)", "perfect", runs=2, impressions=50, workers=1)
    >>> study = Study(runs, {"plain": parse("mgd"), "projected": parse("mgd-dsp")}, published={}, skylines={})
    >>> round(study.summary("offline", baseline="plain").estimates[1].change, 3)
    0.203
    """

    frame: Frame
    recipes: Mapping[str, Algorithm]
    published: Mapping[str, str]
    skylines: Mapping[str, float]
    guards: Mapping[str, Guarded] = field(default_factory=dict)
    impressions: int = 0
    comparisons: tuple[Comparison, ...] = ()

    @cached_property
    def labels(self) -> dict[str, str]:
        """From each algorithm, as text in frames, to its label."""
        return {spell(algorithm): label for label, algorithm in self.recipes.items()}

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        """The data sets that have runs."""
        return tuple(dict.fromkeys(self.frame["dataset"].tolist()))

    @cached_property
    def plain(self) -> Frame:
        """The runs without a guard and without a log, of the suite's own length."""
        frame = self.frame
        for addition in ("guard", "log"):
            frame = frame.where(**{addition: ""}) if addition in frame.columns else frame
        return frame.where(impressions=self.impressions) if self.impressions else frame

    def algorithm(self, label: str) -> str:
        """Return an algorithm as text in frames."""
        if label not in self.recipes:
            raise UnknownName.among("recipe", label, self.recipes)
        return spell(self.recipes[label])

    def runs(self, labels: Collection[str] = (), dataset: str | None = None) -> Frame:
        """Return the plain runs of some recipes, or of all recipes with a label, on one data set or on all."""
        wanted = [self.algorithm(label) for label in labels or self.recipes]
        frame = self.plain.among("algorithm", wanted)
        return frame if dataset is None else frame.where(dataset=dataset)

    def summary(self, measure: Measure, baseline: str = "", labels: Collection[str] = ()) -> Summary:
        """Summarise the runs of some recipes, or of all; the baseline is a label."""
        asked = baseline, tuple(labels)
        family = self._page if asked in self.comparisons else self._family((asked,))
        return family[measure, asked]

    @cached_property
    def _page(self) -> dict[tuple[Measure, Comparison], Summary]:
        return self._family(self.comparisons)

    def _family(self, comparisons: tuple[Comparison, ...]) -> dict[tuple[Measure, Comparison], Summary]:
        """Return both measures of some comparisons, with all of their tests as one family."""
        places = [(measure, each) for each in comparisons for measure in MEASURES]
        found = [
            summarise(self.runs(labels), measure, self.algorithm(baseline) if baseline else "")
            for measure, (baseline, labels) in places
        ]
        return dict(zip(places, corrected(found), strict=True))


@dataclass(frozen=True, repr=False, kw_only=True)
class Experiment(Part, ABC):
    """One question and the presentation of its answer; the base class of all kinds of experiments.

    Parameters
    ----------
    title, question, text
        The heading, the question, and paragraphs that explain the answer, for the report.
    """

    kind: ClassVar[str] = "experiment"

    title: str
    question: str = ""
    text: str = ""

    def tables(self, study: Study) -> tuple[Table, ...]:
        """Return the tables; none by default."""
        return ()

    def figures(self, study: Study) -> tuple[Picture, ...]:
        """Return the figures; none by default."""
        return ()

    def answer(self, study: Study) -> str:
        """Return the answer in a sentence or two; none by default."""
        return ""

    def recipes_of(self, study: Study) -> dict[str, Algorithm]:
        """Return the labels and algorithms in the tables and figures; all recipes of the suite by default."""
        return dict(study.recipes)

    def section(self, study: Study) -> Section:
        """Return the section of the report."""
        recipes = tuple(self.recipes_of(study).items())
        shown = self.tables(study), self.figures(study)
        return Section(self.title, self.question, self.text, *shown, recipes, self.answer(study))

    def algorithms(self) -> dict[str, Algorithm]:
        """Return algorithms to run in addition to the recipes of the suite, with their labels."""
        return {}

    def labels(self) -> tuple[str, ...]:
        """Return the labels that the suite must define."""
        return ()

    def further(self, grid: Grid, recipes: Mapping[str, Algorithm], guards: Mapping[str, Guarded]) -> tuple[Grid, ...]:
        """Return further runs, made of the grid, the recipes and the guards of the suite; none by default."""
        return ()

    def comparisons(self) -> tuple[Comparison, ...]:
        """Return the baseline and the recipes of each table with tests, as labels; none by default."""
        return ()

    def guard_labels(self) -> tuple[str, ...]:
        """Return the labels of guards that the suite must define."""
        return ()

    def only(self, labels: Collection[str]) -> Experiment | None:
        """Return the experiment restricted to some recipes of the suite, or None if it needs others."""
        return self if set(self.labels()) <= set(labels) else None

    @property
    def needs_reference(self) -> bool:
        """Whether the offline reference is part of the tables or figures."""
        return False
