"""Logs as tables: rows become lists, whatever their order and the names of the columns; errors name the row and the column."""

import csv
import gzip
import random

import numpy as np
import pytest
from tests.adapters.logs import NAMES, generated

from duelrank.adapters import tables, ubi
from duelrank.adapters.tables import TableLog, feature_columns, parse_columns
from duelrank.adapters.ubi import UbiLog
from duelrank.core.errors import DataFormatError, InvalidValue, MissingData, MissingExtra

HEADER = "list,query,document,position,clicked,bm25,rating,price"


def rows_of(log):
    """The rows of a generated log."""
    clicks = {(each["query_id"], each["action_name"]): each for each in log.events}
    values = {(each["query_id"], each["object_id"]): each["features"] for each in log.features}
    for asked in log.queries:
        id = asked["query_id"]
        for position, document in enumerate(asked["query_response_hit_ids"], 1):
            done = {
                name: (id, name) in clicks and clicks[id, name]["event_attributes"]["object"]["object_id"] == document
                for name in ("click", "purchase")
            }
            yield {
                "list": id, "query": "shoes", "document": document, "position": position, "clicked": int(done["click"]),
                "purchase": int(done["purchase"]),
            } | values[id, document]  # fmt: skip


def write(path, rows, **options):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), **options)
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


@pytest.fixture
def read(tmp_path):
    def read(text, *columns, names=NAMES, **options):
        path = tmp_path / "clicks.csv"
        path.write_text(text)
        log = TableLog([str(path)], names, parse_columns(columns), **options)
        return list(log.lists()), log

    return read


def short(lists):
    return [(each.documents.ids, each.clicks) for each in lists]


class TestSameAsUbi:
    @pytest.fixture
    def log(self):
        return generated(60)

    @pytest.fixture
    def expected(self, log, tmp_path):
        files = ([path] for path in log.write(tmp_path).values())
        return list(UbiLog(*files, NAMES, actions=("click", "purchase"), with_queries=True).lists())

    def lists(self, *files, **options):
        return list(TableLog(files, NAMES, actions=("click", "purchase"), with_queries=True, **options).lists())

    def test_csv(self, log, expected, tmp_path):
        assert self.lists(write(tmp_path / "clicks.csv", list(rows_of(log)))) == expected

    @pytest.mark.parametrize("delimiter", [";", "\t", "|"])
    def test_other_delimiters(self, log, expected, tmp_path, delimiter):
        assert self.lists(write(tmp_path / "clicks.csv", list(rows_of(log)), delimiter=delimiter)) == expected

    def test_gzip_and_the_mark_of_excel(self, log, expected, tmp_path):
        path = tmp_path / "clicks.csv"
        write(path, list(rows_of(log)))
        path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + path.read_bytes()))
        assert self.lists(str(path)) == expected

    def test_rows_in_any_order_over_several_files(self, log, expected, tmp_path):
        rows = list(rows_of(log))
        random.Random(1).shuffle(rows)
        files = [write(tmp_path / f"{part}.csv", rows[part::2]) for part in range(2)]
        key = lambda each: each.impression_id  # noqa: E731
        assert sorted(self.lists(*files), key=key) == sorted(expected, key=key)

    def test_parquet(self, log, expected, tmp_path, monkeypatch):
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
        monkeypatch.setattr(tables, "BATCH", 7)
        pandas.DataFrame(rows_of(log)).to_parquet(tmp_path / "clicks.parquet")
        assert self.lists(str(tmp_path / "clicks.parquet")) == expected


