"""Kernels are compiled when they are called, kept in a folder of ours, and never need one that can be written."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest

from duelrank.core import compiling
from duelrank.core.compiling import kernel

NOWHERE = "/dev/null/nowhere"  # no user, root included, can make a folder there
NOTHING_WRITABLE = {"HOME": NOWHERE, "DUELRANK_HOME": NOWHERE, "NUMBA_CACHE_DIR": NOWHERE}


def doubled(x: float) -> float:
    return 2.0 * x


def quadrupled(x: float) -> float:
    return twice(twice(x))


twice = kernel(doubled)


def fresh_folder() -> Path | None:
    return compiling.kernel_folder.__wrapped__()


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


PLAYED = """
from hashlib import sha256
from duelrank.core.memory import flatten
from duelrank.testing import play
for recipe in ("cps", "batchrank", "cascade-kl-ucb", "mgd-dsp", "pdgd", "nsgd-dsp", "pairrank"):
    learner = play(recipe, 8)
    learned = {"weights": learner.weights, **flatten(learner.state.memory)}
    print(recipe, sha256(b"".join(name.encode() + array.tobytes() for name, array in learned.items())).hexdigest())
"""


class TestWithoutCompilation:
    def test_the_bits_are_the_same(self):
        assert run(PLAYED, NUMBA_DISABLE_JIT="1", PYTHONWARNINGS="error") == run(PLAYED)

    def test_kernels_are_functions_that_a_debugger_can_enter(self):
        code = (
            "from duelrank.kernels import datasets; import numpy as np;"
            "print(datasets.highest_feature(np.frombuffer(b'0 qid:1 300:1\\n', np.uint8), 0, 14));"
            "print(type(datasets.highest_feature).__name__)"
        )
        assert run(code, NUMBA_DISABLE_JIT="1", PYTHONWARNINGS="error").split() == ["300", "function"]


class TestKernel:
    def test_importing_kernels_does_not_import_numba(self):
        assert run("import sys, duelrank.kernels.ranking; print('numba' in sys.modules)") == "False"

    def test_kernels_call_each_other(self, monkeypatch):
        monkeypatch.setattr(compiling, "kernel_folder", lambda: None)
        four_times = kernel(quadrupled)
        assert four_times(1.5) == 6.0
        assert twice(1.5) == 3.0
        assert twice.callee.signatures == twice.compiled.signatures

    def test_modules_of_the_package_hold_the_compiled_function_after_the_first_call(self):
        code = (
            "from duelrank.kernels import random; from duelrank.kernels.random import derive; from duelrank import learner;"
            "print(derive is random.derive is learner.derive); derive(1, 2);"
            "print(derive.compiled is random.derive is learner.derive)"
        )
        assert run(code).split() == ["True", "True"]

    def test_name_documentation_and_options_are_kept(self):
        quick = kernel(fastmath=True)(doubled)
        assert (quick.__name__, quick.__wrapped__) == ("doubled", doubled)
        assert quick.compiled.targetoptions["fastmath"] is True


class TestFolder:
    def test_a_folder_that_users_gave_to_numba_is_used(self, tmp_path, monkeypatch):
        monkeypatch.setattr(compiling._numba().config, "CACHE_DIR", str(tmp_path))
        assert fresh_folder().parent == tmp_path

    def test_otherwise_kernels_are_kept_at_home(self, duelrank_home, monkeypatch):
        monkeypatch.setattr(compiling._numba().config, "CACHE_DIR", "")
        assert fresh_folder().parent == duelrank_home / "kernels"

    def test_a_home_that_cannot_be_written_is_replaced_by_a_temporary_folder(self, tmp_path, monkeypatch):
        monkeypatch.setattr(compiling._numba().config, "CACHE_DIR", NOWHERE)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        folder = fresh_folder()
        assert folder.parent.parent == tmp_path
        assert folder.parent.stat().st_mode & 0o077 == 0

    def test_prepared_kernels_in_a_folder_that_cannot_be_written_are_copied(self, tmp_path, monkeypatch):
        """As in a container whose root is read-only, with an image that has kernels."""
        image, temporary, make = tmp_path / "image", tmp_path / "tmp", tempfile.TemporaryFile
        temporary.mkdir()
        monkeypatch.setattr(compiling._numba().config, "CACHE_DIR", str(image))
        prepared = fresh_folder()
        (prepared / "one.nbc").write_bytes(b"compiled")

        def make_outside(dir, **others):
            if Path(dir).is_relative_to(image):
                raise OSError(30, "Read-only file system")
            return make(dir=dir, **others)

        monkeypatch.setattr("tempfile.TemporaryFile", make_outside)
        monkeypatch.setattr("tempfile.tempdir", str(temporary))
        folder = fresh_folder()
        assert folder.is_relative_to(temporary)
        assert (folder / "one.nbc").read_bytes() == b"compiled"

    def test_times_of_our_sources_do_not_matter(self):
        """An image may change them, and the folder is for the contents of the sources."""
        from duelrank.kernels.inference import last_click

        made = last_click if hasattr(last_click, "stats") else last_click.compiled
        assert made._cache._cache_file._source_stamp == compiling.kernel_folder().name
        assert kernel(doubled).compiled._cache._cache_file._source_stamp != compiling.kernel_folder().name

    @pytest.mark.skipif(os.name != "posix", reason="owners and modes of files are POSIX")
    def test_a_temporary_folder_that_others_may_write_is_not_trusted(self, tmp_path, monkeypatch):
        monkeypatch.setattr(compiling._numba().config, "CACHE_DIR", NOWHERE)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        fresh_folder().parent.chmod(0o777)
        assert fresh_folder() is None

    def test_another_state_of_any_source_has_another_folder(self, tmp_path, monkeypatch):
        monkeypatch.setattr(compiling, "_SOURCES", tmp_path)
        (tmp_path / "one.py").write_text("a = 1")
        before = compiling._digest()
        assert compiling._digest() == before
        (tmp_path / "one.py").write_text("a = 2")
        assert compiling._digest() != before

    def test_folders_that_were_not_used_for_long_are_removed(self, tmp_path):
        for age in range(compiling._KEPT + 3):
            folder = tmp_path / f"duelrank-{age}"
            folder.mkdir()
            os.utime(folder, (1e9 - age, 1e9 - age))
        (tmp_path / "of-another-program").mkdir()
        compiling._tidy(tmp_path)
        left = {f"duelrank-{age}" for age in range(compiling._KEPT + 1)} | {"of-another-program"}
        assert {path.name for path in tmp_path.iterdir()} == left

    def test_numbas_own_setting_stays_as_it_was(self):
        before = compiling._numba().config.CACHE_DIR
        made = kernel(doubled).compiled
        assert before == compiling._numba().config.CACHE_DIR
        assert Path(made.stats.cache_path).is_relative_to(compiling.kernel_folder())


class TestUnwritable:
    def test_import_and_version_need_no_folder(self):
        assert run("import duelrank; print(duelrank.__version__)", **NOTHING_WRITABLE)
        assert run("from duelrank.cli import app; app(['--version'])", **NOTHING_WRITABLE).startswith("duelrank ")

    def test_kernels_run_without_a_folder(self, monkeypatch):
        monkeypatch.setattr(compiling, "kernel_folder", lambda: None)
        assert kernel(doubled)(2.0) == 4.0

    def test_kernels_run_where_the_folder_is_lost_or_full(self, monkeypatch, tmp_path):
        monkeypatch.setattr(compiling, "kernel_folder", lambda: tmp_path)
        made = kernel(doubled).compiled

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(made._cache._cache_file, "save", full)
        assert made(2.0) == 4.0
        assert made(np.float32(2.0)) == 4.0


class TestAnnouncement:
    def test_compiling_is_logged_once(self, monkeypatch, caplog):
        def ours(x: float) -> float:
            return 3.0 * x

        ours.__module__ = "duelrank.kernels.ours"
        monkeypatch.setattr(compiling, "kernel_folder", lambda: None)
        compiling._announce.cache_clear()
        with caplog.at_level(logging.INFO, "duelrank.core.compiling"):
            made = kernel(ours)
            made(1.0)
            made(1)
        assert [record.getMessage() for record in caplog.records] == [
            "compiling kernels (some seconds, in every process, because no cache folder is writable) ..."
        ]

    @pytest.mark.processes
    def test_kernels_from_the_cache_are_not_announced(self, tmp_path):
        code = (
            "import logging, sys; logging.basicConfig(level=logging.INFO, stream=sys.stdout);"
            "from duelrank.kernels.inference import last_click; import numpy; last_click(numpy.zeros(3, bool))"
        )
        first, second = (run(code, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
        assert first.count("compiling kernels (some seconds, only the first time) ...") == 1
        assert second == ""


def test_modules_may_be_imported_while_a_kernel_is_loaded():
    """A thread that imports changes the table of modules, which is searched for the kernel."""
    loaded, over = kernel(doubled), Event()

    def import_modules() -> None:
        while not over.is_set():
            for number in range(500):
                sys.modules[f"_module_{number}"] = sys
            for number in range(500):
                del sys.modules[f"_module_{number}"]

    importing, before = Thread(target=import_modules), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    importing.start()
    try:
        for _ in range(200):
            loaded._replace_by_compiled()
    finally:
        sys.setswitchinterval(before)
        over.set()
        importing.join()
