"""The contract of all stores, their values and their addresses; `duelrank.testing.check_storage` is the first part of it."""

from __future__ import annotations

import asyncio
import enum
import math
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random
from time import sleep

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.effort import examples

from duelrank.core.errors import InvalidValue, MissingExtra
from duelrank.storage import ApiKey, Event, NewEvent, Receipt, StoredSnapshot, Usage, open_storage, register_storage
from duelrank.testing import STORAGE_CHECKS, check_storage


def numbers(store, **what):
    return [event.number for event in store.log.read(**what)]


def found(store, key, kind="ranked", ranker="shop"):
    """Return the event with a key, or None."""
    return store.log.find(ranker, kind, [key]).get(key)


class TestLog:
    def test_returns_what_was_appended_in_the_order_of_appending(self, store):
        """Whatever the texts, the bodies and the times are."""
        long, large = bytes(range(256)) * 40, bytes(3 << 20)
        rows = [("shöp", "🔑 '%s' ? --", 5.0, long), ("b", "d", -1e300, b""), ("b", "e", 0.1, large)]
        for ranker, key, time, body in rows:
            store.log.append([NewEvent(ranker, "ranked", key, time, body)])
        expected = [Event(place, row[0], "ranked", *row[1:]) for place, row in enumerate(rows, 1)]
        assert store.log.read() == expected
        assert store.log.find("b", "ranked", ["e", "d"]) == {"d": expected[1], "e": expected[2]}

    def test_batches_of_many_sizes_with_and_without_duplicates(self, store, event):
        """Also of more events than go with one statement, and longer bodies than are summed up at once."""
        random, expected = Random(5), {}
        for size in (1, 2, 3, 31, 64, 65, 150, 200):
            for most in (10**9, 2 * size):  # keys that hardly ever come twice, and keys that often do
                batch = [
                    event(random.randrange(most), body=random.randbytes(random.choice([0, 9, 11_000])))
                    for _ in range(size)
                ]
                receipts = []
                for each in batch:
                    new = each.key not in expected
                    number, _ = expected.setdefault(each.key, (len(expected) + 1, each.body))
                    receipts.append(Receipt(number, new))
                assert store.log.append(batch) == receipts
        found = store.log.read(limit=10_000)
        assert [(each.key, (each.number, each.body)) for each in found] == list(expected.items())

    def test_attachments(self, store, event):
        large = bytes(range(256)) * 100
        store.log.append([event(1, attachment=b"one"), event(2), event(3, attachment=large), event(4, attachment=b"")])
        assert [store.log.attachment("shop", number) for number in range(1, 6)] == [b"one", None, large, b"", None]
        assert store.log.attachment("other", 1) is None
        store.log.append([event(1, attachment=b"another"), event(5, attachment=b"five")])
        assert [store.log.attachment("shop", number) for number in (1, 5)] == [b"one", b"five"]

    def test_an_event_that_follows_a_known_one_is_left_out(self, store, event):
        pair = [event("a"), event("b", follows=True, attachment=b"x")]
        assert store.log.append(pair) == [Receipt(1, True), Receipt(2, True)]
        batch = [event("a"), event("c", follows=True), event("d", follows=True), event("e"), event("f", follows=True)]
        left_out = Receipt(0, False)
        assert store.log.append(batch) == [Receipt(1, False), left_out, left_out, Receipt(3, True), Receipt(4, True)]
        assert store.log.append([event("c")]) == [Receipt(5, True)], "its key was not taken"
        batch = [event("g"), event("b", follows=True), event("h", follows=True), event("g"), event("i", follows=True)]
        known = Receipt(6, False)
        assert store.log.append(batch) == [Receipt(6, True), Receipt(2, False), left_out, known, left_out]
        assert [each.key for each in store.log.read()] == ["a", "b", "e", "f", "c", "g"]

    def test_followers_in_batches_that_share_a_transaction(self, store, event):
        batches = [[event(("first", i % 3)), event(("second", i), follows=True)] for i in range(60)]
        receipts = [future.result() for future in [store.log.submit(batch) for batch in batches]]
        assert [first.new for first, _ in receipts] == [second.new for _, second in receipts]
        assert sum(first.new for first, _ in receipts) == 3
        assert numbers(store) == [1, 2, 3, 4, 5, 6]

    def test_reading_in_pieces(self, store, event):
        store.log.append([event(i, ranker="even" if i % 2 == 0 else "odd") for i in range(1, 11)])
        assert numbers(store, after=3, limit=4) == [4, 5, 6, 7]
        assert numbers(store, after=3, limit=3, ranker="even") == [4, 6, 8]
        assert numbers(store, after=9, ranker="odd") == []
        assert numbers(store, ranker="nobody") == []

    def test_a_future_can_be_awaited(self, store, event):
        async def append(i):
            return await asyncio.wrap_future(store.log.submit([event(i)]))

        async def main():
            return await asyncio.gather(*(append(i) for i in range(200)))

        assert sorted(receipts[0].number for receipts in asyncio.run(main())) == list(range(1, 201))

    def test_a_reader_never_finds_a_smaller_number_later(self, store, event):
        done = threading.Event()

        def append(name):
            for i in range(60):
                store.log.append([event((name, i, j)) for j in range(3)])

        def follow():
            seen = [0]
            while True:
                last_round = done.is_set()
                seen += numbers(store, after=seen[-1])
                sleep(0.001)
                if last_round:
                    return seen[1:]

        with ThreadPoolExecutor(8) as threads:
            readers = [threads.submit(follow) for _ in range(3)]
            for writer in [threads.submit(append, name) for name in range(5)]:
                writer.result()
            done.set()
            assert [reader.result() for reader in readers] == [list(range(1, 901))] * 3


