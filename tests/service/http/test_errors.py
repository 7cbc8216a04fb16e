"""One table has every error that a client can see."""

import pytest

from duelrank.core import errors
from duelrank.core.errors import DuelrankError
from duelrank.service.http import errors as refusals
from duelrank.service.http.errors import PROBLEMS, ProblemKind, kind_of

#: Of classes that no request can lead to.
NEVER = {"DuelrankError", "MissingData", "NoSuchName", "UnreachableScheduler", "Refusal", "ClientGone"}


def family():
    names = {name: value for module in (errors, refusals) for name, value in vars(module).items()}
    classes = {name: cls for name, cls in names.items() if isinstance(cls, type)}
    return {name: cls for name, cls in classes.items() if issubclass(cls, DuelrankError) and name not in NEVER}


@pytest.mark.parametrize("name", family())
def test_every_error_has_a_row_of_its_own_or_of_its_parent(name):
    kind = kind_of(family()[name]("words", *([1.0] if name == "TooManyRequests" else [])))
    assert kind is not PROBLEMS[Exception]
    assert 400 <= kind.status <= 503


def test_whatever_else_happens_is_our_own_fault():
    assert kind_of(KeyError("x")) is PROBLEMS[Exception]
    assert PROBLEMS[Exception].detail


def test_retryable_errors_are_marked():
    for name, cls in family().items():
        if issubclass(cls, errors.StorageFailure):
            assert kind_of(cls("x")).retry == cls.retryable, name


def test_slugs_are_unique():
    assert len({kind.slug for kind in PROBLEMS.values()}) == len(PROBLEMS)


def test_the_page_explains_each(client):
    page = client.get("/docs").text
    for kind in PROBLEMS.values():
        assert isinstance(kind, ProblemKind)
        assert f"id='{kind.slug}'" in page
