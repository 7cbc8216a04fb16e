"""What every store does, whatever it stores in."""

from __future__ import annotations

import asyncio
import enum
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random
from time import sleep

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.effort import examples

from duelrank.errors import InvalidValue, StorageFailure
from duelrank.storage import ApiKey, Event, NewEvent, Receipt, SnapshotInfo, StoredSnapshot, open_storage


def numbers(store, **what):
    return [event.number for event in store.read(**what)]


class TestLog:
    def test_starts_empty(self, store):
        store.ping()
        assert store.last_number() == 0
        assert store.read() == []
        assert store.find("shop", "ranked", "k") is None
        assert store.known("shop", "ranked", "k") is None

    def test_numbers_start_at_one_and_have_no_gaps(self, store, event):
        assert store.append([event(1), event(2)]) == [Receipt(1, True), Receipt(2, True)]
        assert store.append([event(1), event(2)]) == [Receipt(1, False), Receipt(2, False)]
        assert store.append([event(3)]) == [Receipt(3, True)]
        assert store.last_number() == 3

    def test_gives_back_what_was_appended(self, store):
        body = bytes(range(256)) * 40
        store.append([NewEvent("shöp", "ranked", "🔑 '%s' ? --", -1e300, body), NewEvent("b", "c", "d", 0.1, b"")])
        assert store.read() == [
            Event(1, "shöp", "ranked", "🔑 '%s' ? --", -1e300, body),
            Event(2, "b", "c", "d", 0.1, b""),
        ]
        assert store.find("b", "c", "d") == store.read(after=1)[0]

    def test_an_empty_batch(self, store):
        assert store.append([]) == []
        assert store.last_number() == 0

    def test_keys_are_apart_in_each_ranker_and_kind(self, store, event):
        four = [event("k"), event("k", kind="feedback"), event("k", ranker="other"), event("K")]
        assert [receipt.new for receipt in store.append(four)] == [True] * 4

    def test_a_duplicate_changes_nothing(self, store, event):
        store.append([event("k", body=b"first", time=1)])
        store.append([event("k", body=b"second", time=2)])
        assert store.find("shop", "ranked", "k") == Event(1, "shop", "ranked", "k", 1.0, b"first")

    def test_duplicates_inside_of_a_batch(self, store, event):
        receipts = store.append([event("a", body=b"first"), event("b"), event("a", body=b"second"), event("c")])
        assert receipts == [Receipt(1, True), Receipt(2, True), Receipt(1, False), Receipt(3, True)]
        assert store.find("shop", "ranked", "a").body == b"first"

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
                assert store.append(batch) == receipts
        found = store.read(limit=10_000)
        assert [(each.key, (each.number, each.body)) for each in found] == list(expected.items())

    def test_the_clock_plays_no_part_in_the_order(self, store, event):
        times = [5.0, 3.0, 1e9, -7.0]
        for time in times:
            store.append([event(time, time=time)])
        assert [each.time for each in store.read()] == times

    def test_reading_in_pieces(self, store, event):
        store.append([event(i, ranker="even" if i % 2 == 0 else "odd") for i in range(1, 11)])
        assert numbers(store, after=3, limit=4) == [4, 5, 6, 7]
        assert numbers(store, after=3, limit=3, ranker="even") == [4, 6, 8]
        assert numbers(store, after=9, ranker="odd") == []
        assert numbers(store, ranker="nobody") == []

    def test_a_large_body(self, store, event):
        body = bytes(3 << 20)
        store.append([event(body=body)])
        assert store.read()[0].body == body

    def test_a_future_can_be_awaited(self, store, event):
        async def append(i):
            return await asyncio.wrap_future(store.submit([event(i)]))

        async def main():
            return await asyncio.gather(*(append(i) for i in range(200)))

        assert sorted(receipts[0].number for receipts in asyncio.run(main())) == list(range(1, 201))

    def test_many_threads_at_once(self, store, event):
        # Each key is sent by two threads: exactly one of them was the first.
        with ThreadPoolExecutor(16) as threads:
            receipts = list(threads.map(lambda i: store.append([event(i % 200), event(("x", i))]), range(400)))
        assert numbers(store, limit=10_000) == list(range(1, 601))
        for i in range(200):
            one, other = receipts[i][0], receipts[i + 200][0]
            assert one.number == other.number
            assert one.new != other.new

    def test_a_reader_never_finds_a_smaller_number_later(self, store, event):
        done = threading.Event()

        def append(name):
            for i in range(60):
                store.append([event((name, i, j)) for j in range(3)])

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


