"""Logs: queries, events and features are joined, whatever their order; lists that cannot be used are counted, by reason."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from tests.adapters.logs import NAMES, Log, event, features, generated, query

from duelrank.adapters import ubi
from duelrank.adapters.ubi import FeatureReader, Row, UbiLog, split
from duelrank.core.errors import DataFormatError, StoreFull
from duelrank.service.http.schema import DocumentTable, LoggedImpression


def three(*hits, id="q1"):
    """Features of some documents: 1 for the first, 2 for the second …"""
    return [features(id, each, [float(place)] * 3) for place, each in enumerate(hits, 1)]


def table(*places, ids):
    return DocumentTable(list(ids), b"".join(struct.pack("<3d", *[float(place)] * 3) for place in places), "float64")


@pytest.fixture
def read(tmp_path):
    def read(log, **options):
        history = UbiLog(*([path] for path in log.write(tmp_path).values()), NAMES, **options)
        return list(history.lists()), history

    return read


class TestJoin:
    def test_one_list(self, read):
        log = Log([query("q1", ["a", "b", "c"])], [event("q1", document="b")], three("a", "b", "c"))
        (found,), history = read(log)
        assert found == LoggedImpression("q1", table(1, 2, 3, ids="abc"), ["b"])
        assert (history.counts.lists, history.counts.complete, history.counts.matched) == (1, 1, 1)

    @pytest.mark.parametrize(
        ("text", "wanted", "sent"),
        [("Red Shoes", True, "Red Shoes"), ("Red Shoes", False, None), ({"q": 1}, True, None), (None, True, None)],
    )
    def test_the_text_of_the_query_is_sent_if_it_is_wanted(self, read, text, wanted, sent):
        log = Log([query("q1", ["a"], user_query=text)], [event("q1", document="a")], three("a"))
        (found,), _ = read(log, with_queries=wanted)
        assert found.query == sent

    @pytest.mark.parametrize(
        ("attributes", "context"),
        [
            ({"mobile": 1, "shop": 7}, {"mobile": 1.0}),
            ({"mobile": True, "night": 0.5}, {"mobile": 1.0, "night": 0.5}),
            ({"mobile": "yes"}, {}),
            ("mobile", {}),
        ],
    )
    def test_contexts_are_attributes_of_the_query(self, read, attributes, context):
        log = Log([query("q1", ["a"], query_attributes=attributes)], [event("q1", document="a")], three("a"))
        (found,), history = read(log, context=["mobile", "night"])
        assert (found.context, history.counts.with_context) == (context, int(bool(context)))
        assert read(log)[0][0].context == {}

    def test_whatever_the_order_of_the_files(self, read):
        log = generated(50)
        found, history = read(log)
        assert [each.impression_id for each in found] == [each["query_id"] for each in log.queries]
        clicked = {each["query_id"]: each["event_attributes"]["object"]["object_id"] for each in log.events}
        values = {(each["query_id"], each["object_id"]): list(each["features"].values()) for each in log.features}
        for each, asked in zip(found, log.queries, strict=True):
            assert each.documents.ids == asked["query_response_hit_ids"]
            assert each.clicks == [clicked[each.impression_id]]
            numbers = np.frombuffer(each.documents.features, "<f8").reshape(-1, 3).tolist()
            assert numbers == [values[each.impression_id, id] for id in each.documents.ids]
        assert sum("purchase" in each.actions for each in found) == 10
        assert history.counts.events == history.counts.matched == 60

    def test_all_in_one_file(self, tmp_path):
        log, path = generated(5), tmp_path / "bulk.ndjson"
        records = [*log.events, *log.queries]
        path.write_text("".join(f'{{"index": {{"_index": "x"}}}}\n{json.dumps(each)}\n' for each in records))
        rest = log.write(tmp_path)["features"]
        history = UbiLog([str(path)], [str(path)], [rest], NAMES)
        assert (len(list(history.lists())), history.errors.count) == (5, 0)

    def test_actions_by_name_each_document_once(self, read):
        done = [("purchase", "c"), ("click", "b"), ("click", "c"), ("click", "b"), ("hover", "a"), ("view", "a")]
        log = Log([query("q1", ["a", "b", "c"])], [event("q1", *each) for each in done], three("a", "b", "c"))
        (found,), _ = read(log)
        assert (found.clicks, found.actions) == (["b", "c"], {"purchase": ["c"], "hover": ["a"], "view": ["a"]})
        (found,), _ = read(log, ignore=("view", "hover"))
        assert found.actions == {"purchase": ["c"]}

    def test_numbers_as_ids(self, read):
        log = Log([query("q1", [1, 2])], [event("q1", document=2.0)], three(1, "2"))
        (found,), _ = read(log)
        assert (found.documents.ids, found.clicks) == (["1", "2"], ["2"])

    def test_numbers_as_ids_of_queries(self, read):
        hit = {"_id": "b", "fields": {"_ltrlog": [{"x": [{"name": name, "value": 2.0} for name in NAMES]}]}}
        answer = {"ext": {"ubi": {"query_id": 7}}, "hits": {"hits": [hit]}}
        log = Log([query(7, ["a", "b"])], [event(7.0, document="b")], [*three("a", id=7), answer])
        assert read(log)[0] == [LoggedImpression("7", table(1, 2, ids="ab"), ["b"])]

    def test_a_page_of_a_longer_list(self, read):
        """What was not shown, and has features, is there for the scaling of the shown."""
        events = [event("q1", document="a"), event("q1", document="d")]
        log = Log([query("q1", ["a", "b", "c", "d"])], events, three("a", "b", "-", "d"))
        (found,), history = read(log, length=2)
        assert found == LoggedImpression("q1", table(1, 2, 4, ids="abd"), ["a"], shown=2)
        assert history.counts.elsewhere == 1
        assert read(log)[0] == []

    def test_in_the_precision_of_the_ranker(self, read):
        log = Log(
            [query("q1", ["a"])], [event("q1", document="a")], [features("q1", "a", [0.1, 2.0, 1e40]), *three("a")]
        )
        (found,), history = read(log, precision="float32")
        assert found.documents == DocumentTable(["a"], struct.pack("<3f", 1.0, 1.0, 1.0), "float32")
        assert (history.errors.count, "too large for float32" in history.errors.first[0]) == (1, True)

    def test_features_that_were_logged_twice(self, read):
        log = Log([query("q1", ["a"])], [event("q1", document="a")], [*three("x", "a"), *three("a")])
        assert read(log)[0][0].documents == table(1, ids="a")


class TestLooking:
    @pytest.mark.parametrize(
        ("events", "examined"),
        [
            ([], None),
            ([("impression", "b", None)], 2),
            ([("impression", "b", 9)], 2),  # where the document was is known better
            ([("scroll", None, 3), ("scroll", None, 1)], 3),
            ([("view", None, 2)], 2),
            ([("view", "b", 2)], None),  # of the document's own page
            ([("scroll", None, 12)], 4),
            ([("impression", "other", 3)], 3),
            ([("impression", "other", None)], None),
        ],
    )
    def test_the_deepest_position(self, read, events, examined):
        events = [event("q1", document="a"), *(event("q1", *each) for each in events)]
        (found,), history = read(Log([query("q1", list("abcd"))], events, three(*"abcd")))
        assert found.examined == examined
        assert history.counts.looked == (examined is not None)
        assert history.counts.to_the_end == (examined == 4)

    def test_impressions_of_what_is_rendered_can_be_left_out(self, read):
        events = [event("q1", document="a"), *(event("q1", "impression", each, n) for n, each in enumerate("ab", 1))]
        log = Log([query("q1", list("ab"))], events, three(*"ab"))
        assert read(log)[0][0].examined == 2
        assert read(log, ignore=("impression",))[0][0].examined is None

    def test_a_query_without_hits_has_shown_what_was_in_view_up_to_the_first_gap(self, read):
        events = [event("q1", "impression", each, n) for n, each in ((2, "b"), (1, "a"), (4, "d"), (3, "c"), (6, "f"))]
        log = Log([query("q1", None)], [*events, event("q1", document="c")], three(*"abcdf"))
        for options in ({}, {"ignore": ("impression",)}):
            (found,), _ = read(log, **options)
            assert (found.documents.ids, found.clicks) == (list("abcd"), ["c"])


class TestLeftOut:
    def test_each_for_one_reason(self, read):
        log = Log(
            [query("whole", ["a"]), query("untouched", ["a"]), query("featureless", ["a", "b"]), query("empty", [])],
            [event("whole", document="a"), event("featureless", document="a"), event("empty", document="a"),
             event("untouched", "hover", "a"), event("unknown", document="a"), event(None, document="a"),
             event("whole", "page_exit"), event("whole", document="z")],
            [*three("a", id="whole"), *three("a", id="featureless"), *three("a", id="untouched")],
        )  # fmt: skip
        found, history = read(log)
        counts = history.counts
        assert [each.impression_id for each in found] == ["whole"]
        assert (counts.lists, counts.complete, counts.untouched, counts.incomplete, counts.empty) == (4, 1, 1, 1, 1)
        assert counts.documents_without_features == 1
        assert (counts.events, counts.matched, counts.elsewhere) == (6, 5, 2)

    def test_what_the_ranker_weighs_decides(self, read):
        log = Log([query("q1", ["a"])], [event("q1", "purchase", "a")], three("a"))
        assert read(log)[0] == []
        assert read(log, actions=("click", "purchase"))[0][0].actions == {"purchase": ["a"]}

    def test_a_record_that_makes_no_sense_does_no_harm_to_the_others(self, read):
        log = Log(
            [query([7], ["a"]), {"user_query": "x"}, query("q1", ["a"]), query("q2", "a"), 5],
            [{"query_id": "q1"}, event("q1", document="a"), event("q1") | {"event_attributes": 5}],
            [{"query_id": "q1", "object_id": "a"}, *three("a")],
        )
        found, history = read(log)
        assert [each.impression_id for each in found] == ["q1"]
        assert history.errors.count == 7
        assert "line 1 of" in history.errors.first[0]
        with pytest.raises(DataFormatError, match=r"7 records cannot be read, and --max-errors is 6"):
            read(log, max_errors=6)

    @pytest.mark.parametrize("bad", [{"responses": 5}, {"responses": None}, event("q1", "scroll", ordinal=1e30)])
    def test_a_record_of_a_strange_kind_is_counted_with_its_place(self, read, bad):
        files = ("events",) if "action_name" in bad else ("queries", "events", "features")
        for file in files:
            log = Log([query("q1", ["a"])], [event("q1", document="a")], three("a"))
            getattr(log, file).append(bad)
            found, history = read(log)
            assert (len(found), history.errors.count) == (1, 1)
            assert history.errors.first[0].startswith("line 2 of ")
            assert f"{file}.ndjson: " in history.errors.first[0]

    def test_a_bad_hit_does_no_harm_to_the_others_of_its_answer(self, read):
        hit = {"_id": "a", "fields": {"_ltrlog": [{"x": [{"name": "bm25", "value": 1.0}]}]}}
        answer = {"query_id": "q1", "hits": {"hits": [hit, {"_id": "b"}, hit | {"_id": "c"}]}}
        found, history = read(Log([query("q1", ["a", "c"])], [event("q1", document="a")], [answer]))
        assert (len(found), history.errors.count) == (1, 1)


class TestWorkspace:
    @pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only there one can see files without a name")
    def test_nothing_is_left_even_where_the_process_is_killed(self, tmp_path, monkeypatch):
        """What waits is on the disk, in files that have been removed already."""
        monkeypatch.setattr(ubi, "SETTINGS", ubi.SETTINGS.replace("-65536", "-10"))  # a cache of 10 KiB
        before = set(_open_files())
        lists = UbiLog(*([path] for path in generated(500).write(tmp_path).values()), NAMES).lists()
        next(lists)
        ours = {file for file in set(_open_files()) - before if file.parent != tmp_path}
        assert ours
        assert all(file.name.endswith(" (deleted)") for file in ours)
        lists.close()
        assert set(_open_files()) <= before

    def test_a_full_disk(self):
        with ubi.workspace() as found:
            found._database.execute("PRAGMA max_page_count = 10")
            with pytest.raises(StoreFull, match="TMPDIR"):
                found.add_features(Row(f"q{number}", f"d{number}" * 100, b"") for number in range(1000))


def _open_files():
    return [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]


def feature_row(*values, id="d1"):
    return Row("q1", id, struct.pack("<3d", *values))


def read_features(record):
    reader = FeatureReader(NAMES)
    return [reader.row(part) for part in split(record)], reader


LOGGED = [{"main": [{"name": "rating", "value": 2}, {"name": "bm25", "value": 1.5}, {"name": "price"}]}]
HIT = {"_index": "shop", "_id": "d1", "_score": 3.0, "_source": {"title": "x"}, "fields": {"_ltrlog": LOGGED}}
SOLR = {"responseHeader": {}, "response": {"docs": [{"id": "d1", "[features]": "rating=2.0,bm25=1.5,price=0.0"}]}}
FORMS = {
    "by name": {"query_id": "q1", "object_id": "d1", "features": {"price": 0, "rating": 2, "bm25": 1.5}},
    "in order": {"query_id": "q1", "object_id": "d1", "features": [1.5, 2, 0]},
    "document_id": {"query_id": "q1", "document_id": "d1", "features": [1.5, 2, 0]},
    "in an index": {"_id": "x", "_source": {"query_id": "q1", "object_id": "d1", "features": [1.5, 2, 0]}},
    "an answer of Elasticsearch": {"query_id": "q1", "hits": {"hits": [HIT]}},
    "an answer of OpenSearch": {"ext": {"ubi": {"query_id": "q1"}}, "hits": {"hits": [HIT]}},
    "several answers": {"responses": [{"ext": {"ubi": {"query_id": "q1"}}, "hits": {"hits": [HIT]}}]},
    "an answer of Solr": SOLR | {"ubi": {"query_id": "q1"}},
}


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_of_features_are_equal(form):
    found, reader = read_features(FORMS[form])
    assert found == [feature_row(1.5, 2.0, 0.0)]
    assert (reader.missing, reader.unused) == ({}, set())


def test_features_of_all_hits_of_a_response():
    found, _ = read_features({"query_id": "q1", "hits": {"hits": [HIT | {"_id": 12}, HIT | {"_id": "d2"}]}})
    assert [each.document for each in found] == ["12", "d2"]


def test_missing_features_are_zero_and_unknown_ones_are_ignored():
    reader = FeatureReader(NAMES)
    for values in ({"bm25": 1.0, "color": 3.0}, {"bm25": 1.0, "price": None, "rating": 2.0}):
        reader.row((None, {"query_id": "q1", "object_id": "d1", "features": values}))
    assert reader.missing == {"rating": 1, "price": 2}
    assert reader.unused == {"color"}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"query_id": "q1", "features": [1, 2, 3]}, "object_id"),
        ({"object_id": "d1", "features": [1, 2, 3]}, "query_id"),
        ({"query_id": "q1", "object_id": "d1"}, "features"),
        ({"query_id": "q1", "object_id": "d1", "features": [1, 2]}, "has 3 features, this document has 2"),
        ({"query_id": "q1", "object_id": "d1", "features": {"bm25": "high"}}, "Expected"),
        (
            {"query_id": "q1", "object_id": "d1", "features": {"BM25": 1.0}},
            r"has none of the ranker's features \(bm25, ",
        ),
        ({"query_id": "q1", "object_id": "d1", "features": {}}, "none of the ranker's features"),
        ({"hits": {"hits": [HIT]}}, "ext.ubi.query_id"),
        ({"query_id": "q1", "hits": {"hits": [{"fields": {"_ltrlog": LOGGED}}]}}, "_id"),
        ({"query_id": "q1", "hits": {"hits": [{"_id": "d1", "_source": {}}]}}, "_ltrlog"),
        ({"query_id": "q1", "response": {"docs": [{"id": "d1", "[features]": "bm25=high"}]}}, "name=value"),
        ({"query_id": "q1", "response": {}}, "response.docs"),
    ],
)
def test_unusable_features(record, reason):
    with pytest.raises(DataFormatError, match=reason):
        read_features(record)
