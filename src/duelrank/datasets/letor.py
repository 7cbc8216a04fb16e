"""Defines `Imported`: a data set of the catalogue, or any other set imported on this machine."""

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
    """A data set that was imported from LETOR files with `duelrank data add`.

    Parameters
    ----------
    name
        The name in the catalogue, or the name given at the import.
    drop_constant
        Drop features that are constant in all training documents; the same ones in validation and test.
    scale
        "query": scale every feature to [0, 1] within each query, 0 if it is constant there; "none": do not scale.
    drop_irrelevant_test
        Drop test queries without a relevant document.

    Examples
    --------
    Data of your own becomes an imported set too, here one that is not scaled:

    >>> from dataclasses import replace
    >>> from duelrank import Dataset
    >>> prices, grades = [[5.0], [90.0], [20.0], [60.0], [10.0], [30.0]], [2, 0, 1, 0, 2, 1]
    >>> data = Dataset.from_arrays(prices, grades, query_ids=[1, 1, 2, 2, 3, 3])
    >>> [each.fold().test.features.tolist() for each in (data, replace(data, scale="none"))]
    [[[0.0], [1.0]], [[20.0], [60.0]]]
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
        """Number of folds: as installed, or else as published."""
        known = library.info(self.name)
        return len(known.meta.folds) if known.meta else CATALOGUE[self.name].n_folds

    @property
    def n_grades(self) -> int:
        """Number of relevance grades; labels are from 0 to n_grades − 1."""
        known = library.info(self.name)
        return known.meta.n_grades if known.meta else CATALOGUE[self.name].n_grades

    def fold(self, number: int = 1) -> Fold:
        """Open one fold; the first use prepares it, which takes about as long as reading it."""
        preparation = Preparation(self.drop_constant, self.scale, self.drop_irrelevant_test)
        return library.open_prepared(self.name, number, preparation)


for _name in CATALOGUE:
    alias(_name, Imported(name=_name))


@source
def _added() -> Mapping[str, Part]:
    """Return the imported sets that are not in the catalogue."""
    return {name: Imported(name=name) for name in library.names() if name not in CATALOGUE}
