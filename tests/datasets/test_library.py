"""Installed sets: whole or absent, whatever happens on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from duelrank import parse
from duelrank.core.errors import DataFormatError, InvalidValue, MissingData, StorageFailure, UnknownName
from duelrank.datasets import Imported, library


def big_folder(tmp_path: Path, n_queries: int = 400) -> Path:
    random = np.random.default_rng(0)
    folder = tmp_path / "big" / "Fold1"
    folder.mkdir(parents=True)
    for name in ("train", "test"):
        rows = random.random((n_queries * 10, 30))
        lines = (
            f"{i % 3} qid:{i // 10} " + " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row))
            for i, row in enumerate(rows.tolist())
        )
        (folder / f"{name}.txt").write_text("\n".join(lines))
    return folder.parent


def left_over(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.is_file()]


def test_add_info_remove(letor_folder: Path, home: Path) -> None:
    report = library.add("my-set2", letor_folder)
    assert report.seconds > 0
    assert report.bytes_read == sum(path.stat().st_size for path in letor_folder.rglob("*.txt"))
    assert json.dumps(report.as_dict())
    assert list(library.installed()) == ["my-set2"]
    described = library.info("my-set2").as_dict()
    assert json.loads(json.dumps(described))["found"]["n_features"] == 3
    part = parse("my-set2(scale='none')")
    assert part == Imported(name="my-set2", scale="none")
    assert part.n_folds == 2
    assert part.n_grades == 3
    assert part.fold(2).n_grades == 3
    with pytest.raises(InvalidValue, match="from 1 to 2, got 3"):
        part.fold(3)
    library.remove("my-set2")
    assert library.installed() == {}
    assert left_over(home) == []
    with pytest.raises(MissingData, match="not installed"):
        library.remove("my-set2")
    with pytest.raises(UnknownName):
        library.info("my-set2")


def test_adding_twice_needs_replace(letor_folder: Path, home: Path) -> None:
    library.add("some", letor_folder)
    before = Imported("some").fold(1)
    with pytest.raises(InvalidValue, match="already installed"):
        library.add("some", letor_folder)
    (letor_folder / "Fold1" / "train.txt").write_text("0 qid:1 1:5\n1 qid:1 1:6\n")
    library.add("some", letor_folder, replace=True)
    after = Imported("some").fold(1)
    assert (len(before.train), len(after.train)) == (4, 1)
    assert sorted(path.name for path in (home / "datasets" / "some").iterdir()) == ["prepared", "raw"]


def test_a_failed_replacement_keeps_what_was_there(letor_folder: Path) -> None:
    library.add("some", letor_folder)
    (letor_folder / "Fold2" / "test.txt").write_text("bad\n")
    with pytest.raises(DataFormatError, match="line 1: found 'bad'"):
        library.add("some", letor_folder, replace=True)
    assert len(Imported("some").fold(1).train) == 4


@pytest.mark.parametrize(
    "name", ["", "Upper", "a b", "../x", "a_b", "1a", "a-2b", "a--b", "a-", "in-or", "a" * 101, "synthetic", 7]
)
def test_names_that_cannot_be(name: str, letor_folder: Path, home: Path) -> None:
    with pytest.raises(InvalidValue):
        library.add(name, letor_folder)
    assert left_over(home) == []


def test_known_but_not_installed() -> None:
    with pytest.raises(MissingData, match=r"LETOR 4.0 MQ2008.*letor-4-0.*duelrank data add mq2008 PATH"):
        parse("mq2008").fold(1)
    with pytest.raises(MissingData, match="duelrank data fetch istella-s"):
        parse("istella-s").fold(1)
    with pytest.raises(MissingData, match="duelrank data add nowhere PATH"):
        Imported(name="nowhere").fold(1)
    assert parse("mq2008").n_folds == 5
    assert library.info("mq2008").as_dict()["installed"] is False


def test_mismatch_with_the_catalogue_is_reported(letor_folder: Path) -> None:
    report = library.add("mq2008", letor_folder)
    assert report.warnings[0] == "LETOR 4.0 MQ2008: expected 5 folds, found 2"
    assert "LETOR 4.0 MQ2008: expected 46 features, found 3" in report.warnings
    assert "fold 1: expected 784 queries and 15,211 documents, found 7 and 22" in report.warnings[-2]


def test_sparse_sets_have_their_published_width(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        (tmp_path / f"set1.{split}.txt").write_text("0 qid:1 3:1\n1 qid:1 5:0.5\n")
        (tmp_path / f"set2.{split}.txt").write_text("0 qid:1 3:1\n1 qid:1 5:0.5\n2 qid:1 1:1\n")
    report = library.add("yahoo-set2", tmp_path)
    assert report.n_features == 700
    assert report.folds[1]["train"].documents == 3
    assert not any("features" in warning for warning in report.warnings)


@pytest.mark.parametrize("damage", ["truncate", "delete", "meta", "version"])
def test_damaged_raw_cache_says_to_import_again(damage: str, letor_folder: Path, home: Path) -> None:
    library.add("some", letor_folder)
    raw = home / "datasets" / "some" / "raw"
    features = raw / "fold1" / "train.features.npy"
    if damage == "truncate":
        os.truncate(features, 200)
    elif damage == "delete":
        features.unlink()
    elif damage == "meta":
        (raw / "meta.json").write_text("{")
    else:
        (raw / "meta.json").write_text((raw / "meta.json").read_text().replace('"format": 1', '"format": 99'))
    for recipe in (Imported("some"), Imported("some", drop_constant=False, scale="none", drop_irrelevant_test=False)):
        with pytest.raises(DataFormatError, match="import it again: duelrank data add some PATH --replace"):
            recipe.fold(1)
    library.add("some", letor_folder, replace=True)
    assert len(Imported("some").fold(1).train) == 4


def test_damaged_prepared_cache_is_made_again(letor_folder: Path, home: Path) -> None:
    library.add("some", letor_folder)
    Imported("some").fold(1)
    prepared = next((home / "datasets" / "some" / "prepared").iterdir())
    os.truncate(prepared / "train.features.npy", 150)
    assert Imported("some").fold(1).train.features.max() == 1.0
    (prepared / "meta.json").unlink()
    assert Imported("some").fold(1).train.features.max() == 1.0


SCRIPT = """
import sys
from duelrank.datasets import library
library.add("some", sys.argv[1], progress=lambda done, total: print(done, flush=True))
"""


@pytest.mark.processes
def test_a_killed_import_leaves_nothing_that_counts(tmp_path: Path, home: Path) -> None:
    folder = big_folder(tmp_path)
    slow = SCRIPT.replace("print(done, flush=True)", "(print(done, flush=True), __import__('time').sleep(60))")
    process = subprocess.Popen([sys.executable, "-c", slow, str(folder)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # it is in the middle of it
    assert library.installed() == {}
    partial = list((home / "datasets" / "some").glob(".partial-*"))
    assert len(partial) == 1
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert library.installed() == {}
    report = library.add("some", folder)
    assert report.folds[1]["train"].documents == 4_000
    assert not list((home / "datasets" / "some").glob(".partial-*"))


LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
from duelrank.datasets import library
from duelrank.core.errors import StorageFailure
try:
    library.add("some", sys.argv[1])
except StorageFailure as error:
    print(error)
    sys.exit(3)
"""


