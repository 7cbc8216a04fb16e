"""The service over HTTP: FastAPI routes, msgspec decodes and encodes, uvicorn listens."""

from duelrank.serving.web.app import create_app
from duelrank.serving.web.keys import SCOPES, KeyRing, make_key
from duelrank.serving.web.settings import WebSettings

__all__ = ["SCOPES", "KeyRing", "WebSettings", "create_app", "make_key"]
