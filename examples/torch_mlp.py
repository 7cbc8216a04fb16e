"""A neural ranker in PyTorch, in one file: a network with one hidden layer, which learns from clicks by PDGD.

    duelrank --load examples/torch_mlp.py compare torch-mlp mlp-pdgd pdgd --dataset bumpy --runs 2

The same network without PyTorch is `mlp-pdgd`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from duelrank import alias, register
from duelrank.adapters.torch import TorchScorer
from duelrank.algorithms import ScoredPDGD
from duelrank.core.registry import Between
from duelrank.core.types import Weights
from duelrank.scoring import MLP, Graph


@register
@dataclass(frozen=True, repr=False)
class TorchMLP(TorchScorer):
    """One hidden layer of rectified linear units."""

    hidden: Annotated[int, Between(1, 1000, choices=(8, 16, 32, 64))] = 16

    def shapes(self, n_features: int) -> Sequence[tuple[int, ...]]:
        """Return the shapes of the matrix and the biases of the hidden layer, and of the weights of its units."""
        return (self.hidden, n_features), (self.hidden,), (self.hidden,)

    def forward(self, parameters: Sequence[Any], features: Any) -> Any:
        """Return one score per document."""
        matrix, biases, weights = parameters
        return (features @ matrix.T + biases).relu() @ weights

    def onnx(self, graph: Graph, weights: Weights, n_features: int, value: str) -> str:
        """Add the nodes for export to ONNX; the weights are in the order of `MLP`."""
        return MLP(self.hidden).onnx(graph, weights, n_features, value)


alias("torch-mlp", ScoredPDGD(TorchMLP()))
