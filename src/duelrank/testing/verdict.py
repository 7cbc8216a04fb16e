"""Says what a check has found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import getdoc
from typing import TypeVar

__all__ = ["require", "run_checks"]

T = TypeVar("T")


def require(condition: object, problem: str, remedy: str) -> None:
    """Raise an AssertionError with two sentences unless the condition holds; unlike `assert`, also under ``python -O``."""
    if not condition:
        raise AssertionError(f"{problem}. {remedy}.")


def run_checks(checks: Iterable[Callable[[T], None]], checked: T, name: str) -> None:
    """Run checks one by one; an error of any kind has a note that names the check and what it expects."""
    for check in checks:
        try:
            check(checked)
        except Exception as error:
            label = getattr(check, "__name__", repr(check))
            error.add_note(f"{label} of {name}: {getdoc(check) or ''}".rstrip(": "))
            raise