class Kind(enum.StrEnum):
    RANKED = "ranked"


@pytest.fixture
def memory():
    """A store in memory, for checks that do not depend on the database."""
    with open_storage("sqlite://") as store:
        yield store


GOOD = {"ranker": "a", "kind": "b", "key": "c", "time": 0.0, "body": b""}
WRONG = {
    **dict.fromkeys(("ranker", "kind", "key"), ("", "a\0b", "\ud800", "x" * 1001, None, 7, b"x")),
    "time": (math.nan, math.inf, -math.inf, 10**400, True, "1", None),
    "body": ("text", bytearray(b"x"), None),
    "attachment": ("text", bytearray(b"x")),
}


class TestValues:
    @pytest.mark.parametrize("name", WRONG)
    def test_values_that_no_store_can_hold(self, name):
        for value in WRONG[name]:
            with pytest.raises(InvalidValue, match=name):
                NewEvent(**GOOD | {name: value})

    def test_a_body_that_is_too_large(self, monkeypatch):
        monkeypatch.setattr("duelrank.storage.base.MAX_BODY_BYTES", 10)
        with pytest.raises(InvalidValue, match="at most 10 bytes, got 11"):
            NewEvent(**GOOD | {"body": bytes(11)})

    def test_only_events_are_appended(self, memory, event):
        with pytest.raises(InvalidValue, match="NewEvent"):
            memory.log.append(["something"])
        with pytest.raises(InvalidValue, match="first event"):
            memory.log.submit([event("a", follows=True)])

    @pytest.mark.parametrize("number", [-1, 1 << 63, 1.5, "1", True, None])
    def test_numbers_out_of_range(self, memory, number):
        for call in (
            lambda: memory.log.read(after=number),
            lambda: memory.log.read(limit=number),
            lambda: memory.log.attachment("shop", number),
            lambda: memory.log.drop_attachments("shop", number),
            lambda: memory.log.drop_attachments("shop", 0, keep=[number]),
            lambda: memory.log.delete("shop", number),
            lambda: memory.log.delete("shop", 0, keep=[number]),
            lambda: memory.snapshots.save("shop", "checkpoint", number, 0.0, b""),
            lambda: memory.snapshots.prune("shop", "checkpoint", number),
            lambda: memory.snapshots.prune("shop", "checkpoint", 1, needed=[number]),
        ):
            with pytest.raises(InvalidValue, match="whole number"):
                call()

    def test_names_are_checked_everywhere(self, memory):
        for call in (
            lambda: memory.log.read(ranker=""),
            lambda: memory.log.find("shop", "ranked", ["k", "\0"]),
            lambda: memory.log.find("shop", "", ["k"]),
            lambda: memory.log.attachment("", 1),
            lambda: memory.log.drop_attachments("", 0),
            lambda: memory.log.dropped(""),
            lambda: memory.log.delete("", 0),
            lambda: memory.snapshots.save("", "checkpoint", 0, 0.0, b""),
            lambda: memory.snapshots.load("shop", ""),
            lambda: memory.snapshots.list("", "checkpoint"),
            lambda: memory.snapshots.newest(""),
            lambda: memory.snapshots.prune("", "checkpoint", 1),
            lambda: memory.snapshots.delete(""),
            lambda: memory.log.number_before("", 0.0),
            lambda: memory.leases.acquire(""),
            lambda: memory.keys.revoke(""),
            lambda: ApiKey("id", b"", (), 0.0, rankers=("",)),
        ):
            with pytest.raises(InvalidValue, match="must"):
                call()

    @pytest.mark.parametrize("scope", ["", "a b", " a", "a\n"])
    def test_a_scope_is_one_word(self, scope):
        with pytest.raises(InvalidValue, match="scope"):
            ApiKey("id", b"", (scope,), 0.0)

    def test_a_member_of_an_enumeration_is_its_text(self, store):
        store.log.append([NewEvent("shop", Kind.RANKED, "k", -0.0, b"x")])
        assert found(store, "k") == Event(1, "shop", "ranked", "k", 0.0, b"x")

    @pytest.mark.parametrize("any_url", ["memory", "postgres"], indirect=True)
    @examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(
            st.tuples(
                st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=100),
                st.floats(allow_nan=False, allow_infinity=False),
                st.binary(max_size=300),
            ),
            max_size=5,
        )
    )
    def test_every_valid_event_is_returned_unchanged(self, any_store, rows):
        store = any_store
        before = store.log.last_number()
        receipts = store.log.append([NewEvent(f"ranker {before}", "kind", *row) for row in rows])
        first = {key: (key, time, body) for key, time, body in reversed(rows)}
        found = store.log.read(after=before, ranker=f"ranker {before}")
        assert [(event.key, event.time, event.body) for event in found] == [first[e.key] for e in found]
        assert len(found) == len(first) == sum(receipt.new for receipt in receipts)


