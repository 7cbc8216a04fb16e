"""Take a learned model elsewhere: Solr, Elasticsearch, OpenSearch, RankLib, Vespa, ONNX, JSON."""

from duelrank.export.formats import FORMATS, Format, export
from duelrank.export.model import LinearModel
from duelrank.normalisation import Fixed, MinMax, NoNormalisation, Normalisation, PerQuery, Scaling, Standard

__all__ = [
    "FORMATS",
    "Fixed",
    "Format",
    "LinearModel",
    "MinMax",
    "NoNormalisation",
    "Normalisation",
    "PerQuery",
    "Scaling",
    "Standard",
    "export",
]
