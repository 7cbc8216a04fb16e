"""Runs specs on an accelerator, in lockstep; those that cannot run there run on the CPU."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from duelrank.core.errors import InvalidValue, MissingExtra
from duelrank.core.registry import spell
from duelrank.simulation import Record, RunSpec

if TYPE_CHECKING:
    from duelrank.experiments.run.executor import Executor

__all__ = ["Device", "OnDevice", "check_device"]

#: Where runs are made: "cpu", "gpu" for an accelerator, or "lockstep" for whatever JAX finds, which may be a CPU.
Device = Literal["cpu", "gpu", "lockstep"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OnDevice:
    """Runs specs in lockstep where all of their parts have a twin; a warning names what is missing for the others.

    Parameters
    ----------
    device
        "gpu", which needs an accelerator, or "lockstep".
    others
        Makes the executor for a number of runs that cannot run in lockstep.
    """

    device: Device
    others: Callable[[int], Executor]

    def run(self, specs: Sequence[RunSpec]) -> Generator[Record, None, None]:
        """Yield the records, those made in lockstep first."""
        engine = _engine(self.device)
        why_not = cache(engine.why_not)  # opening a data set takes longer than planning a run on it
        reasons = {spec: why_not(replace(spec, fold=1, seed=1)) for spec in specs}
        for algorithm, reason in {spell(spec.algorithm): why[0] for spec, why in reasons.items() if why}.items():
            _log.warning("%s runs on the CPU: %s", algorithm, reason)
        together = [spec for spec, why in reasons.items() if not why]
        if together:
            yield from engine.Lockstep().run(together)
        if rest := [spec for spec, why in reasons.items() if why]:
            with closing(self.others(len(rest)).run(rest)) as records:
                yield from records


def check_device(device: str) -> None:
    """Raise an error if runs cannot be made on a device, before anything is planned for it."""
    if device not in ("cpu", "gpu", "lockstep"):
        raise InvalidValue(f"device must be cpu, gpu or lockstep, got {device!r}")
    if device != "cpu":
        _engine(device)


def _engine(device: str) -> Any:
    try:
        import jax
    except ImportError:
        raise MissingExtra(
            f"device {device} needs JAX: pip install 'duelrank[lockstep]', and JAX's own plugin for the accelerator"
        ) from None
    from duelrank import lockstep

    if device == "gpu" and jax.default_backend() == "cpu":
        raise InvalidValue(
            "JAX finds no accelerator, only the CPU: install JAX for yours (such as pip install 'jax[cuda13]'), or leave "
            "--device out"
        )
    return lockstep
