"""A search over Python's own documentation whose ranker learns before your eyes: ``duelrank play``.

It is also the reference for how to put a ranker behind a search of your own: `documents` and `search` are the search engine,
`features` is what it tells the ranker, `app` puts both beside the API, and the page makes the calls.
"""

from duelrank.playground.app import Playground
from duelrank.playground.search import Search, read_library

__all__ = ["Playground", "Search", "read_library"]