@pytest.mark.processes
@pytest.mark.parametrize("limit", [64, 10_000, 900_000])
def test_a_full_disk(tmp_path: Path, home: Path, limit: int) -> None:
    folder = big_folder(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(folder), str(limit)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr
    assert "could not write the cache in" in done.stdout
    assert left_over(home) == []
    assert not (home / "datasets" / "some").exists()


def test_a_full_disk_while_preparing(letor_folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library.add("some", letor_folder)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("duelrank.core.files.ArrayWriter.append", full)
    with pytest.raises(StorageFailure, match="No space left on device"):
        Imported("some").fold(1)
    assert list((home / "datasets" / "some" / "prepared").iterdir()) == []


@pytest.mark.processes
def test_two_imports_at_once(tmp_path: Path, home: Path) -> None:
    folder = big_folder(tmp_path)
    both = [subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder)], stdout=subprocess.DEVNULL) for _ in range(2)]
    codes = [process.wait() for process in both]
    assert 0 in codes  # the other one may have come after it and found the set there
    assert library.info("some").meta is not None
    assert not list((home / "datasets" / "some").glob(".partial-*"))


def test_folders_of_living_processes_are_kept(letor_folder: Path, home: Path) -> None:
    import socket

    busy = home / "datasets" / "some" / f".partial-{socket.gethostname()}-{os.getpid()}-00000000"
    elsewhere = home / "datasets" / "some" / ".partial-another-host-1-00000000"
    abandoned = home / "datasets" / "some" / ".partial-another-host-2-00000000"
    for folder in (busy, elsewhere, abandoned):
        folder.mkdir(parents=True)
    os.utime(abandoned, (time.time() - 1e6,) * 2)
    library.add("some", letor_folder)
    assert busy.exists()
    assert elsewhere.exists()
    assert not abandoned.exists()


def test_an_unwritable_home(letor_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DUELRANK_HOME", str(tmp_path / "file"))
    with pytest.raises(StorageFailure, match="could not write"):
        library.add("some", letor_folder)


def test_default_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DUELRANK_HOME")
    assert library.home().name == "duelrank"
    assert library.home().is_absolute()


REAL = Path(os.environ.get("DUELRANK_DATA") or Path(__file__).parents[2].parent / "shared" / "datasets")


@pytest.mark.data
@pytest.mark.parametrize("name", ["MQ2008", "MQ2007"])
def test_real_sets_are_as_the_catalogue_says(name: str) -> None:
    archive = REAL / f"{name}.tar.xz"
    if not archive.exists():
        pytest.skip(f"{name}.tar.xz is not in the folder of real data (DUELRANK_DATA)")
    assert library.add(name.lower(), archive).warnings == []
    fold = Imported(name.lower()).fold(1)
    assert 0 < fold.n_features <= 46
    assert fold.train.features.min() == 0.0
    assert fold.train.features.max() == 1.0
    assert all(fold.test.judgements(i).max() > 0 for i in range(len(fold.test)))
