"""``duelrank export``: from a snapshot or a model to a file, to stdout, or to one line that says why not."""

import json
import os
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest

from duelrank import Feedback, Learner, Query
from duelrank.export import FORMATS, LinearModel, export, format_options
from duelrank.representation import Fixed, MinMax, QueryScaled, Unscaled


@pytest.fixture
def learner():
    learner = Learner("mgd-dsp", 3, seed=1)
    documents = np.array([[0.1, 0.9, 0.0], [0.8, 0.2, 0.5], [0.3, 0.3, 1.0]])
    for _ in range(20):
        learner.learn(learner.rank(Query("q", documents)), Feedback([False, True, False]))
    return learner


@pytest.fixture
def snapshot(learner, tmp_path):
    path = tmp_path / "snapshot.npz"
    path.write_bytes(learner.snapshot().to_bytes())
    return path


@pytest.fixture
def written(tmp_path):
    """A file with the given content: text, or a value as JSON."""

    def write(name, content):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def test_a_snapshot_to_stdout(cli, snapshot, learner):
    result = cli("export", snapshot, "--format", "solr")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout_bytes == export(LinearModel.from_snapshot(learner.snapshot()), "solr")


def test_a_snapshot_has_names(cli, written, tmp_path):
    snapshot = tmp_path / "named.npz"
    learner = Learner("mgd", weights={"bm25": 0.5, "price": -0.25})
    snapshot.write_bytes(learner.snapshot().to_bytes())
    scalings = written("n.json", {"kind": "fixed", "features": {"price": {"min_max": {"minimum": 0, "maximum": 900}}}})
    result = cli("export", snapshot, "--representation", scalings, "-f", "json")
    assert LinearModel.from_json(result.stdout_bytes).features == ("bm25", "price")
    assert LinearModel.from_snapshot(learner.snapshot()).features == ("bm25", "price")
    assert LinearModel.from_snapshot(learner.snapshot(), features=["a", "b"]).features == ("a", "b")


def test_names_versions_and_representation(cli, snapshot, learner, written, tmp_path):
    scalings = written("n.json", {"kind": "fixed", "features": {"price": {"min_max": {"minimum": 0, "maximum": 900}}}})
    named = ("--name", "shop", "--model-version", 3, "--representation", scalings, "-f", "json")
    expected = LinearModel(
        "shop", 3, ("bm25", "price", "x,y"), learner.weights, Fixed((Unscaled(), MinMax(0.0, 900.0), Unscaled()))
    )
    result = cli("export", snapshot, "--features", "bm25,price,'x,y'", *named)
    assert LinearModel.from_json(result.stdout_bytes) == expected
    listed = written("names.txt", "bm25\n\nprice\nx,y\n")
    out = tmp_path / "folder" / "model.json"
    result = cli("export", snapshot, "--features-file", listed, *named, "--out", out)
    assert (result.exit_code, result.stdout) == (0, "")
    assert LinearModel.from_json(out.read_bytes()) == expected
    assert [path.name for path in out.parent.iterdir()] == ["model.json"]


def test_a_snapshot_has_the_representation_of_its_recipe(cli, tmp_path):
    learner = Learner("query-scaled >> ramps(pieces=2) >> mgd-dsp", 2, seed=1)
    random = np.random.default_rng(1)
    for _ in range(40):
        learner.learn(learner.rank(Query("q", random.random((5, 2)))), Feedback([False, True, False, False, False]))
    path = tmp_path / "snapshot.npz"
    path.write_bytes(learner.snapshot().to_bytes())
    model = LinearModel.from_json(cli("export", path, "-f", "json").stdout_bytes)
    assert model == LinearModel.from_snapshot(learner.snapshot())
    assert len(model.weights) == 4
    result = cli("export", path, "-f", "json", "--representation", "query-scaled")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "already contains its representation" in result.stderr


def test_a_model_goes_on_to_any_format(cli, tmp_path):
    model = LinearModel(
        "shop", 3, ("bm25(title)", "price"), [0.5, -0.25], Fixed((MinMax(0.0, 9.0), MinMax(0.0, 900.0)))
    )
    path = tmp_path / "model.json"
    path.write_bytes(export(model, "json"))
    options = {
        "elasticsearch": (["--offset-feature", "one"], {"offset_feature": "one"}),
        "opensearch": (["--allow-negative"], {"allow_negative": True}),
        "ranklib": (["--offset", 1.5], {"offset": 1.5}),
        "vespa": (
            ["--rank-feature", "price=attribute(price)", "--weights", "constants"],
            {"rank_features": {"price": "attribute(price)"}, "weights": "constants"},
        ),
        "solr": (["--store", "v3"], {"store": "v3"}),
        "qdrant": (
            ["--sub-query", 'bm25(title)={"query": [1], "limit": 9}', "--sub-query", 'price={"query": "a=b"}'],
            {"sub_queries": {"bm25(title)": '{"query": [1], "limit": 9}', "price": '{"query": "a=b"}'}},
        ),
        **dict.fromkeys(
            ["elasticsearch-features", "opensearch-features"],
            (["--rank-feature", "bm25(title)=clicks"], {"rank_features": {"bm25(title)": "clicks"}}),
        ),
        "solr-features": (["--rank-feature", "bm25(title)=score"], {"rank_features": {"bm25(title)": "score"}}),
    }
    for format in FORMATS.keys() - {"opensearch-hybrid", "elasticsearch-linear"}:  # they have no weights below 0
        words, given = options.get(format, ([], {}))
        result = cli("export", path, "--format", format, *words)
        assert result.exit_code == 0, result.stderr
        assert result.stdout_bytes == export(model, format, **given)
    renamed = cli("export", path, "-f", "json", "--name", "other", "--model-version", 4)
    assert LinearModel.from_json(renamed.stdout_bytes).versioned_name == "other_000004"


