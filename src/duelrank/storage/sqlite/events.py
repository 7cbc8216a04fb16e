"""Inserts and finds many events with few statements in SQLite.

Python lets other threads go first at each statement, and to get one's turn again takes longer than a row. The numbers of
rows are powers of two, so that few statements have to be prepared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeVar

from duelrank.storage.sql.checksums import checksum
from duelrank.storage.sql.database import LAST_NUMBER, SET_LAST_NUMBER, Session, counter
from duelrank.storage.values import NewEvent, Receipt

__all__ = ["finding", "insert"]

T = TypeVar("T")

INSERT = """
    INSERT INTO duelrank_events (number, ranker, kind, key, time) VALUES {rows}
    ON CONFLICT (ranker, kind, key) DO NOTHING"""
INSERT_BODIES = "INSERT INTO duelrank_bodies (number, checksum, body) VALUES {rows}"
INSERT_ATTACHMENTS = "INSERT INTO duelrank_attachments (ranker, number, checksum, body) VALUES {rows}"
TAKE_BACK = "DELETE FROM duelrank_events WHERE number BETWEEN ? AND ?"
KNOWN = "SELECT number FROM duelrank_events WHERE ranker = ? AND kind = ? AND key = ?"
FIND = """
    SELECT number, ranker, kind, key, time, checksum, body FROM duelrank_events LEFT JOIN duelrank_bodies USING (number)
    WHERE ranker = ? AND kind = ? AND key IN ({rows})"""
MOST_ROWS, MOST_KEYS = 64, 256


def insert(session: Session, events: Sequence[NewEvent]) -> list[Receipt]:
    """Append events inside of a transaction: all at once where all are new, which is usual, else one by one."""
    last = counter(session.rows(LAST_NUMBER))
    rows = [(event.ranker, event.kind, event.key, event.time) for event in events]
    numbers = range(last + 1, last + 1 + len(rows))
    if _insert_rows(session, INSERT, [(number, *row) for number, row in zip(numbers, rows, strict=True)]) == len(rows):
        receipts = [Receipt(number, True) for number in numbers]
    else:
        session.run(TAKE_BACK, numbers[0], numbers[-1])
        receipts = _insert_each(session, last, events)
    new = [(receipt.number, event) for receipt, event in zip(receipts, events, strict=True) if receipt.new]
    if new:
        _insert_bodies(session, new)
        session.run(SET_LAST_NUMBER, new[-1][0])
    return receipts


def finding(keys: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the statements that find events by these keys of a ranker and a kind, each with its part of the keys."""
    for some in _pieces(keys, MOST_KEYS):
        yield _with_keys(len(some)), some


def _insert_each(session: Session, last: int, events: Sequence[NewEvent]) -> list[Receipt]:
    """Insert what is new, one by one, behind the last number, and find what is known."""
    receipts: list[Receipt] = []
    for event in events:
        row = (event.ranker, event.kind, event.key, event.time)
        if event.follows and not receipts[-1].new:
            receipts.append(Receipt(0, False))
        elif _insert_rows(session, INSERT, [(last + 1, *row)]) == 1:
            last += 1
            receipts.append(Receipt(last, True))
        else:
            receipts.append(Receipt(counter(session.rows(KNOWN, *row[:3])), False))
    return receipts


def _insert_bodies(session: Session, new: Sequence[tuple[int, NewEvent]]) -> None:
    bodies = [
        (number, checksum(event.body, event.ranker, event.kind, event.key, event.time), event.body)
        for number, event in new
    ]
    attachments = [
        (event.ranker, number, checksum(event.attachment, event.ranker, number), event.attachment)
        for number, event in new
        if event.attachment is not None
    ]
    _insert_rows(session, INSERT_BODIES, bodies)
    _insert_rows(session, INSERT_ATTACHMENTS, attachments)


def _insert_rows(session: Session, statement: str, rows: Sequence[tuple[Any, ...]]) -> int:
    """Insert rows and return how many were new."""
    return sum(
        session.run(_with_rows(statement, len(some), len(some[0])), *chain.from_iterable(some))
        for some in _pieces(rows, MOST_ROWS)
    )


def _pieces(items: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    start = 0
    while start < len(items):
        some = items[start : start + min(most, 1 << (len(items) - start).bit_length() - 1)]
        start += len(some)
        yield some


@cache
def _with_rows(statement: str, count: int, width: int) -> str:
    row = f"({', '.join('?' * width)})"
    return statement.format(rows=", ".join([row] * count))


@cache
def _with_keys(count: int) -> str:
    return FIND.format(rows=", ".join("?" * count))
