"""What survives a crash: an append-only log of events, snapshots of what was learned from it, and API keys."""

from duelrank.storage.base import Lease, Storage
from duelrank.storage.opening import open_storage
from duelrank.storage.sqlite import SQLiteStorage
from duelrank.storage.values import ApiKey, Event, NewEvent, Receipt, SnapshotInfo, StoredSnapshot

__all__ = [
    "ApiKey",
    "Event",
    "Lease",
    "NewEvent",
    "Receipt",
    "SQLiteStorage",
    "SnapshotInfo",
    "Storage",
    "StoredSnapshot",
    "open_storage",
]
