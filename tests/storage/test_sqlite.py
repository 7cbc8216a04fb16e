"""What can happen to a file: locks, damage, a full disk, another version, endless traffic; gone, or read by others."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest
from tests.waiting import until

from duelrank.core.errors import StorageFailure, StoreCorrupt, StoreFull, StoreLocked, StoreTooNew, StoreUnavailable
from duelrank.storage import ApiKey, NewEvent, Receipt, open_storage
from duelrank.storage.sql import MIGRATIONS
from duelrank.storage.sqlite import MAX_NEW, SQLiteStorage


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


class TestReadOnly:
    #: Says what a store on a disk that is mounted read-only has, and why it takes no more.
    LOOK = """
import sys
from duelrank.core.errors import StorageFailure
from duelrank.storage import NewEvent, open_storage
with open_storage(sys.argv[1], read_only=True) as store:
    print(store.log.last_number())
try:
    with open_storage(sys.argv[1]) as store:
        store.log.append([NewEvent("shop", "ranked", "new", 0.0, b"")])
except StorageFailure as error:
    print(error)
"""

    def test_nothing_is_written_and_nothing_is_left(self, path, event):
        with SQLiteStorage(path) as store:
            store.log.append([event()])
        before = path.read_bytes()
        with open_storage(f"sqlite:///{path}", read_only=True) as store:
            assert store.log.last_number() == 1
            with pytest.raises(StorageFailure, match="cannot be written to"):
                store.log.append([event("other")])
        assert path.read_bytes() == before
        assert list(path.parent.iterdir()) == [path]

    def test_it_follows_one_who_writes(self, path, event):
        with SQLiteStorage(path) as store, open_storage(f"sqlite:///{path}", read_only=True) as reader:
            store.log.append([event()])
            assert reader.log.last_number() == 1

    def test_nothing_is_made_or_brought_up_to_date(self, path):
        with pytest.raises(StorageFailure, match="cannot be opened"):
            open_storage(f"sqlite:///{path}", read_only=True)
        assert not path.exists()
        SQLiteStorage(path, migrations=MIGRATIONS[:1]).close()
        before = path.read_bytes()
        with pytest.raises(StorageFailure, match="has version 1, and this duelrank reads version 2"):
            open_storage(f"sqlite:///{path}", read_only=True)
        assert path.read_bytes() == before

    def test_a_read_only_disk_is_named(self, path, event, monkeypatch):
        SQLiteStorage(path).close()
        with SQLiteStorage(path, read_only=True) as store:
            monkeypatch.setattr("duelrank.storage.sqlite._on_read_only_disk", path.__eq__)
            with pytest.raises(StorageFailure, match="file system is mounted read-only"):
                store.log.append([event()])

    @pytest.mark.processes
    @pytest.mark.parametrize("killed", [False, True])
    def test_on_a_read_only_disk(self, path, event, killed):
        """A killed writer leaves its write-ahead log, which can be read only together with its index."""
        store = SQLiteStorage(path)
        store.log.append([event()])
        kept = {each: each.read_bytes() for each in path.parent.iterdir()}
        store.close()
        if killed:
            for each, content in kept.items():
                each.write_bytes(content)
        mount = f"mount --bind {path.parent} {path.parent} && mount -o remount,ro,bind {path.parent}"
        if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "sh", "-c", mount]).returncode:
            pytest.skip("needs the right to mount a folder read-only in a namespace of its own")
        command = f"{mount} && exec {sys.executable} -c '{self.LOOK}' sqlite:///{path}"
        found = subprocess.run(["unshare", "-rm", "sh", "-c", command], capture_output=True, text=True)
        assert found.returncode == 0, found.stderr
        number, reason = found.stdout.splitlines()
        assert number == "1"
        assert "its file system is mounted read-only" in reason


class TestOpening:
    def test_a_folder_that_does_not_exist(self, tmp_path):
        with pytest.raises(StorageFailure, match="folder exists"):
            SQLiteStorage(tmp_path / "nowhere" / "store.db")

    def test_the_database_of_another_program(self, path):
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE theirs (x)")
        before = path.read_bytes()
        with pytest.raises(StorageFailure, match="another program"):
            SQLiteStorage(path)
        assert path.read_bytes() == before

    @pytest.mark.parametrize("refused", ["PRAGMA synchronous", "BEGIN", "PRAGMA journal_mode", "COMMIT"])
    def test_waits_for_a_lock_when_it_is_opened(self, path, monkeypatch, refused):
        # SQLite answers at once that the file is locked, such as if two connections turn the write-ahead log on at the same moment.
        class Contended(sqlite3.Connection):
            refusals = 2

            def execute(self, statement, *parameters):
                if statement.startswith(refused) and Contended.refusals:
                    Contended.refusals -= 1
                    error = sqlite3.OperationalError("database is locked")
                    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                    raise error
                return super().execute(statement, *parameters)

        monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Contended))
        with SQLiteStorage(path):
            assert Contended.refusals == 0
        Contended.refusals = 10**9
        with pytest.raises(StoreLocked):
            SQLiteStorage(path, timeout=0.05)

    def test_is_on_the_disk_before_it_is_acknowledged(self, path):
        with SQLiteStorage(path) as store, store._writes.borrow() as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


class TestFile:
    def test_only_its_owner_can_read_it(self, path, event):
        before = os.umask(0)
        try:
            with SQLiteStorage(path) as store, store.leases.acquire("learner"):
                store.log.append([event()])
                store.log.read()
                modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
        finally:
            os.umask(before)
        names = ("store.db", "store.db-wal", "store.db-shm", "store.db.learner.lock")
        assert {name: modes.get(name) for name in names} == dict.fromkeys(names, 0o600)
        assert set(modes.values()) == {0o600}

    def test_rights_that_somebody_chose_stay(self, path):
        SQLiteStorage(path).close()
        path.chmod(0o640)
        with SQLiteStorage(path):
            assert path.stat().st_mode & 0o777 == 0o640

    def refused(self, store, event):
        """Every write, and the question whether all is well."""
        for call in (
            lambda: store.log.append([event("lost")]),
            lambda: store.snapshots.save("shop", "version", 1, 0.0, b""),
            lambda: store.keys.revoke("x"),
            store.ping,
            store.usage,
        ):
            with pytest.raises(StoreUnavailable, match=r"move the file back.*or restart") as caught:
                call()
            assert caught.value.retryable

    def test_a_file_that_is_gone_is_noticed_until_it_is_back(self, path, event):
        with SQLiteStorage(path) as store:
            store.log.append([event("before")])
            path.rename(path.with_name("elsewhere"))
            self.refused(store, event)
            assert not path.exists(), "nothing makes an empty one in its place"
            path.with_name("elsewhere").rename(path)
            store.ping()
            assert store.log.append([event("after")]) == [Receipt(2, True)]

    def test_a_file_that_was_replaced_is_noticed_until_it_is_back(self, path, event):
        with SQLiteStorage(path.with_name("other")) as other:
            other.log.append([event(i) for i in range(5)])
        with SQLiteStorage(path) as store:
            store.log.append([event("before")])
            path.rename(path.with_name("elsewhere"))
            path.with_name("other").rename(path)
            self.refused(store, event)
            path.with_name("elsewhere").replace(path)
            assert store.log.append([event("after")]) == [Receipt(2, True)]

    def test_a_new_reader_does_not_read_the_wrong_file(self, path, event):
        with SQLiteStorage(path) as store:
            store.log.append([event()])
            store._reads.clear()
            path.unlink()
            with pytest.raises(StoreUnavailable, match="is gone"):
                store.log.read()
            assert not path.exists()

    def test_a_lock_file_that_is_gone_protects_nobody(self, path):
        with SQLiteStorage(path) as one, SQLiteStorage(path) as other:
            lease = one.leases.acquire("learner")
            path.with_name("store.db.learner.lock").unlink()
            assert not lease.renew()
            with other.leases.acquire("learner"):
                assert one.leases.acquire("learner") is None
                assert not lease.held()

    def test_what_it_takes_and_what_is_left(self, path, event):
        with SQLiteStorage(path) as store:
            store.log.append([event(body=bytes(100_000))])
            usage = store.usage()
            wal = path.with_name("store.db-wal")
            assert usage.bytes == path.stat().st_size + wal.stat().st_size
            total = shutil.disk_usage(path.parent).total
            assert 0 < usage.free <= total


class TestLocked:
    def test_says_so_and_goes_on_afterwards(self, path, event):
        with SQLiteStorage(path, timeout=0.1) as store:
            store.log.append([event(1)])
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                futures = [store.log.submit([event(i)]) for i in range(2, 5)]
                for future in futures:
                    with pytest.raises(StoreLocked, match="another process") as caught:
                        future.result()
                    assert caught.value.retryable
                assert len(store.log.read()) == 1, "readers do not wait"
                other.execute("ROLLBACK")
            assert store.log.append([event(2)]) == [Receipt(2, True)]

    def test_waits_for_a_while(self, path, event):
        with SQLiteStorage(path) as store:
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                future = store.log.submit([event()])
                with pytest.raises(TimeoutError):
                    future.result(0.2)
            assert future.result() == [Receipt(1, True)]

    def test_a_reader_does_not_hold_up_the_writer(self, path, event):
        with SQLiteStorage(path, timeout=0.1) as store:
            store.log.append([event(1)])
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN")
                assert other.execute("SELECT count(*) FROM duelrank_events").fetchone() == (1,)
                store.log.append([event(2)])
                assert other.execute("SELECT count(*) FROM duelrank_events").fetchone() == (1,)
            assert store.log.last_number() == 2


class TestDamage:
    @pytest.fixture
    def filled(self, path, event):
        with SQLiteStorage(path) as store:
            store.log.append([event(i, body=b"%06d" % i * 200, attachment=b"a%05d" % i * 200) for i in range(300)])
            store.snapshots.save("shop", "checkpoint", 100, 0.0, b"first snapshot " * 50)
            store.snapshots.save("shop", "checkpoint", 200, 0.0, b"second snapshot " * 50)
        return path

    def test_a_file_that_is_no_database(self, path):
        path.write_bytes(b"something else entirely " * 100)
        with pytest.raises(StoreCorrupt, match=r"store\.db.*not a SQLite database"):
            SQLiteStorage(path)

    def test_a_damaged_beginning(self, filled):
        content = filled.read_bytes()
        filled.write_bytes(b"\xff" * 100 + content[100:])
        with pytest.raises(StoreCorrupt):
            SQLiteStorage(filled)

    def test_damaged_pages(self, filled):
        size = filled.stat().st_size
        with filled.open("r+b") as file:
            file.seek(4096 * 4)
            file.write(os.urandom(size - 4096 * 4))
        with pytest.raises(StoreCorrupt), SQLiteStorage(filled) as store:  # noqa: PT012
            store.log.read()
            store.snapshots.load("shop", "checkpoint")

    def test_a_file_that_was_cut_off(self, filled):
        os.truncate(filled, filled.stat().st_size // 8 // 4096 * 4096)
        with pytest.raises(StoreCorrupt), SQLiteStorage(filled) as store:
            store.log.read()

    @pytest.mark.parametrize("body", [b"%06d" % 7 * 200, b"second snapshot ", b"a00007a00007"])
    def test_bytes_that_only_a_checksum_can_miss(self, filled, body):
        content = filled.read_bytes()
        assert body in content
        filled.write_bytes(content.replace(body, b"X" + body[1:], 1))
        with SQLiteStorage(filled) as store:
            if body.startswith(b"second"):
                with pytest.raises(StoreCorrupt, match="checkpoint 200 of 'shop' is damaged"):
                    store.snapshots.load("shop", "checkpoint")
                assert store.snapshots.load("shop", "checkpoint", 100).number == 100
            elif body.startswith(b"a"):
                with pytest.raises(StoreCorrupt, match="attachment of event 8 is damaged"):
                    store.log.attachment("shop", 8)
                assert store.log.attachment("shop", 9) == b"a00008" * 200
            else:
                with pytest.raises(StoreCorrupt, match="event 8 is damaged"):
                    store.log.read()
                assert len(store.log.read(after=8)) == 292

    def test_a_damaged_api_key_and_a_damaged_counter(self, filled):
        with SQLiteStorage(filled) as store:
            store.keys.add(ApiKey("id", b"hash", ("rank",), 0.0))
            with closing(sqlite3.connect(filled, isolation_level=None)) as other:
                other.execute("UPDATE duelrank_keys SET rankers = '['")
                other.execute("DELETE FROM duelrank_meta")
            with pytest.raises(StoreCorrupt, match="API key 'id' is damaged"):
                store.keys.list()
            with pytest.raises(StoreCorrupt, match="counters are damaged"):
                store.ping()

    def test_whatever_is_damaged_nothing_else_is_raised_or_returned(self, filled):
        """Random bytes at random places of the file, half of them where SQLite keeps its own affairs."""
        with SQLiteStorage(filled) as store:
            true = {each.number: each for each in store.log.read()}
        content, random = filled.read_bytes(), Random(7)
        for _ in range(40):
            page, offset = random.randrange(len(content) // 4096), random.choice([100, 4000])
            place = 4096 * page + random.randrange(offset)
            noise = random.randbytes(random.choice([1, 4, 30]))
            filled.write_bytes(content[:place] + noise + content[place + len(noise) :])
            for suffix in ("-wal", "-shm"):
                filled.with_name(filled.name + suffix).unlink(missing_ok=True)
            with suppress(StorageFailure), SQLiteStorage(filled, timeout=0.1) as store:
                for use in (
                    lambda: store.log.append([NewEvent("shop", "ranked", "new", 0.0, b"")]),
                    lambda: store.snapshots.load("shop", "checkpoint"),
                    lambda: store.log.find("shop", "ranked", ["77"]),
                    store.log.last_number,
                    store.keys.list,
                ):
                    with suppress(StorageFailure):
                        use()
                assert all(true.get(each.number, each) == each for each in store.log.read(limit=300))


class TestFull:
    def test_nothing_half_written_and_it_goes_on_afterwards(self, path, event):
        with SQLiteStorage(path) as store:
            store.log.append([event("before")])
            with store._writes.borrow() as connection:
                pages = connection.execute("PRAGMA page_count").fetchone()[0]
                connection.execute(f"PRAGMA max_page_count = {pages + 10}")
            with pytest.raises(StoreFull, match="disk is full") as caught:
                store.log.append([event(i, body=bytes(1000)) for i in range(100)])
            assert caught.value.retryable
            assert [each.key for each in store.log.read()] == ["before"]
            with pytest.raises(StoreFull):
                store.snapshots.save("shop", "checkpoint", 1, 0.0, bytes(100_000))
            assert store.snapshots.list("shop", "checkpoint") == []
            assert store.log.append([event("small")]) == [Receipt(2, True)]
            with store._writes.borrow() as connection:
                connection.execute("PRAGMA max_page_count = 1000000")
            assert store.log.append([event(i, body=bytes(1000)) for i in range(100)])[-1] == Receipt(102, True)

    def test_what_does_not_fit_leaves_room_for_what_does(self, path, event):
        with SQLiteStorage(path) as store:
            with store._writes.borrow() as connection:  # the writer waits for it: the batches will share a group
                pages = connection.execute("PRAGMA page_count").fetchone()[0]
                connection.execute(f"PRAGMA max_page_count = {pages + 10}")
                first = store.log.submit([event("first")])
                large, small = (
                    store.log.submit([event("large", body=bytes(100_000))]),
                    store.log.submit([event("small")]),
                )
            assert first.result()[0].new
            assert small.result()[0].new
            with pytest.raises(StoreFull):
                large.result()
            assert [each.key for each in store.log.read()] == ["first", "small"]

    def test_a_disk_that_is_really_full(self, tmp_path, event):
        folder = tmp_path / "small disk"
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder]
        if sys.platform != "linux" or os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("only root can mount a small disk")
        try:
            filler = folder / "filler"
            filler.write_bytes(bytes(500_000))
            with SQLiteStorage(folder / "store.db") as store:
                acknowledged = []
                with pytest.raises(StoreFull):  # noqa: PT012
                    for i in range(1000):
                        store.log.append([event(i, body=bytes(1000))])
                        acknowledged.append(str(i))
                assert len(acknowledged) > 20
                filler.unlink()
                assert store.log.append([event("afterwards")])[0].new
                found = [each.key for each in store.log.read()]
                assert found == [*acknowledged, "afterwards"]
        finally:
            subprocess.run(["umount", folder], check=True)


SECOND = ("ALTER TABLE duelrank_events ADD COLUMN note TEXT", "UPDATE duelrank_events SET note = kind")


class TestVersions:
    @pytest.fixture
    def first(self, path, event):
        """A file of version 1 with an event in it."""
        with SQLiteStorage(path, migrations=MIGRATIONS[:1]) as store:
            store.log.append([event()])
        return path

    def version(self, path: Path):
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute("SELECT version FROM duelrank_meta").fetchone()[0]

    def test_an_older_file_is_brought_up_to_date(self, first, event):
        assert self.version(first) == 1
        with SQLiteStorage(first, migrations=(*MIGRATIONS[:1], SECOND)) as store:
            assert store.query("SELECT note FROM duelrank_events") == [("ranked",)]
            assert store.log.append([event(), event("new")]) == [Receipt(1, False), Receipt(2, True)]
        assert self.version(first) == 2

    def test_a_migration_that_fails_leaves_the_file_as_it_was(self, first):
        before = first.read_bytes()
        with pytest.raises(StorageFailure, match="no such table: nonsense"):
            SQLiteStorage(first, migrations=(*MIGRATIONS[:1], SECOND, ("UPDATE nonsense SET x = 1",)))
        assert first.read_bytes() == before
        with SQLiteStorage(first, migrations=MIGRATIONS[:1]) as store:
            assert len(store.log.read()) == 1

    def test_a_later_version_is_refused(self, first):
        SQLiteStorage(first, migrations=(*MIGRATIONS[:1], SECOND)).close()
        before = first.read_bytes()
        with pytest.raises(StoreTooNew, match=r"version 2.*up to 1"):
            SQLiteStorage(first, migrations=MIGRATIONS[:1])
        assert first.read_bytes() == before


class TestOneStatement:
    """New events are appended with one statement, and all others as before."""

    @pytest.fixture
    def refused(self, monkeypatch):
        """The number of times that one statement was not possible."""
        found, insert = [], SQLiteStorage._insert_all

        def counted(self, events, last):
            done = insert(self, events, last)
            found.extend([] if done else [last])
            return done

        monkeypatch.setattr(SQLiteStorage, "_insert_all", counted)
        return found

    def test_numbers_have_no_gap_if_another_process_appends(self, path, event, refused):
        with SQLiteStorage(path) as one, SQLiteStorage(path) as other:
            turns = [one, one, other, one, other, other]
            receipts = [store.log.append([event((place, i)) for i in range(3)]) for place, store in enumerate(turns)]
            assert [receipt.number for each in receipts for receipt in each] == list(range(1, 19))
            assert [each.number for each in one.log.read()] == list(range(1, 19))
        assert len(refused) == 2

    def test_a_known_event_changes_nothing(self, path, event, refused):
        with SQLiteStorage(path) as store:
            store.log.append([event("a", attachment=b"1")])
            pair = [event("b"), event("a", attachment=b"2"), event("follows", follows=True), event("c")]
            receipts = store.log.append(pair)
            assert [(each.number, each.new) for each in receipts] == [(2, True), (1, False), (0, False), (3, True)]
            assert [each.key for each in store.log.read()] == ["a", "b", "c"]
            assert store.log.attachment("shop", 1) == b"1"
            assert store.log.append([event("d")])[0].number == 4
        assert refused == [1]

    def test_many_events(self, path, event):
        with SQLiteStorage(path) as store:
            sizes = (1, 2, 3, MAX_NEW, MAX_NEW + 1, 5)
            for size in sizes:
                store.log.append([event((size, i), attachment=b"x" if i % 2 else None) for i in range(size)])
            assert [each.number for each in store.log.read(limit=10_000)] == list(range(1, sum(sizes) + 1))
            assert store.log.attachment("shop", 1) is None
            assert store.log.attachment("shop", 3) == b"x"


class TestSize:
    def test_the_file_stops_growing_under_endless_traffic(self, path, event):
        sizes = []
        with SQLiteStorage(path) as store:
            for day in range(9):
                for part in range(4):
                    store.log.append([event((day, part, i), attachment=os.urandom(1000)) for i in range(250)])
                last = store.log.last_number()
                store.snapshots.save("shop", "checkpoint", last, 0.0, bytes(5000))
                store.snapshots.prune("shop", "checkpoint", keep=2)
                store.log.drop_attachments("shop", last - 100)
                store.log.delete("shop", max(0, last - 2000))
                with closing(sqlite3.connect(path, isolation_level=None)) as other:
                    other.execute("PRAGMA wal_checkpoint").fetchall()  # the size is that of all that was written
                sizes.append(path.stat().st_size)
        # A day is 1,000 events of 1 KB, and the keys of two are remembered.
        assert max(sizes[4:]) <= 1.05 * max(sizes[:4])
        assert max(sizes) < 3_000_000

    def test_the_log_is_copied_in_the_background(self, path, event, monkeypatch):
        monkeypatch.setattr("duelrank.storage.sqlite.CHECKPOINT_BYTES", 100_000)
        failures = iter([StoreFull("a disk that is full for a moment")])

        class Failing(SQLiteStorage):
            def _connect(self, *arguments):
                if threading.current_thread().name == "duelrank-storage-checkpoints":
                    for failure in failures:
                        raise failure
                return super()._connect(*arguments)

        with Failing(path) as store:
            store.log.append([event("first")])
            for i in range(2):  # the first attempt fails; fewer pages than those at which SQLite itself would begin
                store.log.append([event(i, body=bytes(1_000_000))])
                until(lambda: not store._checkpoints._due.is_set())
            until(lambda: path.stat().st_size > 2_000_000)
            assert len(store.log.read()) == 3
        assert not any(each.name == "duelrank-storage-checkpoints" for each in threading.enumerate())

    def test_readers_do_not_make_the_log_grow_for_ever(self, path, event, monkeypatch):
        monkeypatch.setattr("duelrank.storage.sqlite.WAL_BYTES", 200_000)
        log = path.with_name("store.db-wal")
        with SQLiteStorage(path) as store:
            store.log.append([event("first")])
            with closing(sqlite3.connect(path, isolation_level=None)) as reader:
                reader.execute("BEGIN")
                reader.execute("SELECT * FROM duelrank_events").fetchall()
                limits = set()  # there is a new one each time that the reader was waited for
                for i in range(40):
                    store.log.append([event(i, body=bytes(20_000))])
                    limits.add(store._wal_limit)
                assert log.stat().st_size > 800_000, "the reader still needs it"
                assert 2 <= len(limits) <= 6, "and is waited for when the log has doubled, not each time"
            for i in range(100):
                store.log.append([event((i, "afterwards"), body=bytes(20_000))])
            assert log.stat().st_size < 300_000
            assert len(store.log.read()) == 141
