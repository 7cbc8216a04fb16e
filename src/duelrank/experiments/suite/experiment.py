"""Experiments: one question of a suite each, with the tables and figures that answer it.

A kind of experiment is a registered class: ``kind = "curves"`` in a suite is the class `Curves`. To add one, register a
subclass of `Experiment` that overrides `tables` or `figures`; its fields are the keys of the suite file.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from duelrank.algorithms import Algorithm
from duelrank.errors import UnknownName
from duelrank.experiments.report import Picture, Section
from duelrank.experiments.results import Frame, Measure, Summary, summarise
from duelrank.experiments.tables import Table
from duelrank.registry import Part, spell

__all__ = ["Experiment", "Study"]


@dataclass(frozen=True)
class Study:
    """What an experiment makes tables and figures of: the runs of a whole suite, with the labels of its recipes.

    Parameters
    ----------
    recipes
        From each label to the algorithm.
    published
        From a label to the paper's row for it.
    skylines
        The offline reference's performance by data set; empty where the suite does not need it.
    """

    frame: Frame
    recipes: Mapping[str, Algorithm]
    published: Mapping[str, str]
    skylines: Mapping[str, float]

    @cached_property
    def labels(self) -> dict[str, str]:
        """From each algorithm, as frames spell it, to its label."""
        return {spell(algorithm): label for label, algorithm in self.recipes.items()}

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        """The data sets that there are runs on."""
        return tuple(dict.fromkeys(self.frame["dataset"].tolist()))

    def algorithm(self, label: str) -> str:
        """Return an algorithm as frames spell it."""
        if label not in self.recipes:
            raise UnknownName.among("recipe", label, self.recipes)
        return spell(self.recipes[label])

    def runs(self, labels: Collection[str] = (), dataset: str | None = None) -> Frame:
        """Return the runs of some recipes, or of all that have a label, on one data set or on all."""
        wanted = [self.algorithm(label) for label in labels or self.recipes]
        frame = self.frame.among("algorithm", wanted)
        return frame if dataset is None else frame.where(dataset=dataset)

    def summary(self, measure: Measure, baseline: str = "") -> Summary:
        """Summarise the runs of all recipes; the baseline is a label."""
        return summarise(self.runs(), measure, self.algorithm(baseline) if baseline else "")


@dataclass(frozen=True, repr=False, kw_only=True)
class Experiment(Part, ABC):
    """One question, and how its answer is shown; the base of all kinds of experiments.

    Parameters
    ----------
    title, question, text
        What the report says: the heading, the question, and paragraphs that explain the answer.
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

    def recipes_of(self, study: Study) -> dict[str, Algorithm]:
        """Return label and algorithm of everything in the tables and figures; all recipes of the suite by default."""
        return dict(study.recipes)

    def section(self, study: Study) -> Section:
        """Return the section of the report."""
        recipes = tuple(self.recipes_of(study).items())
        return Section(self.title, self.question, self.text, self.tables(study), self.figures(study), recipes)

    def algorithms(self) -> dict[str, Algorithm]:
        """Return algorithms that have to run besides the recipes of the suite, with their labels."""
        return {}

    def labels(self) -> tuple[str, ...]:
        """Return the labels that have to be among the recipes of the suite."""
        return ()

    def only(self, labels: Collection[str]) -> Experiment | None:
        """Return the experiment with some of the suite's recipes; None where it needs others."""
        return self if set(self.labels()) <= set(labels) else None

    @property
    def needs_reference(self) -> bool:
        """Whether the offline reference is part of the tables or figures."""
        return False
