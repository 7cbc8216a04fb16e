"""What survives a crash: an event log, snapshots of what was learned from it, API keys and leases."""

from duelrank.storage.base import EventLog, Keys, Lease, Leases, Snapshots, Storage
from duelrank.storage.opening import open_storage, register_storage
from duelrank.storage.values import ApiKey, Event, NewEvent, Receipt, Snapshot, SnapshotInfo, Usage

__all__ = [
    "ApiKey",
    "Event",
    "EventLog",
    "Keys",
    "Lease",
    "Leases",
    "NewEvent",
    "Receipt",
    "Snapshot",
    "SnapshotInfo",
    "Snapshots",
    "Storage",
    "Usage",
    "open_storage",
    "register_storage",
]
