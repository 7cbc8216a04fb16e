"""The lists of a log in arrays: what was shown, what might have been shown, and what each candidate would have shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.core.types import Features, Gains, Ranking

Values: TypeAlias = NDArray[np.float64]
#: Lists of documents as rows or entries, best first; −1 behind the end of a list. The last axis is the position.
Ranked: TypeAlias = NDArray[np.int64]

#: The largest number of values of features in memory; of a larger log, every second, fourth, … list counts.
MAX_VALUES = 60_000_000
#: The default number of lists that are drawn again from the logging policy, with the one that was shown.
SAMPLES = 32


class LoggedList(NamedTuple):
    """A list that was shown, its actions, and other lists of the same documents.

    Parameters
    ----------
    features
        (n_documents, n_features) of all candidate documents; NaN is a missing value.
    shown
        The rows of the shown documents, best first.
    gains
        The weight of the action at each shown position; 0 without an action.
    sampled
        (n, length) rows of lists that the logging policy might have shown instead, drawn from it independently. Without any, only
        the list that was shown was possible.
    candidates
        (n_candidates, length) rows of the list of each candidate.
    """

    features: Features
    shown: Ranking
    gains: Gains
    sampled: Ranked
    candidates: Ranked


class Lists:
    """The lists of a log. An entry is a document of one list; entries are numbered through all lists.

    Parameters
    ----------
    covariates
        (n_rows, n_features + 1), what the click model knows of documents: a 1, and each feature in the range of its list. Documents
        with the same features are the same.
    rows
        The row of each entry; the last entry, −1, stands for no document.
    shown
        (n, length) the entries at each position.
    gains
        (n, length) the weights of actions.
    sampled
        (n, samples, length) lists from the logging policy, first the one that was shown.
    candidates
        (n_candidates, n, length) the lists of each candidate.
    """

    def __init__(
        self,
        covariates: Values,
        rows: NDArray[np.int64],
        shown: Ranked,
        gains: Values,
        sampled: Ranked,
        candidates: Ranked,
    ) -> None:
        self.covariates, self.rows, self.shown, self.gains = covariates, rows, shown, gains
        self.sampled, self.candidates = sampled, candidates

    def __len__(self) -> int:
        return len(self.shown)

    @property
    def n_entries(self) -> int:
        """The number of entries, with the one that stands for no document."""
        return len(self.rows)

    @property
    def length(self) -> int:
        """The number of positions."""
        return int(self.shown.shape[1])

    @property
    def varied(self) -> NDArray[np.bool_]:
        """Whether the logging policy might have shown another list, for each list."""
        found: NDArray[np.bool_] = (self.sampled != self.shown[:, None, :]).any(axis=(1, 2))
        return found

    @classmethod
    def of(cls, logged: Iterable[LoggedList], max_values: int = MAX_VALUES) -> Lists:
        """Return the lists of a log; if they need too much memory, every second, fourth, … of them."""
        kept: list[LoggedList] = []
        stride, values = 1, 0
        for number, each in enumerate(logged):
            if number % stride:
                continue
            kept.append(_compact(each))
            values += kept[-1].features.size
            while values > max_values and len(kept) > 1:
                kept, stride = kept[::2], 2 * stride
                values = sum(one.features.size for one in kept)
        return _packed(kept)


def _compact(each: LoggedList) -> LoggedList:
    """Return a list with only those documents that occur in one of its rankings, and scaled features."""
    used = np.unique(np.concatenate([np.ravel(part) for part in (each.shown, each.sampled, each.candidates)]))
    used = used[used >= 0]
    places = np.full(len(each.features) + 1, -1, np.int64)
    places[used] = np.arange(len(used))
    rankings = (places[part] for part in (each.shown, each.sampled, each.candidates))
    shown, sampled, candidates = rankings
    return LoggedList(_scaled(each.features)[used], shown, each.gains, sampled, candidates)


def _scaled(features: Features) -> NDArray[np.float32]:
    """Return features in the range of their list, 0 to 1; one half for a missing value, and for a feature without a range."""
    known = np.where(np.isfinite(features), features, np.nan)
    with np.errstate(all="ignore"):
        low, high = np.fmin.reduce(known), np.fmax.reduce(known)
        scaled = (known - low) / (high - low)
    return np.where(np.isfinite(scaled), scaled, 0.5).astype(np.float32)


def _packed(kept: list[LoggedList]) -> Lists:
    length = max((max(each.shown.shape[-1], each.candidates.shape[-1]) for each in kept), default=1)
    samples = 1 + max((len(each.sampled) for each in kept), default=0)
    n, n_candidates = len(kept), len(kept[0].candidates) if kept else 0
    shown, gains = np.full((n, length), -1, np.int64), np.zeros((n, length))
    sampled, candidates = np.full((n, samples, length), -1, np.int64), np.full((n_candidates, n, length), -1, np.int64)
    first = 0
    for number, each in enumerate(kept):
        gains[number, : len(each.gains)] = each.gains
        _put(shown[number], each.shown, first)
        sampled[number] = shown[number]  # if nothing else was possible, every draw is the list itself
        _put(sampled[number, 1 : 1 + len(each.sampled)], each.sampled, first)
        if len(each.sampled):  # fewer draws than others have are repeated, which keeps their shares
            sampled[number] = sampled[number, np.arange(samples) % (1 + len(each.sampled))]
        _put(candidates[:, number], each.candidates, first)
        first += len(each.features)
    known: dict[bytes, int] = {}
    rows = [known.setdefault(row.tobytes(), len(known)) for each in kept for row in each.features]
    table = np.frombuffer(b"".join(known), np.float32).reshape(len(known), -1) if known else np.empty((0, 0))
    covariates = np.concatenate([np.ones((len(known), 1)), table], axis=1)
    return Lists(covariates, np.array([*rows, -1]), shown, gains, sampled, candidates)


def _put(place: Ranked, ranked: Ranked, first: int) -> None:
    """Write rows of one list as entries."""
    place[..., : ranked.shape[-1]] = np.where(ranked >= 0, ranked + first, -1)
