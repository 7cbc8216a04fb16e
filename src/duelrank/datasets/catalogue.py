"""The catalogue of published data sets, and the download of their archives."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from duelrank.core.errors import DataFormatError, DuelrankError, MissingData
from duelrank.core.files import writing

#: Called with (bytes so far, total bytes); the total is None if it is not known.
Progress = Callable[[int, int | None], None]

_LETOR3 = "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/letor-3-0/"
_LETOR4 = "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/letor-4-0/"
_MSLR = "https://www.microsoft.com/en-us/research/project/mslr/"
_YAHOO = "https://webscope.sandbox.yahoo.com/catalog.php?datatype=c"
_ISTELLA = "http://quickrank.isti.cnr.it/istella-dataset/"

_MICROSOFT_TERMS = "research use; the owner's agreement is accepted on its page"
_YAHOO_TERMS = "research use; requested from the owner, who grants it to research institutions"
_ISTELLA_TERMS = "non-commercial use only; the Istella LETOR licence agreement comes with the data"

_FIVE_FOLDS = "FoldN/{train,vali,test}.txt"
_LETOR3_FILES = "FoldN/{trainingset,validationset,testset}.txt"

_PIECE = 1 << 18  # bytes
_TIMEOUT = 60.0  # seconds without a byte


@dataclass(frozen=True)
class Entry:
    """One published data set: its contents, its owner's page and terms of use, and where to download it.

    Sizes are those of one fold (training, validation and test together) and equal in all folds. MQ2007 and MQ2008 were counted in
    the files; the sizes of Yahoo! and Istella are those that their owners state, the sizes of MSLR and LETOR 3.0 those of the
    literature.

    Parameters
    ----------
    queries, documents
        Numbers in one fold.
    n_features
        Number of features in the files.
    n_grades
        Number of grades; labels are from 0 to n_grades − 1.
    files
        The expected layout of the files.
    page
        The web page of the owner.
    prefix
        Prefix of the file names, if one archive contains several sets.
    sparse
        Whether the files omit zeros, so that the highest feature number may not occur in them.
    url, archive, sha256
        If the set can be downloaded: the address, the file name there and on mirrors, and the checksum.
    """

    name: str
    title: str
    queries: int
    documents: int
    n_features: int
    n_grades: int
    n_folds: int
    files: str
    page: str
    terms: str
    prefix: str = ""
    sparse: bool = False
    url: str = ""
    archive: str = ""
    sha256: str = ""


def _letor3(name: str, title: str, queries: int, documents: int, n_features: int = 64, n_grades: int = 2) -> Entry:
    return Entry(name, title, queries, documents, n_features, n_grades, 5, _LETOR3_FILES, _LETOR3, _MICROSOFT_TERMS)


_ENTRIES = (
    Entry("mq2007", "LETOR 4.0 MQ2007", 1_692, 69_623, 46, 3, 5, _FIVE_FOLDS, _LETOR4, _MICROSOFT_TERMS),
    Entry("mq2008", "LETOR 4.0 MQ2008", 784, 15_211, 46, 3, 5, _FIVE_FOLDS, _LETOR4, _MICROSOFT_TERMS),
    _letor3("np2003", "LETOR 3.0 named page finding 2003", 150, 148_657),
    _letor3("np2004", "LETOR 3.0 named page finding 2004", 75, 73_834),
    _letor3("hp2003", "LETOR 3.0 homepage finding 2003", 150, 147_606),
    _letor3("hp2004", "LETOR 3.0 homepage finding 2004", 75, 74_409),
    _letor3("td2003", "LETOR 3.0 topic distillation 2003", 50, 49_058),
    _letor3("td2004", "LETOR 3.0 topic distillation 2004", 75, 74_146),
    _letor3("ohsumed", "LETOR 3.0 OHSUMED", 106, 16_140, n_features=45, n_grades=3),
    Entry(
        "mslr-web10k", "MSLR-WEB10K", 10_000, 1_200_192, 136, 5, 5, _FIVE_FOLDS, _MSLR, _MICROSOFT_TERMS,
        url="https://api.onedrive.com/v1.0/shares/s!AtsMfWUz5l8nbOIoJ6Ks0bEMp78/root/content",
        archive="MSLR-WEB10K.zip",
        sha256="2902142ea33f18c59414f654212de5063033b707d5c3939556124b1120d3a0ba",
    ),
    Entry(
        "mslr-web30k", "MSLR-WEB30K", 31_531, 3_771_125, 136, 5, 5, _FIVE_FOLDS, _MSLR, _MICROSOFT_TERMS,
        url="https://api.onedrive.com/v1.0/shares/s!AtsMfWUz5l8nbXGPBlwD1rnFdBY/root/content",
        archive="MSLR-WEB30K.zip",
        sha256="08cb7977e1d5cbdeb57a9a2537a0923dbca6d46a76db9a6afc69e043c85341ae",
    ),
    Entry(
        "yahoo-set1", "Yahoo! Learning to Rank Challenge (C14), set 1", 29_921, 709_877, 700, 5, 1,
        "set1.{train,valid,test}.txt", _YAHOO, _YAHOO_TERMS, prefix="set1", sparse=True,
    ),
    Entry(
        "yahoo-set2", "Yahoo! Learning to Rank Challenge (C14), set 2", 6_330, 172_870, 700, 5, 1,
        "set2.{train,valid,test}.txt", _YAHOO, _YAHOO_TERMS, prefix="set2", sparse=True,
    ),
    Entry(
        "istella", "Istella LETOR", 33_018, 10_454_629, 220, 5, 1, "{train,test}.txt", _ISTELLA, _ISTELLA_TERMS,
        url="http://library.istella.it/dataset/istella-letor.tar.gz",
        archive="istella-letor.tar.gz",
        sha256="d45899d9a6a0e48afb250aac7ee3dc50e73e263687f15761d754515cd8284e0b",
    ),
    Entry(
        "istella-s", "Istella-S LETOR", 33_018, 3_408_630, 220, 5, 1, "{train,vali,test}.txt", _ISTELLA, _ISTELLA_TERMS,
        url="http://library.istella.it/dataset/istella-s-letor.tar.gz",
        archive="istella-s-letor.tar.gz",
        sha256="41b21116a3650cc043dbe16f02ee39f4467f9405b37fdbcc9a6a05e230a38981",
    ),
)  # fmt: skip

#: All entries by name.
CATALOGUE: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}


def download(entry: Entry, mirror: str | None, folder: Path, progress: Progress | None) -> Path:
    """Download an archive unless it is there already, verify its checksum if it is known, and return its path."""
    name = entry.archive or f"{entry.name}.tar.xz"
    url = f"{mirror.rstrip('/')}/{name}" if mirror else entry.url
    if not url:
        raise MissingData(
            f"{entry.title} has no public download address: get it from its owner at {entry.page}"
            f" ({entry.terms}), then: duelrank data add {entry.name} PATH; or give a mirror that has {name}"
        )
    path = folder / name
    if path.is_file() and (not entry.sha256 or _checksum(path) == entry.sha256):
        return path
    with writing(f"the download {name}", folder):
        folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{name}.partial-{secrets.token_hex(4)}"
    try:
        _receive(url, partial, progress)
        if entry.sha256 and (found := _checksum(partial)) != entry.sha256:
            raise DataFormatError(
                f"{url}: the checksum of the downloaded file is wrong (SHA-256 is {found}, not {entry.sha256})"
            )
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def _receive(url: str, path: Path, progress: Progress | None) -> None:
    """Download a file."""
    from http.client import HTTPException
    from urllib.request import Request, urlopen  # imported here, because it imports a web client

    if not url.startswith(("http://", "https://")):
        raise MissingData(f"could not download {url}: addresses begin with http:// or https://")
    try:
        request = Request(url, headers={"User-Agent": "duelrank"})  # noqa: S310
        with urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310
            total = int(answer.headers.get("Content-Length") or 0)
            done = _copy(answer, path, total, progress)
    except DuelrankError:
        raise
    except (OSError, HTTPException, ValueError) as error:  # ValueError: an address or a length that cannot be read
        raise MissingData(f"could not download {url}: {error}") from error
    if done < total:
        raise MissingData(f"could not download {url}: the connection ended after {done:,} of {total:,} bytes")


def _copy(source: IO[bytes], path: Path, total: int, progress: Progress | None) -> int:
    """Copy to a file piece by piece, and return the number of bytes."""
    done = 0
    with writing(f"the download {path.name}", path.parent):
        file = path.open("wb")
    with file:
        while piece := source.read(_PIECE):
            with writing(f"the download {path.name}", path.parent):
                file.write(piece)
            done += len(piece)
            if progress:
                progress(done, total or None)
    return done


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
