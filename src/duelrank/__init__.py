"""duelrank learns a search ranker from clicks, while it serves.

``__init__.pyi`` lists the public names. Each is imported on first use, so that `import duelrank` itself is fast.
"""

from __future__ import annotations

from typing import Any

import lazy_loader

__version__ = "0.2.0"

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__ or name.startswith("_"):
        return _public(name)
    from duelrank.elsewhere import found

    return found(name, __all__)