class TestValues:
    @pytest.mark.parametrize("name", ["ranker", "kind", "key"])
    @pytest.mark.parametrize("text", ["", "a\0b", "\ud800", "x" * 1001, None, 7, b"x"])
    def test_texts_that_no_store_can_hold(self, name, text):
        with pytest.raises(InvalidValue, match=name):
            NewEvent(**{"ranker": "a", "kind": "b", "key": "c", "time": 0.0, "body": b"", name: text})

    @pytest.mark.parametrize("time", [math.nan, math.inf, -math.inf, 10**400, True, "1", None])
    def test_times_that_are_none(self, time):
        with pytest.raises(InvalidValue, match="time"):
            NewEvent("a", "b", "c", time, b"")

    @pytest.mark.parametrize("body", ["text", bytearray(b"x"), None])
    def test_bodies_are_bytes(self, body):
        with pytest.raises(InvalidValue, match="body"):
            NewEvent("a", "b", "c", 0.0, body)

    def test_only_events_are_appended(self, store):
        with pytest.raises(InvalidValue, match="NewEvent"):
            store.append(["something"])

    @pytest.mark.parametrize("number", [-1, 1 << 63, 1.5, "1", True, None])
    def test_numbers_out_of_range(self, store, number):
        for call in (
            lambda: store.read(after=number),
            lambda: store.read(limit=number),
            lambda: store.save_snapshot("shop", number, 0.0, b""),
            lambda: store.prune("shop", number),
            lambda: store.prune("shop", 0, keep=[number]),
            lambda: store.prune("shop", 0, forget=number),
            lambda: store.prune_snapshots("shop", number),
        ):
            with pytest.raises(InvalidValue, match="whole number"):
                call()

    def test_names_are_checked_everywhere(self, store):
        for call in (
            lambda: store.read(ranker=""),
            lambda: store.find("shop", "ranked", "\0"),
            lambda: store.known("shop", "", "k"),
            lambda: store.load_snapshot(""),
            lambda: store.snapshots(""),
            lambda: store.prune("", 0),
            lambda: store.pruned(""),
            lambda: store.number_before("", 0.0),
            lambda: store.try_lead(""),
            lambda: store.revoke_key(""),
        ):
            with pytest.raises(InvalidValue, match="must"):
                call()

    def test_a_member_of_an_enumeration_is_its_text(self, store):
        store.append([NewEvent("shop", Kind.RANKED, "k", -0.0, b"x")])
        assert store.find("shop", "ranked", "k") == Event(1, "shop", "ranked", "k", 0.0, b"x")

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
    def test_whatever_is_accepted_comes_back(self, store, rows):
        before = store.last_number()
        receipts = store.append([NewEvent(f"ranker {before}", "kind", *row) for row in rows])
        first = {key: (key, time, body) for key, time, body in reversed(rows)}
        found = store.read(after=before, ranker=f"ranker {before}")
        assert [(event.key, event.time, event.body) for event in found] == [first[e.key] for e in found]
        assert len(found) == len(first) == sum(receipt.new for receipt in receipts)


class TestSnapshots:
    @pytest.fixture(autouse=True)
    def events(self, store, event):
        store.append([event(i) for i in range(20)])

    def test_the_newest_and_the_newest_before(self, store):
        assert store.load_snapshot("shop") is None
        for number in (10, 5, 15):
            store.save_snapshot("shop", number, number / 2, f"at {number}".encode())
        assert store.load_snapshot("shop") == StoredSnapshot("shop", 15, 7.5, b"at 15")
        assert store.load_snapshot("shop", at=14) == StoredSnapshot("shop", 10, 5.0, b"at 10")
        assert store.load_snapshot("shop", at=10).number == 10
        assert store.load_snapshot("shop", at=4) is None
        assert store.load_snapshot("other") is None
        assert store.snapshots("shop") == [
            SnapshotInfo("shop", 5, 2.5, 4), SnapshotInfo("shop", 10, 5.0, 5), SnapshotInfo("shop", 15, 7.5, 5),
        ]  # fmt: skip

    def test_the_same_number_again_replaces(self, store):
        store.save_snapshot("shop", 5, 1.0, b"old")
        store.save_snapshot("shop", 5, 2.0, b"newer")
        assert store.snapshots("shop") == [SnapshotInfo("shop", 5, 2.0, 5)]

    def test_it_cannot_cover_what_has_not_happened(self, store):
        with pytest.raises(InvalidValue, match="the newest event is 20"):
            store.save_snapshot("shop", 21, 1.0, b"")

    def test_pruning_leaves_the_newest_and_the_pinned(self, store):
        for number in range(1, 11):
            store.save_snapshot("shop", number, 0.0, b"")
            store.save_snapshot("other", number, 0.0, b"")
        assert store.prune_snapshots("shop", keep=3, pinned=[2, 9, 77]) == 6
        assert [info.number for info in store.snapshots("shop")] == [2, 8, 9, 10]
        assert store.prune_snapshots("shop", keep=1) == 3
        assert store.prune_snapshots("shop", keep=1) == 0
        assert [info.number for info in store.snapshots("shop")] == [10]
        assert len(store.snapshots("other")) == 10
        with pytest.raises(InvalidValue, match="keep"):
            store.prune_snapshots("shop", keep=0)


