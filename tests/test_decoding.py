"""Decoders that several threads ask for at once."""

from __future__ import annotations

import subprocess
import sys
import textwrap

RACE = """
    import sys
    from threading import Barrier, Thread
    from types import ModuleType

    import msgspec
    from duelrank.core.decoding import msgpack_decoder

    TYPES = '''
    import msgspec

    class Inner(msgspec.Struct):
        number: int = 0
        numbers: tuple[float, ...] = ()

    class Outer(msgspec.Struct):
        one: Inner
        some: dict[str, Inner] | None = None
    '''

    def ask(together, kind, body):
        together.wait()
        msgpack_decoder(kind).decode(body)

    sys.setswitchinterval(1e-6)
    for number in range(300):  # of types that nobody has asked for yet
        module = sys.modules[f"types_{number}"] = ModuleType(f"types_{number}")
        exec(TYPES, module.__dict__)
        arguments = Barrier(4), module.Outer, msgspec.msgpack.encode(module.Outer(module.Inner(), {}))
        threads = [Thread(target=ask, args=arguments) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
"""


def test_threads_that_ask_for_a_decoder_at_once_do_not_crash_the_process():
    """In a process of its own: without the lock it is the process that dies."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(RACE)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
