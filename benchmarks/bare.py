"""The least that an endpoint of the same framework can do: decode the same body with the same decoder, answer a list."""

from __future__ import annotations

import sys

import msgspec
import uvicorn
from fastapi import FastAPI, Request, Response
from starlette.types import Receive, Scope, Send

from duelrank.api import RankAnswer, RankedDocument, RankRequest

app = FastAPI()
decode = msgspec.json.Decoder(RankRequest).decode
encode = msgspec.json.Encoder().encode


def answer(content: bytes) -> bytes:
    body = decode(content)
    ranking = [RankedDocument(each.id, number) for number, each in enumerate(body.documents[:10], 1)]
    return encode(RankAnswer(body.impression_id or "", 1, ranking))


@app.post("/bare")
async def bare(request: Request) -> Response:
    return Response(answer(await request.body()), media_type="application/json")


class Barest:
    """The same below FastAPI's own handling of requests, which costs more than all the rest: an ASGI application."""

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


app.add_route("/barest", Barest(), methods=["POST"])  # type: ignore[arg-type]


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False)