class TestPruning:
    @pytest.fixture(autouse=True)
    def events(self, store, event):
        store.append([event(i, time=float(i)) for i in range(1, 11)])
        store.append([event(i, ranker="other") for i in range(11, 14)])

    def test_needs_a_snapshot_that_covers_it(self, store):
        with pytest.raises(InvalidValue, match="there is none"):
            store.prune("shop", 5)
        store.save_snapshot("shop", 4, 0.0, b"")
        store.save_snapshot("other", 13, 0.0, b"")
        with pytest.raises(InvalidValue, match="the newest covers event 4"):
            store.prune("shop", 5)
        assert len(store.read()) == 13
        assert store.pruned("shop") == 0

    def test_removes_what_is_covered_of_this_ranker_only(self, store):
        store.save_snapshot("shop", 13, 0.0, b"")
        assert store.prune("shop", 5) == 5
        assert numbers(store) == list(range(6, 14))
        assert numbers(store, ranker="shop") == [6, 7, 8, 9, 10]
        assert store.prune("shop", 13) == 5
        assert numbers(store) == [11, 12, 13]
        assert (store.pruned("shop"), store.pruned("other")) == (13, 0)
        assert store.prune("shop", 5) == 0
        assert store.pruned("shop") == 13

    def test_keys_of_pruned_events_stay_known(self, store, event):
        store.save_snapshot("shop", 5, 0.0, b"")
        store.prune("shop", 5)
        assert store.find("shop", "ranked", "3") is None
        assert store.known("shop", "ranked", "3") == 3
        assert store.append([event(3), event(99)]) == [Receipt(3, False), Receipt(14, True)]
        assert store.find("shop", "ranked", "3") is None

    def test_forgotten_keys_are_new_again(self, store, event):
        store.save_snapshot("shop", 5, 0.0, b"")
        assert store.prune("shop", 5, forget=2) == 5
        assert [store.known("shop", "ranked", str(i)) for i in (1, 2, 3)] == [None, None, 3]
        assert store.append([event(2)]) == [Receipt(14, True)]
        assert store.prune("shop", 5, forget=99) == 0, "forgets nothing that was not pruned"
        assert [store.known("shop", "ranked", str(i)) for i in (3, 5, 6)] == [None, None, 6]

    def test_what_is_to_be_kept_is_kept(self, store):
        store.save_snapshot("shop", 9, 0.0, b"")
        assert store.prune("shop", 8, keep=[2, 7, 1000], forget=8) == 6
        assert numbers(store, ranker="shop") == [2, 7, 9, 10]
        assert store.prune("shop", 8, keep=[7]) == 1
        assert numbers(store, ranker="shop") == [7, 9, 10]
        assert store.known("shop", "ranked", "2") == 2

    def test_in_chunks(self, store, event):
        store.append([event(("many", i)) for i in range(1300)])
        last = store.last_number()
        store.save_snapshot("shop", last, 0.0, b"")
        assert store.prune("shop", last, keep=[500, 501], forget=900) == 10 + 1300 - 2
        assert numbers(store, ranker="shop") == [500, 501]
        assert store.known("shop", "ranked", str(("many", 1299))) == last

    def test_numbers_are_never_given_twice(self, store, event):
        store.save_snapshot("shop", 13, 0.0, b"")
        store.save_snapshot("other", 13, 0.0, b"")
        store.prune("shop", 13, forget=13)
        store.prune("other", 13, forget=13)
        assert store.read() == []
        assert store.last_number() == 13
        assert store.append([event("next")]) == [Receipt(14, True)]

    def test_from_a_time_to_a_number(self, store, event):
        assert store.number_before("shop", 4.0) == 3
        assert store.number_before("shop", 0.0) == 0
        assert store.number_before("shop", 99.0) == 13
        assert store.number_before("nobody", 99.0) == 13
        store.append([event("the clock went back", time=2.0)])
        assert store.number_before("shop", 10.0) == 9, "up to the first that is not older"
        store.save_snapshot("shop", 14, 0.0, b"")
        store.prune("shop", 9)
        assert store.number_before("shop", 4.0) == 3, "pruned events count until they are forgotten"

    def test_appending_goes_on_meanwhile(self, store, event):
        store.append([event(("old", i)) for i in range(3000)])
        last = store.last_number()
        store.save_snapshot("shop", last, 0.0, b"")
        with ThreadPoolExecutor(5) as threads:
            pruning = threads.submit(store.prune, "shop", last, forget=last)
            appends = [threads.submit(store.append, [event(("new", i))]) for i in range(100)]
            assert pruning.result() == 3010
            assert sorted(each.result()[0].number for each in appends) == list(range(last + 1, last + 101))
        assert numbers(store, ranker="shop") == list(range(last + 1, last + 101))


