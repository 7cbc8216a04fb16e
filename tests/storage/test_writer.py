"""Group commit: who shares a transaction, and who must not suffer for another."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from duelrank.core.errors import StorageFailure, StoreFull, StoreLocked
from duelrank.storage import Receipt
from duelrank.storage.writer import GroupWriter


class Disk:
    """Takes events one transaction after the other, and holds the first one until told to go on."""

    def __init__(self, fails=lambda keys: None):
        self.groups, self.fails, self.go, self.busy = [], fails, threading.Event(), threading.Event()

    def insert(self, events):
        self.busy.set()
        assert self.go.wait(60)
        keys = [event.key for event in events]
        self.groups.append(keys)
        error = self.fails(keys)
        if error is not None:
            raise error
        return [Receipt(int(key), True) for key in keys]


@pytest.fixture
def writing():
    """Start a writer on a disk that is busy with batch 0 while the others come in."""
    writers = []

    def start(event, disk, batches):
        writer = GroupWriter(disk.insert)
        writers.append((writer, disk))
        futures = [writer.submit([event(0)])]
        assert disk.busy.wait(60)
        return writer, futures + [writer.submit([event(key) for key in batch]) for batch in batches]

    yield start
    for writer, disk in writers:
        disk.go.set()
        writer.close()


def test_what_comes_in_meanwhile_shares_one_transaction(writing, event):
    disk = Disk()
    _, futures = writing(event, disk, [[1, 2], [3], [], [4]])
    disk.go.set()
    assert [[receipt.number for receipt in future.result()] for future in futures] == [[0], [1, 2], [3], [], [4]]
    assert disk.groups == [["0"], ["1", "2", "3", "4"]]


@pytest.mark.parametrize("error", [StoreFull("full"), RuntimeError("a bug")])
def test_one_bad_batch_does_not_spoil_its_neighbours(writing, event, error):
    disk = Disk(lambda keys: error if "2" in keys else None)
    _, futures = writing(event, disk, [[1], [2], [3]])
    disk.go.set()
    assert futures[1].result() == [Receipt(1, True)]
    with pytest.raises(type(error)):
        futures[2].result()
    assert futures[3].result() == [Receipt(3, True)]


def test_nobody_waits_once_more_for_the_same_lock(writing, event):
    disk = Disk(lambda keys: StoreLocked("locked") if "0" not in keys else None)
    _, futures = writing(event, disk, [[1], [2], [3]])
    disk.go.set()
    for future in futures[1:]:
        with pytest.raises(StoreLocked, match="locked"):
            future.result()
    assert disk.groups == [["0"], ["1", "2", "3"]]


def test_a_cancelled_batch_is_left_out(writing, event):
    disk = Disk()
    _, futures = writing(event, disk, [[1], [2]])
    assert futures[1].cancel()
    assert not futures[0].cancel(), "it is on its way"
    disk.go.set()
    assert futures[2].result() == [Receipt(2, True)]
    with pytest.raises(CancelledError):
        futures[1].result()
    assert disk.groups == [["0"], ["2"]]


def test_a_group_has_its_limits(writing, event):
    disk = Disk()
    writer, futures = writing(event, disk, [[i] for i in range(1, 1500)])
    big = [writer.submit([event(i, body=bytes(5 << 20))]) for i in range(1500, 1503)]
    disk.go.set()
    for future in [*futures, *big]:
        future.result()
    assert [len(group) for group in disk.groups] == [1, 1000, 501, 1]


def test_other_writes_take_their_turn(writing, event):
    disk = Disk()
    writer, _ = writing(event, disk, [[1]])
    disk.go.set()
    assert writer.call(lambda: threading.current_thread().name) == "duelrank-storage-writer"
    with pytest.raises(KeyError):
        writer.call(lambda: {}["nothing"])
    assert writer.call(lambda: 5) == 5


def test_after_closing_nothing_is_taken(event):
    disk = Disk()
    disk.go.set()
    writer = GroupWriter(disk.insert)
    writer.close()
    with pytest.raises(StorageFailure, match="closed"):
        writer.submit([event()])
