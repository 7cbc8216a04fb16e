"""The statements that all databases understand; each has a ``?`` for every parameter."""

from __future__ import annotations

LAST_NUMBER = "SELECT last_number FROM duelrank_meta"
SET_LAST_NUMBER = "UPDATE duelrank_meta SET last_number = ?"

READ = """
    SELECT number, ranker, kind, key, time, checksum, body FROM duelrank_bodies JOIN duelrank_events USING (number)
    WHERE number > ? ORDER BY number LIMIT ?"""
READ_OF_RANKER = """
    SELECT number, ranker, kind, key, time, checksum, body FROM duelrank_events JOIN duelrank_bodies USING (number)
    WHERE ranker = ? AND number > ? ORDER BY number LIMIT ?"""
FIND = """
    SELECT number, ranker, kind, key, time, checksum, body FROM duelrank_events JOIN duelrank_bodies USING (number)
    WHERE ranker = ? AND kind = ? AND key = ?"""
KNOWN = "SELECT number FROM duelrank_events WHERE ranker = ? AND kind = ? AND key = ?"
FIRST_SINCE = "SELECT number FROM duelrank_events WHERE ranker = ? AND time >= ? ORDER BY number LIMIT 1"

WHOLE = """
    SELECT number FROM duelrank_events JOIN duelrank_bodies USING (number)
    WHERE ranker = ? AND number > ? AND number <= ? ORDER BY number LIMIT ?"""
REMEMBERED = (
    "SELECT number FROM duelrank_events WHERE ranker = ? AND number > ? AND number <= ? ORDER BY number LIMIT ?"
)
REMOVE_BODY = "DELETE FROM duelrank_bodies WHERE number = ?"
FORGET = "DELETE FROM duelrank_events WHERE number = ?"
PRUNED = "SELECT up_to FROM duelrank_pruned WHERE ranker = ?"
SET_PRUNED = """
    INSERT INTO duelrank_pruned (ranker, up_to) VALUES (?, ?)
    ON CONFLICT (ranker) DO UPDATE SET up_to = excluded.up_to WHERE excluded.up_to > duelrank_pruned.up_to"""

NEWEST_SNAPSHOT = "SELECT max(number) FROM duelrank_snapshots WHERE ranker = ?"
LOAD_SNAPSHOT = """
    SELECT number, time, checksum, body FROM duelrank_snapshots
    WHERE ranker = ? AND number <= ? ORDER BY number DESC LIMIT 1"""
SNAPSHOTS = "SELECT ranker, number, time, length(body) FROM duelrank_snapshots WHERE ranker = ? ORDER BY number"
ADD_SNAPSHOT = "INSERT INTO duelrank_snapshots (ranker, number, time, checksum, body) VALUES (?, ?, ?, ?, ?)"
REMOVE_SNAPSHOT = "DELETE FROM duelrank_snapshots WHERE ranker = ? AND number = ?"

KEYS = "SELECT id, hash, scopes, created FROM duelrank_keys ORDER BY created, id"
HAS_KEY = "SELECT id FROM duelrank_keys WHERE id = ?"
ADD_KEY = "INSERT INTO duelrank_keys (id, hash, scopes, created) VALUES (?, ?, ?, ?)"
REMOVE_KEY = "DELETE FROM duelrank_keys WHERE id = ?"
