"""A search over Python's documentation whose ranker learns from clicks, in a browser: ``duelrank play``.

It is also an example of a ranker behind a search: `search` is the search engine and computes the features, `app` adds it to the API
of the service, `crowd` simulates users, and the page makes the calls.
"""

from duelrank.playground.app import Playground
from duelrank.playground.search import Search, read_library

__all__ = ["Playground", "Search", "read_library"]
