"""The exceptions of the client: the service refused or failed, or it did not answer."""

from __future__ import annotations

from duelrank.core.errors import DuelrankError

__all__ = ["ServiceError", "ServiceUnreachable"]


class ServiceError(DuelrankError, RuntimeError):
    """The service answered with an error; its parts are those of RFC 9457.

    Parameters
    ----------
    status
        The HTTP status, such as 404 or 422.
    title
        The kind of problem, in a few words.
    detail
        What is wrong this time, in a sentence.
    request_id
        The id of the request in the log of the service, if the service sent one.
    retry_after
        Seconds after which the service asks the client to try again, if it said so.
    """

    def __init__(
        self, status: int, title: str, detail: str = "", request_id: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(status, title, detail, request_id, retry_after)
        self.status = status
        self.title = title
        self.detail = detail
        self.request_id = request_id
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.status} {self.title}" + (f": {self.detail}" if self.detail else "")


class ServiceUnreachable(DuelrankError, ConnectionError):
    """No answer came, after all retries. Whether the service has done its work is unknown; the same call again is safe."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""
