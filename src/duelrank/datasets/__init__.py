"""Data sets: imported LETOR files with a binary cache, a catalogue of published sets, and synthetic sets."""

from duelrank.core.home import home
from duelrank.datasets.base import Dataset
from duelrank.datasets.cache import Preparation
from duelrank.datasets.catalogue import CATALOGUE, Entry
from duelrank.datasets.library import Imported, ImportReport, Info, add, fetch, info, installed, remove
from duelrank.datasets.reader import read_letor
from duelrank.datasets.split import Fold, Split
from duelrank.datasets.synthetic import Bumpy, Drifting, Incomplete, InContext, LongTail, Synthetic

__all__ = [
    "CATALOGUE",
    "Bumpy",
    "Dataset",
    "Drifting",
    "Entry",
    "Fold",
    "ImportReport",
    "Imported",
    "InContext",
    "Incomplete",
    "Info",
    "LongTail",
    "Preparation",
    "Split",
    "Synthetic",
    "add",
    "fetch",
    "home",
    "info",
    "installed",
    "read_letor",
    "remove",
]
