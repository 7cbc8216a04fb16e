"""The programs of docs/how-to/clients.md against a real service, and clients that are generated from the OpenAPI document."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.service.http.served import FAST, SPEC, Served, serving
from tests.waiting import until

from duelrank.service import Service
from duelrank.service.http import make_key
from duelrank.service.http.openapi import openapi_document
from duelrank.service.http.routes import OPERATIONS
from duelrank.storage import open_storage

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "clients.md").read_text()
BLOCKS = re.findall(r"```(javascript|java|php|typescript)\n(.*?)```", PAGE, re.DOTALL)
GENERATOR = "org.openapitools:openapi-generator-cli:7.25.0"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
NPM = ("openapi-typescript@7.13.0", "typescript@5.9.3")
SECONDS = 540.0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with open_storage(f"sqlite:///{tmp_path}/store.db") as storage, serving(Service(storage, FAST)) as found:
        found.do(found.service.create(SPEC))
        yield found


@pytest.fixture
def environment(served: Served) -> Mapping[str, str]:
    key, entry = make_key(["rank", "feedback"], ["shop"])
    served.storage.keys.add(entry)
    served.state.gate.keys.refresh()
    return {**os.environ, "DUELRANK_URL": served.url, "DUELRANK_API_KEY": key}


@pytest.fixture
def document(tmp_path: Path) -> Path:
    found = tmp_path / "openapi.json"
    found.write_text(json.dumps(openapi_document(OPERATIONS, "1")))
    return found


def program(language: str, which: int = 0) -> str:
    """Return a program of the page; one that waits long for a loaded machine."""
    text = [text for each, text in BLOCKS if each == language][which]
    return (
        text.replace("timeout(500)", "timeout(60000)")
        .replace("ofMillis(500)", "ofMillis(60000)")
        .replace("0.5,", "60,")
    )


def tool(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name} (apt-get install {package})")
    return found


def run(*command: object, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=SECONDS, env=env, cwd=cwd)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    return done.stdout


def download(*command: object, cwd: Path | None = None) -> None:
    """Run a command that needs a package registry; skip without one."""
    try:
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=SECONDS, cwd=cwd)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{Path(str(command[0])).name} did not download within {SECONDS:.0f} seconds")
    if done.returncode != 0:
        pytest.skip(f"{Path(str(command[0])).name} cannot download: {(done.stdout + done.stderr)[-1000:]}")


def check_printed(printed: str, served: Served) -> None:
    """The order has both documents, one event was accepted, and the ranker has learned from the list."""
    order, accepted = printed.splitlines()[-2:]
    assert sorted(order.split()) == ["d1", "d2"]
    assert accepted == "1" or json.loads(accepted)["accepted"] == 1
    until(lambda: served.service.ranker("shop").learned == 1)


class TestPrograms:
    @pytest.mark.parametrize(
        ("language", "file", "command", "package"),
        [
            ("javascript", "shop.mjs", "node", "nodejs"),
            ("java", "Shop.java", "java", "default-jdk-headless"),
            ("php", "shop.php", "php", "php-cli"),
        ],
    )
    def test_it_ranks_and_learns(self, served, environment, tmp_path, language, file, command, package):
        (tmp_path / file).write_text(program(language))
        check_printed(run(tool(command, package), tmp_path / file, env=environment), served)

    @pytest.mark.parametrize(("language", "most"), [("javascript", 30), ("java", 30), ("php", 22)])
    def test_it_is_short(self, language, most):
        assert len([line for line in program(language).splitlines() if line.strip()]) <= most


def test_the_generated_java_client_compiles_and_ranks(served, environment, document, tmp_path):
    java, maven = tool("java", "default-jdk-headless"), tool("mvn", "maven")
    tool("javac", "default-jdk-headless")
    quiet = (maven, "--batch-mode", "--quiet")
    jar, client = tmp_path / "jars" / "generator.jar", tmp_path / "client"
    copy = (f"-Dartifact={GENERATOR}", f"-DoutputDirectory={jar.parent}", "-Dmdep.stripVersion=true")
    download(*quiet, f"{PLUGIN}:copy", *copy)
    jar = next(jar.parent.glob("*.jar"))
    run(java, "-jar", jar, "generate", "-i", document, "-g", "java", "--generate-alias-as-model", "-o", client)
    download(*quiet, f"{PLUGIN}:build-classpath", "-Dmdep.outputFile=classpath.txt", cwd=client)
    run(*quiet, "-DskipTests", "compile", cwd=client)
    path = f"{client / 'target/classes'}{os.pathsep}{(client / 'classpath.txt').read_text().strip()}"
    (tmp_path / "Generated.java").write_text(program("java", 1))
    check_printed(run(java, "-cp", path, tmp_path / "Generated.java", env=environment), served)


def test_the_generated_typescript_is_strict(document, tmp_path):
    tool("node", "nodejs")
    download(tool("npm", "npm"), "install", "--no-fund", "--no-audit", "--prefix", tmp_path, *NPM)
    tools = tmp_path / "node_modules" / ".bin"
    run(tools / "openapi-typescript", document, "--default-non-nullable=false", "--output", tmp_path / "duelrank.d.ts")
    (tmp_path / "page.ts").write_text(program("typescript"))
    (tmp_path / "wrong.ts").write_text(program("typescript").replace('id: "d1"', "id: 1"))
    strict = ("--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes", "--noEmit")
    run(tools / "tsc", *strict, tmp_path / "page.ts")
    refused = subprocess.run([tools / "tsc", *strict, tmp_path / "wrong.ts"], capture_output=True, text=True)
    assert "is not assignable to type 'string'" in refused.stdout
