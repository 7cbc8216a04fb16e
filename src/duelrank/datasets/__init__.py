"""Data sets: imported LETOR files with a binary cache, a catalogue of published sets, and synthetic sets."""

from duelrank.datasets.base import Dataset
from duelrank.datasets.bumpy import Bumpy
from duelrank.datasets.catalogue import CATALOGUE, Entry
from duelrank.datasets.letor import Imported
from duelrank.datasets.library import ImportReport, Info, add, fetch, home, info, installed, remove
from duelrank.datasets.long_tail import LongTail
from duelrank.datasets.memory import read_letor
from duelrank.datasets.preparation import Preparation
from duelrank.datasets.split import Fold, Split
from duelrank.datasets.synthetic import Synthetic

__all__ = [
    "CATALOGUE",
    "Bumpy",
    "Dataset",
    "Entry",
    "Fold",
    "ImportReport",
    "Imported",
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
