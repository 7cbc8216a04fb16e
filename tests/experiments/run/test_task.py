"""Tasks: a record comes back as it is, and so does every error that can."""

import sys
from dataclasses import dataclass, fields

import pytest

from duelrank import MGD, DuelrankError, simulate
from duelrank.experiments.run.task import pack, perform, unpack


class Fussy(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, one, two):
        super().__init__(one)


def failing(raising):
    @dataclass(frozen=True, repr=False)
    class Failing(MGD):
        size: int = 3

        def update(self, state, gradient):
            raising()

    return Failing(size=4)


def test_a_record_comes_back_to_the_bit(specs):
    spec = specs(MGD())[0]
    back, here = unpack(perform(pack(spec), "a worker"), spec), simulate(spec)
    assert back.spec is spec
    assert back.guard is here.guard is None
    assert back.device == here.device == "cpu"
    assert back.learner is None, "it may be large, and nobody over there asks for it"
    for item in fields(here):
        if item.name not in ("spec", "seconds", "evaluation_seconds", "learner", "guard", "device"):
            assert getattr(back, item.name).tobytes() == getattr(here, item.name).tobytes()


def test_an_error_comes_back_with_its_notes_and_its_traceback(specs):
    def raising():
        error = KeyError("odd")
        error.add_note("of its own")
        raise error

    spec = specs(failing(raising))[0]
    with pytest.raises(KeyError, match="odd") as caught:
        unpack(perform(pack(spec), "the worker 7"), spec)
    own, ours = caught.value.__notes__
    assert own == "of its own"
    assert ours.startswith(f"in the run {spec.id}, on the worker 7:\nTraceback")
    assert "in raising" in ours


def unpicklable():
    raise ValueError("odd", sys._getframe())


def fussy():
    raise Fussy("it takes", "two")


def leave():
    sys.exit(3)


@pytest.mark.parametrize(
    ("raising", "message"),
    [(unpicklable, r"ValueError: \('odd', <frame"), (fussy, r"Fussy: it takes"), (leave, "SystemExit: 3")],
)
def test_what_cannot_be_sent_or_would_end_this_process_is_told_by_name(specs, raising, message):
    spec = specs(failing(raising))[0]
    with pytest.raises(DuelrankError, match=message) as caught:
        unpack(perform(pack(spec), "a worker"), spec)
    assert f"in {raising.__name__}" in "".join(caught.value.__notes__)
