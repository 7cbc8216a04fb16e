"""Checks what every store must do, for authors of storage backends."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from duelrank.errors import InvalidValue, StorageFailure
from duelrank.storage import ApiKey, Event, NewEvent, Receipt, Snapshot, SnapshotInfo, Storage, Usage, open_storage

__all__ = ["STORAGE_CHECKS", "check_storage"]

Check = Callable[[Storage], None]


def check_storage(url: str) -> None:
    """Run all checks on the store at an address, which must be empty and is not empty afterwards.

    A failed check raises an AssertionError or the error of the store. Each check has a ranker of its own.

    Examples
    --------
    >>> from duelrank.testing import check_storage
    >>> print(check_storage("sqlite://"))  # nothing is wrong with it
    None
    """
    with open_storage(url) as store:
        for check in STORAGE_CHECKS:
            check(store)
    _check_closed(store)


def _event(ranker: str, key: object, time: float = 0.0, attachment: bytes | None = None) -> NewEvent:
    return NewEvent(ranker, "kind", str(key), time, b"body of %r" % key, attachment)


def _append(store: Storage, ranker: str, count: int) -> int:
    """Append events with attachments at the times 0, 1, 2, ...; return the number of the first."""
    events = [_event(ranker, i, float(i), b"attachment") for i in range(count)]
    return store.log.append(events)[0].number


def _raises(kind: type[Exception], call: Callable[[], object]) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def check_an_empty_store_is_empty(store: Storage) -> None:
    """Nothing is there, and nothing is found."""
    store.ping()
    assert store.log.last_number() == 0
    assert store.log.read() == []
    assert store.log.find("a", "kind", ["k"]) == {}
    assert store.snapshots.load("a", "checkpoint") is None
    assert store.keys.list() == []


def check_numbers_have_no_gaps_and_keys_come_once(store: Storage) -> None:
    """An event with a known key is not stored again: its receipt has the number of the first one."""
    last = store.log.last_number()
    assert store.log.append([]) == []
    batch = [_event("b", "x"), _event("b", "y"), _event("b", "x"), _event("b", "z")]
    receipts = [Receipt(last + 1, True), Receipt(last + 2, True), Receipt(last + 1, False), Receipt(last + 3, True)]
    assert store.log.append(batch) == receipts
    assert [receipt.new for receipt in store.log.append(batch)] == [False] * 4
    assert store.log.last_number() == last + 3


def check_events_come_back(store: Storage) -> None:
    """What was appended is read in order, and found by its key."""
    first = _append(store, "c", 700)
    expected = [Event(first + i, "c", "kind", str(i), float(i), b"body of %r" % i) for i in range(700)]
    assert store.log.read(after=first - 1) == expected
    assert store.log.read(after=first + 9, limit=2, ranker="c") == expected[10:12]
    keys = [str(i) for i in range(-300, 700)]
    assert store.log.find("c", "kind", keys) == {event.key: event for event in expected}
    assert store.log.number_before("c", 10.0) == first + 9


def check_an_event_follows_only_a_new_one(store: Storage) -> None:
    """An event that follows one that is not new is left out, and so is what follows it."""
    pair = [_event("d", 1), NewEvent("d", "kind", "2", 0.0, b"", follows=True)]
    assert [receipt.new for receipt in store.log.append(pair)] == [True, True]
    chain = [pair[0], *(NewEvent("d", "kind", key, 0.0, b"", follows=True) for key in ("3", "4"))]
    assert store.log.append(chain)[1:] == [Receipt(0, False)] * 2
    assert len(store.log.read(ranker="d")) == 2
    _raises(InvalidValue, lambda: store.log.append(pair[1:]))


def check_attachments_are_dropped_behind_a_checkpoint(store: Storage) -> None:
    """Attachments can go once a checkpoint covers their events; the events stay."""
    first = _append(store, "e", 600)
    last = first + 599
    _raises(InvalidValue, lambda: store.log.drop_attachments("e", last))
    store.snapshots.save("e", "checkpoint", last, 0.0, b"")
    assert store.log.drop_attachments("e", last, keep=[first + 5]) == 599
    assert store.log.attachment("e", first) is None
    assert store.log.attachment("e", first + 5) == b"attachment"
    assert store.log.dropped("e") == last
    assert len(store.log.read(ranker="e")) == 600


def check_events_are_deleted(store: Storage) -> None:
    """Events of one ranker go, and their keys are new again."""
    first = _append(store, "f", 10)
    assert store.log.delete("f", first + 7, keep=[first + 2]) == 7
    assert [event.number - first for event in store.log.read(ranker="f")] == [2, 8, 9]
    assert store.log.dropped("f") == first + 7
    assert [receipt.new for receipt in store.log.append([_event("f", 0), _event("f", 2)])] == [True, False]


def check_snapshots_are_kept_by_kind(store: Storage) -> None:
    """Snapshots are replaced, listed, pruned and deleted within their ranker and kind."""
    for number, body in ((1, b"old"), (3, b"three"), (1, b"one"), (2, b"two")):
        store.snapshots.save("g", "version", number, 1.5, body)
    store.snapshots.save("g", "status", 9, 1.5, b"")
    assert store.snapshots.load("g", "version") == Snapshot("g", "version", 3, 1.5, b"three")
    assert store.snapshots.load("g", "version", 1) == Snapshot("g", "version", 1, 1.5, b"one")
    assert store.snapshots.load("g", "version", 4) is None
    assert store.snapshots.list("g", "version")[1] == SnapshotInfo("g", "version", 2, 1.5, 3)
    assert store.snapshots.newest("version").get("g") == 3
    assert store.snapshots.prune("g", "version", keep=1, needed=[1]) == 1
    _raises(InvalidValue, lambda: store.snapshots.save("g", "checkpoint", 1 << 40, 0.0, b""))
    store.snapshots.delete("g")
    assert store.snapshots.load("g", "status") is None


def check_keys_come_and_go(store: Storage) -> None:
    """API keys are added once, listed and revoked."""
    key = ApiKey("id", b"hash", ("rank",), 1.5, rankers=("shop",))
    store.keys.add(key)
    _raises(InvalidValue, lambda: store.keys.add(key))
    assert store.keys.list() == [key]
    assert store.keys.revoke("id")
    assert not store.keys.revoke("id")


def check_a_lease_has_one_holder(store: Storage) -> None:
    """A name that is held is not given out again until it is released."""
    lease = store.leases.acquire("name")
    assert lease is not None
    assert lease.renew()
    assert lease.held()
    assert store.leases.acquire("name") is None
    lease.release()
    assert not lease.held()
    with store.leases.acquire("name") or lease as again:
        assert again.held()


def check_many_threads_append_at_once(store: Storage) -> None:
    """Of two threads that send the same key, one was the first; readers see every number."""
    last = store.log.last_number()
    with ThreadPoolExecutor(8) as threads:
        receipts = [each[0] for each in threads.map(lambda i: store.log.append([_event("h", i % 50)]), range(100))]
    assert sorted(receipt.number for receipt in receipts if receipt.new) == list(range(last + 1, last + 51))
    assert [event.number for event in store.log.read(after=last)] == list(range(last + 1, last + 51))


def check_usage_is_known(store: Storage) -> None:
    """The store tells its size."""
    usage = store.usage()
    assert isinstance(usage, Usage)
    assert usage.bytes > 0
    assert usage.free is None or usage.free >= 0


def _check_closed(store: Storage) -> None:
    store.close()
    _raises(StorageFailure, lambda: store.log.append([_event("i", 0)]))
    _raises(StorageFailure, store.ping)


STORAGE_CHECKS: tuple[Check, ...] = tuple(
    value for name, value in list(globals().items()) if name.startswith("check_") and value is not check_storage
)
