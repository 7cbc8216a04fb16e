"""A user's own files are loaded once, and what is wrong with one is said in a sentence."""

import pytest

from duelrank.errors import InvalidValue, MissingData
from duelrank.experiments.extensions import VARIABLE, load_extension, load_extensions


def test_a_file_is_run_once(tmp_path, monkeypatch):
    path = tmp_path / "mine.py"
    path.write_text("counter = []", encoding="utf-8")
    first = load_extension(path)
    monkeypatch.setenv(VARIABLE, str(path))
    load_extensions()
    assert load_extension(str(path)) is first


def test_files_of_one_name_do_not_collide(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text(f"value = {folder!r}", encoding="utf-8")
    assert [load_extension(tmp_path / folder / "same.py").value for folder in ("a", "b")] == ["a", "b"]


@pytest.mark.parametrize("text", ["def", "import no_such_module_anywhere", "raise KeyError('x')"])
def test_broken_files(tmp_path, text):
    path = tmp_path / "broken.py"
    path.write_text(text, encoding="utf-8")
    for _ in range(2):  # and it stays broken: nothing half-loaded is left behind
        with pytest.raises(InvalidValue, match=r"cannot load .*broken\.py: \w+Error"):
            load_extension(path)


def test_missing_and_foreign_files(tmp_path):
    with pytest.raises(MissingData, match="no file"):
        load_extension(tmp_path / "nowhere.py")
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    with pytest.raises(InvalidValue, match="not a Python file"):
        load_extension(tmp_path / "notes.txt")
