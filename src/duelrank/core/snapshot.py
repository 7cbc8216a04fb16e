"""Saves the state of a learner as bytes, and validates it on loading."""

from __future__ import annotations

import io
import json
import warnings
import zlib
from dataclasses import dataclass
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile

import numpy as np

from duelrank.core.errors import DuelrankError, InvalidValue
from duelrank.core.grammar import parse
from duelrank.core.memory import flatten, nest
from duelrank.core.types import State, frozen
from duelrank.core.validation import whole_number

FORMAT = 1
_LEAST = {"n_features": 1, "seed": 0, "length": 1, "ranked": 0}
# All exceptions that zipfile, numpy and json were observed to raise for damaged bytes.
_DAMAGE = (
    *(BadZipFile, zlib.error, LookupError, ValueError, TypeError, AttributeError, EOFError, OSError, RuntimeError),
    *(TokenError, SyntaxError, MemoryError),
)


@dataclass(frozen=True)
class Snapshot:
    """The saved state of a learner: recipe, seed, counters and `State`.

    Parameters
    ----------
    algorithm
        The text of the recipe.
    n_features, seed, length, feature_names
        The parameters of `Learner`.
    ranked
        Number of lists that the learner has made.
    state
        The learned state.

    Examples
    --------
    A second learner continues from the saved state of the first:

    >>> from duelrank import Feedback, Learner, Query, Snapshot
    >>> learner, query = Learner("mgd-dsp", n_features=2), Query("shoes", [[0.1, 0.9], [0.8, 0.2]])
    >>> learner.learn(learner.rank(query), Feedback([False, True]))
    >>> content = learner.snapshot().to_bytes()
    >>> other = Learner("mgd-dsp", n_features=2)
    >>> other.restore(Snapshot.from_bytes(content))
    >>> other.state == learner.state, other.state.step
    (True, 1)
    """

    algorithm: str
    n_features: int
    seed: int
    length: int
    ranked: int
    state: State
    feature_names: tuple[str, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features; f1, f2, … if the learner has none."""
        return self.feature_names or tuple(f"f{number}" for number in range(1, self.n_features + 1))

    def check(self) -> None:
        """Raise `InvalidValue` if a value is not valid for a learner."""
        counts = {name: getattr(self, name) for name in _LEAST} | {
            "step": self.state.step,
            "updates": self.state.updates,
        }
        for name, value in counts.items():
            whole_number(f"a snapshot's {name}", value, _LEAST.get(name, 0))
        if not isinstance(self.algorithm, str):
            raise InvalidValue(f"the algorithm of a snapshot must be the text of a recipe, got {self.algorithm!r}")
        names = self.feature_names
        if names is not None and (len(names) != self.n_features or not all(isinstance(name, str) for name in names)):
            raise InvalidValue(f"the feature names of a snapshot must be {self.n_features} strings, got {names!r}")
        weights = self.state.weights
        expected = self._n_weights()
        if weights.dtype != np.float64 or weights.shape != (expected,) or not np.isfinite(weights).all():
            found = f"{weights.dtype} of shape {weights.shape}"
            raise InvalidValue(f"the weights of a snapshot must be {expected} finite float64 numbers, got {found}")
        for name, array in flatten(self.state.memory).items():
            if array.dtype.kind not in "biuf":
                raise InvalidValue(f"the memory of a snapshot must contain only numbers, got {array.dtype} in {name}")

    def _n_weights(self) -> int:
        """Return the number of weights of the recipe for these features and this memory."""
        recipe: Any = parse(self.algorithm)
        try:
            if recipe.n_features(self.state) == self.n_features:
                return int(recipe.n_weights(self.n_features, self.state.memory))
        except (LookupError, AttributeError, TypeError, ValueError) as error:
            raise InvalidValue(f"the memory of a snapshot does not fit {self.algorithm}: {error}") from None
        return self.n_features

    def to_bytes(self) -> bytes:
        """Return the bytes of an ``.npz`` file."""
        head = {name: getattr(self, name) for name in ("algorithm", *_LEAST)}
        head |= {"step": self.state.step, "updates": self.state.updates, "format": FORMAT}
        if self.feature_names:  # earlier versions do not know this field
            head["feature_names"] = self.feature_names
        arrays: dict[str, Any] = {f"memory/{name}": array for name, array in flatten(self.state.memory).items()}
        arrays |= {"weights": self.state.weights, "head": np.array(json.dumps(head))}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Snapshot:
        """Read the bytes that `to_bytes` returned; nothing in them is ever executed."""
        try:
            with warnings.catch_warnings(), np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                warnings.simplefilter("ignore")  # numpy mistakes damaged bytes for the header of a very old file
                found = {name: arrays[name] for name in arrays.files}
            head = json.loads(str(found.pop("head")))
            if head.pop("format") != FORMAT:
                raise InvalidValue("this snapshot was made by another version of duelrank")
            weights = frozen(found.pop("weights"))
            if (names := head.pop("feature_names", None)) is not None:
                head["feature_names"] = tuple(names)
            flat = {name.removeprefix("memory/"): array for name, array in found.items()}
            memory = nest(flat, parse(head["algorithm"]))
            snapshot = cls(state=State(weights, head.pop("step"), head.pop("updates"), memory), **head)
        except DuelrankError:
            raise
        except _DAMAGE as error:
            raise InvalidValue(f"these bytes are not a snapshot of a learner: {error}") from None
        snapshot.check()
        return snapshot