class TestKeys:
    def test_keys_come_and_go(self, store):
        one = ApiKey("one", b"\x00\xffhash", ("rank", "feedback"), 2.0)
        two = ApiKey("two", b"", (), 1.0)
        store.add_key(one)
        store.add_key(two)
        assert store.keys() == [two, one]
        with pytest.raises(InvalidValue, match="'one' already"):
            store.add_key(one)
        assert store.revoke_key("one")
        assert not store.revoke_key("one")
        assert store.keys() == [two]

    @pytest.mark.parametrize("scope", ["", "a b", " a", "a\n"])
    def test_a_scope_is_one_word(self, scope):
        with pytest.raises(InvalidValue, match="scope"):
            ApiKey("id", b"", (scope,), 0.0)


class TestLeading:
    def test_there_is_one_leader_per_name(self, store):
        lease = store.try_lead("learner/shop")
        assert lease.held()
        assert store.try_lead("learner/shop") is None
        assert store.try_lead("learner/other").held()
        lease.release()
        lease.release()
        assert not lease.held()
        with store.try_lead("learner/shop") as again:
            assert not lease.held()
            assert again.held()
        assert not again.held()
        assert store.try_lead("learner/shop") is not None

    def test_closing_gives_up_what_is_led(self, durable_url):
        with open_storage(durable_url) as other:
            with open_storage(durable_url) as one:
                lease = one.try_lead("learner")
                assert other.try_lead("learner") is None
            assert not lease.held()
            assert other.try_lead("learner") is not None

    def test_leading_holds_nobody_up(self, store, event):
        with store.try_lead("learner"):
            assert store.append([event()]) == [Receipt(1, True)]
            assert len(store.read()) == 1

    def test_two_handles_on_one_store(self, durable_url):
        with open_storage(durable_url) as one, open_storage(durable_url) as other:
            lease = one.try_lead("learner")
            assert other.try_lead("learner") is None
            lease.release()
            assert other.try_lead("learner") is not None


class TestLife:
    def test_everything_is_there_after_opening_again(self, durable_url, event):
        with open_storage(durable_url) as store:
            store.append([event(i) for i in range(5)])
            store.save_snapshot("shop", 3, 1.0, b"snapshot")
            store.prune("shop", 2)
            store.add_key(ApiKey("id", b"hash", ("rank",), 0.0))
        with open_storage(durable_url) as store:
            assert numbers(store) == [3, 4, 5]
            assert store.load_snapshot("shop").body == b"snapshot"
            assert store.pruned("shop") == 2
            assert store.keys() == [ApiKey("id", b"hash", ("rank",), 0.0)]
            assert store.append([event(0), event(5)]) == [Receipt(1, False), Receipt(6, True)]

    def test_what_one_handle_appends_the_other_reads(self, durable_url, event):
        with open_storage(durable_url) as one, open_storage(durable_url) as other:
            one.append([event(1)])
            assert numbers(other) == [1]
            assert other.append([event(1), event(2)]) == [Receipt(1, False), Receipt(2, True)]
            assert numbers(one) == [1, 2]

    def test_closing_waits_for_what_was_handed_over(self, durable_url, event):
        store = open_storage(durable_url)
        futures = [store.submit([event(i)]) for i in range(50)]
        store.close()
        assert [future.result()[0].number for future in futures] == list(range(1, 51))

    def test_a_closed_store_says_so(self, store, event):
        store.close()
        store.close()
        for call in (lambda: store.append([event()]), store.read, store.ping, lambda: store.revoke_key("x")):
            with pytest.raises(StorageFailure, match="closed"):
                call()
