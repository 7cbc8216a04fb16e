"""docs/how-to/backup.md: its commands back up a store that learns, restore it, and upgrade an old one; replays agree."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.service.http.served import FAST, SPEC, Served, serving
from tests.waiting import until

from duelrank.service import Service
from duelrank.service.http.schema import FeedbackEvent
from duelrank.storage import open_storage

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "backup.md").read_text()
OLD = ROOT / "tests" / "service" / "data" / "store-format-1.db.gz"
LISTS = 20


def commands(section: str) -> list[str]:
    """Return the blocks of commands of a section of the page."""
    (text,) = re.findall(rf"^## {section}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return [re.sub(r"^ +", "", each, flags=re.MULTILINE) for each in re.findall(r"```bash\n(.*?)```", text, re.DOTALL)]


def run(block: str, folder: Path, **environment: str) -> str:
    """Run a block of the page in a folder, and return what it printed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{environment.pop('programs', '')}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, **environment, "PATH": path}
    done = subprocess.run(["bash", "-euc", block], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def learning(address: str) -> Iterator[Served]:
    """Serve a store in which a ranker learns, before and while the block runs."""
    with open_storage(address) as storage, serving(Service(storage, FAST)) as served:
        served.do(served.service.create(SPEC))
        served.lists("shop", range(LISTS))
        until(lambda: served.service.ranker("shop").learned == LISTS)
        done, made = Event(), []

        def traffic() -> None:
            while not done.is_set():
                number = LISTS + len(made)
                served.lists("shop", range(number, number + 1))
                made.append(number)

        thread = Thread(target=traffic)
        thread.start()
        try:
            until(lambda: made)
            yield served
        finally:
            done.set()
            thread.join()


def check_restored(address: str) -> None:
    """Check that a restored store is served, knows what it had, and learns on."""
    with open_storage(address) as storage, serving(Service(storage, FAST)) as served:
        before = served.service.ranker("shop").learned
        assert before >= LISTS
        again = served.do(served.service.feedback("shop", [FeedbackEvent("i0", ["d0"], close=True)]))
        assert again.accepted == 0
        later = served.do(served.service.feedback("shop", [FeedbackEvent("i1000000", ["d0"])]))
        assert later.unknown == 1
        served.lists("shop", range(2_000_000, 2_000_005))
        until(lambda: served.service.ranker("shop").learned >= before + 5)


def test_a_sqlite_store_is_backed_up_while_it_learns_and_restored(tmp_path: Path) -> None:
    if shutil.which("sqlite3") is None:
        pytest.skip("needs sqlite3 (apt-get install sqlite3)")
    backup, check = commands("Back up a SQLite store")
    (restore,) = commands("Restore a SQLite store")
    with learning(f"sqlite:///{tmp_path}/duelrank.db"):
        run(backup, tmp_path)
        assert "all equal" in run(check, tmp_path)
    assert "all equal" in run(restore, tmp_path)
    check_restored(f"sqlite:///{tmp_path}/duelrank.db")
    check_restored(f"sqlite:///{tmp_path}/compact.db")


def test_a_postgresql_store_is_backed_up_while_it_learns_and_restored(server, tmp_path: Path) -> None:
    import psycopg

    (backup,), (restore,) = commands("Back up a PostgreSQL store"), commands("Restore a PostgreSQL store")
    addresses = [server.url().replace("/postgres?", f"/{name}?") for name in ("backed_up", "restored")]
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for name in ("backed_up", "restored"):
            connection.execute(f"CREATE DATABASE {name}")
    names = dict(zip(("DUELRANK_STORE", "RESTORED"), addresses, strict=True))
    with learning(addresses[0]):
        run(backup, tmp_path, **names, programs=str(server.programs))
    assert "all equal" in run(restore, tmp_path, **names, programs=str(server.programs))
    check_restored(addresses[1])


def test_a_store_of_the_version_before_is_upgraded_and_the_copy_is_not(tmp_path: Path) -> None:
    copy, check, back = commands("Upgrade")
    store = tmp_path / "duelrank.db"
    store.write_bytes(gzip.decompress(OLD.read_bytes()))
    run(copy, tmp_path)
    with open_storage(f"sqlite:///{store}") as storage, serving(Service(storage, FAST)) as served:
        names = [each.name for each in served.service.rankers()]
        closed = _closed(served)
        served.lists("shop", range(3_000_000, 3_000_005))
        until(lambda: _closed(served) >= closed + 5)
    printed = run(check, tmp_path)
    assert all(name in printed for name in names)
    assert store.read_bytes() != gzip.decompress(OLD.read_bytes())
    run(back, tmp_path)
    assert store.read_bytes() == gzip.decompress(OLD.read_bytes())


def _closed(served: Served) -> int:
    """Return the number of closed lists: the guard of the old store lets its ranker learn from a tenth of them."""
    info = served.service.ranker("shop")
    return info.learned + info.skipped
