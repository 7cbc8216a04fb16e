"""Records of files in all the forms in which engines and tools write them."""

import gzip
import io
import json
import sys

import pytest
from tests.ubi.logs import event, query

from duelrank.adapters import ubi as records
from duelrank.adapters.ubi import Place, Troubles, check_files, read_records, sources
from duelrank.core.errors import DataFormatError, InvalidValue, MissingData

EVENTS = [event("q1", document="d1"), event("q2", document="é"), event("q2", "purchase", "d3", note="[{,\n]")]


def lines(values):
    return b"".join(json.dumps(each).encode() + b"\n" for each in values)


HITS = [
    {"_index": "ubi_events", "_id": f"{place}", "_score": 1.0, "_source": each} for place, each in enumerate(EVENTS)
]
ANSWER = {"took": 1, "_scroll_id": "x", "hits": {"total": {"value": 3}, "hits": HITS}}
FORMS = {
    "lines": lines(EVENTS),
    "lines without an end": lines(EVENTS).rstrip(),
    "lines of Windows": b"\xef\xbb\xbf" + lines(EVENTS).replace(b"\n", b"\r\n\r\n"),
    "letters that are not ASCII": "\n".join(json.dumps(each, ensure_ascii=False) for each in EVENTS).encode(),
    "hits": lines(HITS),
    "a bulk request": lines([{"index": {"_index": "ubi_events"}}, EVENTS[0], {"create": {}}, EVENTS[1], {"index": {}}, EVENTS[2]]),
    "a search answer": lines([ANSWER]),
    "scrolled answers": lines([{"hits": {"hits": HITS[:2]}}, {"hits": {"hits": HITS[2:]}}, {"hits": {"hits": []}}]),
    "several searches": lines([{"responses": [{"hits": {"hits": HITS[:1]}}, {"hits": {"hits": HITS[1:]}}]}]),
    "an indented answer": json.dumps(ANSWER, indent=2).encode(),
    "an array": json.dumps(EVENTS).encode(),
    "an indented array": b"\xef\xbb\xbf \n" + json.dumps(EVENTS, indent=2, ensure_ascii=False).encode(),
    "an array of hits": json.dumps(HITS, indent="\t").encode(),
    "objects one after the other": b"\n".join(json.dumps(each, indent=2).encode() for each in EVENTS),
}  # fmt: skip


def read(*files, most=0):
    troubles = Troubles(most)
    found = [source for record, _ in read_records(files, troubles, lambda *_: None) for source in sources(record)]
    return found, troubles


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("stdin", [False, True])
@pytest.mark.parametrize("piece", [7, 1 << 20])
def test_all_forms_have_the_same_meaning(form, packed, stdin, piece, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "PIECE", piece)
    content = gzip.compress(FORMS[form]) if packed else FORMS[form]
    (tmp_path / "log").write_bytes(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert read("-" if stdin else str(tmp_path / "log"))[0] == EVENTS


def test_several_files_one_after_the_other(tmp_path):
    for name, values in (("one", EVENTS[:2]), ("none", []), ("two", EVENTS[2:])):
        (tmp_path / name).write_bytes(lines(values))
    assert read(*(str(tmp_path / name) for name in ("one", "none", "two")))[0] == EVENTS


class TestProgress:
    def test_in_bytes_of_the_files_and_up_to_the_end(self, tmp_path, monkeypatch):
        monkeypatch.setattr(records, "TELL_EVERY", 1)
        (tmp_path / "a").write_bytes(gzip.compress(lines(EVENTS)))
        (tmp_path / "b").write_bytes(lines(EVENTS * 3))
        total, told = sum((tmp_path / name).stat().st_size for name in "ab"), []
        files = [str(tmp_path / name) for name in "ab"]
        list(read_records(files, Troubles(0), lambda done, all: told.append((done, all))))
        assert [done for done, _ in told] == sorted(done for done, _ in told)
        assert told[-1] == (total, total)
        assert {all for _, all in told} == {total}

    def test_of_stdin_nobody_knows_the_end(self, monkeypatch):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines(EVENTS))))
        told = []
        list(read_records(["-"], Troubles(0), lambda done, all: told.append((done, all))))
        assert told[-1] == (len(lines(EVENTS)), None)