class TestSnapshots:
    @pytest.fixture(autouse=True)
    def events(self, store, event):
        store.log.append([event(i) for i in range(20)])

    def test_numbers_are_apart_in_each_ranker_and_kind(self, store):
        for kind in ("checkpoint", "version", "status"):
            for number in (10, 5, 15):
                store.snapshots.save("shop", kind, number, number / 2, f"{kind} {number}".encode())
        for kind in ("checkpoint", "version", "status"):
            newest = StoredSnapshot("shop", kind, 15, 7.5, f"{kind} 15".encode())
            assert store.snapshots.load("shop", kind) == newest
            assert store.snapshots.load("shop", kind, 10).body == f"{kind} 10".encode()
        assert store.snapshots.load("shop", "checkpoint", 14) is None
        assert store.snapshots.load("other", "checkpoint") is None
        assert store.snapshots.prune("shop", "version", keep=1) == 2
        assert len(store.snapshots.list("shop", "checkpoint")) == 3

    def test_the_newest_of_every_ranker(self, store):
        assert store.snapshots.newest("version") == {}
        for ranker, number in (("shop", 3), ("shop", 12), ("other", 5), ("shop", 4)):
            store.snapshots.save(ranker, "version", number, 0.0, b"")
        store.snapshots.save("third", "checkpoint", 1, 0.0, b"")
        assert store.snapshots.newest("version") == {"shop": 12, "other": 5}

    def test_a_checkpoint_cannot_cover_what_has_not_happened(self, store):
        with pytest.raises(InvalidValue, match="the newest event is 20"):
            store.snapshots.save("shop", "checkpoint", 21, 1.0, b"")
        store.snapshots.save("shop", "version", 21, 1.0, b"")  # versions are not numbered as events are

    def test_pruning_leaves_the_newest_and_the_needed(self, store):
        for number in range(1, 11):
            store.snapshots.save("shop", "version", number, 0.0, b"")
            store.snapshots.save("other", "version", number, 0.0, b"")
        assert store.snapshots.prune("shop", "version", keep=3, needed=[2, 9, 77]) == 6
        assert [info.number for info in store.snapshots.list("shop", "version")] == [2, 8, 9, 10]
        assert store.snapshots.prune("shop", "version", keep=1) == 3
        assert store.snapshots.prune("shop", "version", keep=1) == 0
        assert [info.number for info in store.snapshots.list("shop", "version")] == [10]
        assert len(store.snapshots.list("other", "version")) == 10
        with pytest.raises(InvalidValue, match="keep"):
            store.snapshots.prune("shop", "version", keep=0)

    def test_saving_and_pruning_at_once(self, store):
        for number in range(1, 6):
            store.snapshots.save("shop", "version", number, 0.0, b"", keep=None if number < 4 else 2)
            store.snapshots.save("other", "version", number, 0.0, b"")
        assert [info.number for info in store.snapshots.list("shop", "version")] == [4, 5]
        assert len(store.snapshots.list("other", "version")) == 5
        with pytest.raises(InvalidValue, match="keep"):
            store.snapshots.save("shop", "version", 6, 0.0, b"", keep=0)
        assert store.snapshots.load("shop", "version").number == 5

    def test_deleting_all_of_a_ranker(self, store):
        for kind in ("checkpoint", "version", "status"):
            store.snapshots.save("shop", kind, 7, 1.0, b"")
            store.snapshots.save("other", kind, 7, 1.0, b"")
        store.log.drop_attachments("shop", 7)
        store.log.drop_attachments("other", 6)
        store.snapshots.delete("shop")
        for kind in ("checkpoint", "version", "status"):
            assert store.snapshots.newest(kind) == {"other": 7}
        assert (store.log.dropped("shop"), store.log.dropped("other")) == (0, 6)


