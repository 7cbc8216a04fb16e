"""The least that an endpoint of the same framework can do: decode the same body with the same decoder, answer a list."""

from __future__ import annotations

import sys

import msgspec
import uvicorn
from fastapi import FastAPI, Request, Response


class Document(msgspec.Struct, frozen=True):
    """As the service reads one."""

    id: str
    features: list[float] | dict[str, float]


class Body(msgspec.Struct, frozen=True):
    """As the service reads one."""

    documents: list[Document]
    impression_id: str | None = None
    length: int | None = None
    explain: bool = False


app = FastAPI()
decode = msgspec.json.Decoder(Body).decode
encode = msgspec.json.Encoder().encode


@app.post("/bare")
async def bare(request: Request) -> Response:
    body = decode(await request.body())
    ranking = [{"id": each.id, "position": number} for number, each in enumerate(body.documents[:10], 1)]
    content = {"impression_id": body.impression_id, "model_version": 1, "ranking": ranking}
    return Response(encode(content), media_type="application/json")


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False)
