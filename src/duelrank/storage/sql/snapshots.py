"""Checkpoints, versions and other snapshots in SQL."""

from __future__ import annotations

from collections.abc import Collection

from duelrank.core.errors import InvalidValue, StoreCorrupt
from duelrank.storage.base import Snapshots
from duelrank.storage.sql.checksums import checksum, intact
from duelrank.storage.sql.database import LAST_NUMBER, Database, Session, counter
from duelrank.storage.values import Snapshot, SnapshotInfo, checked_body, checked_number, checked_text, checked_time

__all__ = ["SQLSnapshots"]

LOAD = """
    SELECT number, time, checksum, body FROM duelrank_snapshots WHERE ranker = ? AND kind = ? AND number = ?"""
LOAD_NEWEST = """
    SELECT number, time, checksum, body FROM duelrank_snapshots
    WHERE ranker = ? AND kind = ? ORDER BY number DESC LIMIT 1"""
LIST = """
    SELECT ranker, kind, number, time, length(body) FROM duelrank_snapshots
    WHERE ranker = ? AND kind = ? ORDER BY number"""
NUMBERS = "SELECT number FROM duelrank_snapshots WHERE ranker = ? AND kind = ? ORDER BY number"
NEWEST = "SELECT ranker, max(number) FROM duelrank_snapshots WHERE kind = ? GROUP BY ranker"
ADD = "INSERT INTO duelrank_snapshots (ranker, kind, number, time, checksum, body) VALUES (?, ?, ?, ?, ?, ?)"
REMOVE = "DELETE FROM duelrank_snapshots WHERE ranker = ? AND kind = ? AND number = ?"
REMOVE_ALL = ("DELETE FROM duelrank_snapshots WHERE ranker = ?", "DELETE FROM duelrank_pruned WHERE ranker = ?")


class SQLSnapshots(Snapshots):
    """Snapshots in a table of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, ranker: str, kind: str, number: int, time: float, body: bytes) -> None:
        """Keep a snapshot."""
        place = (*_checked(ranker, kind), checked_number("number", number))
        row = (*place, checked_time(time), checksum(checked_body(body), *_summed(*place)), body)

        def save(session: Session) -> None:
            if kind == "checkpoint" and number > (last := counter(session.rows(LAST_NUMBER))):
                raise InvalidValue(f"a checkpoint cannot cover event {number}: the newest event is {last}")
            session.run(REMOVE, *place)
            session.run(ADD, *row)

        self._database.write(save)

    def load(self, ranker: str, kind: str, number: int | None = None) -> Snapshot | None:
        """Return a snapshot."""
        place = _checked(ranker, kind)
        if number is None:
            rows = self._database.query(LOAD_NEWEST, *place)
        else:
            rows = self._database.query(LOAD, *place, checked_number("number", number))
        if not rows:
            return None
        found, time, expected, body = rows[0]
        if not intact(expected, body, *_summed(*place, found)):
            raise StoreCorrupt(f"the {kind} {found} of {ranker!r} is damaged; an older one may be whole")
        return Snapshot(ranker, kind, found, time, body)

    def newest(self, kind: str) -> dict[str, int]:
        """Return the largest number of each ranker."""
        return dict(self._database.query(NEWEST, checked_text("kind", kind)))

    def prune(self, ranker: str, kind: str, keep: int, needed: Collection[int] = ()) -> int:
        """Remove old snapshots."""
        place = _checked(ranker, kind)
        checked_number("keep", keep, least=1)
        kept = {checked_number("needed", number) for number in needed}

        def prune(session: Session) -> int:
            numbers = [number for (number,) in session.rows(NUMBERS, *place)]
            old = [(*place, number) for number in numbers[:-keep] if number not in kept]
            if old:
                session.run_many(REMOVE, old)
            return len(old)

        return self._database.write(prune)

    def delete(self, ranker: str) -> None:
        """Remove all snapshots of a ranker."""
        checked_text("ranker", ranker)
        self._database.write(lambda session: [session.run(statement, ranker) for statement in REMOVE_ALL])

    def list(self, ranker: str, kind: str) -> list[SnapshotInfo]:
        """Return what snapshots there are."""
        return [SnapshotInfo(*row) for row in self._database.query(LIST, *_checked(ranker, kind))]


def _checked(ranker: str, kind: str) -> tuple[str, str]:
    return checked_text("ranker", ranker), checked_text("kind", kind)


def _summed(ranker: str, kind: str, number: int) -> tuple[str, int]:
    """Return what goes into a checksum with the body: for two kinds, as it was before there were kinds."""
    return {"checkpoint": ranker, "version": f"{ranker}/model"}.get(kind, f"{ranker}/{kind}"), number
