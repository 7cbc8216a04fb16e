"""deploy/Dockerfile is built and its image serves; a Debian of debootstrap takes the place of the base image."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest
from tests.waiting import until

ROOT = Path(__file__).parents[2]
PYTHON = "3.11"  # of Debian 12
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
SECONDS = 2400.0


class Buildah:
    """Runs buildah with a store of its own, without overlay file systems and namespaces, which containers may lack."""

    def __init__(self, folder: Path) -> None:
        self._stores = ["--root", str(folder / "store"), "--runroot", str(folder / "run")]
        self._env = {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}

    def command(self, *words: object) -> list[str]:
        return ["buildah", *self._stores, *map(str, words)]

    def start(self, *words: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command(*words), env=self._env, start_new_session=True)

    def __call__(self, *words: object) -> str:
        done = subprocess.run(self.command(*words), env=self._env, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
        return done.stdout.strip()


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Buildah:
    """Return a buildah with the base image that the Dockerfile names."""
    missing = [name for name in ("buildah", "debootstrap") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root, buildah and debootstrap (apt-get install {' '.join(missing)})")
    folder = tmp_path_factory.mktemp("image")
    base, packages = folder / "base", "python3,python3-venv,ca-certificates"
    made = ["debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", str(base)]
    done = subprocess.run(made, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode != 0:
        pytest.skip(f"debootstrap cannot download Debian: {done.stdout[-500:]}")
    (base / "usr/bin/python").symlink_to("python3")
    shutil.copy(CERTIFICATES, base / CERTIFICATES.relative_to("/"))  # of this machine, which pip uses, too
    (base / "etc/pip.conf").write_text(f"[global]\ncert = {CERTIFICATES}\n")
    found = Buildah(folder)
    container = found("from", "scratch")
    found("copy", "--quiet", container, base, "/")
    found("commit", "--quiet", "--rm", container, f"docker.io/library/python:{PYTHON}-slim-bookworm")
    return found


@pytest.fixture(scope="module")
def container(buildah: Buildah) -> str:
    """Build the image, and return a container of it."""
    deploy = ROOT / "deploy"
    files = ("--file", deploy / "Dockerfile", "--ignorefile", deploy / "Dockerfile.dockerignore")
    buildah("build", "--pull-never", *files, "--format=docker", f"--build-arg=PYTHON={PYTHON}", "--tag=duelrank", ROOT)
    return buildah("from", "--pull-never", "localhost/duelrank")


def test_the_image_makes_a_key_and_serves(buildah: Buildah, container: str) -> None:
    assert buildah("run", container, "--", "id", "-u") == "10001"
    assert buildah("run", container, "--", "duelrank", "keys", "create", "--scope", "admin").startswith("dr_")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with buildah.start("run", container, "--", "duelrank", "serve", "--host", "0.0.0.0", "--port", port) as served:
        until(lambda: served.poll() is None and _answers(f"http://127.0.0.1:{port}/readyz"))
        served.terminate()
    assert buildah("run", container, "--", "ls", "/opt/kernels").startswith("duelrank-")


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
