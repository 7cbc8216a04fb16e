"""Limits and times of a service."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFAULT_REPRESENTATION", "Settings"]

#: What an algorithm sees of the features of a new ranker, where its creator does not say. It is written into the ranker's spec, so
#: another default changes nothing for rankers that exist.
DEFAULT_REPRESENTATION = "curves"


@dataclass(frozen=True)
class Settings:
    """How a service works; all times in seconds.

    Parameters
    ----------
    publish_every
        The least time between two model versions.
    poll_every
        How often a process looks for what others have done.
    retention
        How long events are kept at least, once they were learned from.
    keep_features
        How long the features of impressions are kept at least, once they were learned from: so far back a replay can go.
        With 0 they are dropped as soon as the three newest checkpoints do not need them.
    keep_versions
        How many of the newest model versions are kept, beside those that open impressions were made with. Of older ones the first
        of each minute is kept for an hour, of each hour for a day, of each day for 31 days; those with a label until it is removed.
    max_open
        How many impressions of one ranker may be open; beyond that, the oldest are closed early.
    max_documents
        In one request.
    max_features
        Of one ranker.
    max_id
        Bytes of an id of an impression, a document or an event.
    max_events
        In one request.
    max_rankers
        In one store.
    recent
        How many impressions are remembered in memory, so that feedback on them needs no look into the store.
    tidy_every
        How often old features, events and versions are removed.
    warm_up
        Recipes that are compiled before the service is ready.
    webhook
        The http or https address that is told what guards do, for rankers whose guard names none.
    private_webhooks
        Whether webhooks may go to addresses that are not public, such as this machine, its network, or services of its cloud.
    salt
        What new rankers mix into the draws of their lists, at most 64 bytes, for tests and simulations that shall repeat. None, as
        it should be where there are users: secret random bytes for each ranker.

    Examples
    --------
    A replay shall go back a day; events are kept for a week, as always:

    >>> from duelrank.serving import Settings
    >>> settings = Settings(keep_features=24 * 3600.0)
    >>> settings.keep_features / 3600, settings.retention / 3600
    (24.0, 168.0)
    """

    publish_every: float = 1.0
    poll_every: float = 0.5
    retention: float = 7 * 86400.0
    keep_features: float = 0.0
    keep_versions: int = 20
    max_open: int = 100_000
    max_documents: int = 1000
    max_features: int = 5000
    max_id: int = 512
    max_events: int = 10_000
    max_rankers: int = 1000
    recent: int = 4096
    tidy_every: float = 60.0
    warm_up: tuple[str, ...] = ()
    webhook: str | None = None
    private_webhooks: bool = False
    salt: bytes | None = None
