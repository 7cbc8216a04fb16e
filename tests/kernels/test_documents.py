"""The kernel of requests against its reference and against msgspec, which reads what the kernel leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.reference import documents as reference

from duelrank.kernels import documents as kernels
from duelrank.kernels.documents import READ, UNUSUAL
from duelrank.service.http.decoding import array_reader
from duelrank.service.http.schema import RankRequest

BLANKS = st.text(" \t\r\n", max_size=2)
NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1, 1).map(lambda value: f"{value:.6f}"),
    st.integers(-(10**17), 10**17).map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
    st.sampled_from(["0", "-0", "-0.0", "-0e1", "5e-324", "1e-400", "1.7976931348623157e308", "0.1000000000000000055"]),
)
TEXTS = st.text(st.characters(exclude_characters='"\\', min_codepoint=32, exclude_categories=["Cs"]), max_size=5)


@st.composite
def bodies(draw: Any) -> bytes:
    """Requests that have nothing unusual, but spaces."""
    width = draw(st.integers(1, 4))

    def spaced(*tokens: str) -> str:
        return "".join(draw(BLANKS) + token for token in tokens) + draw(BLANKS)

    def document() -> str:
        numbers = ",".join(spaced(draw(NUMBERS)) for _ in range(width))
        fields = [spaced('"id"', ":", f'"{draw(TEXTS)}"'), spaced('"features"', ":", f"[{numbers}]")]
        return spaced("{" + ",".join(draw(st.permutations(fields))) + "}")

    documents = ",".join(document() for _ in range(draw(st.integers(1, 4))))
    fields = [spaced('"documents"', ":", f"[{documents}]")]
    fields += [spaced('"impression_id"', ":", f'"{draw(TEXTS)}["')] * draw(st.booleans())
    fields += [spaced('"length"', ":", "3")] * draw(st.booleans())
    return ("{" + ",".join(draw(st.permutations(fields))) + "}").encode()


def read(kernel: Any, body: bytes) -> tuple[int, Any, Any, list[int]]:
    text, found = np.frombuffer(body, np.uint8), np.zeros(5, np.int64)
    values, ids = np.empty(len(body) // 2 + 1), np.empty(len(body), np.uint8)
    code = kernel(text, values, ids, found)
    return code, values[: found[2] * found[3]].tobytes(), ids[: found[4]].tobytes(), found.tolist()


@given(bodies())
@examples(300)
def test_usual_bodies(body: bytes) -> None:
    expected = read(reference.read_documents, body)
    assert expected[0] == READ
    numbers = msgspec.json.decode(body, type=RankRequest).documents
    expected = expected[0], np.array([each.features for each in numbers], float).tobytes(), *expected[2:]
    assert read(kernels.read_documents, body) == read(kernels.read_documents_aside, body) == expected


def check_same_or_left(body: bytes) -> None:
    """A body is read as msgspec reads it, or left to msgspec."""
    found = array_reader.read(body, False)
    if found is None:
        return
    wanted = msgspec.json.decode(body, type=RankRequest)
    assert (found.impression_id, found.length, found.explain) == (wanted.impression_id, wanted.length, wanted.explain)
    assert found.documents.ids == [each.id for each in wanted.documents]
    assert found.documents.array.tobytes() == np.array([each.features for each in wanted.documents], float).tobytes()


@given(bodies(), st.data())
@examples(500)
def test_changed_bodies(body: bytes, data: Any) -> None:
    start = data.draw(st.integers(0, len(body)))
    stop = data.draw(st.integers(start, min(start + 3, len(body))))
    characters = st.sampled_from([*'0123456789eE+-.,:"\\[]{} \n\0\x7fé', "null", '"id":', '"documents":[],', "\xff"])
    inserted = "".join(data.draw(st.lists(characters, max_size=3))).encode("latin-1")
    check_same_or_left(body[:start] + inserted + body[stop:])


LIST = b'[{"id":"a","features":[1,2.5]}]'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{}",
        b"[]",
        b'{"documents":' + LIST,
        b'{"documents":' + LIST + b"} ",
        b'{"documents":' + LIST + b"}}",
        b'{"documents":' + LIST + b',"documents":' + LIST + b"}",
        b'{"documents":[]}',
        b'{"documents":[{"id":"a","features":[]}]}',
        b'{"documents":[{"id":"a","features":{"f":1}}]}',
        b'{"documents":[{"id":"\\u0061","features":[1]}]}',
        b'{"documents":[{"id":"a\x1f","features":[1]}]}',
        b'{"documents":[{"id":"\xff","features":[1]}]}',
        b'{"documents":[{"id":"a","id":"b","features":[1]}]}',
        b'{"documents":[{"id":"a","features":[1],"features":[1]}]}',
        b'{"documents":[{"id":"a","features":[1],"more":1}]}',
        b'{"documents":[{"id":"a","features":[1]},{"id":"b","features":[1,2]}]}',
        b'{"documents":[{"id":"a","features":[1]},]}',
        b'{"documents":[{"id":1,"features":[1]}]}',
        b'{"documents":{"ids":["a"],"features":"AACAPw=="}}',
        b'{"document\\u0073":' + LIST + b"}",
        b'{"documents":' + LIST + b',"length":"x"}',
        b'{"documents":' + LIST + b',"length":}',
        b'{"documents":' + LIST + b',"more":1}',
        b'{"documents":' + LIST + b',"explain":[1]}',
        *(
            b'{"documents":[{"id":"a","features":[%b]}]}' % number
            for number in b"01 1. .5 1.e5 +1 - 1e 1e400 NaN null 1234567890123456789 1,,2".split()
        ),
    ],
)
def test_what_is_left_to_a_general_decoder(body: bytes) -> None:
    assert array_reader.read(body, False) is None
    assert array_reader.read(body, True) is None


def test_unusual_is_a_code_of_the_kernel() -> None:
    assert read(kernels.read_documents, b'{"documents":{}}')[0] == UNUSUAL


CUT = """
import numpy as np
from duelrank.kernels.documents import read_documents
body = b'{"length" : 3 , "documents":[{"id":"a","features":[1,-2.5e3]}, {"features" : [ 3,4 ] , "id" : "b" }]}'
for start in range(len(body) + 1):
    for stop in range(start, len(body) + 1):
        for end in (b"}", b'"}', b'\\\\"}', b"e}", b"-}", b"1.}", b":}", b",}", b"[}", b"{}", b"{}}", b"]}"):
            text = np.frombuffer(body[:start] + end + body[stop:], np.uint8)
            read_documents(text, np.empty(len(text) // 2 + 1), np.empty(len(text), np.uint8), np.zeros(5, np.int64))
        if stop > start + 3:
            break
"""


def test_it_never_reads_beyond_the_end() -> None:
    """In plain Python, an index beyond the end is an error."""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-c", CUT], check=True, env=environment)
