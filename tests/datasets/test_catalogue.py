"""The catalogue, and downloads from a server on this machine."""

from __future__ import annotations

import hashlib
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from duelrank import parse
from duelrank.core.errors import DataFormatError, InvalidValue, MissingData, UnknownName
from duelrank.core.registry import spell
from duelrank.datasets import CATALOGUE, Imported, library


def test_catalogue_is_consistent() -> None:
    for name, entry in CATALOGUE.items():
        assert name == entry.name
        assert parse(name) == Imported(name=name)
        assert spell(Imported(name=name)) == name
        assert entry.page.startswith("http")
        assert entry.terms
        assert bool(entry.url) == bool(entry.sha256) == bool(entry.archive)
        assert len(entry.sha256) in (0, 64)
        assert 2 <= entry.n_grades <= 5
        assert entry.n_folds in (1, 5)
        assert entry.documents > entry.queries


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        """Break off in the middle of any file of one folder, send a page instead of one of another, and no length in a third."""
        lengths = {"broken": "1000", "moved": "400", "odd": "many"}
        length = lengths.get(self.path.split("/")[1])
        if length is None:
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(b"x" * 400)
        return None


@pytest.fixture
def mirror(tmp_path: Path, letor_folder: Path) -> Iterator[str]:
    served = tmp_path / "served"
    served.mkdir()
    for name in ("istella-s-letor.tar.gz", "mq2008.tar.xz"):
        with tarfile.open(served / name, f"w:{name[-2:]}") as archive:
            archive.add(letor_folder / "Fold1", "sample")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(served)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_fetch_from_a_mirror(mirror: str, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = (tmp_path / "served" / "istella-s-letor.tar.gz").read_bytes()
    right = replace(CATALOGUE["istella-s"], sha256=hashlib.sha256(content).hexdigest())
    monkeypatch.setitem(CATALOGUE, "istella-s", right)
    seen: list[int] = []
    report = library.fetch("istella-s", mirror=f"{mirror}/", progress=lambda done, _: seen.append(done))
    assert report.folds[1]["train"].documents == 16
    assert len(content) in seen
    assert "istella-s" in library.installed()
    assert not list((home / "downloads").iterdir())
    with pytest.raises(InvalidValue, match="already installed"):
        library.fetch("istella-s", mirror=mirror)


def test_a_wrong_checksum_is_refused(mirror: str, home: Path) -> None:
    with pytest.raises(DataFormatError, match="checksum of the downloaded file is wrong"):
        library.fetch("istella-s", mirror=mirror)
    assert library.installed() == {}
    assert not [path for path in home.rglob("*") if path.is_file()]


def test_a_download_that_breaks_off_is_refused(mirror: str, home: Path) -> None:
    """Also where no checksum is known."""
    with pytest.raises(MissingData, match=r"mq2007\.tar\.xz: the connection ended after 400 of 1,000 bytes"):
        library.fetch("mq2007", mirror=f"{mirror}/broken")
    assert not [path for path in home.rglob("*") if path.is_file()]


def test_a_page_instead_of_an_archive_is_not_kept(mirror: str, home: Path) -> None:
    """Where no checksum is known, it is the import that finds out; the next call asks again."""
    with pytest.raises(DataFormatError):
        library.fetch("mq2008", mirror=f"{mirror}/moved")
    assert not [path for path in home.rglob("*") if path.is_file()]
    assert library.fetch("mq2008", mirror=mirror).folds[1]["train"].documents == 16


def test_an_archive_that_is_there_is_not_downloaded_again(tmp_path: Path, mirror: str, home: Path) -> None:
    (home / "downloads").mkdir(parents=True)
    (home / "downloads" / "mq2008.tar.xz").write_bytes((tmp_path / "served" / "mq2008.tar.xz").read_bytes())
    assert library.fetch("mq2008", mirror="http://127.0.0.1:9").folds[1]["train"].documents == 16


def test_one_that_is_there_with_a_wrong_checksum_is_downloaded_again(mirror: str, home: Path) -> None:
    (home / "downloads").mkdir(parents=True)
    (home / "downloads" / "istella-s-letor.tar.gz").write_bytes(b"another file")
    with pytest.raises(MissingData, match="could not download"):
        library.fetch("istella-s", mirror="http://127.0.0.1:9")


def test_mirror_from_the_environment(mirror: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUELRANK_MIRROR", mirror)
    assert library.fetch("mq2008").warnings


def test_what_cannot_be_fetched(mirror: str) -> None:
    with pytest.raises(MissingData, match=r"no public download address.*letor-4-0.*duelrank data add mq2007 PATH"):
        library.fetch("mq2007")
    with pytest.raises(MissingData, match=r"could not download .*/mq2007\.tar\.xz"):
        library.fetch("mq2007", mirror=mirror)
    with pytest.raises(MissingData, match="could not download"):
        library.fetch("mq2007", mirror="http://127.0.0.1:9")
    for odd in ("http://[bad", "http://ex ample.org", "http://exämple.org/ä", f"{mirror}/odd"):
        with pytest.raises(MissingData, match="could not download"):
            library.fetch("mq2007", mirror=odd)
    with pytest.raises(MissingData, match="addresses begin with http"):
        library.fetch("mq2007", mirror="file:///etc")
    with pytest.raises(UnknownName, match="did you mean mq2007"):
        library.fetch("mq207")
