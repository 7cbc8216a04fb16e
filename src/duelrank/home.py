"""The folder of everything that is kept between runs."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["home"]


def home() -> Path:
    """Return the folder of everything that is kept between runs: DUELRANK_HOME, or the platform's cache folder."""
    import platformdirs

    return Path(os.environ.get("DUELRANK_HOME") or platformdirs.user_cache_path("duelrank")).expanduser().absolute()