class TestTrouble:
    def test_an_unreadable_line_is_counted_with_its_place(self, tmp_path):
        path = tmp_path / "log"
        path.write_bytes(b'{"a": 1}\n\n{"a": \n\xff\n' + b"[" * 50_000 + b'\n{"a": 2}\n')
        found, troubles = read(str(path), most=3)
        assert (found, troubles.count) == ([{"a": 1}, {"a": 2}], 3)
        assert [reason.partition(":")[0] for reason in troubles.first] == [f"line {n} of {path}" for n in (3, 4, 5)]

    def test_too_many_stop_it(self, tmp_path):
        (tmp_path / "log").write_text("time,action\n" * 5)
        with pytest.raises(
            DataFormatError, match=r"3 records cannot be used, and --max-errors is 2; the first is line 1 of"
        ):
            read(str(tmp_path / "log"), most=2)

    @pytest.mark.parametrize("content", [b"[{}, {", b"[{} nonsense {}]", b"{\n", b'[{"a": "\xff"}]'])
    def test_without_lines_there_is_nowhere_to_go_on(self, content, tmp_path):
        (tmp_path / "log").write_bytes(content)
        with pytest.raises(DataFormatError, match=r"valid JSON|UTF-8"):
            read(str(tmp_path / "log"), most=100)

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
    @pytest.mark.parametrize("text", ['{"a": 1}\r\n', '[\r\n{"a": 1}]'])
    def test_what_windows_powershell_writes(self, encoding, text, tmp_path):
        (tmp_path / "log").write_bytes(text.encode(encoding))
        with pytest.raises(DataFormatError, match=r"log is in UTF-16.* convert it to UTF-8"):
            read(str(tmp_path / "log"), most=100)

    def test_a_cut_off_archive(self, tmp_path):
        (tmp_path / "log").write_bytes(gzip.compress(lines(EVENTS * 100))[:-20])
        with pytest.raises(DataFormatError, match="damaged, or not all of it is there"):
            read(str(tmp_path / "log"))

    def test_a_line_without_end(self, tmp_path, monkeypatch):
        monkeypatch.setattr(records, "LONGEST", 1000)
        (tmp_path / "log").write_text("x" * 1001)
        with pytest.raises(DataFormatError, match="one record per line"):
            read(str(tmp_path / "log"))

    @pytest.mark.parametrize("bad", [r'"\ud800"', "Infinity", "1" * 5000, "1e400"])
    @pytest.mark.parametrize("form", ["[{}]", "{}"])
    def test_what_only_looks_like_json_does_no_harm_to_the_others(self, bad, form, tmp_path):
        path = tmp_path / "log"
        lines = ('{"a": 1}', f'{{"a": {bad}}}', '{"a": 2}')
        path.write_text("[" + ",\n".join(lines) + "]" if form == "[{}]" else "\n".join(lines))
        found, troubles = read(str(path), most=1)
        assert (found, troubles.count) == ([{"a": 1}, {"a": 2}], 1)
        assert troubles.first[0].startswith(f"{'record' if form == '[{}]' else 'line'} 2 of {path}: no valid JSON")

    @pytest.mark.parametrize(
        "record",
        [
            5,
            [],
            {"hits": 5},
            {"hits": {}},
            {"_source": 3},
            {"responses": [{"hits": []}]},
            {"responses": 5},
            {"responses": None},
        ],
    )
    def test_what_is_no_record(self, record):
        with pytest.raises(DataFormatError):
            list(sources(record))


def test_files_are_looked_for_before_any_is_read(tmp_path):
    (tmp_path / "there").write_text("")
    check_files([str(tmp_path / "there"), "-"], [])
    for missing in (tmp_path / "not", tmp_path):
        with pytest.raises(MissingData, match="there is no file"):
            check_files([str(tmp_path / "there")], [str(missing)])
    with pytest.raises(InvalidValue, match="stdin"):
        check_files(["-"], ["-"])


def test_a_query_whose_only_field_is_called_like_a_bulk_action_is_none():
    assert list(sources({"index": {"_index": "x"}})) == []
    assert list(sources(query("q1", []))) == [query("q1", [])]
    assert str(Place("-", 1234)) == "line 1,234 of stdin"
