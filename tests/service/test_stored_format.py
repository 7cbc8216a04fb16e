"""A store that was written before stored bodies had a version number is read, verified and continued."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path

import msgspec
import pytest

from duelrank.core.errors import StoreCorrupt
from duelrank.evidence import GuardSpec
from duelrank.service.definition import Change, RankerSpec, Start
from duelrank.service.experiments import ExperimentSpec
from duelrank.service.http.schema import Document, FeedbackEvent, RankRequest
from duelrank.service.log import (
    Created,
    Deleted,
    StoredChange,
    StoredExperiment,
    StoredSpec,
    content_of,
    digest,
    pack,
    unpack,
)
from duelrank.service.replay import ranker_names, replay
from duelrank.storage import Storage, open_storage

DATA = Path(__file__).parent / "data"
#: Sentences for people may be reworded.
WORDS = ("warnings", "summary", "reason", "happened", "consequence")


def without_words(value):
    """Return a value as JSON has it, without its sentences."""
    if isinstance(value, dict):
        return {name: without_words(each) for name, each in value.items() if name not in WORDS}
    return [without_words(each) for each in value] if isinstance(value, list | tuple) else value


@pytest.fixture
def expected():
    return json.loads((DATA / "store-format-1.json").read_text())


@pytest.fixture
def old_store(tmp_path):
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress((DATA / "store-format-1.db.gz").read_bytes()))
    with open_storage(f"sqlite:///{path}") as storage:
        yield storage


def test_a_replay_agrees_with_everything_that_was_stored(old_store: Storage, expected):
    assert ranker_names(old_store) == sorted(expected["replay"])
    for name, counts in expected["replay"].items():
        found = replay(old_store, name, tolerance=1e-9)  # other processors may round otherwise
        assert found.difference is None
        assert {each: getattr(found, each) for each in counts if each != "digest"} == {
            each: counts[each] for each in counts if each != "digest"
        }


def read_everything(service, expected) -> None:
    """Compare what a service says about every ranker with what the service that wrote the store said."""
    for name, ranker in expected["rankers"].items():
        info = service.ranker(name)
        later = {"imitate": 0, "imitated": 0}  # it was created before there was such a phase
        newer = {"skipped_by_reason": {}, "fit": None, "remembers": False, "context": {}}
        assert without_words(msgspec.to_builtins(info)) == ranker["info"] | later | newer
        if ranker["guard"] is not None:
            found = without_words(msgspec.to_builtins(service.guard(name)))
            phase = "alarm" if found["state"] == "alarm" else "climbing"
            assert found == ranker["guard"] | later | {"phase": phase, "waiting": 0}
        history = without_words(msgspec.to_builtins(service.history(name, "day")))
        assert history == without_words(ranker["history"]) | {"deviations": {}}
        assert service.model(name).weights.tolist() == ranker["model"]
        versions = [
            [each.version, each.label, digest(service._version_of(name, each.version).state).hex()]
            for each in service.versions(name)
        ]
        assert versions == ranker["versions"]


def test_rankers_versions_history_and_guards_are_what_they_were(kit, old_store, expected):
    async def main() -> None:
        async with kit.running(old_store, read_only=True) as service:
            read_everything(service, expected)

    asyncio.run(main())


def test_a_service_continues_where_the_old_one_stopped(kit, old_store, expected):
    documents = [Document(f"d{row}", [row, 1.0, -row]) for row in range(3)]

    async def main() -> None:
        async with kit.running(old_store, keep_features=1e9, retention=1e9) as service:
            before = service.ranker("shop")
            assert before.learned == expected["replay"]["shop"]["learned"]
            again = await service.feedback("shop", [FeedbackEvent("p0", ["d0"], event_id="e-p0")])
            assert again.duplicate == 1
            await service.feedback("shop", [FeedbackEvent(f"o{number}", close=True) for number in range(3)])
            await service.rank("shop", RankRequest(documents, impression_id="new"))
            await service.feedback("shop", [FeedbackEvent("new", ["d2"], close=True)])
            await kit.until(lambda: service.ranker("shop").open == 0 and service.lag() == 0)
            assert service.ranker("shop").impressions == before.impressions + 1

    asyncio.run(main())
    found = replay(old_store, "shop", tolerance=1e-9)
    assert found.difference is None
    assert (found.open, found.failed) == (0, 0)


def test_bodies_have_the_number_of_their_format():
    body = pack(Deleted("shop", 7))
    assert body == b"\xc1\x02\x92\xa4shop\x07"
    assert unpack(body, Deleted) == unpack(b"\x92\xa4shop\x07", Deleted) == Deleted("shop", 7)
    with pytest.raises(StoreCorrupt, match="format 3, which a later version of duelrank has written"):
        unpack(b"\xc1\x03\x92\xa4shop\x07", Deleted)
    for damaged in (b"\xc1", b"", b"\xc1\x02", b"\xc1\x02\x92"):
        with pytest.raises(StoreCorrupt):
            unpack(damaged, Deleted)


def test_specifications_and_changes_are_stored_under_these_names():
    """Stores contain these names: the API and the domain may change, the stored form may not."""
    start = Start(ranker="other", version=3)
    spec = RankerSpec("shop", "mgd", ("a", "b"), guard=GuardSpec(webhook="https://a.example"), start=start, imitate=7)
    stored = msgspec.msgpack.decode(content_of(pack(Created(StoredSpec.of(spec), salt=b"s"))))
    assert stored[1:] == [None, None, b"s", None]
    assert stored[0] == {
        "name": "shop", "algorithm": "mgd", "features": ["a", "b"], "representation": None, "length": 10, "exploration": 1.0,
        "mode": "learn", "seed": 0, "close_after": 1800.0, "start": {"from": "other", "version": 3}, "precision": "float64",
        "retired": [], "actions": {"click": 1.0}, "imitate": 7, "context": {},
        "guard": {
            "share": 0.2, "false_alarm_every": 1e6, "margin": 0.0, "on_alarm": "baseline", "promote": [0.5, 1.0],
            "webhook": "https://a.example", "anonymous": "count",
        },
    }  # fmt: skip
    assert StoredSpec.of(spec).read() == spec
    for change, names in (
        (Change(), {}),
        (Change(guard=None, length=3), {"guard": None, "length": 3}),
        (Change(add_features=("c",)), {"add_features": ["c"]}),
    ):
        assert msgspec.to_builtins(StoredChange.of(change)) == {
            name: tuple(each) if isinstance(each, list) else each for name, each in names.items()
        }
        assert StoredChange.of(change).read() == change
    with pytest.raises(StoreCorrupt, match="unknown value"):
        StoredSpec("shop", "mgd", ("a",), mode="dream").read()


def test_specifications_of_experiments_are_stored_under_these_names():
    spec = ExperimentSpec("spring", ("a", "b"), ("shop",), "Balanced()", 5, 0.01, 60.0, {"purchase": 2.0})
    stored = msgspec.msgpack.decode(content_of(pack(Created(None, experiment=StoredExperiment.of(spec)))))
    assert stored[:4] == [None, None, None, b""]
    assert stored[4] == {
        "name": "spring",
        "systems": ["a", "b"],
        "rankers": ["shop"],
        "multileaver": "Balanced()",
        "length": 5,
        "level": 0.01,
        "close_after": 60.0,
        "actions": {"purchase": 2.0},
    }
    assert unpack(pack(Created(None, experiment=StoredExperiment.of(spec))), Created).experiment.read() == spec
