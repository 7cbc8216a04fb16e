"""Imported data sets: those of the catalogue by their names, and any other that was added on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from duelrank.datasets import library
from duelrank.datasets.base import Dataset
from duelrank.datasets.catalogue import CATALOGUE
from duelrank.datasets.preparation import Preparation
from duelrank.datasets.split import Fold
from duelrank.registry import Part, alias, register, source

__all__ = ["Imported"]


@register
@dataclass(frozen=True, repr=False)
class Imported(Dataset):
    """A data set that was imported from LETOR text; `duelrank data add` brings one in.

    Parameters
    ----------
    name
        Of the catalogue, or the one that it was added under.
    drop_constant
        Leave out features that have one value in all training documents; the same ones in validation and test.
    scale
        "query": every feature to [0, 1] within each query, 0 where it is constant there; "none": as it is.
    drop_irrelevant_test
        Leave out test queries that have no relevant document.
    """

    name: str
    drop_constant: bool = True
    scale: Literal["query", "none"] = "query"
    drop_irrelevant_test: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        library.check_spelling(self.name)

    @property
    def n_folds(self) -> int:
        """How many folds there are: as installed, or else as published."""
        known = library.info(self.name)
        return len(known.meta.folds) if known.meta else CATALOGUE[self.name].n_folds

    @property
    def n_grades(self) -> int:
        """How many relevance grades there are: labels go from 0 to one less."""
        known = library.info(self.name)
        return known.meta.n_grades if known.meta else CATALOGUE[self.name].n_grades

    def fold(self, number: int = 1) -> Fold:
        """Open one fold; preparing it on first use takes about as long as reading it."""
        preparation = Preparation(self.drop_constant, self.scale, self.drop_irrelevant_test)
        return library.open_prepared(self.name, number, preparation)


for _name in CATALOGUE:
    alias(_name, Imported(name=_name))


@source
def _added() -> Mapping[str, Part]:
    """The sets that were added under names of their own."""
    return {name: Imported(name=name) for name in library.names() if name not in CATALOGUE}