def test_weights_for_hybrid_search(cli, tmp_path):
    path = tmp_path / "learner.npz"
    path.write_bytes(Learner("query-scaled >> mgd", weights=[3.0, 1.0]).snapshot().to_bytes())
    named = ("export", path, "--features", "bm25,vector", "--format")
    content = json.loads(cli(*named, "opensearch-hybrid").stdout)
    processor = content["phase_results_processors"][0]["normalization-processor"]
    assert processor["combination"]["parameters"]["weights"] == [0.75, 0.25]
    given = ("--sub-query", 'bm25={"standard": {}}', "--sub-query", 'vector={"knn": {}}', "--rank-window-size", 20)
    linear = json.loads(cli(*named, "elasticsearch-linear", *given).stdout)["retriever"]["linear"]
    assert linear["rank_window_size"] == 20
    assert [each["weight"] for each in linear["retrievers"]] == [0.75, 0.25]


def test_onnx_in_a_file(cli, snapshot, learner, tmp_path):
    out = tmp_path / "model.onnx"
    assert cli("export", snapshot, "--format", "onnx", "--out", out).exit_code == 0
    (found,) = onnxruntime.InferenceSession(out).run(None, {"features": np.eye(3, dtype=np.float32)})
    np.testing.assert_array_equal(found[:, 0], learner.weights.astype(np.float32))


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal that can be made up")
def test_onnx_is_not_sent_to_a_terminal(snapshot):
    import pty

    outer, terminal = pty.openpty()
    try:
        command = [sys.executable, "-m", "duelrank", "export", str(snapshot), "--format", "onnx"]
        done = subprocess.run(command, stdout=terminal, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 2
        assert "--out" in done.stderr
    finally:
        os.close(terminal)
        os.close(outer)


def test_a_learner_that_has_learned_nothing(cli, tmp_path):
    path = tmp_path / "fresh.npz"
    path.write_bytes(Learner("mgd", 2).snapshot().to_bytes())
    result = cli("export", path, "--format", "ranklib")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "1:0.0 2:0.0"
    assert "all weights are zero" in result.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--format", "solar"), "did you mean solr"),
        (("--format", "solr", "--offset", 1), "the format solr has no option offset"),
        (("--format", "opensearch"), "come after documents that are not rescored"),
        (("--format", "vespa"), "f1=attribute(f1)"),
        (("--format", "vespa", "--rank-feature", "f1"), "NAME=VALUE"),
        (("--format", "solr", "--features", "a,b"), "the snapshot has 3 features, got 2 names"),
        (("--format", "solr", "--features", "a,b,c", "--features-file", "x"), "not with both"),
        (("--format", "solr", "--features-file", "no-such-file"), "no-such-file"),
        (("--format", "solr", "--representation", "no-such-file.json"), "no-such-file"),
        (("--format", "solr", "--representation", "query-scaled"), "differs from query to query"),
        (("--format", "solr", "--representation", "query-scald"), "did you mean query-scaled"),
        (("--format", "solr", "--name", "a/b"), "'a/b'"),
    ],
)
def test_errors_are_one_helpful_line(cli, snapshot, words, hint):
    result = cli("export", snapshot, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert hint in result.stderr


def test_files_that_are_something_else(cli, snapshot, tmp_path, written):
    cases = {
        tmp_path / "absent": "cannot read",
        tmp_path: "cannot read",
        written("text", "hello"): "not the JSON of a model",
        written("zip", "PK and then nothing"): "not a snapshot",
    }
    for path, hint in cases.items():
        result = cli("export", path, "--format", "solr")
        assert (result.exit_code, result.stdout) == (2, "")
        assert hint in result.stderr
    for content, hint in {
        "{": "not valid JSON",
        '{"kind": "minmax"}': "query-scaled >> ramps",
        '{"kind": "per_query"}': "text of a recipe",
    }.items():
        result = cli("export", snapshot, "--format", "solr", "--representation", written("n.json", content))
        assert (result.exit_code, result.stdout) == (2, "")
        assert hint in result.stderr
    listed = tmp_path / "latin-1.txt"
    listed.write_bytes(b"\xe9\n")
    assert "UTF-8" in cli("export", snapshot, "-f", "solr", "--features-file", listed).stderr


def test_a_model_has_its_own_names(cli, written):
    path = written("model.json", LinearModel("shop", 1, ("a",), [1.0], QueryScaled()).to_json())
    assert "already contains feature names" in cli("export", path, "-f", "onnx", "--features", "b").stderr


def test_a_refusal_leaves_the_file_that_was_there(cli, snapshot, written):
    out = written("model.json", "as before")
    assert cli("export", snapshot, "--format", "opensearch", "--out", out).exit_code == 2
    assert out.read_text() == "as before"


def test_help_names_the_formats(cli):
    shown = " ".join(cli("export", "--help").stdout.replace("│", " ").split())
    assert f"Output format: {', '.join(sorted(FORMATS))}." in shown
    assert all(f"--{each.parameter.replace('_', '-')} " in shown for each in format_options())


def test_an_offset_of_zero_is_an_offset(cli, written):
    path = written("model.json", LinearModel("shop", 1, ("a",), [1.0]).to_json())
    assert "## Linear Regression" in cli("export", path, "-f", "ranklib", "--offset", 0).stdout
