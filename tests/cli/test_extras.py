"""Every command says which extra it needs where the packages of that extra are not installed."""

import json
import subprocess
import sys

import pytest

from duelrank import Learner

#: Runs commands in a process in which no optional package can be imported.
WITHOUT = """
import json, sys

class Blocked:
    names = {names!r}
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
from typer.testing import CliRunner
from duelrank.cli import app
done = [CliRunner().invoke(app, words) for words in json.loads(sys.argv[1])]
print(json.dumps([[each.exit_code, each.stderr] for each in done]))
"""
OPTIONAL = {
    "dask", "distributed", "httptools", "httpx", "matplotlib", "onnx", "optuna", "prometheus_client", "psycopg",
    "scipy", "starlette", "threadpoolctl", "uvicorn", "uvloop",
}  # fmt: skip
COMMANDS = {
    "serve": ["serve"],
    "play": ["play"],
    "keys create": ["keys", "create", "--store", "sqlite://"],
    "rankers list": ["rankers", "list"],
    "backfill": [
        "backfill",
        "http://127.0.0.1:9",
        "shop",
        *(f"--{name}={{folder}}/log" for name in ("queries", "events", "features")),
    ],
    "export": ["export", "{folder}/learner.npz", "--format", "onnx", "--out", "{folder}/model.onnx"],
    "compare --plot": ["compare", "mgd", "-n", "10", "--runs", "1", "--plot", "{folder}/curves.png"],
    "compare --scheduler": ["compare", "mgd", "-n", "10", "--runs", "1", "--scheduler", "tcp://127.0.0.1:9"],
    "tune": ["tune", "pdgd", "--out", "{folder}/tune"],
    "run": ["run", "dbgd(multileaver=OptimizedInterleaving())", "-n", "10"],
    "--store": ["keys", "list", "--store", "postgresql://nobody@localhost/nothing"],
}
#: What the core has to do alone: the tests of means, and kernels for whose like numba would ask for SciPy.
ALONE = {
    "info": ["info", "--json"],
    "significance": ["compare", "mgd", "mgd-dsp", "--baseline", "mgd", "-n", "10", "--runs", "3", "--workers", "1"],
    "singular vectors": ["run", "mgd-dsp(basis='svd')", "-n", "10"],
    "top documents": ["run", "mgd(exploration=InDocumentSpace(top=2))", "-n", "10"],
}
EXTRAS = dict(
    zip(
        COMMANDS,
        ["serve", "serve", "serve", "client", "client", "onnx", "plot", "cluster", "tune", "scipy", "postgres"],
        strict=True,
    )
)


pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, tuple[int, str]]:
    folder = tmp_path_factory.mktemp("extras")
    (folder / "learner.npz").write_bytes(Learner("mgd", n_features=3, seed=1).snapshot().to_bytes())
    (folder / "log").touch()
    commands = [[word.format(folder=folder) for word in words] for words in (COMMANDS | ALONE).values()]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(names=OPTIONAL), json.dumps(commands)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return dict(zip([*COMMANDS, *ALONE], json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_its_extra_says_which(command, answers):
    code, said = answers[command]
    assert code == 2, said
    assert f"pip install 'duelrank[{EXTRAS[command]}]'" in " ".join(said.split())


@pytest.mark.parametrize("command", ALONE)
def test_what_needs_no_extra(command, answers):
    code, said = answers[command]
    assert code == 0, said
