"""Export of learned models to search engines: Solr, Elasticsearch, OpenSearch, Qdrant, RankLib, Vespa, ONNX, JSON."""

from duelrank.export.base import FORMATS, Format, export, format_options, register_format, supported_formats
from duelrank.export.decomposition import Unrepresentable
from duelrank.export.elasticsearch import Elasticsearch, ElasticsearchFeatures
from duelrank.export.hybrid import ElasticsearchLinear, OpenSearchHybrid, Qdrant
from duelrank.export.json import JsonModel
from duelrank.export.model import LinearModel, Model, ScorerModel
from duelrank.export.onnx import OnnxGraph
from duelrank.export.ranklib import RankLib
from duelrank.export.solr import Solr, SolrFeatures
from duelrank.export.vespa import Vespa

__all__ = [
    "FORMATS",
    "Elasticsearch",
    "ElasticsearchFeatures",
    "ElasticsearchLinear",
    "Format",
    "JsonModel",
    "LinearModel",
    "Model",
    "OnnxGraph",
    "OpenSearchHybrid",
    "Qdrant",
    "RankLib",
    "ScorerModel",
    "Solr",
    "SolrFeatures",
    "Unrepresentable",
    "Vespa",
    "export",
    "format_options",
    "register_format",
    "supported_formats",
]