class TestDropping:
    @pytest.fixture(autouse=True)
    def events(self, store, event):
        store.log.append([event(i, attachment=b"features") for i in range(1, 11)])
        store.log.append([event(i, ranker="other", attachment=b"features") for i in range(11, 14)])

    def attached(self, store):
        return [n for n in range(1, 14) for ranker in ("shop", "other") if store.log.attachment(ranker, n)]

    def test_needs_a_checkpoint_that_covers_it(self, store):
        with pytest.raises(InvalidValue, match="no checkpoint"):
            store.log.drop_attachments("shop", 5)
        store.snapshots.save("shop", "checkpoint", 4, 0.0, b"")
        store.snapshots.save("shop", "version", 9, 0.0, b"")
        store.snapshots.save("other", "checkpoint", 13, 0.0, b"")
        with pytest.raises(InvalidValue, match="the newest covers event 4"):
            store.log.drop_attachments("shop", 5)
        assert self.attached(store) == list(range(1, 14))
        assert store.log.dropped("shop") == 0

    def test_removes_what_is_covered_of_this_ranker_only(self, store):
        store.snapshots.save("shop", "checkpoint", 13, 0.0, b"")
        assert store.log.drop_attachments("shop", 5) == 5
        assert self.attached(store) == list(range(6, 14))
        assert store.log.drop_attachments("shop", 13) == 5
        assert self.attached(store) == [11, 12, 13]
        assert (store.log.dropped("shop"), store.log.dropped("other")) == (13, 0)
        assert store.log.drop_attachments("shop", 5) == 0
        assert store.log.dropped("shop") == 13

    def test_the_events_stay(self, store, event):
        before = store.log.read()
        store.snapshots.save("shop", "checkpoint", 13, 0.0, b"")
        store.log.drop_attachments("shop", 13)
        assert store.log.read() == before
        assert found(store, "3") == before[2]
        assert store.log.append([event(3, attachment=b"again")]) == [Receipt(3, False)]
        assert store.log.attachment("shop", 3) is None

    def test_what_is_to_be_kept_is_kept(self, store):
        store.snapshots.save("shop", "checkpoint", 9, 0.0, b"")
        assert store.log.drop_attachments("shop", 8, keep=[2, 7, 1000]) == 6
        assert self.attached(store) == [2, 7, *range(9, 14)]
        assert store.log.drop_attachments("shop", 8, keep=[7]) == 1
        assert self.attached(store) == [7, *range(9, 14)]

    def test_no_more_than_the_limit_at_once(self, store):
        store.snapshots.save("shop", "checkpoint", 10, 0.0, b"")
        assert store.log.drop_attachments("shop", 10, keep=[2, 3], limit=4) == 4
        assert self.attached(store) == [2, 3, *range(7, 14)]
        assert store.log.drop_attachments("shop", 10, keep=[2, 3], limit=100) == 4
        assert self.attached(store) == [2, 3, 11, 12, 13]
        assert store.log.delete("shop", 10, keep=[5], limit=3) == 3
        assert [event.number for event in store.log.read(ranker="shop")] == list(range(4, 11))
        assert store.log.delete("shop", 10, keep=[5]) == 6
        assert [event.number for event in store.log.read()] == [5, 11, 12, 13]

    def test_in_chunks(self, store, event):
        store.log.append([event(("many", i), attachment=b"x") for i in range(1300)])
        last = store.log.last_number()
        store.snapshots.save("shop", "checkpoint", last, 0.0, b"")
        assert store.log.drop_attachments("shop", last, keep=[500, 501]) == 10 + 1300 - 2
        assert [n for n in range(last + 1) if store.log.attachment("shop", n)] == [500, 501]


