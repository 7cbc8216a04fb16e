"""The description is true: whatever it allows is answered as it says, and never with a server error.

DUELRANK_SOAK multiplies the number of requests that are tried.
"""

import re
from html.parser import HTMLParser

import pytest
import requests
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from tests.effort import examples
from tests.serving.http.conftest import DOCUMENTS

from duelrank.serving.http.operations import OPERATIONS
from duelrank.serving.http.problems import TABLE
from duelrank.serving.http.schema import describe

DOCUMENT = describe(OPERATIONS, "1")
ADDRESSES = [(one.method, one.path) for one in OPERATIONS]


@pytest.fixture(scope="module")
def schemathesis():
    """The library that makes requests; imported here, since that takes seconds and most workers do not need it."""
    import schemathesis

    return schemathesis


@pytest.fixture(scope="module")
def checks(schemathesis):
    """What is asked of each answer."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    conformance = [checks.status_code_conformance, checks.content_type_conformance, checks.response_schema_conformance]
    return [not_a_server_error, *conformance]


@pytest.fixture(scope="module")
def schema(schemathesis):
    """The description, as the library reads it."""
    return schemathesis.openapi.from_dict(DOCUMENT)


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize(("method", "path"), [each for each in ADDRESSES if each[1].startswith("/v1/")])
@pytest.mark.parametrize("which", ["client", "real_client"])
def test_whatever_comes_is_answered_as_described(request, schemathesis, schema, checks, which, method, path, mode):
    client = request.getfixturevalue(which)
    client.post("/v1/rankers/shop/rank", json={"impression_id": "i1", "documents": DOCUMENTS})

    @given(
        case=schema[path][method].as_strategy(generation_mode=schemathesis.GenerationMode(mode)), known=st.booleans()
    )
    @examples(10, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    def check(case, known):
        if known and case.path_parameters:
            case.path_parameters["name"] = "shop"
        made = requests.Request(**case.as_transport_kwargs(base_url="http://127.0.0.1")).prepare()
        headers = {name: value for name, value in made.headers.items() if name.lower() != "content-length"}
        response = client.request(made.method, made.url, content=made.body, headers=headers)
        case.validate_response(response, checks=checks)

    check()


class TestDocument:
    def test_it_is_the_one_that_is_served(self, client):
        served = client.get("/openapi.json").json()
        assert served["paths"] == DOCUMENT["paths"]
        assert client.app.openapi()["paths"] == DOCUMENT["paths"]

    def test_it_has_every_address(self):
        assert {(method.upper(), path) for path, each in DOCUMENT["paths"].items() for method in each} == set(ADDRESSES)

    def test_every_operation_is_described(self):
        for each in DOCUMENT["paths"].values():
            for one in each.values():
                assert one["summary"]
                assert one["description"]
        ids = [one["operationId"] for each in DOCUMENT["paths"].values() for one in each.values()]
        assert len(set(ids)) == len(ids)

    def test_references_lead_somewhere(self):
        text = repr(DOCUMENT)
        for name in re.findall(r"#/components/schemas/(\w+)", text):
            assert name in DOCUMENT["components"]["schemas"]

    def test_nothing_says_who_placed_a_document(self):
        ranked = DOCUMENT["components"]["schemas"]["Ranked"]["properties"]
        assert set(ranked) == {"id", "position", "score", "explain"}

    def test_all_statuses_are_documented_somewhere(self):
        said = {status for each in DOCUMENT["paths"].values() for one in each.values() for status in one["responses"]}
        assert {str(kind.status) for kind in TABLE.values()} <= said


class TestPage:
    class Reader(HTMLParser):
        def __init__(self):
            super().__init__()
            self.tags, self.links, self.ids = set(), [], set()

        def handle_starttag(self, tag, attributes):
            found = dict(attributes)
            self.tags.add(tag)
            self.ids |= {found["id"]} if "id" in found else set()
            self.links += [found[name] for name in ("href", "src") if name in found]

    def test_it_stands_alone(self, client):
        answer = client.get("/docs")
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        reader = self.Reader()
        reader.feed(answer.text)
        assert not reader.tags & {"script", "link", "img", "iframe"}
        assert all(link == "/openapi.json" or link[1:] in reader.ids for link in reader.links), reader.links

    def test_it_names_every_address(self, client):
        page = client.get("/docs").text
        assert all(path in page for _, path in ADDRESSES)
