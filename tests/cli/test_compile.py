"""duelrank compile: prepares kernels, so that later processes compile none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

#: A service on a store on the disk, as another process runs it, with other documents than those of the command.
SERVED = """
import asyncio, logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
from duelrank.service import Service, Settings
from duelrank.service.http.decoding import array_reader, decode_rank
from duelrank.service.http.schema import FeedbackEvent, RankerSpec
from duelrank.storage import open_storage

async def serve(storage, begin):
    array_reader.prepare()
    service = Service(storage, Settings(publish_every=0.0))
    await service.start()
    await service.wait_ready()
    await service.create(RankerSpec("shop", "mgd-dsp", ["a", "b"]))
    for number in range(begin, begin + 40):
        documents = ",".join('{"id": "d%d", "features": [%f, %f]}' % (n, n * 1.5, -n / 7 - number) for n in range(7))
        body = ('{"documents": [%s]}' % documents).encode()
        answer = await service.rank("shop", decode_rank(body, b"application/json", False))
        await service.feedback("shop", [FeedbackEvent(answer.impression_id, answer.ids[1:2], close=True)])
    while service.lag():
        await asyncio.sleep(0.01)
    assert service.ranker("shop").failed == 0
    await service.stop()

with open_storage(sys.argv[1]) as storage:
    for begin in (0, 40):
        asyncio.run(serve(storage, begin))
"""


def test_what_is_compiled_is_printed(cli):
    result = cli("compile", "mgd-dsp", "--no-simulations")
    assert result.exit_code == 0
    *lines, last = result.stdout.splitlines()
    assert lines[0].startswith(f"[1/{len(lines)}] service, mgd-dsp: ")
    assert f"[{len(lines)}/{len(lines)}] service, steps >> mgd-dsp: " in lines[-1]
    assert "compiled kernels in " in last


def test_simulations_alone(cli):
    result = cli("compile", "mgd", "--no-service")
    assert result.exit_code == 0
    assert "simulations, mgd: " in result.stdout
    assert "data sets: " in result.stdout
    assert "service" not in result.stdout


def test_an_unknown_algorithm_is_refused_at_once(cli):
    result = cli("compile", "mgd", "mgd-dps")
    assert result.exit_code == 2
    assert "mgd-dsp" in result.stderr
    assert not result.stdout


@pytest.mark.processes
def test_a_process_after_it_compiles_nothing(tmp_path, sqlite_url):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")}

    def run(*command):
        return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=True)

    first = run("-m", "duelrank", "compile", "mgd-dsp", "--no-simulations")
    assert "compiling kernels" in first.stderr
    served = run("-c", SERVED, sqlite_url)
    assert "leads" in served.stdout
    assert "compiling kernels" not in served.stdout
