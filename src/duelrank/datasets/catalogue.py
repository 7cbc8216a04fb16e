"""Lists the published data sets: their contents, where their owners publish them, and their terms of use.

Sizes are those of one fold (training, validation and test together), the same for every fold of a set. MQ2007 and
MQ2008 were counted in the files; Yahoo! and Istella are as their owners state them; MSLR and LETOR 3.0 as the
literature does.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CATALOGUE", "Entry"]

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


@dataclass(frozen=True)
class Entry:
    """One published data set.

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
