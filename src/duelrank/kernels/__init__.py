"""Compiled array functions. They take and return arrays and scalars, hold no policy, and import numpy and each other only.

`tests/reference` has a slow, obvious version of each, with which a property test compares it.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Labels: TypeAlias = NDArray[np.int8]  # relevance grades, 0 is irrelevant
Stream: TypeAlias = NDArray[np.uint64]  # (4,) the state of one random stream; draws advance it in place