class TestLists:
    """Which rows are one list."""

    def test_without_ids_a_list_ends_where_the_query_changes_or_the_position_does_not_increase(self, read):
        found, _ = read(
            "query,document,position,clicked,bm25\n"
            "shoes,a,1,0,1\nshoes,b,2,1,2\nshoes,a,1,1,1\nshoes,b,2,0,2\nboots,c,1,1,1\n",
            names=["bm25"],
        )
        assert short(found) == [(["a", "b"], ["b"]), (["a", "b"], ["a"]), (["c"], ["c"])]

    def test_without_positions_the_order_is_that_of_the_rows(self, read):
        found, _ = read(
            "query,document,clicked,bm25\nshoes,b,0,1\nshoes,a,1,2\nshoes,b,1,1\nshoes,a,0,2\n", names=["bm25"]
        )
        assert short(found) == [(["b", "a"], ["a"]), (["b", "a"], ["b"])]

    def test_rows_of_a_time_and_user_are_one_list_and_lists_are_in_order_of_time(self, read):
        found, _ = read(
            "query,user,time,document,position,clicked,bm25\n"
            "shoes,2,2026-01-02,b,2,1,1\nshoes,1,2026-01-01,a,1,1,1\nshoes,2,2026-01-02,a,1,0,1\n",
            names=["bm25"],
        )
        assert short(found) == [(["a"], ["a"]), (["a", "b"], ["b"])]

    def test_ids_without_a_column_are_the_same_in_the_next_run_and_differ_for_equal_lists(self, read):
        text = "query,document,clicked,bm25\n" + "shoes,a,1,1\nboots,b,1,1\n" * 3
        ids = [each.impression_id for each in read(text, names=["bm25"])[0]]
        assert len(set(ids)) == 6
        assert [each.impression_id for each in read(text + "shoes,a,1,1\n", names=["bm25"])[0]][:6] == ids

    def test_several_actions_on_a_document_may_be_several_rows(self, read):
        found, log = read(
            "list,document,position,action,bm25\nq,a,1,,1\nq,b,2,click,2\nq,b,2,purchase,2\nq,c,3,hover,3\n",
            names=["bm25"], actions=("click", "purchase"), ignore=("hover",),
        )  # fmt: skip
        assert (short(found), found[0].actions) == ([(["a", "b", "c"], ["b"])], {"purchase": ["b"]})
        assert log.counts.events == 3

    def test_documents_without_a_position_were_not_shown(self, read):
        found, log = read(
            "list,document,position,clicked,bm25\nq,c,,1,3\nq,b,2,1,2\nq,a,1,0,1\n", names=["bm25"], precision="float32"
        )
        assert (short(found), found[0].shown) == ([(["a", "b", "c"], ["b"])], 2)
        assert np.frombuffer(found[0].documents.features, "<f4").tolist() == [1, 2, 3]
        assert log.counts.elsewhere == 1

    def test_length_is_the_end_of_the_page(self, read):
        text = "list,document,position,clicked,bm25\nq,a,1,1,1\nq,b,2,0,2\nq,c,3,1,3\n"
        (found,), log = read(text, names=["bm25"], length=2)
        assert (found.documents.ids, found.shown, found.clicks, log.counts.elsewhere) == (["a", "b", "c"], 2, ["a"], 1)

    def test_how_far_the_user_looked_and_the_context(self, read):
        (found,), _ = read(
            "list,document,clicked,seen,phone,bm25\nq,a,1,true,1,1\nq,b,0,yes,1,2\nq,c,0,no,1,3\n",
            "mobile=phone", names=["bm25"], context=("mobile",),
        )  # fmt: skip
        assert (found.examined, found.context) == (2, {"mobile": 1.0})

    def test_missing_values(self, read):
        (found,), log = read(
            "list,document,clicked,bm25,price\nq,a,1,,\nq,b,\\N,2,nan\n", names=["bm25", "price"], lacking=["price"]
        )
        values = np.frombuffer(found.documents.features, "<f8").reshape(2, 2)
        assert np.array_equal(values, [[0, np.nan], [2, np.nan]], equal_nan=True)
        assert dict(log.reader.missing) == {"bm25": 1}

    def test_a_feature_that_is_called_like_a_role(self, read):
        (found,), _ = read(
            "list,document,clicked,age\nq,a,1,5\nq,b,0,6\n", "ranker.time=age", names=["time"]
        )  # fmt: skip
        assert np.frombuffer(found.documents.features, "<f8").tolist() == [5, 6]


