"""What can happen to a server: restarts, late commits, waiting, the wrong address, another version."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest
from tests.waiting import until

psycopg = pytest.importorskip("psycopg")

from duelrank.core.errors import (  # noqa: E402
    InvalidValue,
    StorageFailure,
    StoreCorrupt,
    StoreFull,
    StoreLocked,
    StoreTooNew,
    StoreUnavailable,
)
from duelrank.storage import Receipt, open_storage  # noqa: E402
from duelrank.storage.postgres import PostgresStorage, _native  # noqa: E402
from duelrank.storage.sql import MIGRATIONS, Session  # noqa: E402


@pytest.fixture
def store(postgres_url):
    with PostgresStorage(postgres_url) as store:
        yield store


@pytest.fixture
def hasty(postgres_url, monkeypatch):
    """A store that waits a short time for a server that is gone."""
    monkeypatch.setattr("duelrank.storage.postgres.PATIENCE", 0.3)
    with PostgresStorage(postgres_url) as store:
        yield store


class TestOrder:
    def test_nobody_appends_past_a_commit_that_is_late(self, postgres_url, store, event):
        """One transaction has its number but is not committed: the next must not become visible before it."""
        with PostgresStorage(postgres_url) as slow, slow._borrowed(slow._writes) as connection:
            with connection.transaction():
                assert slow.append_events(Session(connection, _native), [event("slow")]) == [Receipt(1, True)]
                fast = store.log.submit([event("fast")])
                with pytest.raises(TimeoutError):
                    fast.result(0.3)
                assert store.log.read() == []
                assert store.log.last_number() == 0
            assert fast.result() == [Receipt(2, True)]
        assert [each.key for each in store.log.read()] == ["slow", "fast"]

    def test_a_number_that_was_rolled_back_is_given_again(self, postgres_url, store, event):
        with (
            store._borrowed(store._writes) as connection,
            connection.transaction(force_rollback=True),
        ):
            assert store.append_events(Session(connection, _native), [event("lost")]) == [Receipt(1, True)]
        assert store.log.append([event("kept")]) == [Receipt(1, True)]

    def test_whatever_isolation_the_server_prefers(self, postgres_url, event):
        url = postgres_url + "%20-cdefault_transaction_isolation%3Dserializable"
        with PostgresStorage(url) as one, PostgresStorage(url) as other:
            futures = [each.log.submit([event((each is one, i))]) for i in range(50) for each in (one, other)]
            assert sorted(future.result()[0].number for future in futures) == list(range(1, 101))

    def test_is_on_the_disk_before_it_is_acknowledged(self, postgres_url):
        for given, used in (("off", "on"), ("on", "on"), ("remote_apply", "remote_apply")):
            with PostgresStorage(f"{postgres_url}%20-csynchronous_commit%3D{given}") as store:
                assert store.query("SHOW synchronous_commit") == [(used,)]


class TestTrouble:
    def test_another_process_that_holds_the_log_for_too_long(self, postgres_url, store, event):
        store.log.append([event(1)])
        with PostgresStorage(postgres_url, timeout=0.2) as waiting, psycopg.connect(postgres_url) as other:
            other.execute("SELECT * FROM duelrank_meta FOR UPDATE")
            futures = [waiting.log.submit([event(i)]) for i in range(2, 5)]
            for future in futures:
                with pytest.raises(StoreLocked) as caught:
                    future.result()
                assert caught.value.retryable
            assert len(waiting.log.read()) == 1, "readers do not wait"
            other.rollback()
            assert waiting.log.append([event(2)]) == [Receipt(2, True)]

    @pytest.mark.parametrize(
        ("code", "error"),
        [
            ("53100", StoreFull),
            ("53300", StoreUnavailable),
            ("57P01", StoreUnavailable),
            ("25006", StoreUnavailable),
            ("25P03", StoreUnavailable),
            ("40P01", StoreLocked),
            ("XX001", StoreCorrupt),
            ("22000", StorageFailure),
        ],
    )
    def test_the_servers_errors(self, store, event, code, error):
        """The server raises the error itself when an event is inserted; the next append is as if nothing had been."""
        with psycopg.connect(store._conninfo, autocommit=True) as admin:
            admin.execute(
                "CREATE FUNCTION trouble() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN RAISE EXCEPTION 'told to' USING ERRCODE = '{code}'; END $$"
            )
            admin.execute("CREATE TRIGGER t BEFORE INSERT ON duelrank_bodies EXECUTE FUNCTION trouble()")
            with pytest.raises(StorageFailure, match="told to") as caught:
                store.log.append([event()])
            assert type(caught.value) is error
            assert store.log.read() == []
            admin.execute("DROP TRIGGER t ON duelrank_bodies")
        assert store.log.append([event()]) == [Receipt(1, True)]

    def test_a_table_that_is_gone(self, store):
        with psycopg.connect(store._conninfo, autocommit=True) as admin:
            admin.execute("DROP TABLE duelrank_keys")
        with pytest.raises(StorageFailure, match="duelrank_keys"):
            store.keys.list()

    def test_wrong_addresses(self, server):
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            open_storage("postgresql://me:secret@localhost:1/x")
        with pytest.raises(StorageFailure, match='database "nothing" does not exist'):
            open_storage(f"postgresql://postgres@/nothing?host={server.data}")
        with pytest.raises(StorageFailure, match='role "somebody" does not exist'):
            open_storage(f"postgresql://somebody@/postgres?host={server.data}")
        with pytest.raises(InvalidValue, match="not an address"):
            open_storage("postgresql://host/db?nonsense=1")

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://me:secret@localhost:1/x",
            "postgresql://me:secret@[bad/x",
            "postgresql://me:se:cr/et:secret@host:port:port/x",
            "postgresql://localhost:1/x?password=secret",
            "postgresql://localhost:1/x?password=secret&nonsense=1",
        ],
    )
    def test_the_password_is_not_in_the_message(self, url):
        with pytest.raises((StoreUnavailable, InvalidValue)) as caught:
            open_storage(url)
        assert "secret" not in str(caught.value)

    def test_who_comes_when_all_connections_are_in_use_waits(self, store, event):
        store.log.append([event()])
        reads = store._reads
        reads.timeout = 0.02
        with ExitStack() as stack, ThreadPoolExecutor(1) as threads:
            for _ in range(reads.max_size):
                stack.enter_context(store._borrowed(reads))
            reading = threads.submit(store.log.read)
            until(lambda: reads.get_stats().get("requests_errors", 0) >= 3)  # it has given up and asked again
            assert not reading.done()
            stack.close()
            assert len(reading.result()) == 1

    def test_a_server_that_goes_away_again_and_again(self, store, event, monkeypatch):
        """Each new connection is dead before it is used: the one more attempt ends, with an error of ours."""
        writes = store._writes
        lend = writes.getconn

        def dead():
            connection = lend()
            connection.pgconn.finish()
            return connection

        monkeypatch.setattr(writes, "getconn", dead)
        with pytest.raises(StoreUnavailable):
            store.log.append([event()])
        monkeypatch.undo()
        assert store.log.append([event()]) == [Receipt(1, True)]


def kill_connections(url):
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


@pytest.mark.processes
class TestRestart:
    def test_lost_connections_are_made_again_unnoticed(self, postgres_url, store, event):
        store.log.append([event(1)])
        store.log.read()
        lease = store.leases.acquire("learner")
        kill_connections(postgres_url)
        assert store.log.append([event(2)]) == [Receipt(2, True)]
        kill_connections(postgres_url)
        assert len(store.log.read()) == 2
        assert not lease.held()
        assert store.leases.acquire("learner").held(), "what was lost can be had again"

    @pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
    def test_a_restart_under_load_loses_nothing_and_doubles_nothing(self, server, hasty, event, how):
        stop, promised, failures = threading.Event(), {}, []

        def client(name):
            for i in range(100_000):
                if stop.is_set():
                    return
                while True:  # until it is acknowledged, as a client of the service would
                    try:
                        receipts = hasty.log.append([event((name, i)), event((name, i, "second"))])
                        break
                    except StorageFailure as error:
                        failures.append(error)
                        time.sleep(0.02)
                promised[str((name, i))] = receipts[0].number

        threads = [threading.Thread(target=client, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        try:
            until(lambda: len(promised) >= 40)
            server.stop(how)
            until(lambda: len(failures) >= 4)
        finally:
            server.start()
        before = len(promised)
        until(lambda: len(promised) >= before + 40)  # it goes on afterwards
        stop.set()
        for thread in threads:
            thread.join(60)
        assert all(isinstance(failure, StoreUnavailable) for failure in failures)
        events = hasty.log.read(limit=1_000_000)
        found = {each.key: each.number for each in events}
        assert [each.number for each in events] == list(range(1, len(events) + 1))
        assert len(found) == len(events) == 2 * len(promised)
        assert promised.items() <= found.items()

    def test_while_the_server_is_down_the_error_is_retryable(self, server, hasty, event):
        hasty.log.append([event(1)])
        server.stop()
        try:
            for call in (
                lambda: hasty.log.append([event(2)]),
                hasty.log.read,
                hasty.ping,
                lambda: hasty.leases.acquire("x"),
            ):
                with pytest.raises(StoreUnavailable) as caught:
                    call()
                assert caught.value.retryable
        finally:
            server.start()
        assert len(hasty.log.read()) == 1
        assert hasty.log.append([event(2)]) == [Receipt(2, True)]


HOLDER = """
    import time
    store = open_storage(sys.argv[1])
    lease = store.leases.acquire("learner")
    print("held" if lease else "not held", flush=True)
    while lease.renew():
        time.sleep(0.2)
    print("lost" if not lease.held() else "held", flush=True)
