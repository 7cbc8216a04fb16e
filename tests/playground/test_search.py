"""The documents, the index and the features."""

from __future__ import annotations

import sqlite3
from collections import Counter

import numpy as np
import pytest
from tests.playground.conftest import HARM

from duelrank.core.errors import DataFormatError, MissingExtra
from duelrank.playground import Search, read_library
from duelrank.playground.search import FEATURES, Document, exactness, static_features, words


class TestDocuments:
    def test_modules_classes_methods_and_functions(self, library):
        kinds = {each.id: each.kind for each in library.documents}
        assert kinds["files"] == "module"
        assert kinds["files.part0"] == "module"
        assert kinds["files.part0.File0"] == "class"
        assert kinds["files.part0.File0.read"] == "function"
        assert kinds["files.part0.read_file_0_0"] == "function"
        assert len(library.documents) == 1 + 6 * (1 + 5 + 3) + 2 + 1

    def test_nothing_is_imported_and_what_cannot_be_read_is_left_out(self, library):
        ids = {each.id for each in library.documents}
        assert "trap" in ids  # it would have ended this process
        assert "broken" not in ids
        assert not any(id.startswith("test") for id in ids)

    def test_summary_and_body(self, library):
        found = next(each for each in library.documents if each.id == "files")
        assert (found.name, found.summary, found.body) == ("files", "Work with files.", "More about files.")

    def test_importers(self, library):
        assert library.importers["os"] == 2
        assert library.importers["files"] == 5  # from . import

    def test_a_python_without_sources(self, tmp_path):
        with pytest.raises(DataFormatError, match="no Python source files"):
            read_library(tmp_path)

    @pytest.mark.slow
    def test_the_standard_library_of_this_python(self):
        found = read_library()
        by_id = {each.id: each for each in found.documents}
        assert len(by_id) == len(found.documents) > 5000
        assert by_id["json.dumps"].kind == "function"
        assert by_id["json.dumps"].summary.startswith("Serialize")
        assert found.importers["os"] > 50


class TestFeatures:
    def test_names_in_words(self):
        assert words("json.JSONDecoder.raw_decode") == "json JSON Decoder JSONDecoder raw decode"

    @pytest.mark.parametrize(
        ("query", "name", "expected"),
        [
            ("read", "read", 1.0),
            ("READ", "read", 1.0),
            ("read", "readline", 0.5),
            ("read line", "readline", 1.0),
            ("write", "read", 0.0),
            ("read", "_read", 1.0),
            ("read read", "readline", 0.5),
            ("", "read", 0.0),
        ],
    )
    def test_exactness(self, query, name, expected):
        assert exactness(query, name) == expected

    def test_of_a_document(self):
        document = Document("a._b.Thing", "class", "a._b", "One two.\n\nThree.")
        values = static_features([document], Counter({"a._b": 3}))[0]
        named = dict(zip(list(FEATURES)[4:], values, strict=True))
        assert named == pytest.approx(
            {
                "class": 1.0,
                "module": 0.0,
                "private": 1.0,
                "depth": 2.0,
                "length": 5.0,
                "words": np.log(4.0),
                "imports": np.log(4.0),
            }
        )


class TestSearch:
    def test_candidates_and_their_features(self, search):
        found = search.candidates("read file")
        assert len(found.documents) == 50 < len(search.documents)
        assert found.features.shape == (50, len(FEATURES))
        assert np.isfinite(found.features).all()
        assert (found.features[:, :3] >= 0.0).all()
        assert found.features[:, 0].max() > 0.0
        exact = [row for each, row in zip(found.documents, found.features, strict=True) if each.name == "read"]
        assert exact[0][3] == 1.0

    def test_bm25_is_of_each_column_by_itself(self, search):
        found = search.candidates("secret")
        assert {each.name for each in found.documents} == {"_hidden"}
        assert (found.features[:, 0] == 0.0).all()
        assert (found.features[:, 1] > 0.0).all()
        assert (found.features[:, 2] == 0.0).all()

    def test_words_may_be_begun_only(self, search):
        assert any(each.id == "harm" for each in search.candidates("har").documents)

    @pytest.mark.parametrize("query", ["", "   ", "…", '"', "*", "NEAR(", "zzzzzz"])
    def test_what_finds_nothing(self, search, query):
        found = search.candidates(query)
        assert (len(found.documents), found.features.shape) == (0, (0, len(FEATURES)))

    @pytest.mark.parametrize(
        "query", ['read" OR "x', "read AND NOT file", "name:read", "read_file", "read " * 500, HARM]
    )
    def test_no_query_is_an_expression(self, search, query):
        assert search.candidates(query).features.shape[1] == len(FEATURES)

    def test_by_name(self, search):
        assert search.document("harm.harm").text == f"Harm a file {HARM}."
        assert search.document("nothing") is None

    def test_a_sqlite_without_full_text_search(self, library, monkeypatch):
        class Poor:
            def execute(self, *_):
                raise sqlite3.OperationalError("no such module: fts5")

        monkeypatch.setattr(sqlite3, "connect", lambda *_, **__: Poor())
        with pytest.raises(MissingExtra, match=r"FTS5, which the SQLite .* does not have \(no such module: fts5\)"):
            Search(library)
