"""The store under the service: it stays bounded, may be full or damaged, and can be replayed at any time."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from duelrank.core.errors import (
    InvalidRecipe,
    InvalidValue,
    LimitExceeded,
    StorageFailure,
    StoreCorrupt,
    StoreFull,
    StoreUnavailable,
    UnknownName,
)
from duelrank.service import Service
from duelrank.service.definition import Definition
from duelrank.service.http.schema import FeedbackCounts
from duelrank.service.rankers import VersionStore, thinned
from duelrank.service.replay import ranker_names, replay
from duelrank.storage import SnapshotInfo, open_storage


def ids(answer):
    return [each.id for each in answer.ranking]


async def traffic(service, kit, numbers, close=True):
    """Lists and their feedback."""
    answers = await asyncio.gather(*(service.rank("shop", kit.request(number)) for number in numbers))
    events = [kit.event(n, ids(answer)[1:3], close=close) for n, answer in zip(numbers, answers, strict=True)]
    assert (await service.feedback("shop", events)).accepted == len(numbers)


class TestRetention:
    def test_it_stays_bounded_and_replay_still_verifies(self, storage, kit):
        clock = kit.clock()

        async def main():
            sizes, learned = [], 0
            async with kit.running(
                storage, clock=clock, retention=1000.0, tidy_every=100.0, keep_versions=4
            ) as service:
                await service.create(kit.spec(close_after=5000.0))
                await service.rank("shop", kit.request(1_000_000))  # stays open, past all that is removed around it
                for cycle in range(16):
                    await traffic(service, kit, range(20 * cycle, 20 * cycle + 20))
                    learned += 20
                    await kit.learned(service, learned)
                    tidied = service._background._term._tidied
                    clock.advance(250.0)
                    await kit.until(lambda before=tidied: service._background._term._tidied > before)
                    sizes.append(len(storage.log.read(limit=100_000)))
                assert max(sizes[8:]) <= max(sizes[:8]), "no more after thousands of seconds than after the first"
                assert len(storage.snapshots.list("shop", "checkpoint")) <= 12
                assert len(storage.snapshots.list("shop", "version")) <= 200
                assert storage.log.dropped("shop") > 0
                result = kit.verified(storage)
                assert result.after == storage.log.dropped("shop")
                assert (result.learned, result.open) == (320, 1)
                assert result.versions_compared > 1
                gone = await service.feedback("shop", [kit.event(200, ["d1"], event_id="new")])
                assert gone == FeedbackCounts(expired=1)
                shown = ids(await service.rank("shop", kit.request(1_000_000)))
                assert await service.feedback("shop", [kit.event(1_000_000, shown[:1])]) == FeedbackCounts(accepted=1)
                await kit.learned(service, 321)
            kit.verified(storage)
            async with kit.running(storage, clock=clock) as service:
                assert service.ranker("shop").learned == 321
                assert (await service.feedback("shop", [kit.event(200, ["d1"])])).unknown == 1
                await service.rank("shop", kit.request(200))  # its id is free again
                await kit.until(lambda: service.ranker("shop").impressions == 322)

        asyncio.run(main())

    def test_features_go_as_soon_as_checkpoints_cover_them(self, storage, kit):
        clock = kit.clock()

        def number(id):
            return storage.log.find("shop", "ranked", [id])[id].number

        async def main():
            async with kit.running(storage, clock=clock, tidy_every=100.0) as service:
                await service.create(kit.spec(close_after=1e6))
                shown = ids(await service.rank("shop", kit.request(1_000_000)))  # stays open
                for cycle in range(5):
                    await traffic(service, kit, range(10 * cycle, 10 * cycle + 10))
                    await kit.learned(service, 10 * cycle + 10)
                    tidied = service._background._term._tidied
                    clock.advance(150.0)
                    await kit.until(lambda before=tidied: service._background._term._tidied > before)
                kept = [storage.log.attachment("shop", number(f"i{n}")) is not None for n in range(50)]
                assert kept == [False] * 30 + [True] * 20, (
                    "three checkpoints, so two of the five rounds can be replayed"
                )
                assert storage.log.attachment("shop", number("i1000000")) is not None, "it is not learned from yet"
                first = await service.rank("shop", kit.request(3, explain=True))
                assert first.ranking[0].score is None, "its order is known, its scores are not"
                late = await service.feedback("shop", [kit.event(3), kit.event(4, event_id="new")])
                assert (late.duplicate, late.expired) == (1, 1), "what is small is still there"
                await service.feedback("shop", [kit.event(1_000_000, shown[:1])])
                await kit.learned(service, 51)
                assert service.ranker("shop").failed == 0
            result = kit.verified(storage)
            assert result.after == storage.log.dropped("shop") > 0

        asyncio.run(main())

    def test_features_are_kept_for_longer_if_configured(self, storage, kit):
        clock = kit.clock()

        async def main():
            async with kit.running(storage, clock=clock, tidy_every=100.0, keep_features=5000.0) as service:
                await service.create(kit.spec())
                for cycle in range(5):
                    await traffic(service, kit, range(10 * cycle, 10 * cycle + 10))
                    await kit.learned(service, 10 * cycle + 10)
                    tidied = service._background._term._tidied
                    clock.advance(150.0)
                    await kit.until(lambda before=tidied: service._background._term._tidied > before)
                found = storage.log.find("shop", "ranked", [f"i{n}" for n in range(50)]).values()
                assert all(storage.log.attachment("shop", event.number) for event in found)

        asyncio.run(main())


class TestCapacity:
    """How long the disk lasts, by sizes that are made up."""

    def look(self, kit, caplog, sizes, free):
        from duelrank.service import Observer
        from duelrank.service.rankers import Rankers
        from duelrank.service.retention import Capacity
        from duelrank.storage import Usage

        clock, told, room = kit.clock(), [], iter(zip(sizes, free, strict=True))

        class Watching(Observer):
            def store(self, bytes, free, days_left):
                told.append((bytes, free, days_left))

        with open_storage("sqlite://") as storage:
            storage.usage = lambda: Usage(*next(room))
            rankers = Rankers(storage)
            rankers.observer = Watching()
            capacity = Capacity(storage, clock, rankers)
            with caplog.at_level(logging.WARNING):
                for _ in sizes:
                    capacity.measure()
                    clock.advance(400.0)
        return told

    def test_days_are_left_at_the_rate_of_the_last_hour(self, kit, caplog):
        told = self.look(kit, caplog, [10**9, 10**9 + 10**6, 10**9 + 2 * 10**6], [10**12] * 3)
        assert [days for _, _, days in told[:2]] == [None, None], "the first minutes say nothing"
        assert told[2][2] == pytest.approx(10**12 / (10**6 / 400.0) / 86400.0)
        assert not caplog.text

    def test_it_warns_before_the_disk_is_full_and_not_every_minute(self, kit, caplog):
        self.look(kit, caplog, [10**9 + n * 10**9 for n in range(5)], [10**11] * 5)
        assert caplog.text.count("days at the current rate") == 1

    def test_a_store_that_does_not_grow_lasts(self, kit, caplog):
        assert [days for _, _, days in self.look(kit, caplog, [10**9] * 3, [10**11] * 3)] == [None] * 3
        assert [days for _, _, days in self.look(kit, caplog, [10**9] * 3, [None] * 3)] == [None] * 3
        assert not caplog.text


class TestReplay:
    def test_finds_what_differs(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                for number in range(5):
                    await traffic(service, kit, [number])
                    await kit.learned(service, number + 1)

        asyncio.run(main())
        whole = kit.verified(storage)
        assert (whole.after, whole.learned) == (0, 5)
        assert whole.versions_compared >= 3
        assert whole.snapshots_compared >= whole.versions_compared
        assert ranker_names(storage) == ["shop"]
        with pytest.raises(UnknownName, match="shop"):
            replay(storage, "shap")
        from duelrank.service.definition import Definition
        from duelrank.service.rankers import VersionStore

        versions = VersionStore(storage, Definition(kit.spec(), 0.0))
        third = versions.load(3)
        versions.save(replace(third, state=replace(third.state, weights=third.state.weights * (1.0 + 1e-12))))
        assert "version 3" in replay(storage, "shop").difference
        near = replay(storage, "shop", tolerance=1e-9)
        assert near.difference is None
        assert 0.0 < near.largest < 1e-9
        versions.save(replace(third, state=versions.load(2).state))
        assert "version 3" in replay(storage, "shop", tolerance=1e-9).difference

    def test_it_names_lists_that_it_could_not_make_again(self, sqlite_url, kit, monkeypatch):
        async def main(storage):
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                await traffic(service, kit, range(5))
                await kit.learned(service, 5)

        def rebuild(self, state, id, *parts):
            if id == "i1":
                raise InvalidRecipe("it can learn only from lists that it has made itself")
            return made(self, state, id, *parts)

        with open_storage(sqlite_url) as storage:
            asyncio.run(main(storage))
            made = Definition.rebuild
            monkeypatch.setattr(Definition, "rebuild", rebuild)
            assert "could not learn from 1 lists" in replay(storage, "shop", tolerance=1e-9).difference

    @pytest.mark.processes
    def test_another_processor_gives_the_same_bits(self, sqlite_url, kit):
        """Numba without fused multiply-add and wide registers, as on an old processor, on lists whose documents tie."""
        import os
        import subprocess
        import sys

        async def main(storage):
            async with kit.running(storage) as service:
                for algorithm in ("pdgd", "mgd-dsp"):
                    await service.create(kit.spec(algorithm, algorithm=algorithm))
                    for number in range(60):
                        shown = ids(await service.rank(algorithm, kit.request(number)))
                        await service.feedback(algorithm, [kit.event(number, shown[1:3])])
                    await kit.learned(service, 60, algorithm)

        with open_storage(sqlite_url) as storage:
            asyncio.run(main(storage))
        command = [sys.executable, "-m", "duelrank", "replay", sqlite_url, "--verify"]
        environment = os.environ | {"NUMBA_CPU_NAME": "generic"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def test_from_the_command_line(self, sqlite_url, tmp_path, kit):
        from typer.testing import CliRunner

        from duelrank.cli import app

        def run(*arguments):
            return CliRunner().invoke(app, ["replay", *map(str, arguments)])

        async def main(storage):
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                await service.create(kit.spec("other"))
                await traffic(service, kit, range(3))
                await kit.learned(service, 3)

        with open_storage(sqlite_url) as storage:
            asyncio.run(main(storage))
        done = run(tmp_path / "store.db", "--verify")
        assert done.exit_code == 0, done.output
        assert "shop: " in done.output
        assert "3 learned" in done.output
        assert done.output.count("all equal") == 2
        found = json.loads(run(sqlite_url, "--ranker", "shop", "--json").output)
        assert [(each["ranker"], each["learned"], each["difference"]) for each in found] == [("shop", 3, None)]
        assert run("--store", sqlite_url).output == run(sqlite_url).output == run("--store", "no", sqlite_url).output
        assert run(tmp_path / "none.db").exit_code == 2
        for words in (["http://127.0.0.1:8000"], ["--store", "http://127.0.0.1:8000"]):
            assert "is the address of a service" in " ".join(run(*words).output.split())
        assert not (tmp_path / "none.db").exists()
        assert run(sqlite_url, "--ranker", "nobody").exit_code == 2
        with sqlite3.connect(tmp_path / "store.db") as connection:  # a click that nobody made
            number, body = connection.execute(
                "SELECT number, body FROM duelrank_bodies JOIN duelrank_events USING (number) WHERE kind = 'feedback'"
            ).fetchone()
            row = connection.execute(
                "SELECT ranker, kind, key, time FROM duelrank_events WHERE number = ?", (number,)
            ).fetchone()
            from duelrank.service.log import StoredFeedback, pack, unpack
            from duelrank.storage.sql import checksum

            fed = unpack(body, StoredFeedback)
            body = pack(StoredFeedback(fed.impression, [4], fed.examined, fed.time))
            connection.execute(
                "UPDATE duelrank_bodies SET body = ?, checksum = ? WHERE number = ?",
                (body, checksum(body, *row), number),
            )
        connection.close()
        forged = run(tmp_path / "store.db", "--verify")
        assert forged.exit_code == 1
        assert "NOT equal" in forged.output
        assert run(tmp_path / "store.db").exit_code == 0


class Failing:
    """Makes a store fail in its writes, with an error of choice, until told otherwise."""

    def __init__(self, storage, monkeypatch):
        self.error = None
        insert, transact = storage._writer._insert, storage.transact

        def failing_insert(events):
            if self.error is not None:
                raise self.error
            return insert(events)

        def failing_transact(work):
            if self.error is not None:
                raise self.error
            return transact(work)

        monkeypatch.setattr(storage._writer, "_insert", failing_insert)
        monkeypatch.setattr(storage, "transact", failing_transact)


class TestVersions:
    def test_a_month_of_versions_is_thinned_by_age(self, kit):
        """One every two seconds for an hour, then one every five minutes for 40 days; two leaders do it, one of them late."""
        definition = Definition(kit.spec(), 0.0)
        begin, day = 1_700_000_000.0, 86400.0
        times = [begin + 2.0 * number for number in range(1800)]
        times += [times[-1] + 300.0 * number for number in range(1, 40 * 288)]
        every = [SnapshotInfo("shop", "version", 2 + number, time, 1) for number, time in enumerate(times)]
        kept: list[SnapshotInfo] = []
        for number, info in enumerate(every):
            kept.append(info)
            if number % 30 == 29 or info is every[-1]:
                for now in (info.time - 60.0, info.time):
                    numbers = thinned(kept, now).union(each.number for each in kept[-20:])
                    kept = [each for each in kept if each.number in numbers]
                assert len(kept) <= 20 + 61 + 25 + 32
        now, newest = times[-1], {info.number for info in every[-20:]}
        assert {info.number for info in kept} == thinned(every, now) | newest, "how often it was done does not matter"
        ages = [now - info.time for info in kept]
        assert 30 * day < max(ages) <= 31 * day
        for seconds, most in ((60.0, 3600.0), (3600.0, day), (day, 31 * day)):
            had = {info.time // seconds for info in every if now - info.time <= most - seconds}
            assert had <= {info.time // seconds for info in kept}, (
                "each minute, hour or day with a version still has one"
            )
        with open_storage("sqlite://") as storage:
            versions = VersionStore(storage, definition)
            for info in every[:200]:
                storage.snapshots.save("shop", "version", info.number, info.time, b"")
            for _ in range(2):
                versions.prune(20, every[199].time, [5, 6], needed=[9])
                expected = thinned(every[:200], every[199].time) | {each.number for each in every[180:200]} | {5, 6, 9}
                assert {each.number for each in versions.list()} == expected

    def test_one_goes_back_to_a_version_of_days_ago_or_to_a_label(self, storage, kit, monkeypatch):
        clock, made = kit.clock(), {}
        monkeypatch.setattr(
            "duelrank.service.machine.VERSION_WINDOW", 1
        )  # versions that lists may still come from are kept, too

        async def main():
            async with kit.running(storage, clock=clock, keep_versions=2, tidy_every=30.0) as service:
                await service.create(kit.spec())
                for number in range(12):
                    shown = ids(await service.rank("shop", kit.request(number)))
                    await service.feedback("shop", [kit.event(number, shown[1:3])])
                    await kit.learned(service, number + 1)
                    made[number + 2] = service.model("shop").weights
                    if number == 4:
                        labelled = await service.label("shop", 6, "before the sale")
                        assert (labelled.label, labelled.current) == ("before the sale", True)
                    clock.advance(20.0 if number < 8 else 86400.0)
                    await kit.rounds(service)
                listed = {each.version: each.label for each in service.versions("shop")}
                assert listed[6] == "before the sale"
                assert set(listed) < {1, *made}
                old = min(set(listed) - {1, 6})
                for version in (old, 6):
                    await service.control("shop", "rollback", version)
                    assert np.array_equal(service.model("shop").weights, made[version])
                gone = min(set(made) - set(listed))
                with pytest.raises(UnknownName, match="does not exist"):
                    await service.control("shop", "rollback", gone)
                assert service.history("shop").marks[0].text == "version 6: before the sale"
                assert (await service.label("shop", 6, "")).label == ""
                clock.advance(30.0)
                await kit.until(lambda: 6 not in {each.version for each in service.versions("shop")})
            kit.verified(storage)

        asyncio.run(main())

    def test_labels_are_checked_bounded_and_kept_over_a_restart(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                for version, label, error, says in (
                    (7, "x", UnknownName, "version 7"),
                    (1, "x" * 101, InvalidValue, "a label has 1 to 100"),
                    (1, "a\0", InvalidValue, "can be printed"),
                    (1, "", UnknownName, "has no label"),
                ):
                    with pytest.raises(error, match=says):
                        await service.label("shop", version, label)
                await service.label("shop", 1, "x")
                machine = service._rankers["shop"].machine
                known, machine.labels = machine.labels, {100 + number: "old" for number in range(20)}
                with pytest.raises(LimitExceeded, match="20 versions with a label"):
                    await service.label("shop", 1, "y")
                machine.labels = known
                before = service.ranker("shop").model_version
                await service.label("shop", 1, "y")
                assert service.ranker("shop").model_version == before, "a label makes no version"
            async with kit.running(storage) as service:
                assert [each.label for each in service.versions("shop")] == ["y"]
            kit.verified(storage)

        asyncio.run(main())


class TestFailures:
    def test_a_full_disk_is_said_and_survived(self, storage, kit, monkeypatch, caplog):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                await traffic(service, kit, range(5), close=False)
                failing = Failing(storage, monkeypatch)
                failing.error = StoreFull("no room")
                with pytest.raises(StoreFull, match="no room"):
                    await service.rank("shop", kit.request(10))
                with pytest.raises(StoreFull):
                    await service.feedback("shop", [kit.event(1, event_id="end")])
                with pytest.raises(StoreFull):
                    await service.create(kit.spec("two"))
                assert ids(await service.rank("shop", kit.request(3))), "what is known can still be read"
                failing.error = None
                counts = await service.feedback("shop", [kit.event(n, event_id=f"end{n}") for n in range(5)])
                assert counts == FeedbackCounts(accepted=5), "a close that failed has closed nothing"
                await service.rank("shop", kit.request(10))
                await kit.learned(service, 5)
                assert service.ranker("shop").impressions == 6
            kit.verified(storage)

        asyncio.run(main())

    def test_learning_continues_when_there_is_room_again(self, storage, kit, monkeypatch, caplog):
        monkeypatch.setattr("duelrank.service.leader.RETRY_SECONDS", 0.05)
        clock = kit.clock()

        async def main():
            async with kit.running(storage, clock=clock, publish_every=10.0) as service:
                await service.create(kit.spec())
                await traffic(service, kit, range(5))
                await kit.until(lambda: service.ranker("shop").model_version == 2)
                await traffic(service, kit, range(5, 10))
                await kit.until(lambda: service.ranker("shop").learned == 10)
                failing = Failing(storage, monkeypatch)
                failing.error = StoreFull("no room")
                clock.advance(10.0)  # the next version is due
                await kit.until(lambda: service.failure is not None)
                assert isinstance(service.failure, StoreFull)
                assert service.ready, "lists can be shown again"
                assert ids(await service.rank("shop", kit.request(3)))
                failing.error = None
                await kit.learned(service, 10)
                await kit.until(lambda: service.failure is None)
            kit.verified(storage)

        with caplog.at_level(logging.ERROR):
            asyncio.run(main())
        assert caplog.text.count("no room") == 1, "said once, not every second"

    def test_it_knows_whether_all_was_saved_when_it_stopped(self, storage, kit, monkeypatch):
        async def main(error):
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                await service.rank("shop", kit.request(1 if error is None else 2))
                await kit.until(lambda: kit.has_read_all(service))
                Failing(storage, monkeypatch).error = error
            return service.unsaved

        assert asyncio.run(main(None)) is None
        full = StoreFull("no room")
        assert asyncio.run(main(full)) is full

    @pytest.mark.parametrize("replaced", [False, True])
    def test_a_file_that_vanished_or_was_replaced_is_noticed_without_a_request(
        self, sqlite_url, tmp_path, kit, replaced
    ):
        async def main(storage):
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                await traffic(service, kit, range(5))
                await kit.learned(service, 5)
                path = tmp_path / "store.db"
                path.rename(tmp_path / "elsewhere.db")
                if replaced:
                    path.write_bytes(b"")
                await kit.until(lambda: isinstance(service.failure, StoreUnavailable))
                with pytest.raises(StoreUnavailable):
                    await service.rank("shop", kit.request(10))
                (tmp_path / "elsewhere.db").rename(path)
                await kit.until(lambda: service.failure is None)
                await traffic(service, kit, range(5, 10))
                await kit.learned(service, 10)
            kit.verified(storage)

        with open_storage(sqlite_url) as storage:
            asyncio.run(main(storage))

    def test_a_damaged_log_is_said(self, sqlite_url, tmp_path, kit):
        async def fill(storage):
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                await traffic(service, kit, range(5))
                await kit.learned(service, 5)

        async def reopen(storage):
            service = Service(storage, kit.fast)
            await service.start()
            try:
                with pytest.raises(StoreCorrupt, match="damaged"):
                    await service.wait_ready(60)
                assert not service.ready
            finally:
                await service.stop()

        with open_storage(sqlite_url) as storage:
            asyncio.run(fill(storage))
        connection = sqlite3.connect(tmp_path / "store.db")
        connection.execute("DELETE FROM duelrank_snapshots")
        connection.execute("UPDATE duelrank_bodies SET body = x'00' WHERE number = 3")
        connection.commit()
        connection.close()
        with open_storage(sqlite_url) as storage:
            asyncio.run(reopen(storage))
            with pytest.raises(StorageFailure):
                replay(storage, "shop")

    def test_a_damaged_checkpoint_is_got_over(self, sqlite_url, tmp_path, kit):
        async def main(storage, numbers, learned):
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                await traffic(service, kit, numbers)
                await kit.learned(service, learned)
                return service.model("shop").weights

        with open_storage(sqlite_url) as storage:
            asyncio.run(main(storage, range(5), 5))
            asyncio.run(main(storage, range(5, 10), 10))
        connection = sqlite3.connect(tmp_path / "store.db")
        newest = connection.execute("SELECT max(number) FROM duelrank_snapshots WHERE ranker = 'shop'").fetchone()
        connection.execute("UPDATE duelrank_snapshots SET body = x'00' WHERE ranker = 'shop' AND number = ?", newest)
        connection.commit()
        connection.close()
        with open_storage(sqlite_url) as storage:
            asyncio.run(main(storage, range(10, 15), 15))
