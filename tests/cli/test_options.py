"""How option texts are read."""

import pytest

from duelrank.cli.options import opened_store, store_address
from duelrank.core.errors import MissingData
from duelrank.core.grammar import split_top_level


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


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("shop.db", "sqlite:///shop.db"),
        ("/tmp/shop.db", "sqlite:////tmp/shop.db"),
        ("10%20.db", "sqlite:///10%2520.db"),
        ("C:\\shop.db", "sqlite:///C:\\shop.db"),
        ("sqlite://", "sqlite://"),
        ("sqlite:///shop.db", "sqlite:///shop.db"),
        ("sqlite:shop.db", "sqlite:shop.db"),  # refused, with the forms of addresses
        ("postgresql://me@host/shop", "postgresql://me@host/shop"),
    ],
)
def test_a_store_may_be_a_plain_file(given, address):
    assert store_address(given) == address


def test_all_commands_mean_the_same_file(cli, tmp_path):
    path = tmp_path / "a %20 b.db"
    with pytest.raises(MissingData, match="does not exist"):
        opened_store(str(path))
    assert cli("keys", "create", "--store", path).exit_code == 0
    assert [each for each in tmp_path.iterdir() if each.suffix == ".db"] == [path]
    with opened_store(str(path)) as storage:
        assert len(storage.keys.list()) == 1
