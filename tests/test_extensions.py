"""Extensions run once while they do not change, replace themselves when they do, and errors name the file."""

import pytest

from duelrank import parse
from duelrank.core.errors import InvalidValue, MissingData, UnknownName
from duelrank.core.extensions import (
    VARIABLE,
    Extension,
    load_extension,
    load_extensions,
    loaded_extensions,
    use_extensions,
)

pytestmark = pytest.mark.usefixtures("clean_registry")

PART = """
from dataclasses import dataclass
from duelrank import MGD, alias, register

@register
@dataclass(frozen=True, repr=False)
class Mine(MGD):
    version = {version}

alias("mine{version}", Mine())
"""


def test_a_file_is_run_once(tmp_path, monkeypatch):
    path = tmp_path / "mine.py"
    path.write_text("counter = []", encoding="utf-8")
    first = load_extension(path)
    monkeypatch.setenv(VARIABLE, str(path))
    load_extensions()
    assert load_extension(str(path)) is first


def test_a_changed_file_replaces_what_it_registered(tmp_path):
    path = tmp_path / "mine.py"
    for version in (1, 2):  # of the same size, and within a second
        path.write_text(PART.format(version=version), encoding="utf-8")
        load_extension(path)
        assert parse("Mine()").version == parse(f"mine{version}").version == version
    with pytest.raises(UnknownName):
        parse("mine1")
    assert len(loaded_extensions()) == 1


def test_files_of_one_name_do_not_collide(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text(f"value = {folder!r}", encoding="utf-8")
    assert [load_extension(tmp_path / folder / "same.py").value for folder in ("a", "b")] == ["a", "b"]


def test_a_worker_uses_what_its_task_needs_and_forgets_the_rest(tmp_path):
    for folder in ("first", "second"):  # both register the same name, as two users of one cluster may
        source = PART.format(version=len(folder)).encode()
        use_extensions([Extension(str(tmp_path / folder / "mine.py"), source)])
        assert parse("Mine()").version == len(folder)
    assert len(loaded_extensions()) == 1


def test_compiled_functions_may_be_cached_where_there_is_no_file(tmp_path):
    source = b"from numba import njit\n\n@njit(cache=True)\ndef double(x):\n    return 2 * x\n\nfour = double(2)\n"
    extension = Extension(str(tmp_path / "gone" / "kernel.py"), source)
    use_extensions([extension])
    import sys

    assert sys.modules[extension.module].four == 4


@pytest.mark.parametrize("text", ["def", "import no_such_module_anywhere", "raise KeyError('x')"])
def test_broken_files(tmp_path, text):
    path = tmp_path / "broken.py"
    path.write_text(text, encoding="utf-8")
    for _ in range(2):  # and it stays broken: nothing half-loaded is left behind
        with pytest.raises(InvalidValue, match=r"cannot load .*broken\.py: \w+Error"):
            load_extension(path)
    assert loaded_extensions() == ()


def test_missing_and_foreign_files(tmp_path):
    with pytest.raises(MissingData, match="does not exist"):
        load_extension(tmp_path / "nowhere.py")
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    with pytest.raises(InvalidValue, match="not a Python file"):
        load_extension(tmp_path / "notes.txt")
