"""The service over HTTP: Starlette routes, msgspec decodes and encodes, uvicorn listens."""

from duelrank.serving.http.app import create_app
from duelrank.serving.http.auth import SCOPES, KeyRing, make_key
from duelrank.serving.http.limits import WebSettings

__all__ = ["SCOPES", "KeyRing", "WebSettings", "create_app", "make_key"]
