"""Scorers: functions from features to scores that are not linear, such as neural networks, with all weights in one vector."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank.core.errors import InvalidValue
from duelrank.core.registry import Between, Part, register, spell
from duelrank.core.types import Features, Gradient, Stream, Weights
from duelrank.kernels import ranking
from duelrank.kernels.random import normals


class Graph(Protocol):
    """The ONNX graph that `Scorer.onnx` adds its nodes to."""

    def add(self, operator: str, inputs: str, output: str, **attributes: Any) -> str:
        """Add a node, with the names of its inputs separated by blanks, and return the name of its output."""

    def numbers(self, **named: ArrayLike) -> None:
        """Add constants by name, in single precision."""


@dataclass(frozen=True, repr=False)
class Scorer(Part, ABC):
    """A differentiable function from the features of documents to their scores; it holds parameters, never weights.

    The weights are one vector, so states, snapshots and stores are those of any other ranker. A subclass gives their number, their
    first values, the scores and the gradient; `duelrank.algorithms.Scored` makes an algorithm of it.
    """

    kind: ClassVar[str] = "scorer"

    @abstractmethod
    def n_weights(self, n_features: int) -> int:
        """Return the number of weights: at least one per feature, and more for more features."""

    @abstractmethod
    def start(self, n_features: int, stream: Stream) -> Weights:
        """Return the weights before the first impression; scores that are all equal mean no preference."""

    @abstractmethod
    def scores(self, weights: Weights, features: Features) -> NDArray[np.float64]:
        """Return the scores of the documents of one query; higher is better."""

    @abstractmethod
    def gradient(self, weights: Weights, features: Features, slopes: NDArray[np.float64]) -> Gradient:
        """Return Σ slopes[d] · ∇ score of d over the documents d of one query, the gradient with respect to the weights."""

    def onnx(self, graph: Graph, weights: Weights, n_features: int, value: str) -> str:
        """Add the scorer to an ONNX graph, and return the name of the scores, (N, 1).

        Parameters
        ----------
        graph
            The graph.
        weights, n_features
            The weights, and the number of features.
        value
            Name of the features in the graph, (N, n_features).
        """
        raise InvalidValue(f"{spell(self)} has no ONNX graph: its class does not define onnx")


@register
@dataclass(frozen=True, repr=False)
class MLP(Scorer):
    """A multi-layer perceptron: hidden layers of rectified linear units, then a weighted sum.

    The weights of the sum start at 0, so all first scores are 0; those of the hidden layers start at random. All sums are in a
    fixed order, so equal seeds give equal weights, to the bit, on every processor.

    Parameters
    ----------
    hidden
        Number of units in each hidden layer.
    layers
        Number of hidden layers.

    References
    ----------
    He et al., "Delving deep into rectifiers" (ICCV 2015), for the first weights.

    Examples
    --------
    With weights 1, −1 and −1, 1 of two units and sums of 1, the score is the distance of two features:

    >>> import numpy as np
    >>> from duelrank.scoring import MLP
    >>> weights = np.array([1.0, -1.0, -1.0, 1.0, 0.0, 0.0, 1.0, 1.0])
    >>> MLP(hidden=2).scores(weights, np.array([[3.0, 1.0], [1.0, 3.0], [2.0, 2.0]])).tolist()
    [2.0, 2.0, 0.0]
    """

    hidden: Annotated[int, Between(1, 1000, choices=(8, 16, 32, 64))] = 32
    layers: Annotated[int, Between(1, 5, choices=(1, 2))] = 1

    def n_weights(self, n_features: int) -> int:
        """Return the number of weights and biases."""
        return (n_features + 1 + (self.layers - 1) * (self.hidden + 1) + 1) * self.hidden

    def start(self, n_features: int, stream: Stream) -> Weights:
        """Draw the weights and biases of the hidden layers with variance 2 / inputs."""
        weights = np.zeros(self.n_weights(n_features))
        for matrix, biases in self._layers(weights, n_features):
            scale = np.sqrt(2.0 / matrix.shape[1])
            matrix[:] = normals(stream, *matrix.shape) * scale
            # With biases of 0, units would have their kinks at 0, and be linear over features that are not negative.
            biases[:] = normals(stream, 1, self.hidden)[0] * scale
        return weights

    def scores(self, weights: Weights, features: Features) -> NDArray[np.float64]:
        """Return the scores."""
        found: NDArray[np.float64] = _products(weights[None, -self.hidden :], self._values(weights, features)[-1])[0]
        return found

    def gradient(self, weights: Weights, features: Features, slopes: NDArray[np.float64]) -> Gradient:
        """Propagate the slopes back through the layers; documents with slope 0 are left out."""
        used = np.flatnonzero(slopes)
        gradient, slopes = np.zeros(len(weights)), slopes[used]
        values = self._values(weights, features[used])
        gradient[-self.hidden :] = _products(slopes[None], values[-1].T)[0]
        back = slopes[:, None] * weights[-self.hidden :] * (values[-1] > 0.0)  # (documents, units)
        ones = np.ones((1, len(used)))
        layers = zip(self._layers(weights, features.shape[1]), self._layers(gradient, features.shape[1]), strict=True)
        for value, ((matrix, _), (to_matrix, to_biases)) in zip(values[-2::-1], reversed([*layers]), strict=True):
            to_matrix[:], to_biases[:] = _products(back.T, value.T), _products(back.T, ones)[:, 0]
            back = _products(back, matrix.T) * (
                value > 0.0
            )  # not used after the first layer, whose values are the features
        return gradient

    def onnx(self, graph: Graph, weights: Weights, n_features: int, value: str) -> str:
        """Add a product, a sum and a rectifier for each layer."""
        for number, (matrix, biases) in enumerate(self._layers(weights, n_features), 1):
            graph.numbers(**{f"matrix{number}": matrix.T, f"biases{number}": biases})
            graph.add("MatMul", f"{value} matrix{number}", f"product{number}")
            value = graph.add(
                "Relu", graph.add("Add", f"product{number} biases{number}", f"sum{number}"), f"hidden{number}"
            )
        graph.numbers(output=weights[-self.hidden :, None])
        return graph.add("MatMul", f"{value} output", "weighted")

    def _layers(self, weights: Weights, n_features: int) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Yield the matrix, (units, inputs), and the biases of each hidden layer, as views."""
        start, inputs = 0, n_features
        for _ in range(self.layers):
            middle = start + self.hidden * inputs
            stop = middle + self.hidden
            yield weights[start:middle].reshape(self.hidden, inputs), weights[middle:stop]
            start, inputs = stop, self.hidden

    def _values(self, weights: Weights, features: Features) -> list[NDArray[np.float64]]:
        """Return the features and the values of each hidden layer, (documents, units)."""
        values = [features]
        for matrix, biases in self._layers(weights, features.shape[1]):
            values.append(np.maximum(_products(values[-1], matrix) + biases, 0.0))
        return values


def _products(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one · otherᵀ, by the kernel that scores documents, whose sums are in a fixed order."""
    found: NDArray[np.float64] = ranking.scores(_read_only(one), _read_only(other))
    return found


def _read_only(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a table as the kernel is compiled for: in C order and read-only."""
    view = np.ascontiguousarray(table).view()
    view.flags.writeable = False
    return view
