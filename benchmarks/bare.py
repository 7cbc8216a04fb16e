"""The least that an endpoint of the same framework can do: decode the same body with the same decoder, answer a list."""

from __future__ import annotations

import sys

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from duelrank.service.http.schema import RankAnswer, RankedDocument, RankRequest

decode = msgspec.json.Decoder(RankRequest).decode
encode = msgspec.json.Encoder().encode


def answer(content: bytes) -> bytes:
    body = decode(content)
    assert isinstance(body.documents, list)
    ranking = [RankedDocument(each.id, number) for number, each in enumerate(body.documents[:10], 1)]
    return encode(RankAnswer(body.impression_id or "", 1, ranking))


async def bare(request: Request) -> Response:
    return Response(answer(await request.body()), media_type="application/json")


class Barest:
    """The same below Starlette's own handling of requests: an ASGI application."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        message, parts = await receive(), []
        while message.get("more_body"):
            parts.append(message["body"])
            message = await receive()
        content = answer(b"".join([*parts, message["body"]]))
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


app = Starlette(
    routes=[
        Route("/bare", bare, methods=["POST"]),
        Route("/barest", Barest(), methods=["POST"]),
        Route("/ready", lambda request: Response(), methods=["GET"]),
    ]
)


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False)
