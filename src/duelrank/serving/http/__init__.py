"""The service over HTTP: FastAPI routes, msgspec decodes and encodes, uvicorn listens."""

from duelrank.serving.http.app import create_app
from duelrank.serving.http.keys import SCOPES, KeyRing, make_key
from duelrank.serving.http.settings import WebSettings

__all__ = ["SCOPES", "KeyRing", "WebSettings", "create_app", "make_key"]
