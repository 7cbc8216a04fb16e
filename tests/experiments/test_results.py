"""The store: what was appended is there, to the bit, whatever happened afterwards; and what is wrong is said clearly."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace

import filelock
import pytest
from tests.tiny import Tiny

from duelrank import MGD, Projected, RunSpec, parse, simulate
from duelrank.core.errors import DataFormatError, InvalidValue, MissingData, StorageFailure
from duelrank.experiments import Store, load_results
from duelrank.experiments.results import duration, provenance
from duelrank.simulation import Guarded

SPEC = RunSpec(MGD(), Tiny(), parse("perfect"), impressions=100)


def plain(digest, value=0.5):
    return {"id": f"run/{digest}", "digest": digest, "value": value, "curve": [value, value / 3]}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "results"


def fill(folder, *digests):
    with Store(folder, "suite") as store:
        for digest in digests:
            store.append(plain(digest))
    return folder / "runs.jsonl"


def test_rows_come_back_to_the_bit(folder):
    specs = [SPEC, replace(SPEC, seed=2), replace(SPEC, algorithm=Projected(MGD()))]
    rows = [record.row(record.weights) for record in map(simulate, specs)]
    with Store(folder, "suite") as store:
        for each in rows:
            store.append(each)
        first = store.load()
    again = load_results(folder, "suite")
    for frame in (first, again):
        found = [
            {name: list(value) if isinstance(rows[0][name], list) else value for name, value in each.items()}
            for each in frame.rows()
        ]
        assert found == rows  # == on floats: JSON keeps every bit


def test_many_rows_are_written_as_one_by_one(folder, tmp_path):
    one_by_one = fill(folder, "a", "b", "c").read_bytes()
    with Store(tmp_path / "at-once", "suite") as store:
        store.extend([plain("a")])
        store.extend([plain("a", 9.0), plain("b"), plain("c"), plain("b")])
        store.extend([])
        assert store.done() == {"a", "b", "c"}
    assert (tmp_path / "at-once" / "runs.jsonl").read_bytes() == one_by_one


def test_what_is_done_is_not_missing(folder):
    specs = [replace(SPEC, seed=seed) for seed in (1, 2, 3, 2)]
    fill(folder, specs[1].digest)
    with Store(folder, "suite") as store:
        assert store.done() == {specs[1].digest}
        assert store.missing(specs) == [specs[0], specs[2]]
        store.append(plain(specs[0].digest))
        assert store.missing(specs) == [specs[2]]
        assert store.missing(spec for spec in specs if spec.seed < 3) == []


def test_nothing_is_written_twice_and_the_first_of_two_counts(folder):
    path = fill(folder, "a", "b")
    with Store(folder, "suite") as store:
        store.append(plain("a", 9.0))
        assert path.read_text().count("\n") == 2
    path.write_text(path.read_text() + json.dumps(plain("a", 7.0)) + "\n")
    assert load_results(folder, "suite")["value"].tolist() == [0.5, 0.5]


def test_an_empty_store_is_an_empty_frame(folder):
    with Store(folder, "suite") as store:
        assert len(store.load()) == 0
        assert store.done() == set()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_refused(folder, value):
    path = fill(folder, "a")
    with Store(folder, "suite") as store, pytest.raises(InvalidValue, match=r"run/b.*NaN"):
        store.append(plain("b", value))
    assert path.read_text().count("\n") == 1


WRITER = """
    import sys
    from duelrank.experiments import Store
    with Store(sys.argv[1], "suite") as store:
        number = len(store.done())
        print("open", flush=True)
        while True:
            digest = f"{number:010x}"
            store.append({"id": digest, "digest": digest, "curve": [number / 7] * 2000})
            print(digest, flush=True)
            number += 1
