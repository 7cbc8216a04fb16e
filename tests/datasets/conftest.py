"""Every test has a home of its own, and small sets to import."""

from __future__ import annotations

from pathlib import Path

import pytest

TRAIN = "".join(f"{(q + d) % 3} qid:q{q} 1:{d}.5 2:7 3:{q * d}.25 # doc\n" for q in range(1, 5) for d in range(4))
VALI = "1 qid:v 1:1 3:2\n0 qid:v 1:2 3:1\n"
TEST = "0 qid:none 1:1 2:3\n0 qid:none 1:2\n2 qid:some 1:1\n0 qid:some 1:4 3:1\n"
FILES = {"train.txt": TRAIN, "vali.txt": VALI, "test.txt": TEST}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DUELRANK_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DUELRANK_MIRROR", raising=False)
    return tmp_path / "home"


@pytest.fixture
def letor_folder(tmp_path: Path) -> Path:
    """Two folds of three files each."""
    for fold in (1, 2):
        folder = tmp_path / "source" / f"Fold{fold}"
        folder.mkdir(parents=True)
        for name, text in FILES.items():
            (folder / name).write_text(text)
    return tmp_path / "source"