class TestDeleting:
    @pytest.fixture(autouse=True)
    def events(self, store, event):
        store.log.append([event(i, time=float(i), attachment=b"features") for i in range(1, 11)])
        store.log.append([event(i, ranker="other", attachment=b"features") for i in range(11, 14)])

    def test_removes_rows_bodies_and_attachments_of_this_ranker_only(self, store):
        assert store.log.delete("shop", 5) == 5
        assert numbers(store) == list(range(6, 14))
        assert numbers(store, ranker="shop") == [6, 7, 8, 9, 10]
        assert (found(store, "5"), store.log.attachment("shop", 5)) == (None, None)
        assert store.log.attachment("shop", 6) == store.log.attachment("other", 11) == b"features"
        assert store.log.delete("shop", 13) == 5
        assert numbers(store) == [11, 12, 13]
        assert store.log.delete("shop", 13) == 0

    def test_a_replay_must_begin_behind_it(self, store):
        store.log.delete("shop", 5)
        assert (store.log.dropped("shop"), store.log.dropped("other")) == (5, 0)
        store.log.delete("shop", 3)
        assert store.log.dropped("shop") == 5

    def test_a_late_duplicate_is_new_again(self, store, event):
        store.log.delete("shop", 2)
        assert store.log.append([event(2), event(3)]) == [Receipt(14, True), Receipt(3, False)]

    def test_what_is_to_be_kept_is_kept(self, store):
        assert store.log.delete("shop", 8, keep=[2, 7, 1000]) == 6
        assert numbers(store, ranker="shop") == [2, 7, 9, 10]
        assert store.log.attachment("shop", 7) == b"features"
        assert store.log.delete("shop", 8, keep=[7]) == 1
        assert numbers(store, ranker="shop") == [7, 9, 10]

    def test_in_chunks(self, store, event):
        store.log.append([event(("many", i)) for i in range(1300)])
        last = store.log.last_number()
        assert store.log.delete("shop", last, keep=[500, 501]) == 10 + 1300 - 2
        assert numbers(store, ranker="shop") == [500, 501]

    def test_numbers_are_never_given_twice(self, store, event):
        store.log.delete("shop", 13)
        store.log.delete("other", 13)
        assert store.log.read() == []
        assert store.log.last_number() == 13
        assert store.log.append([event("next")]) == [Receipt(14, True)]

    def test_from_a_time_to_a_number(self, store, event):
        assert store.log.number_before("shop", 4.0) == 3
        assert store.log.number_before("shop", 0.0) == 0
        assert store.log.number_before("shop", 99.0) == 13
        assert store.log.number_before("nobody", 99.0) == 13
        store.log.append([event("the clock went back", time=2.0)])
        assert store.log.number_before("shop", 10.0) == 9, "up to the first that is not older"
        assert store.log.number_before("shop", 99.0) == 14
        store.log.delete("shop", 9)
        assert store.log.number_before("shop", 4.0) == 9, "events that are gone do not count"

    def test_a_number_asked_for_again_and_again(self, store, event):
        """Whatever is remembered of earlier answers, each is that of a look at all events."""
        random, times = Random(3), dict.fromkeys(range(1, 11), 0.0) | {number: float(number) for number in range(1, 11)}
        for _ in range(60):
            time = random.choice([random.uniform(0, 30), random.uniform(20, 30)])
            if random.random() < 0.3:
                (receipt,) = store.log.append([event(len(times), time=time, kind="late")])
                times[receipt.number] = time
            last = store.log.last_number()
            first = min((number for number, each in times.items() if each >= time), default=last + 1)
            assert store.log.number_before("shop", time) == first - 1

    def test_appending_goes_on_meanwhile(self, store, event):
        store.log.append([event(("old", i)) for i in range(3000)])
        last = store.log.last_number()
        with ThreadPoolExecutor(5) as threads:
            deleting = threads.submit(store.log.delete, "shop", last)
            appends = [threads.submit(store.log.append, [event(("new", i))]) for i in range(100)]
            assert deleting.result() == 3010
            assert sorted(each.result()[0].number for each in appends) == list(range(last + 1, last + 101))
        assert numbers(store, ranker="shop") == list(range(last + 1, last + 101))


