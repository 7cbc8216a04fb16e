"""Locates the folder for data sets and caches."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Return the folder for data sets and caches: DUELRANK_HOME, or the platform's cache folder."""
    import platformdirs

    return Path(os.environ.get("DUELRANK_HOME") or platformdirs.user_cache_path("duelrank")).expanduser().absolute()
