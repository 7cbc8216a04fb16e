"""What is told of the package in several places agrees: versions, dependencies, extras, workflows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import duelrank

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text())
README = (ROOT / "README.md").read_text()
FOR_DEVELOPERS = {"test", "dev", "docs"}
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

FILES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(path for folder in ("docs", "examples", "deploy", "src") for path in (ROOT / folder).rglob("*")),
)
TEXTS = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in FILES
    if path.suffix in {".md", ".py", ".ipynb", ".yaml", ".service", ""} and path.is_file()
}
#: What is installed where a file says so, if it is duelrank: a folder or the name, perhaps with extras and a version.
INSTALLED = r"pip install (?:--?[\w-]+ )*'?(?P<what>\.|duelrank\b)(?:\[(?P<extras>[\w,-]+)\])?(?P<rest>[=<>@][^'\s]*)?"
LINES = [(path, match) for path, text in TEXTS.items() for match in re.finditer(INSTALLED, text)]


def name(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return found[0]


class TestVersion:
    def test_is_in_one_place_of_the_build(self) -> None:
        assert "version" not in PROJECT
        assert "version" in PROJECT["dynamic"]

    def test_is_that_of_the_citation(self) -> None:
        assert CITATION["version"] == duelrank.__version__
        assert f"version = {{{duelrank.__version__}}}" in README

    def test_the_readme_cites_what_the_citation_has(self) -> None:
        paper = CITATION["preferred-citation"]
        authors = " and ".join(f"{each['family-names']}, {each['given-names']}" for each in paper["authors"])
        for field in (
            CITATION["title"],
            paper["title"],
            authors,
            paper["collection-title"],
            paper["doi"],
            str(paper["year"]),
            str(CITATION["date-released"].year),
        ):
            assert f"{{{field}}}" in README

    def test_the_changelog_has_what_changed_in_it(self) -> None:
        headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
        assert headings[:2] == ["Unreleased", duelrank.__version__]

    def test_the_changelog_has_the_headings_of_its_form(self) -> None:
        _, *versions = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
        for version in versions:
            kinds = re.findall(r"^### (.+)$", version, re.MULTILINE)
            assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
            assert len(kinds) == len(set(kinds)), f"a heading comes twice in {version.partition(']')[0]}]"


class TestDependencies:
    TABLES = (ROOT / "docs" / "dependencies.md").read_text()

    def rows(self, heading: str) -> set[str]:
        """Return the first cells of the table under a heading."""
        part = self.TABLES.split(f"## {heading}\n")[1].split("\n## ")[0]
        return set(re.findall(r"^\| `([\w-]+)` ", part, re.MULTILINE))

    def test_each_is_explained(self) -> None:
        assert self.rows("The core") == {name(each) for each in PROJECT["dependencies"]}

    def test_each_extra_is_explained(self) -> None:
        assert self.rows("Extras") == set(PROJECT["optional-dependencies"]) - FOR_DEVELOPERS

    def test_tests_have_every_extra(self) -> None:
        (all_of_them,) = [each for each in PROJECT["optional-dependencies"]["test"] if name(each) == "duelrank"]
        named = set(all_of_them.removeprefix("duelrank[").removesuffix("]").split(","))
        assert named == set(PROJECT["optional-dependencies"]) - FOR_DEVELOPERS - {
            "torch"
        }  # which `make neural` installs

    def test_it_is_typed(self) -> None:
        assert (Path(duelrank.__file__).parent / "py.typed").is_file()


class TestWorkflows:
    def test_there_are_some(self) -> None:
        assert {path.stem for path in WORKFLOWS} == {"tests", "docs", "release"}

    @pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
    def test_call_targets_that_exist(self, path: Path) -> None:
        targets = set(re.findall(r"^([a-z]+):.*", (ROOT / "Makefile").read_text(), re.MULTILINE))
        steps = [step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]]
        made = [step["run"].split()[1:] for step in steps if step.get("run", "").startswith("make ")]
        assert made
        assert {word for words in made for word in words if "=" not in word} <= targets

    @pytest.mark.parametrize("target", ["clients", "browser", "image"])
    def test_run_what_needs_tools_where_a_test_without_them_fails(self, target: str) -> None:
        jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"].values()
        having = [job for job in jobs if any(target in step.get("run", "").split() for step in job["steps"])]
        assert [job["env"]["DUELRANK_SKIPS"] for job in having] == ["failures"]

    def test_run_on_the_pythons_that_the_package_names(self) -> None:
        named = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
        tests = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
        assert tests["jobs"]["test"]["strategy"]["matrix"]["python"] == named
        assert PROJECT["requires-python"] == f">={named[0]}"

    def test_only_a_job_that_publishes_may_do_more_than_read(self) -> None:
        allowed = {}
        for path in WORKFLOWS:
            workflow = yaml.safe_load(path.read_text())
            assert workflow["permissions"] == {"contents": "read"}
            jobs = workflow["jobs"].items()
            allowed[path.stem] = {job: what["permissions"] for job, what in jobs if "permissions" in what}
        assert allowed == {
            "tests": {},
            "docs": {"publish": {"pages": "write", "id-token": "write"}},
            "release": {"publish": {"id-token": "write"}},
        }

    def test_publish_the_folder_that_make_docs_writes(self) -> None:
        docs = yaml.safe_load((ROOT / ".github" / "workflows" / "docs.yml").read_text())
        (upload,) = [step for step in docs["jobs"]["build"]["steps"] if "pages-artifact" in step.get("uses", "")]
        recipe = (ROOT / "Makefile").read_text().split("\ndocs:")[1].split("\n\n")[0]
        assert re.search(rf"-m sphinx .* docs {upload['with']['path']}$", recipe, re.MULTILINE)


class TestInstallLines:
    """A checkout is installed by its folder, and says that it is one; extras of an installation by the name of the package."""

    def test_there_are_some(self) -> None:
        assert {"README.md", "docs/start/install.md", "src/duelrank/drawing.py", "deploy/Dockerfile"} <= {
            path for path, _ in LINES
        }

    def test_the_extras_exist(self) -> None:
        named = {extra for _, match in LINES for extra in (match["extras"] or "").split(",")} - {""}
        assert named <= set(PROJECT["optional-dependencies"])

    def test_a_folder_is_a_checkout(self) -> None:
        folders = {path for path, match in LINES if match["what"] == "."}
        assert {path for path in folders if "checkout" not in TEXTS[path]} == set()

    def test_the_name_adds_extras_to_what_is_installed(self) -> None:
        """Without an extra, or with another version, pip would look for duelrank in a package index, which does not have it."""
        by_name = [(path, match) for path, match in LINES if match["what"] == "duelrank"]
        assert [(path, match[0]) for path, match in by_name if not match["extras"] or match["rest"]] == []
