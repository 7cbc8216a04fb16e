"""The algorithm of docs/how-to/own-algorithm.md: its file is on the page as it is, and does all that the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.service.http.conftest import TestClient
from tests.waiting import until
from typer.testing import CliRunner

from duelrank import Learner, parse, simulate
from duelrank.cli import app
from duelrank.core.errors import InvalidValue
from duelrank.core.extensions import load_extension
from duelrank.export import Model, export
from duelrank.service import Service, Settings
from duelrank.service.http import KeyRing, create_app
from duelrank.service.replay import replay
from duelrank.storage import open_storage
from duelrank.testing import check_algorithm, play

ROOT = Path(__file__).parents[1]
FILE = ROOT / "examples" / "reinforce.py"
PAGE = (ROOT / "docs" / "how-to" / "own-algorithm.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))


@pytest.fixture(autouse=True)
def loaded(clean_registry):
    return load_extension(FILE)


def command(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["--load", str(FILE), *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_page_has_the_file_as_it_is() -> None:
    assert f"```python\n{FILE.read_text(encoding='utf-8')}```" in PAGE


def test_it_keeps_the_conventions(monkeypatch) -> None:
    monkeypatch.chdir(FILE.parent)
    (block,) = re.findall(r"^## Check it\n\n```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    exec(block, {})
    check_algorithm("query-scaled >> reinforce(step=Momentum())")


def test_its_gradient_is_that_of_the_logarithm_of_the_probability(loaded) -> None:
    features, weights = np.random.default_rng(1).random((6, 3)), np.array([1.0, -2.0, 0.5])
    ranking = np.array([4, 0, 2])

    def log_probability(weights: np.ndarray) -> float:
        scores, left, total = features @ weights, list(range(6)), 0.0
        for document in ranking:
            total += scores[document] - np.log(np.exp(scores[left]).sum())
            left.remove(document)
        return total

    steps = 1e-6 * np.eye(3)
    slopes = [(log_probability(weights + step) - log_probability(weights - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(loaded._log_gradient(features @ weights, features, ranking), slopes, rtol=1e-6)


def test_a_list_without_a_click_moves_the_weights_once_there_is_a_baseline() -> None:
    learner = play(parse("reinforce"), 50)
    before = learner.weights
    shown = learner.rank(np.random.default_rng(1).random((8, 20)))
    learner.learn(shown, np.zeros(5, bool))
    assert not np.array_equal(learner.weights, before)


def test_it_is_simulated() -> None:
    record = simulate("reinforce", "synthetic(n_queries=40)", "perfect", impressions=1000)
    assert record.offline[-1] > record.offline[0] + 0.05


def test_it_is_compared() -> None:
    small = ["--runs", "1", "-n", "50", "-d", "synthetic(n_queries=10)", "--workers", "1"]
    assert "reinforce" in command("compare", "reinforce", "pdgd", *small)


def test_it_is_tuned(tmp_path) -> None:
    pytest.importorskip("optuna", reason="needs the extra tune")
    small = ["-d", "synthetic(n_queries=10)", "-n", "20", "--workers", "1", "--out", str(tmp_path / "tuned")]
    assert "reinforce" in command("tune", "reinforce", "--trials", "2", *small)


def test_it_is_served_and_replayed() -> None:
    spec = {"name": "shop", "algorithm": "reinforce", "features": ["bm25", "price"], "representation": "query-scaled"}
    documents = [{"id": f"d{i}", "features": [i / 4, 1 - i / 4]} for i in range(5)]
    with open_storage("sqlite://") as storage:
        web = create_app(Service(storage, Settings(publish_every=0.0)), KeyRing(storage))
        with TestClient(web, "http://127.0.0.1", client=("127.0.0.1", 5)) as client:
            until(lambda: client.get("/readyz").status_code == 200)
            assert client.post("/v1/rankers", json=spec).status_code == 201
            for number in range(5):
                shown = client.post("/v1/rankers/shop/rank", json={"documents": documents}).json()
                event = {
                    "impression_id": shown["impression_id"],
                    "event_id": str(number),
                    "clicks": ["d4"],
                    "close": True,
                }
                client.post("/v1/rankers/shop/feedback", json=[event])
            until(lambda: client.get("/v1/rankers/shop").json()["learned"] == 5)
            until(lambda: any(client.get("/v1/rankers/shop/model").json()["weights"].values()))
        assert replay(storage, "shop").difference is None


def test_the_scorer_of_the_page_keeps_the_conventions(tmp_path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        load_extension(tmp_path / name)
    check_algorithm("products")
    record = simulate("products", "bumpy(n_queries=20)", "perfect", impressions=100, guard="Guarded(Feature(0))")
    assert len(record.online) == 100
    with pytest.raises(InvalidValue, match="has no ONNX graph"):
        export(Model.from_snapshot(Learner("products", 3).snapshot()), "onnx")
    assert json.loads(command("run", "reinforce", "-d", "synthetic(n_queries=10)", "-n", "20", "--json"))["algorithm"]
