"""How option texts are read."""

import pytest

from duelrank.cli.options import split_top_level


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("perfect", ["perfect"]),
        ("perfect,navigational", ["perfect", "navigational"]),
        (" perfect , navigational ,", ["perfect", "navigational"]),
        ("Cascade((0.1, 0.5), (0.0, 0.1)),perfect", ["Cascade((0.1, 0.5), (0.0, 0.1))", "perfect"]),
        ("a(b=[1,2]),c", ["a(b=[1,2])", "c"]),
        ("a(b='x,(y'),c", ["a(b='x,(y')", "c"]),
        ("", []),
    ],
)
def test_split_top_level(text, pieces):
    assert split_top_level(text) == pieces