"""


@pytest.mark.processes
class TestHeartbeat:
    def beat(self, url, change):
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(f"UPDATE duelrank_leases SET {change}")

    def test_a_process_that_hangs_loses_its_lease(self, postgres_url, store, process):
        holder = process(HOLDER, postgres_url)
        assert holder.stdout.readline() == "held\n"
        assert store.leases.acquire("learner") is None
        holder.send_signal(signal.SIGSTOP)
        self.beat(postgres_url, "beat = beat - 5.5")  # it needs 6 seconds to become stale
        leases = []
        try:
            until(lambda: leases.append(store.leases.acquire("learner")) or leases[-1] is not None)
        finally:
            holder.send_signal(signal.SIGCONT)
        assert holder.stdout.readline() == "lost\n", "it finds out when it wakes up"
        assert leases[-1].renew()

    def test_a_holder_that_sends_heartbeats_keeps_its_lease(self, postgres_url, store):
        with PostgresStorage(postgres_url) as other:
            lease = other.leases.acquire("learner")
            self.beat(postgres_url, "beat = beat - 1000")
            assert lease.renew()
            assert store.leases.acquire("learner") is None
            assert lease.held()
            self.beat(postgres_url, "beat = beat - 1000")
            leases = [store.leases.acquire("learner")]
            until(lambda: leases[-1] is not None or leases.append(store.leases.acquire("learner")))
            assert not lease.renew()
            assert not lease.held()
            lease.release()
            assert leases[-1].renew(), "who has lost a lease does not release it for the next holder"

    def test_only_the_holder_of_this_very_lease_is_ended(self, postgres_url, store):
        """The number of a process may belong to another one by the time that a heartbeat is old."""
        with PostgresStorage(postgres_url) as other:
            lease, unrelated = other.leases.acquire("learner"), other.leases.acquire("unrelated")
            pid = unrelated._connection.info.backend_pid
            self.beat(postgres_url, f"beat = 0, holder = {pid} WHERE name = 'learner'")
            assert store.leases.acquire("learner") is None
            assert unrelated.held()
            assert lease.held()

    def test_the_clock_of_a_process_plays_no_part(self, postgres_url, store, monkeypatch):
        with PostgresStorage(postgres_url) as other:
            lease = other.leases.acquire("learner")
            monkeypatch.setattr(time, "time", lambda: 1e12)
            assert store.leases.acquire("learner") is None
            assert lease.held()


SECOND = ("ALTER TABLE duelrank_events ADD COLUMN note TEXT", "UPDATE duelrank_events SET note = kind")


class TestVersions:
    @pytest.fixture
    def first(self, postgres_url, event):
        with PostgresStorage(postgres_url, migrations=MIGRATIONS[:1]) as store:
            store.log.append([event()])
        return postgres_url

    def test_an_older_store_is_brought_up_to_date(self, first, event):
        with PostgresStorage(first, migrations=(*MIGRATIONS[:1], SECOND)) as store:
            assert store.query("SELECT note FROM duelrank_events") == [("ranked",)]
            assert store.log.append([event(), event("new")]) == [Receipt(1, False), Receipt(2, True)]
        with pytest.raises(StoreTooNew, match=r"version 2.*up to 1"):
            PostgresStorage(first, migrations=MIGRATIONS[:1])

    def test_a_migration_that_fails_leaves_the_store_as_it_was(self, first):
        with pytest.raises(StorageFailure, match="nonsense"):
            PostgresStorage(first, migrations=(*MIGRATIONS[:1], SECOND, ("UPDATE nonsense SET x = 1",)))
        with PostgresStorage(first, migrations=MIGRATIONS[:1]) as store:
            assert len(store.log.read()) == 1
            with pytest.raises(StorageFailure, match="note"):
                store.query("SELECT note FROM duelrank_events")

    def test_many_open_a_new_store_at_once(self, postgres_url):
        stores, problems = [], []

        def start():
            try:
                stores.append(PostgresStorage(postgres_url))
            except StorageFailure as error:
                problems.append(error)

        threads = [threading.Thread(target=start) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for store in stores:
            with suppress(StorageFailure):
                store.close()
        assert (len(stores), problems) == (6, [])
