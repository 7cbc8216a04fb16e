"""Checks that a store keeps the contract of `duelrank.storage.base`, for authors of storage backends."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from reprlib import repr as shortened

from duelrank.core.errors import InvalidValue, StorageFailure
from duelrank.storage import (
    ApiKey,
    Event,
    NewEvent,
    Receipt,
    SnapshotInfo,
    Storage,
    StoredSnapshot,
    Usage,
    open_storage,
)
from duelrank.testing.checks import require, run_checks

Check = Callable[[Storage], None]
_SEE = "The interfaces in duelrank.storage.base describe each method"


def check_storage(url: str) -> None:
    """Run all checks on the store at an address, which must be empty and is not empty afterwards.

    A failed check raises an AssertionError with the expected value, or the error of the store; a note names the check. Each
    check has its own ranker.

    Examples
    --------
    >>> from duelrank.testing import check_storage
    >>> print(check_storage("sqlite://"))  # raises nothing: all checks pass
    None
    """
    with open_storage(url) as store:
        run_checks(STORAGE_CHECKS, store, url)
    _check_closed(store)


def _event(ranker: str, key: object, time: float = 0.0, attachment: bytes | None = None) -> NewEvent:
    return NewEvent(ranker, "kind", str(key), time, b"body of %r" % key, attachment)


def _append(store: Storage, ranker: str, count: int) -> int:
    """Append events with attachments at the times 0, 1, 2, ...; return the number of the first."""
    events = [_event(ranker, i, float(i), b"attachment") for i in range(count)]
    return store.log.append(events)[0].number


def _equal(found: object, expected: object, what: str) -> None:
    require(found == expected, f"{what} must be {shortened(expected)}, got {shortened(found)}", _SEE)


def _raises(kind: type[Exception], call: Callable[[], object], what: str) -> None:
    try:
        call()
    except kind:
        return
    require(False, f"{what} must raise {kind.__name__}", _SEE)


def check_a_new_store_is_empty(store: Storage) -> None:
    """A new store contains nothing."""
    store.ping()
    _equal(store.log.last_number(), 0, "log.last_number() of an empty store")
    _equal(store.log.read(), [], "log.read() of an empty store")
    _equal(store.log.find("a", "kind", ["k"]), {}, "log.find() in an empty store")
    _equal(store.log.attachment("a", 1), None, "log.attachment() in an empty store")
    _equal(store.log.dropped("a"), 0, "log.dropped() of an empty store")
    _equal(store.snapshots.load("a", "checkpoint"), None, "snapshots.load() in an empty store")
    _equal(store.keys.list(), [], "keys.list() of an empty store")


def check_numbers_have_no_gaps_and_keys_are_unique(store: Storage) -> None:
    """An event with a known key is not stored again: its receipt has the number of the first one."""
    last = store.log.last_number()
    _equal(store.log.append([]), [], "log.append() of no events")
    batch = [_event("b", "x"), _event("b", "y"), NewEvent("b", "kind", "x", 9.0, b"other"), _event("b", "z")]
    receipts = [Receipt(last + 1, True), Receipt(last + 2, True), Receipt(last + 1, False), Receipt(last + 3, True)]
    _equal(store.log.append(batch), receipts, "log.append() of a batch with the same key twice")
    again = [receipt.new for receipt in store.log.append(batch)]
    _equal(again, [False] * 4, "Receipt.new of a batch that is appended again")
    _equal(store.log.last_number(), last + 3, "log.last_number() after three new events")
    first = store.log.find("b", "kind", ["x"])
    _equal(first, {"x": Event(last + 1, "b", "kind", "x", 0.0, b"body of 'x'")}, "the event after its duplicate")
    others = [NewEvent("b", "other", "x", 0.0, b""), NewEvent("b2", "kind", "x", 0.0, b""), _event("b", "X")]
    new = [receipt.new for receipt in store.log.append(others)]
    _equal(new, [True] * 3, "Receipt.new of a known key with another kind, ranker or case")


def check_events_are_read_and_found(store: Storage) -> None:
    """Events are read in order, and found by their keys."""
    first = _append(store, "c", 700)
    expected = [Event(first + i, "c", "kind", str(i), float(i), b"body of %r" % i) for i in range(700)]
    _equal(store.log.read(after=first - 1), expected, "log.read(after=...)")
    part = store.log.read(after=first + 9, limit=2, ranker="c")
    _equal(part, expected[10:12], "log.read(after=..., limit=2, ranker=...)")
    keys = [str(i) for i in range(-300, 700)]
    found = store.log.find("c", "kind", [*keys, *keys[-10:]])
    _equal(found, {event.key: event for event in expected}, "log.find() of 1,000 keys, some of them twice")
    _equal(store.log.find("c", "kind", []), {}, "log.find() of no keys")
    _equal(store.log.find("c", "other", keys), {}, "log.find() of another kind")
    _equal(store.log.number_before("c", 10.0), first + 9, "log.number_before()")


def check_an_event_follows_only_a_new_one(store: Storage) -> None:
    """An event that follows one that is not new is left out, and so are those that follow it."""
    pair = [_event("d", 1), NewEvent("d", "kind", "2", 0.0, b"", follows=True)]
    new = [receipt.new for receipt in store.log.append(pair)]
    _equal(new, [True, True], "Receipt.new of an event and of one that follows it")
    chain = [pair[0], *(NewEvent("d", "kind", key, 0.0, b"", follows=True) for key in ("3", "4"))]
    _equal(store.log.append(chain)[1:], [Receipt(0, False)] * 2, "receipts of events that follow one which is not new")
    _equal(len(store.log.read(ranker="d")), 2, "the number of events of the ranker")
    _raises(InvalidValue, lambda: store.log.append(pair[1:]), "log.append() of an event that follows nothing")


def check_attachments_are_dropped_up_to_a_checkpoint(store: Storage) -> None:
    """Attachments can be removed if a checkpoint covers their events; the events remain."""
    first = _append(store, "e", 600)
    last = first + 599
    _raises(InvalidValue, lambda: store.log.drop_attachments("e", last), "log.drop_attachments() without a checkpoint")
    store.snapshots.save("e", "checkpoint", last, 0.0, b"")
    _equal(store.log.drop_attachments("e", last, keep=[first + 5]), 599, "log.drop_attachments(keep=[...])")
    _equal(store.log.attachment("e", first), None, "an attachment that was dropped")
    _equal(store.log.attachment("e", first + 5), b"attachment", "an attachment that was kept")
    _equal(store.log.dropped("e"), last, "log.dropped() after attachments were dropped")
    _equal(len(store.log.read(ranker="e")), 600, "the number of events after attachments were dropped")


def check_events_are_deleted(store: Storage) -> None:
    """Events of one ranker are removed, and their keys are new again."""
    first = _append(store, "f", 10)
    _equal(store.log.delete("f", first + 7, keep=[first + 2]), 7, "log.delete(keep=[...])")
    left = [event.number - first for event in store.log.read(ranker="f")]
    _equal(left, [2, 8, 9], "the events after log.delete(), counted from the first,")
    _equal(store.log.dropped("f"), first + 7, "log.dropped() after log.delete()")
    new = [receipt.new for receipt in store.log.append([_event("f", 0), _event("f", 2)])]
    _equal(new, [True, False], "Receipt.new of a deleted key and of one that was kept")


def check_snapshots_have_kinds_and_numbers(store: Storage) -> None:
    """Snapshots are replaced, listed, pruned and deleted within their ranker and kind."""
    for number, body in ((1, b"old"), (3, b"three"), (1, b"one"), (2, b"two")):
        store.snapshots.save("g", "version", number, 1.5, body)
    store.snapshots.save("g", "status", 9, 1.5, b"")
    newest = StoredSnapshot("g", "version", 3, 1.5, b"three")
    _equal(store.snapshots.load("g", "version"), newest, "the newest snapshot")
    replaced = StoredSnapshot("g", "version", 1, 1.5, b"one")
    _equal(store.snapshots.load("g", "version", 1), replaced, "a snapshot that was saved twice")
    _equal(store.snapshots.load("g", "version", 4), None, "a snapshot that was never saved")
    infos = [SnapshotInfo("g", "version", number, 1.5, size) for number, size in ((1, 3), (2, 3), (3, 5))]
    _equal(store.snapshots.list("g", "version"), infos, "snapshots.list()")
    _equal(store.snapshots.newest("version").get("g"), 3, "the number in snapshots.newest()")
    _equal(store.snapshots.prune("g", "version", keep=1, needed=[1]), 1, "snapshots.prune(keep=1, needed=[1])")
    store.snapshots.save("g", "version", 4, 1.5, b"four", keep=1)
    _equal([each.number for each in store.snapshots.list("g", "version")], [4], "the snapshots after save(keep=1)")
    beyond = "snapshots.save() of a checkpoint after the last event"
    _raises(InvalidValue, lambda: store.snapshots.save("g", "checkpoint", 1 << 40, 0.0, b""), beyond)
    store.snapshots.delete("g")
    _equal(store.snapshots.load("g", "status"), None, "a snapshot after snapshots.delete()")


def check_keys_are_added_and_revoked(store: Storage) -> None:
    """API keys are added once, listed from the oldest to the newest, and revoked."""
    newer = ApiKey("newer", b"\x00\xffhash", ("rank", "feedback"), 2.5)
    older = ApiKey("older", b"", (), 1.5, rankers=("shop", "a 'name' with spaces"))
    store.keys.add(newer)
    store.keys.add(older)
    _raises(InvalidValue, lambda: store.keys.add(newer), "keys.add() of a known key")
    _equal(store.keys.list(), [older, newer], "keys.list()")
    _equal(store.keys.revoke("newer"), True, "keys.revoke() of a key")
    _equal(store.keys.revoke("newer"), False, "keys.revoke() of a key that was revoked")
    _equal(store.keys.list(), [older], "keys.list() after keys.revoke()")


def check_a_lease_has_one_holder(store: Storage) -> None:
    """A name that is held cannot be acquired until it is released."""
    lease, other = store.leases.acquire("name"), store.leases.acquire("other")
    if lease is None or other is None:
        raise AssertionError(f"leases.acquire() of a free name must return a lease, got None. {_SEE}.")
    _equal((lease.renew(), lease.held()), (True, True), "renew() and held() of a lease")
    _equal(store.leases.acquire("name"), None, "leases.acquire() of a name that is held")
    lease.release()
    lease.release()
    _equal((lease.renew(), lease.held()), (False, False), "renew() and held() of a lease that was released")
    with store.leases.acquire("name") or lease as again:
        _equal((lease.held(), again.held()), (False, True), "held() of the first lease and of one acquired later")
    _equal((again.held(), other.held()), (False, True), "held() of a lease after its with statement, and of another")


def check_many_threads_append_at_once(store: Storage) -> None:
    """If two threads send the same key, one event is new; readers see every number."""
    last = store.log.last_number()
    with ThreadPoolExecutor(8) as threads:
        receipts = [each[0] for each in threads.map(lambda i: store.log.append([_event("h", i % 50)]), range(100))]
    expected = list(range(last + 1, last + 51))
    new = sorted(receipt.number for receipt in receipts if receipt.new)
    _equal(new, expected, "numbers of new events, each of which two threads sent,")
    same = [one.number == other.number for one, other in zip(receipts[:50], receipts[50:], strict=True)]
    _equal(same, [True] * 50, "whether the receipts of the same key have the same number")
    read = [event.number for event in store.log.read(after=last)]
    _equal(read, expected, "numbers of events that threads have appended")


def check_usage_is_known(store: Storage) -> None:
    """The store knows its size."""
    usage = store.usage()
    fits = isinstance(usage, Usage) and usage.bytes > 0 and (usage.free is None or usage.free >= 0)
    require(fits, f"usage() must be a Usage with bytes > 0 and free None or at least 0, got {usage!r}", _SEE)


def _check_closed(store: Storage) -> None:
    store.close()
    _raises(StorageFailure, lambda: store.log.append([_event("i", 0)]), "log.append() of a closed store")
    _raises(StorageFailure, store.log.read, "log.read() of a closed store")
    _raises(StorageFailure, lambda: store.keys.revoke("older"), "keys.revoke() of a closed store")
    _raises(StorageFailure, store.ping, "ping() of a closed store")


STORAGE_CHECKS: tuple[Check, ...] = tuple(
    value for name, value in list(globals().items()) if name.startswith("check_") and value is not check_storage
)
