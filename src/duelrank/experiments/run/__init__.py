"""Run many specs: in this process, in several processes of this machine, or on the workers of a Dask cluster."""

from duelrank.experiments.run.executor import Executor, run_all
from duelrank.extensions import load_extension, load_extensions
from duelrank.experiments.run.warmup import warm_up

__all__ = ["Executor", "load_extension", "load_extensions", "run_all", "warm_up"]