class TestShippedChecks:
    """The checks for authors of backends hold for ours, and find what is wrong with another."""

    def test_our_stores_pass(self, any_url):
        check_storage(any_url)

    @pytest.mark.parametrize(
        ("part", "method", "wrong"),
        [
            ("log", "append", lambda events: [Receipt(1, True)] * len(events)),
            ("log", "find", lambda *_: {}),
            ("log", "attachment", lambda *_: None),
            ("log", "delete", lambda *_, **__: 7),
            ("snapshots", "newest", lambda _: {}),
            ("keys", "list", list),
            ("leases", "acquire", lambda _: None),
        ],
    )
    def test_a_store_that_does_not_do_what_it_must_fails(self, part, method, wrong, monkeypatch):
        with open_storage("sqlite://") as store:
            monkeypatch.setattr(getattr(store, part), method, wrong)
            with pytest.raises(AssertionError):
                [check(store) for check in STORAGE_CHECKS]


class TestUsage:
    def test_grows_with_what_is_stored(self, store, event):
        before = store.usage()
        store.log.append([event(body=bytes(200_000), attachment=Random(1).randbytes(200_000))])
        after = store.usage()
        assert isinstance(after, Usage)
        assert after.bytes >= before.bytes + 200_000


class TestLeases:
    def test_among_several_handles_on_one_store(self, durable_url, event):
        with open_storage(durable_url) as other:
            with open_storage(durable_url) as one:
                lease = one.leases.acquire("learner")
                assert other.leases.acquire("learner") is None
                assert other.log.append([event()]) == [Receipt(1, True)], "a lease locks nothing else"
                lease.release()
                with other.leases.acquire("learner"):
                    assert one.leases.acquire("learner") is None
                lease = one.leases.acquire("learner")
            assert not lease.held(), "the end of the store is the end of its leases"
            assert other.leases.acquire("learner") is not None


