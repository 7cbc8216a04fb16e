"""What a run is: a value that names everything which decides its result."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms import Algorithm
from duelrank.datasets import Dataset
from duelrank.metrics import Metric, nDCG
from duelrank.registry import Between, Part, canonical, register, spell
from duelrank.users import User

__all__ = ["RunSpec"]


@register
@dataclass(frozen=True, repr=False)
class RunSpec(Part):
    """One run, from its parts; equal specs give equal records, to the bit.

    Two runs that differ in their algorithm only meet the same queries, and users with the same coins in their pockets.

    Parameters
    ----------
    algorithm, dataset, user
        Who learns, on what, from whom; each as itself or as its text, such as ``"mgd-dsp"``.
    fold
        Which fold of the data set, from 1.
    seed
        Of everything that is random.
    impressions
        How many lists are shown.
    length
        How many documents a list has.
    metric
        Measures each shown list, and the current weights at every checkpoint.
    split
        What the weights are measured on: "test", or "validation" while choosing settings.
    """

    kind: ClassVar[str] = "run"

    algorithm: Algorithm
    dataset: Dataset
    user: User
    fold: Annotated[int, Between(1, 1_000_000)] = 1
    seed: Annotated[int, Between(0)] = 1
    impressions: Annotated[int, Between(1, 1_000_000_000)] = 10_000
    length: Annotated[int, Between(1, 1_000_000)] = 10
    metric: Metric = nDCG(cutoff=10)
    split: Literal["test", "validation"] = "test"

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(
            self,
            algorithm: Algorithm | str,
            dataset: Dataset | str,
            user: User | str,
            fold: int = 1,
            seed: int = 1,
            impressions: int = 10_000,
            length: int = 10,
            metric: Metric | str = ...,
            split: Literal["test", "validation"] = "test",
        ) -> None: ...

    @property
    def id(self) -> str:
        """A readable name: algorithm/user/data set/fold/seed."""
        parts = (spell(self.algorithm), spell(self.user), spell(self.dataset))
        return "/".join((*parts, f"fold{self.fold}", f"seed{self.seed}"))

    @property
    def digest(self) -> str:
        """Ten hexadecimal digits that change with anything that could change the result, defaults included."""
        return hashlib.blake2b(canonical(self).encode(), digest_size=5).hexdigest()

    @property
    def checkpoints(self) -> NDArray[np.int64]:
        """After how many impressions the weights are measured: about eight times per power of ten, and at the end."""
        n = 1 + int(8 * np.log10(self.impressions))
        return np.unique(np.geomspace(1, self.impressions, n).round().astype(np.int64))