"""


@pytest.mark.processes
@pytest.mark.skipif(os.name != "posix", reason="this system has no SIGKILL")
def test_a_kill_at_any_moment_loses_nothing_that_was_acknowledged(folder):
    moments = random.Random(7)
    acknowledged = set()
    for _ in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), str(folder)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout.readline() == "open\n"
        acknowledged.update(writer.stdout.readline().rstrip() for _ in range(moments.randrange(1, 20)))
        writer.send_signal(signal.SIGKILL)  # while it goes on writing
        words = writer.communicate()[0].split("\n")
        acknowledged.update(words[:-1])
        with Store(folder, "suite") as store:
            assert store.done() >= acknowledged
    frame = load_results(folder, "suite")
    assert len(frame) == len(set(frame["digest"].tolist())) > 0
    assert all(
        (curve == int(digest, 16) / 7).all() for digest, curve in zip(frame["digest"], frame["curve"], strict=True)
    )


@pytest.mark.parametrize(
    "end", [b'{"id": "run/c", "dig', b"{", b"\x00" * 50, json.dumps(plain("c")).encode(), b"\x00\n"]
)
def test_a_last_line_that_was_cut_off_is_run_again(folder, end):
    path = fill(folder, "a", "b")
    whole = path.read_bytes()
    path.write_bytes(whole + end)
    assert load_results(folder, "suite")["digest"].tolist() == ["a", "b"]
    with Store(folder, "suite") as store:
        assert store.done() == {"a", "b"}
        assert path.read_bytes() == whole + end  # nothing is cut away before something is written
        store.append(plain("c"))
        store.append(plain("d"))
        assert store.load()["digest"].tolist() == ["a", "b", "c", "d"]
    assert path.read_bytes().startswith(whole)
    assert path.read_bytes().count(b"\n") == 4


@pytest.mark.parametrize("damage", [b'{"id": "run', b"\xff\xfe", b"[]", b'{"digest": 3}', b""])
def test_a_damaged_line_in_the_middle_is_named_and_kept(folder, damage):
    path = fill(folder, "a", "b", "c")
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = damage + b"\n"
    path.write_bytes(b"".join(lines))
    for read in (lambda: Store(folder, "suite"), lambda: load_results(folder, "suite")):
        with pytest.raises(DataFormatError, match=r"line 2 of .*runs\.jsonl is damaged"):
            read()
    assert path.read_bytes() == b"".join(lines)


def test_rows_of_another_kind_are_named(folder):
    path = fill(folder, "a")
    path.write_text(path.read_text() + '{"digest": "b"}\n')
    with pytest.raises(DataFormatError, match=r"line 2 of .* other columns"):
        load_results(folder, "suite")


def test_another_suite(folder):
    fill(folder, "a")
    for read in (Store, load_results):
        with pytest.raises(InvalidValue, match=r"results of 'suite', not of 'other'"):
            read(folder, "other")


def test_rows_from_before_there_were_guards_load_beside_guarded_ones(folder):
    plain, guarded = simulate(SPEC).row(), simulate(replace(SPEC, guard=Guarded(share=0.3))).row()
    added = {"online_mean", "streams", *(name for name in plain if name.startswith("guard"))}
    with Store(folder, "suite") as store:
        store.append({name: value for name, value in plain.items() if name not in added})
        store.append(guarded)
        found = store.load()
    assert found["guard"].tolist() == ["", guarded["guard"]]
    assert [each.tolist() for each in found["guard_outcomes"]] == [[], guarded["guard_outcomes"]]
    assert found["online_mean"].tolist() == [None, guarded["online_mean"]]
    assert found["streams"].tolist() == [1, RunSpec.streams]


def test_rows_have_the_names_of_today(folder):
    """A recipe may have been spelled otherwise when its rows were written; one that is unknown here keeps its old name."""
    known = simulate(SPEC).row()
    unknown = known | {"digest": "other", "recipe": "Vanished()", "algorithm": "vanished", "base": ""}
    with Store(folder, "suite") as store:
        store.append(known | {"algorithm": "an-old-name", "base": "another"})
        store.append(unknown)
        found = store.load()
    assert found["algorithm"].tolist() == [known["algorithm"], "vanished"]
    assert found["base"].tolist() == [known["base"], ""]


def test_wall_time_adds_up_over_sessions(folder):
    for seconds in (2.0, 3.0):
        with Store(folder, "suite") as store:
            store.add_wall_time(seconds)
    with Store(folder, "suite") as store:
        assert store.wall_seconds == 5.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"format": 99, "suite": "suite", "duelrank": "7.0"}', "format 99, written by duelrank 7.0"),
        ('{"format": 1', "is damaged"),
        ('{"suite": "suite"}', "is damaged"),
        ("[]", "is damaged"),
    ],
)
def test_another_format(folder, text, words):
    path = fill(folder, "a")
    before = path.read_bytes()
    (folder / "store.json").write_text(text)
    with pytest.raises(DataFormatError, match=words):
        Store(folder, "suite")
    assert path.read_bytes() == before


def test_a_folder_with_something_else_in_it(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(InvalidValue, match=r"other files \(.*thesis\.tex.*\)"):
        Store(tmp_path, "suite")
    assert not (tmp_path / "runs.jsonl").exists()
    with pytest.raises(InvalidValue, match="is a file"):
        Store(tmp_path / "thesis.tex", "suite")


def test_results_without_their_description_are_not_taken_over(folder):
    fill(folder, "a")
    (folder / "store.json").unlink()
    with pytest.raises(InvalidValue, match=r"no store\.json"):
        Store(folder, "suite")


def test_a_folder_whose_making_was_killed_is_used(folder):
    folder.mkdir()
    (folder / "runs.jsonl").touch()
    (folder / "store.json.new").write_text('{"form')
    fill(folder, "a")
    assert {path.name for path in folder.iterdir()} - {"store.lock"} == {"runs.jsonl", "store.json"}


def test_no_results(tmp_path):
    with pytest.raises(MissingData, match="no results found in"):
        load_results(tmp_path, "suite")


def test_only_one_may_write_but_others_may_read(folder):
    with Store(folder, "suite") as store:
        store.append(plain("a"))
        with pytest.raises(InvalidValue, match="another process is writing"):
            Store(folder, "suite")
        assert len(load_results(folder, "suite")) == 1
    Store(folder, "suite").close()


def test_without_locks_whole_lines_of_another_process_survive(folder, monkeypatch):
    def unsupported(*_, **__):
        raise NotImplementedError("this file system has no locks")

    monkeypatch.setattr(filelock.FileLock, "acquire", unsupported)
    with Store(folder, "suite") as one, Store(folder, "suite") as other:
        for number in range(3):
            one.append(plain(f"one{number}"))
            other.append(plain(f"other{number}"))
    assert len(load_results(folder, "suite")) == 6


FULL = """
    import resource, sys
    from duelrank.core.errors import StorageFailure
    from duelrank.experiments import Store
    with Store(sys.argv[1], "suite") as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
        written = 0
        for attempt in range(30):
            try:
                digest = f"{attempt:010x}"
                store.append({"id": digest, "digest": digest, "curve": [0.1] * (300 if attempt < 25 else 1)})
                written += 1
            except StorageFailure as error:
                message = str(error)
        print(written, message)