class TestLife:
    def test_everything_is_there_after_opening_again(self, durable_url, event):
        with open_storage(durable_url) as store:
            store.log.append([event(i, attachment=b"x") for i in range(5)])
            store.snapshots.save("shop", "checkpoint", 3, 1.0, b"snapshot")
            store.log.drop_attachments("shop", 3)
            store.log.delete("shop", 2)
            store.keys.add(ApiKey("id", b"hash", ("rank",), 0.0))
        with open_storage(durable_url) as store:
            assert numbers(store) == [3, 4, 5]
            assert store.snapshots.load("shop", "checkpoint").body == b"snapshot"
            assert store.log.dropped("shop") == 3
            assert store.keys.list() == [ApiKey("id", b"hash", ("rank",), 0.0)]
            assert store.log.append([event(0), event(5)]) == [Receipt(6, True), Receipt(7, True)]

    def test_what_one_handle_appends_the_other_reads(self, durable_url, event):
        with open_storage(durable_url) as one, open_storage(durable_url) as other:
            one.log.append([event(1)])
            assert numbers(other) == [1]
            assert other.log.append([event(1), event(2)]) == [Receipt(1, False), Receipt(2, True)]
            assert numbers(one) == [1, 2]

    def test_closing_waits_for_what_was_handed_over(self, durable_url, event):
        store = open_storage(durable_url)
        futures = [store.log.submit([event(i)]) for i in range(50)]
        store.close()
        assert [future.result()[0].number for future in futures] == list(range(1, 51))

    def test_a_store_can_be_closed_twice(self, durable_url):
        store = open_storage(durable_url)
        store.close()
        store.close()


class TestOpening:
    def test_relative_and_absolute(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for path in ("here.db", f"{tmp_path}/there.db", "with%20space.db"):
            open_storage(f"sqlite:///{path}").close()
        assert {path.name for path in tmp_path.iterdir()} == {"here.db", "there.db", "with space.db"}

    def test_a_store_in_memory_leaves_no_files(self, tmp_path, monkeypatch, event):
        monkeypatch.chdir(tmp_path)
        with open_storage("sqlite://") as store, open_storage("sqlite://") as other:
            store.log.append([event()])
            assert other.log.last_number() == 0
            assert store.leases.acquire("x") is not None
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("url", ["", "store.db", "mysql://host/db", "sqlite:/x.db", "sqlite://x.db", "file:///x"])
    def test_other_addresses_raise_an_error_with_examples(self, url):
        with pytest.raises(InvalidValue, match="sqlite:///relative"):
            open_storage(url)

    def test_a_backend_of_a_user(self, clean_registry):
        opened = []

        @register_storage("mine", "mine+tls", example="mine://host")
        def opens(url):
            opened.append(url)
            return open_storage("sqlite://")

        open_storage("mine://a").close()
        open_storage("mine+tls://b").close()
        assert opened == ["mine://a", "mine+tls://b"]
        known = r"mine, mine\+tls, postgres, postgresql, sqlite; .*mine://host.*'mime://'"
        with pytest.raises(InvalidValue, match=known):
            open_storage("mime://")

    @pytest.mark.parametrize("scheme", ["sqlite", "Mine", "a b", ""])
    def test_schemes_that_are_taken_or_malformed(self, scheme):
        with pytest.raises(InvalidValue, match="scheme"):
            register_storage(scheme, example="")(lambda url: None)

    def test_a_password_is_never_shown(self):
        with pytest.raises(InvalidValue, match="address") as caught:
            open_storage("mysql://me:secret@host/db")
        assert "secret" not in str(caught.value)

    def test_without_its_driver_the_extra_is_named(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "duelrank.storage.postgres", None)
        with pytest.raises(MissingExtra, match=r"pip install 'duelrank\[postgres\]'"):
            open_storage("postgresql://host/db")
