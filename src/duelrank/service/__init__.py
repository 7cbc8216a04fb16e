"""Serves rankers and learns from feedback; the same event log always gives the same ranker, bit for bit.

Names are imported on first use: the client imports `duelrank.service.http.schema`, and must not import numpy with it.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from duelrank.service.intake import Rejected
    from duelrank.service.service import Service
    from duelrank.service.settings import Observer, Settings

__all__ = ["Observer", "Rejected", "Service", "Settings"]

__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={"intake": ["Rejected"], "service": ["Service"], "settings": ["Observer", "Settings"]},
)
