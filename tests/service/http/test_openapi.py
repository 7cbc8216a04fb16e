"""The description is true: whatever it allows is answered as it says, and never with a server error.

DUELRANK_SOAK multiplies the number of requests that are tried.
"""

import json
import re
from html.parser import HTMLParser

import pytest
import requests
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from tests.effort import examples
from tests.service.http.conftest import DOCUMENTS

from duelrank.service.http.errors import PROBLEMS
from duelrank.service.http.openapi import openapi_document
from duelrank.service.http.routes import OPERATIONS

DOCUMENT = openapi_document(OPERATIONS, "1")
ADDRESSES = [(one.method, one.path) for one in OPERATIONS if not one.hidden]


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
@pytest.mark.parametrize(("which", "tries"), [("client", 2), ("real_client", 5)])
def test_whatever_comes_is_answered_as_described(
    request, schemathesis, schema, checks, which, tries, method, path, mode
):
    """Also by the service that only remembers: a test that believes its answers should believe what could be true."""
    client = request.getfixturevalue(which)
    client.post("/v1/rankers/shop/rank", json={"impression_id": "i1", "documents": DOCUMENTS})

    @given(
        case=schema[path][method].as_strategy(generation_mode=schemathesis.GenerationMode(mode)), known=st.booleans()
    )
    @examples(tries, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
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

    def test_generators_of_clients_can_read_it(self):
        """They compile neither ``anyOf`` nor a union of which every part is null or one type."""
        text = json.dumps(DOCUMENT)
        assert "anyOf" not in text
        assert '"oneOf"' in text
        for choices in map(json.loads, re.findall(r'"oneOf": (\[[^\[\]]*\])', text)):
            simple = [each for each in choices if "$ref" not in each]
            assert len({"number" if each["type"] == "integer" else each["type"] for each in simple}) == len(simple)
            assert len(choices) > 2 or {"type": "null"} not in choices or len(simple) == 1

    def test_teams_are_not_revealed(self):
        ranked = DOCUMENT["components"]["schemas"]["RankedDocument"]["properties"]
        assert set(ranked) == {"id", "position", "score", "explain", "deviation", "memory", "placed"}

    def test_a_ranker_has_at_least_one_feature(self, client):
        assert DOCUMENT["components"]["schemas"]["RankerSpec"]["properties"]["features"]["minItems"] == 1
        refused = client.post("/v1/rankers", json={"name": "empty", "algorithm": "mgd", "features": []})
        assert (refused.status_code, refused.json()["type"]) == (422, "/docs#wrong-shape")

    def test_all_statuses_are_documented_somewhere(self):
        said = {status for each in DOCUMENT["paths"].values() for one in each.values() for status in one["responses"]}
        assert {str(kind.status) for kind in PROBLEMS.values()} <= said


class TestExamples:
    """The bodies that the page offers work, in the order of the document, on the real service."""

    @staticmethod
    def bodies(path, operation):
        for media, content in operation.get("requestBody", {"content": {}})["content"].items():
            for example in content.get("examples", {}).values():
                yield media, example["value"] if isinstance(example["value"], str) else json.dumps(example["value"])

    def test_every_operation_that_takes_a_body_has_one(self):
        for path, each in DOCUMENT["paths"].items():
            for one in each.values():
                assert ("requestBody" in one) == bool(list(self.bodies(path, one)))

    def test_they_are_answered(self, bare_client):
        created = DOCUMENT["paths"]["/v1/rankers"]["post"]
        for media, body in self.bodies("/v1/rankers", created):
            assert bare_client.post("/v1/rankers", content=body, headers={"content-type": media}).status_code == 201
        for path, each in DOCUMENT["paths"].items():
            for method, one in each.items():
                names = [each["example"] for each in one["parameters"] if each["name"] == "name"]
                for media, body in self.bodies(path, one):
                    answer = bare_client.request(
                        method, path.replace("{name}", *(names or [""])), content=body, headers={"content-type": media}
                    )
                    assert answer.status_code in (200, 201), (path, body, answer.text)
                    assert "feedback" not in path or answer.json()["invalid"] == []


class TestPage:
    class Reader(HTMLParser):
        def __init__(self):
            super().__init__()
            self.links, self.ids, self.inline = [], set(), []

        def handle_starttag(self, tag, attributes):
            found = dict(attributes)
            self.ids |= {found["id"]} if "id" in found else set()
            self.links += [found[name] for name in ("href", "src") if name in found]
            self.inline += [tag] if tag == "style" or (tag == "script" and "src" not in found) else []

    @pytest.fixture
    def page(self, client):
        reader = self.Reader()
        reader.feed(client.get("/docs").text)
        return reader

    def test_it_asks_no_other_machine(self, client, page):
        policy = client.get("/docs").headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "http" not in policy
        assert page.inline == []
        assert {"/docs/swagger-ui-bundle.js", "/docs/start.js", "/docs/swagger-ui.css"} <= set(page.links)
        for link in page.links:
            assert link.startswith(("/docs/", "data:")), link
            if link.startswith("/"):
                loaded = client.get(link)
                assert loaded.status_code == 200
                assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", loaded.text), link
                assert loaded.headers["content-type"].startswith(("text/css", "text/javascript"))
        assert "//" not in client.get("/docs/start.js").text.replace("// ", "")

    def test_other_files_are_not_given_out(self, client):
        for path in ("/docs/other.js", "/docs/..%2fapp.py", "/docs/__init__.py"):
            assert client.get(path).status_code == 404

    def test_it_shows_the_document(self, client):
        assert '"/openapi.json"' in client.get("/docs/start.js").text
        assert "SwaggerUIBundle" in client.get("/docs/swagger-ui-bundle.js").text

    def test_it_explains_every_problem(self, page):
        assert {kind.slug for kind in PROBLEMS.values()} <= page.ids
