"""What the web layer can be told."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WebSettings"]


@dataclass(frozen=True)
class WebSettings:
    """Limits of the web layer.

    Parameters
    ----------
    max_body
        Bytes of one request's body.
    max_waiting
        Bytes of all bodies together that have arrived in part.
    max_requests
        Requests that are being answered at once.
    rate
        Requests a second of one API key, or of one address on an open service; 0 for no limit. Without keys, requests
        from this machine are not limited.
    burst
        Requests that may come at once after a pause, as seconds of the rate.
    insecure
        Answer everybody when there is no API key, also requests that come from afar or from a web page.
    """

    max_body: int = 8 << 20
    max_waiting: int = 256 << 20
    max_requests: int = 1_000
    rate: float = 1_000.0
    burst: float = 2.0
    insecure: bool = False
