"""The service over HTTP: Starlette routes requests, msgspec decodes and encodes bodies, uvicorn listens.

Names are imported on first use: the client imports `duelrank.service.http.schema`, and must not import Starlette with it.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from duelrank.service.http.app import create_app
    from duelrank.service.http.auth import SCOPES, KeyRing, make_key
    from duelrank.service.http.limits import WebSettings

__all__ = ["SCOPES", "KeyRing", "WebSettings", "create_app", "make_key"]

__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={"app": ["create_app"], "auth": ["SCOPES", "KeyRing", "make_key"], "limits": ["WebSettings"]},
)
