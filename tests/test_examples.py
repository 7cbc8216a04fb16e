"""The examples run, and show what they say they show."""

import json
import re
import runpy
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_live_loop_learns(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "live_loop.py"), run_name="__main__")
    qualities = [float(number) for number in re.findall(r"nDCG@10 ([0-9.]+)", capsys.readouterr().out)]
    assert len(qualities) == 4
    assert qualities[0] < qualities[-1]


def test_hybrid_weights_are_learned(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Far fewer documents and lists than the example itself has, and other ones with each Python: so not within 1% of the grid."""
    picture = tmp_path / "hybrid.svg"
    small = Path(sysconfig.get_path("stdlib")) / "email"
    main = runpy.run_path(str(EXAMPLES / "hybrid_search.py"))["main"]
    main(n_queries=60, n_lists=500, picture=str(picture), root=small)
    printed = capsys.readouterr().out
    best = float(re.search(r"best of the grid nDCG@10 ([0-9.]+)", printed)[1])
    for user in ("perfect", "navigational", "informational"):
        line = re.search(rf"^{user} .*", printed, re.MULTILINE)[0]
        start, end = float(re.search(r"([-+.0-9]+)% after 0,", line)[1]), float(re.search("[0-9.]+", line[20:])[0])
        assert end > best * (1.0 + start / 100.0)
        assert end > 0.9 * best
    content = json.loads(printed[printed.index("{") :])
    weights = content["phase_results_processors"][0]["normalization-processor"]["combination"]["parameters"]["weights"]
    assert sum(weights) == pytest.approx(1.0)
    assert min(weights) > 0.1
    assert picture.stat().st_size > 1_000


@pytest.mark.processes
def test_an_algorithm_in_one_file() -> None:
    command = [sys.executable, "-m", "duelrank", "--load", str(EXAMPLES / "one_feature.py"), "run"]
    options = ["one-feature(n_candidates=3)", "--dataset", "synthetic(n_queries=10)", "--impressions", "50", "--json"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["algorithm"] == "one-feature(n_candidates=3)"


def test_a_click_log_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn", reason="needs the extra sklearn")
    runpy.run_path(str(EXAMPLES / "click_log.py"), run_name="__main__")
    qualities = [float(number) for number in re.findall(r"nDCG@10 ([0-9.]+)", capsys.readouterr().out)]
    assert len(qualities) == 5
    assert min(qualities[1:]) > qualities[0] + 0.2


def test_a_learner_in_a_pyterrier_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyterrier", reason="needs the extra pyterrier")
    runpy.run_path(str(EXAMPLES / "pyterrier_experiment.py"), run_name="__main__")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert float(rows[1][1]) > float(rows[0][2]) + 0.2
