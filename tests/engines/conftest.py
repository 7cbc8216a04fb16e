"""Real search engines: their jars come from Maven Central; without Java or Maven, each test skips with the reason."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import cache

import pytest
from tests.engines.running import Java, Server


@pytest.fixture(scope="session")
def java() -> Callable[[str], Java]:
    """Return what starts the programs of an engine, by the name of its folder: `java("solr")`."""
    return cache(Java)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the logs of the servers with the test that failed."""
    report = yield
    if report.failed:
        report.sections += [(f"log of {each.name}", each.tail()) for each in Server.running]
    return report