class TestErrors:
    @pytest.mark.parametrize(
        ("row", "reason"),
        [
            ("q,shoes,,1,0,1,1,1", "document is empty"),
            (",shoes,c,1,0,1,1,1", "list or time is empty"),
            ("q,shoes,c,first,0,1,1,1", "position must be a number, got 'first'"),
            ("q,shoes,c,-1,0,1,1,1", "position must be a whole number from 0"),
            ("q,shoes,c,3,maybe,1,1,1", "clicked must be 0, 1, a count, true or false, got 'maybe'"),
            ("q,shoes,c,3,0,1,x,1", "rating must be a number, got 'x'"),
            ("q,shoes,c,3,0,1,inf,1", "rating must be finite"),
            ("q,shoes,c,3,0,1,1", "has 7 cells, the first line has 8"),
            ("q,shoes,c,2,0,1,1,1", "document 'c' is at position 2 and 'b' of the same list"),
            ("q,shoes,b,3,0,1,1,1", "document 'b' is at position 3 at position 2 of the same list"),
            ("q,shoes,b,,0,1,1,1", "document 'b' is at position (empty) at position 2 of the same list"),
            ("q,boots,c,3,0,1,1,1", "query and context must be the same in all rows of a list"),
        ],
    )
    def test_a_row_that_cannot_be_read_is_named_and_its_list_left_out(self, read, row, reason):
        text = f"{HEADER}\nq,shoes,a,1,1,1,1,1\nq,shoes,b,2,0,1,1,1\n{row}\nq,shoes,d,4,0,1,1,1\nr,x,a,1,1,1,1,1\n"
        found, log = read(text)
        assert [each.impression_id for each in found] == ["r"]
        assert log.errors.count == 1
        assert log.errors.first[0].startswith("line 4 of ")
        assert reason in log.errors.first[0]
        assert log.counts.incomplete == 1

    def test_lines_are_counted_through_cells_of_several_lines(self, read):
        _, log = read(f'{HEADER}\nq,"two\nlines",a,1,1,1,1,1\nq,x,b,2,0,1,y,1\n')
        assert log.errors.first[0].startswith("line 4 of ")

    def test_too_many_errors_end_it(self, read):
        with pytest.raises(DataFormatError, match=r"--max-errors is 1; the first is line 2 of .*position must be"):
            read(HEADER + "\nq,x,a,?,1,1,1,1" * 2, max_errors=1)

    @pytest.mark.parametrize(
        ("header", "columns", "reason"),
        [
            ("query,sku,clicked,bm25", [], r"no column for document, rating, price; its columns are query, sku"),
            ("document,bm25,rating,price", [], r"no column for query, clicked;.*--columns query=COLUMN"),
            (HEADER, ["query=keyword"], "no column is called 'keyword'"),
            (HEADER + ",q,q", ["query=q"], "two columns are called 'q'"),
            ("", [], "has no columns"),
        ],
    )
    def test_columns_that_are_not_there(self, read, header, columns, reason):
        with pytest.raises(DataFormatError, match=reason):
            read(f"{header}\n", *columns)

    @pytest.mark.parametrize(
        ("columns", "reason"),
        [
            (["qery=x"], "did you mean query"),
            (["query"], "MEANING=COLUMN"),
            (["query=a", "query=b"], "query has two columns"),
        ],
    )
    def test_columns_that_make_no_sense(self, read, columns, reason):
        with pytest.raises(InvalidValue, match=reason):
            read(HEADER, *columns)

    def test_a_feature_that_the_table_does_not_have(self, read):
        _, log = read("list,document,clicked,bm25\nq,a,1,1\n", "price=", names=["bm25", "price"])
        assert dict(log.reader.missing) == {"price": 1}

    def test_columns_that_are_not_used(self, read):
        assert read(HEADER + ",colour\n")[1].reader.unused == {"colour"}

    def test_a_file_that_is_not_there(self):
        with pytest.raises(MissingData, match="does not exist"):
            TableLog(["nothing.csv"], NAMES)

    def test_parquet_without_its_package(self, tmp_path, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
        (tmp_path / "log.parquet").write_bytes(b"PAR1")
        with pytest.raises(MissingExtra, match=r"pip install 'duelrank\[parquet\]'"):
            list(TableLog([str(tmp_path / "log.parquet")], NAMES).lists())

    def test_damaged_parquet(self, tmp_path):
        pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
        (tmp_path / "log.parquet").write_bytes(b"PAR1 and nothing else")
        with pytest.raises(DataFormatError, match="cannot be read as Parquet"):
            list(TableLog([str(tmp_path / "log.parquet")], NAMES).lists())


def test_what_waits_is_on_the_disk(read, monkeypatch):
    """The settings are those of `UbiLog`, whose tests look at the files."""
    opened = []
    monkeypatch.setattr(tables, "temporary", lambda schema: opened.append(schema) or ubi.temporary(schema))
    read(HEADER)
    assert opened == [tables.TABLES]


def test_lists_without_clicks_and_users_for_those_who_evaluate(read):
    text = "list,user,document,clicked,bm25\nq,ann,a,0,1\nq,ann,b,0,1\nr,bob,a,1,1\n"
    found, log = read(text, names=["bm25"], keep_untouched=True)
    assert short(found) == [(["a", "b"], []), (["a"], ["a"])]
    assert [log.user for _ in log.lists()] == ["ann", "bob"]


def test_columns_without_another_meaning_are_features(tmp_path):
    (tmp_path / "clicks.csv").write_text("list,document,rank,clicked,bm25,price\nq,a,1,0,1,1\n")
    assert feature_columns([str(tmp_path / "clicks.csv")], {"position": "rank"}) == ["bm25", "price"]
