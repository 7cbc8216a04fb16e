"""A real Solr with its learning-to-rank module."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest
from tests.engines.running import HERE, Java, ask

pytestmark = pytest.mark.engines


@pytest.fixture(scope="module")
def solr(java: Callable[[str], Java], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a core without documents."""
    folder = tmp_path_factory.mktemp("solr")
    shutil.copytree(HERE / "solr" / "home", folder / "home")
    with java("solr").serve(folder, "Serve.java", folder / "home", options=(f"-Dsolr.log.dir={folder}",)) as server:
        yield server.printed("listening at ") + "/products"


def test_it_answers(solr: str) -> None:
    assert ask(f"{solr}/query", q="*:*")["response"]["numFound"] == 0
