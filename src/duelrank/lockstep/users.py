"""Twin of the simulated users: one form for all of them, so that runs with different users share a program.

P(click at rank r | seen) = r^−decay · P(click | grade), then P(stop | rank, grade) after a click and without one. A cascade user, a
DCM and a DBN have decay 0; the position-based model never stops.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from duelrank.lockstep.draws import Draws, Purpose
from duelrank.lockstep.twin import Array, Clicked, Numbers
from duelrank.users import DBN, DCM, PBM, Cascade, User


def obstacle(user: User, n_grades: int) -> str | None:
    """Return the reason why a user cannot be simulated in lockstep; None if it can."""
    chosen = user.for_grades(n_grades)
    return None if type(chosen) in (Cascade, DCM, DBN, PBM) else f"{type(chosen).__name__} has no lockstep twin"


def numbers_of(user: User, n_grades: int, length: int, grades: int) -> Numbers:
    """Return the tables of a user for lists of a length, for grades 0 to grades − 1."""
    chosen: Any = user.for_grades(n_grades)
    if isinstance(chosen, PBM):
        click, decay = chosen.attraction, chosen.decay
        clicked = skipped = np.zeros((1, len(click)))
    else:
        decay = 0.0
        tables = chosen._tables if isinstance(chosen, Cascade) else (chosen.attraction, *chosen._stops)
        click, clicked, skipped = tables
    return {
        "click": _widened(click[None, :], 1, grades)[0],
        "stop_clicked": _widened(clicked, length, grades),
        "stop_skipped": _widened(skipped, length, grades),
        "decay": float(decay),
    }


def _widened(table: NDArray[np.float64], rows: int, columns: int) -> NDArray[np.float64]:
    """Repeat the last row down to the length of a list, and add zeros for grades that do not occur."""
    tall = table[np.minimum(np.arange(rows), len(table) - 1)]
    wide = np.zeros((rows, columns))
    wide[:, : min(columns, table.shape[1])] = tall[:, :columns]
    return wide


def click(numbers: Numbers, labels: Array, places: Array, draws: Draws) -> Clicked:
    """Scan from the top: click by the grade, then stop. Every position takes two draws."""
    length = labels.shape[0]
    rank = jnp.arange(1, length + 1)
    row = jnp.arange(length)
    wants = draws.uniform(Purpose.CLICKS, (length,)) < rank ** -numbers["decay"] * numbers["click"][labels]
    stop = jnp.where(wants, numbers["stop_clicked"][row, labels], numbers["stop_skipped"][row, labels])
    stops = (draws.uniform(Purpose.STOPS, (length,)) < stop) & places
    first = jnp.min(jnp.where(stops, rank, length))
    clicks = wants & places & (rank <= first)
    last = jnp.max(jnp.where(clicks, rank, 0))
    return Clicked(clicks, last.astype(jnp.int32), jnp.minimum(first, jnp.sum(places)).astype(jnp.int32))