"""


@pytest.mark.processes
@pytest.mark.skipif(os.name != "posix", reason="this system has no limits on files")
def test_a_full_disk(folder):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL), str(folder)], capture_output=True, text=True, check=True
    )
    written, message = done.stdout.split(" ", 1)
    assert message.strip().startswith(f"could not write results in {folder}: ")
    assert 0 < int(written) < 30
    content = (folder / "runs.jsonl").read_bytes()
    assert content.endswith(b"\n")
    assert content.count(b"\n") == len(load_results(folder, "suite")) == int(written)
    assert b"0000000019" in content  # one that was small enough went in, after others had failed


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailure, match="could not write results"):
        Store(tmp_path / "file" / "results", "suite")


class TestProvenance:
    def test_what_the_runs_say(self, frame):
        made = provenance(frame(), wall_seconds=75.0, command="duelrank suite")
        assert made["Runs"] == "30"
        assert (made["Folds"], made["Seeds"], made["Impressions per run"]) == ("1–5", "1", "100")
        assert made["Time in runs"].startswith("45.0 s")  # 30 runs of 1 s, and 0.5 s of evaluation
        assert made["Wall time"].startswith("1 min 15 s")
        assert made["Command"] == "duelrank suite"
        assert re.match(r"Python \d.*duelrank \d.*numpy \d.*numba \d", made["Versions"])
        assert re.search(r"\d+ cores?, \w", made["Machine"])

    def test_what_is_not_known_is_left_out(self, frame):
        assert {"Wall time", "Command"}.isdisjoint(provenance(frame()))

    def test_durations(self):
        assert [duration(s) for s in (0.04, 59.94, 60, 3599, 3600, 90_061)] == [
            "0.0 s",
            "59.9 s",
            "1 min 0 s",
            "59 min 59 s",
            "1 h 0 min",
            "25 h 1 min",
        ]
