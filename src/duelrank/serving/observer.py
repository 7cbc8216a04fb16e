"""Who watches the service: methods that it calls when something has happened."""

from __future__ import annotations

__all__ = ["Observer"]


class Observer:
    """Is told what happens; by itself it does nothing. Methods are called from several threads and must be quick."""

    def ranked(self, name: str, n_documents: int) -> None:
        """A list was made of so many documents."""

    def fed(self, name: str, outcome: str, count: int) -> None:
        """So many events had an outcome: accepted, duplicate, unknown, expired or invalid."""

    def learned(self, name: str, norm: float, clicks: int, reciprocal_rank: float) -> None:
        """A list was closed: how far the weights moved, its clicks, and 1 / position of the first (0 without a click)."""

    def published(self, name: str, version: int) -> None:
        """A model version is served from now on."""

    def feature_trouble(self, name: str, kind: str, count: int) -> None:
        """So many feature values were "missing", "nan" or "infinite", or "out_of_range" of a fixed normalisation."""

    def failed(self, name: str, what: str) -> None:
        """Something went wrong that should not: "learn" (a list that could not be learned from) or "store"."""

    def open_impressions(self, name: str, count: int) -> None:
        """So many lists are open."""

    def oldest_unlearned_age(self, name: str, seconds: float) -> None:
        """The oldest event that the learner has not come to yet is so old; 0 where there is none."""

    def leading(self, leads: bool) -> None:
        """Whether this process is the one that learns."""
