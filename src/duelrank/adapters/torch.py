"""Scorers in PyTorch: a network of one's own in a few lines, with the gradient of PyTorch."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import MissingExtra, ShapeMismatch
from duelrank.core.registry import spell
from duelrank.core.types import Features, Gradient, Stream, Weights
from duelrank.kernels.random import normals
from duelrank.scoring import Scorer


@dataclass(frozen=True, repr=False)
class TorchScorer(Scorer):
    """A scorer in PyTorch: a subclass gives the shapes of its parameters and computes the scores; needs the extra ``torch``.

    Parameters are consecutive parts of the vector of weights, in float64 on the CPU. PyTorch is set to one thread in the whole
    process, because the number of threads may change sums. Results can differ in their last bits between processors and versions
    of PyTorch.
    """

    @abstractmethod
    def shapes(self, n_features: int) -> Sequence[tuple[int, ...]]:
        """Return the shapes of the parameters; the last axis of a matrix is that of its inputs."""

    @abstractmethod
    def forward(self, parameters: Sequence[Any], features: Any) -> Any:
        """Return the scores of one query's documents, a tensor of shape (n_documents,), from tensors."""

    def n_weights(self, n_features: int) -> int:
        """Return the number of all parameters."""
        return sum(map(math.prod, self.shapes(n_features)))

    def start(self, n_features: int, stream: Stream) -> Weights:
        """Draw all parameters with variance 2 / inputs, but the last one is 0, so that a weighted sum at the end starts at 0.

        A vector, such as biases, has the inputs of the matrix before it.
        """
        _torch()  # so that a missing package is found at once
        shapes, inputs, drawn = self.shapes(n_features), n_features, []
        for shape in shapes[:-1]:
            inputs = shape[-1] if len(shape) > 1 else inputs
            drawn.append(normals(stream, 1, math.prod(shape))[0] * math.sqrt(2.0 / inputs))
        return np.concatenate([*drawn, np.zeros(math.prod(shapes[-1]))])

    def scores(self, weights: Weights, features: Features) -> NDArray[np.float64]:
        """Compute the scores without a gradient."""
        torch = _torch()
        with torch.no_grad():
            found: NDArray[np.float64] = self._run(torch.tensor(weights), torch.tensor(features)).numpy()
        return found

    def gradient(self, weights: Weights, features: Features, slopes: NDArray[np.float64]) -> Gradient:
        """Compute the scores, and go back."""
        torch = _torch()
        leaves = torch.tensor(weights, requires_grad=True)
        scores = self._run(leaves, torch.tensor(features))
        found: Gradient = torch.autograd.grad(scores, leaves, torch.tensor(slopes))[0].numpy()
        return found

    def _run(self, weights: Any, features: Any) -> Any:
        shapes = self.shapes(features.shape[1])
        parts = weights.split([math.prod(shape) for shape in shapes])
        scores = self.forward([part.view(shape) for part, shape in zip(parts, shapes, strict=True)], features)
        if tuple(scores.shape) != (len(features),):
            raise ShapeMismatch(
                f"forward of {spell(self)} must return one score per document, ({len(features)},), got {tuple(scores.shape)}"
            )
        return scores


@cache
def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtra("a scorer in PyTorch needs torch: pip install 'duelrank[torch]'") from None
    torch.set_num_threads(1)
    return torch
