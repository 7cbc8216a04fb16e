"""The terminal chart: everything is in its place."""

import pytest

from duelrank.cli.chart import Series, chart


def rows(*series, width=80, height=13):
    return chart(series, width, height).plain.splitlines()


def is_dots(letter):
    return 0x2800 < ord(letter) <= 0x28FF


def count(drawn):
    return sum((ord(letter) - 0x2800).bit_count() for row in drawn for letter in row if is_dots(letter))


def test_size():
    drawn = rows(Series("one", [1, 10, 100], [0.1, 0.5, 0.9]))
    assert len(drawn) == 13 + 2
    assert max(map(len, drawn)) <= 80


def test_a_rising_line_starts_low_and_ends_high():
    drawn = rows(Series("one", [1, 10, 100], [0.0, 0.5, 1.0]))
    braille = [[column for column, letter in enumerate(row) if is_dots(letter)] for row in drawn]
    assert braille[0][-1] > braille[12][0]
    assert braille[12][0] == 8  # right of the axis
    # The x axis is logarithmic: the middle of three points a decade apart is in the middle.
    assert sum(braille[6]) / len(braille[6]) == pytest.approx((braille[0][-1] + braille[12][0]) / 2, abs=2)


def test_axes_carry_numbers():
    drawn = rows(Series("one", [1, 1000], [0.25, 0.75]))
    assert drawn[0].startswith(" 0.750 ┤")
    assert drawn[12].startswith(" 0.250 ┤")
    assert drawn[-1].split() == ["1", "10", "100", "1,000", "impressions"]


def test_lines_are_named_where_they_end_and_names_never_collide():
    drawn = rows(
        *(Series(name, [1, 10], [0.0, height]) for name, height in (("low", 0.1), ("top", 1.0), ("near", 0.99)))
    )
    where = {name: next(i for i, row in enumerate(drawn) if f" {name} " in row) for name in ("low", "top", "near")}
    assert where["top"] == 0
    assert where["top"] < where["near"] < where["low"]


def test_many_lines_all_get_their_name():
    drawn = rows(*(Series(f"s{i}", [1, 10], [0.0, 0.5]) for i in range(20)))
    assert all(any(f" s{i} " in row for row in drawn) for i in range(20))


def test_a_dashed_line_has_fewer_dots():
    full = count(rows(Series("one", [1, 10], [0.0, 1.0])))
    assert 0 < count(rows(Series("one", [1, 10], [0.0, 1.0], dashed=True))) < full


@pytest.mark.parametrize(("x", "y"), [([1], [0.5]), ([1, 2], [0.0, 0.0]), ([5, 7], [0.1, 0.2])])
def test_degenerate_lines_are_drawn_too(x, y):
    assert count(rows(Series("one", x, y))) > 0
