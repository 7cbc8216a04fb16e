"""A network in PyTorch: the same as without it, in runs, searches, snapshots and services; `make neural` installs what it needs."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from duelrank import Learner, Snapshot, compare, parse, simulate
from duelrank.adapters.torch import TorchScorer, _torch
from duelrank.core.errors import InvalidRecipe, MissingExtra, ShapeMismatch
from duelrank.core.extensions import load_extension
from duelrank.core.randomness import stream
from duelrank.export import Model, export
from duelrank.scoring import MLP
from duelrank.service.http.schema import Document, GuardSpec, RankerSpec, RankRequest
from duelrank.service.replay import replay
from duelrank.storage import open_storage
from duelrank.testing import check_algorithm, play

EXAMPLE = Path(__file__).parents[2] / "examples" / "torch_mlp.py"


@pytest.fixture
def torch_mlp(clean_registry):
    pytest.importorskip("torch", reason="needs the extra torch: make neural", exc_type=ImportError)
    return load_extension(EXAMPLE).TorchMLP


def test_without_torch_the_extra_is_named(monkeypatch, clean_registry) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    _torch.cache_clear()
    load_extension(EXAMPLE)  # its names are listed, and its file can be read
    with pytest.raises(MissingExtra, match=r"needs torch: pip install 'duelrank\[torch\]'"):
        Learner("torch-mlp", 3)
    _torch.cache_clear()


def test_it_is_the_network_without_torch(torch_mlp) -> None:
    """The same first weights, scores and gradients, up to the order of sums."""
    one, other, rng = MLP(hidden=7), torch_mlp(hidden=7), np.random.default_rng(1)
    assert np.array_equal(one.start(5, stream(1, "start")), other.start(5, stream(1, "start")))
    for _ in range(20):
        weights, documents, slopes = rng.normal(size=one.n_weights(5)), rng.normal(size=(9, 5)), rng.normal(size=9)
        np.testing.assert_allclose(
            one.scores(weights, documents), other.scores(weights, documents), rtol=1e-12, atol=1e-12
        )
        found = [each.gradient(weights, documents, slopes) for each in (one, other)]
        np.testing.assert_allclose(*found, rtol=1e-10, atol=1e-12)


def test_runs_are_those_without_torch(torch_mlp) -> None:
    recipes = ("mlp-pdgd(hidden=8)", "torch-mlp(hidden=8)")
    records = [simulate(recipe, "bumpy(n_queries=20)", "perfect", impressions=300) for recipe in recipes]
    np.testing.assert_allclose(records[0].weights, records[1].weights, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(records[0].offline, records[1].offline)


def test_it_keeps_the_conventions(torch_mlp) -> None:
    check_algorithm("torch-mlp")


def test_it_does_not_depend_on_the_random_numbers_and_threads_of_torch(torch_mlp) -> None:
    import torch

    torch.manual_seed(1)
    one = play(parse("torch-mlp"), 50).state
    torch.manual_seed(2)
    assert play(parse("torch-mlp"), 50).state == one
    assert torch.get_num_threads() == 1


def test_workers_compare_it(torch_mlp) -> None:
    runs = compare(["torch-mlp", "pdgd"], "synthetic(n_queries=10)", users="perfect", runs=2, impressions=30, workers=2)
    assert set(runs["algorithm"]) == {"torch-mlp", "pdgd"}


def test_a_search_tunes_it(torch_mlp, tmp_path) -> None:
    pytest.importorskip("optuna", reason="needs the extra tune")
    from duelrank.experiments.tuning import tune

    settings = {"trials": 2, "impressions": 20, "workers": 1, "vary": ["hidden", "learning_rate"]}
    found = tune("torch-mlp", "synthetic(n_queries=10)", users="perfect", out=tmp_path, **settings)
    assert isinstance(found.algorithm.scorer, torch_mlp)


def test_a_snapshot_has_no_pickle_and_an_onnx_graph(torch_mlp) -> None:
    learner = play(parse("torch-mlp"), 50)
    content = learner.snapshot().to_bytes()
    assert b"pickle" not in content
    assert Snapshot.from_bytes(content).state == learner.state
    documents = np.random.default_rng(1).random((6, 20)).astype(np.float32)
    graph = onnxruntime.InferenceSession(export(Model.from_snapshot(learner.snapshot()), "onnx"))
    (found,) = graph.run(None, {"features": documents})
    np.testing.assert_allclose(found[:, 0], learner.score(documents), rtol=1e-4, atol=1e-5)


def test_a_guarded_service_learns_and_a_replay_gives_the_same(torch_mlp) -> None:
    from tests.service.conftest import Kit

    async def main() -> None:
        with open_storage("sqlite://") as storage:
            async with Kit.running(storage) as service:
                guard = GuardSpec(share=0.2, promote=(1.0,))
                await service.create(RankerSpec("shop", "torch-mlp", ("a", "b"), length=3, guard=guard))
                for number, rows in enumerate(np.random.default_rng(1).random((30, 5, 2)).tolist()):
                    documents = [Document(f"d{row}", features) for row, features in enumerate(rows)]
                    answer = await service.rank("shop", RankRequest(documents, impression_id=f"i{number}"))
                    await service.feedback("shop", [Kit.event(number, [answer.ranking[1].id])])
                await Kit.learned(service, 30)
                assert service._rankers["shop"].version.state.updates > 0
            assert replay(storage, "shop").difference is None

    asyncio.run(main())


def test_scores_of_another_shape_are_refused(torch_mlp) -> None:
    @dataclass(frozen=True, repr=False)
    class Wide(torch_mlp):
        """Returns a column instead of a vector."""

        def forward(self, parameters, features):
            return super().forward(parameters, features)[:, None]

    scorer = Wide()
    with pytest.raises(ShapeMismatch, match=r"one score per document, \(3,\), got \(3, 1\)"):
        scorer.scores(scorer.start(2, stream(1, "start")), np.ones((3, 2)))


def test_it_cannot_be_projected(torch_mlp) -> None:
    with pytest.raises(InvalidRecipe, match="cannot be projected"):
        parse("Projected(torch-mlp)")
    assert issubclass(torch_mlp, TorchScorer)
