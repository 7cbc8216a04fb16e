"""On real data the algorithms reach the numbers that the published tables' settings give."""

import os
from pathlib import Path

import numpy as np
import pytest

from duelrank import RunSpec, parse, simulate
from duelrank.datasets.library import add

DATA = Path(os.environ.get("DUELRANK_DATA", Path(__file__).parents[3] / "shared" / "datasets"))

# Mean online and offline nDCG@10 of 15 runs with these settings, measured independently (a prototype of its own).
EXPECTED = {
    ("mgd(n_candidates=49)", "perfect"): (861.1, 0.688),
    ("mgd(n_candidates=49)", "navigational"): (811.6, 0.690),
    ("mgd(n_candidates=49)", "informational"): (802.9, 0.669),
    ("mgd-dsp(n_candidates=49, beyond=2)", "perfect"): (915.4, 0.693),
    ("mgd-dsp(n_candidates=49, beyond=2)", "navigational"): (872.5, 0.690),
    ("mgd-dsp(n_candidates=49, beyond=2)", "informational"): (872.5, 0.679),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = DATA / "MQ2008.tar.xz"
    if not archive.exists():
        pytest.skip(f"needs the MQ2008 archive; none at {archive} (DUELRANK_DATA names another folder)")
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DUELRANK_HOME", str(folder))
        assert add("mq2008", archive).warnings == []
    return folder


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "user"), EXPECTED)
def test_reaches_the_published_settings_numbers(
    algorithm: str, user: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean over the five folds is within two standard errors of the expected one, online and offline."""
    monkeypatch.setenv("DUELRANK_HOME", str(home))
    specs = [RunSpec(parse(algorithm), parse("mq2008"), parse(user), fold=fold, seed=1) for fold in range(1, 6)]
    records = [simulate(spec) for spec in specs]
    for values, expected in zip(
        ([record.online_performance for record in records], [record.offline_performance for record in records]),
        EXPECTED[algorithm, user],
        strict=True,
    ):
        standard_error = np.std(values, ddof=1) / np.sqrt(len(values))
        assert abs(np.mean(values) - expected) < 2 * standard_error
