"""Settings of the documentation site. `make docs` builds it; generated.py writes the parts that are made from the code."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

from docutils import nodes

import duelrank
from duelrank.export import Format

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

TYPES = re.findall(
    r"^(\w+): TypeAlias", (ROOT / "src/duelrank/core/types.py").read_text(encoding="utf-8"), re.MULTILINE
)

project = "duelrank"
author = "The duelrank authors"
project_copyright = author
version = release = duelrank.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "myst_nb", "sphinx_copybutton"]
exclude_patterns = ["**/.ipynb_checkpoints"]
html_theme = "furo"
html_title = f"duelrank {release}"
html_theme_options = {"light_css_variables": {"code-font-size": "75%"}}  # 120 characters in a line of code
html_static_path = ["_static"]
html_css_files = ["site.css", "gallery.css"]
html_js_files = ["site.js"]
pygments_dark_style = "github-dark"  # furo's own underlines the names of modules
html_show_sphinx = False
html_show_copyright = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]  # no formulas: MathJax comes from another machine
# Some commands go on for several lines, which the highlighter of consoles does not know.
suppress_warnings = ["misc.highlighting_failure"]

nb_execution_mode = "force"  # a cache would not notice that our own code has changed
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_output_stderr = "remove"  # that kernels are compiled, say

default_role = "py:obj"  # `Learner` in a docstring leads there; `a >> b` is code
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
# Instead of ndarray[tuple[Any, ...], dtype[float64]].
autodoc_type_aliases = {name: f"duelrank.core.types.{name}" for name in TYPES} | {"ArrayLike": "numpy.typing.ArrayLike"}
autodoc_default_options = {"show-inheritance": True}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_attr_annotations = False  # the types are in the signature

linkcheck_timeout = 20
linkcheck_retries = 2
linkcheck_anchors = False
linkcheck_exclude_documents = ["reference/changelog"]
linkcheck_ignore = [r"http://(localhost|127\.0\.0\.1).*", r"https://doi\.org/.*"]  # publishers refuse robots


def _settings_of_notebooks() -> tempfile.TemporaryDirectory[str]:
    """Run notebooks without the settings of whoever builds the site, and let them say only what went wrong."""
    folder = tempfile.TemporaryDirectory(prefix="duelrank-docs-")
    profile = Path(folder.name) / "profile_default"
    profile.mkdir()
    (profile / "ipython_kernel_config.py").write_text(
        'get_config().IPKernelApp.log_level = "ERROR"\n', encoding="utf-8"
    )
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        os.environ[name] = folder.name
    logging.getLogger("traitlets").setLevel(logging.WARNING)
    return folder


_SETTINGS = _settings_of_notebooks()  # the folder lives as long as this does


def _page_of_the_root(name: str) -> Callable[[], str]:
    """Return a page of the root of the repository, with links from here and headings without brackets."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](../")
    return lambda: re.sub(r"^## \[(.+?)\]", r"## \1", text, flags=re.MULTILINE)


def _generated() -> dict[str, Callable[[], str]]:
    import generated

    return {
        "reference/cli": generated.command_line,
        "reference/http": generated.http_api,
        "reference/errors": generated.errors,
        "reference/api/index": generated.public_names,
        "reference/api/types": generated.array_types,
        "reference/contributing": _page_of_the_root("CONTRIBUTING.md"),
        "reference/changelog": _page_of_the_root("CHANGELOG.md"),
    }


def _read(app: Any, name: str, source: list[str]) -> None:
    """Add the generated part of a page, and lead links out of docs/ to the pages that the site has of those files."""
    if "file_format: mystnb" in source[0] and app.config.nb_execution_mode != "off":
        _tell(f"running the notebook {name} ...")
    made = _generated().get(name)
    text = source[0] + (made() if made else "")
    up = "../" * name.count("/")
    for page in ("CONTRIBUTING", "CHANGELOG"):
        text = text.replace(f"]({up}../{page}.md", f"]({up}reference/{page.lower()}.md")
    source[0] = text


def _begin(app: Any) -> None:
    _tell("reading the pages, of which some are notebooks that run: about two minutes ...")


def _write(app: Any, builder: Any) -> None:
    _tell(f"writing {len(app.env.found_docs)} pages ...")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _no_empty_last_line(app: Any, document: nodes.document) -> None:
    """Doctests need an empty line before the end of a block; readers do not."""
    for block in document.findall(nodes.literal_block):
        if block.rawsource == block.astext():  # otherwise it has markup of its own
            block.rawsource = block.rawsource.rstrip("\n")
            block.children = [nodes.Text(block.rawsource)]


def _dark_pictures(app: Any, document: nodes.document) -> None:
    """Show NAME-dark.png instead of NAME.png in the dark theme, where there is such a file."""
    page = Path(app.env.doc2path(app.env.docname)).parent
    for image in list(document.findall(nodes.image)):
        path = Path(image["uri"])
        dark = path.with_name(f"{path.stem}-dark{path.suffix}")
        if (page / dark).is_file():
            other = image.deepcopy()
            other["uri"] = dark.as_posix()
            other["classes"], image["classes"] = ["only-dark"], ["only-light"]
            image.parent.insert(image.parent.index(image) + 1, other)


def _without_ranges(app: Any, what: str, name: str, thing: Any, options: Any, signature: Any, returns: Any) -> Any:
    """Show `float` where a parameter is `Annotated[float, Between(0, 1)]`, whose range `duelrank list NAME` has, or has a text."""
    if signature is None:
        return None
    signature, returns = (_short(text) for text in (signature, returns))
    about = r"""[~.\w]+\((?:[^()]|\([^()]*\))*\)|'[^']*'|"[^"]*\""""
    return re.sub(rf"[~.\w]*Annotated\[(.+?), (?:{about})\]", r"\1", signature), returns


def _short(text: str | None) -> str | None:
    """Show `Weights`, not `duelrank.core.types.Weights`, nor what Sphinx makes of it within a tuple."""
    names = r"TypeAliasForwardRef\('([\w.]+)'\)|(?<![~\w])((?:duelrank\.types|numpy\.typing)\.\w+)"
    return text and re.sub(names, r"~\1\2", text)


def _no_object(app: Any, document: nodes.document) -> None:
    """Leave out the base that every class has."""
    for line in list(document.findall(nodes.paragraph)):
        if line.astext() == "Bases: object":
            line.parent.remove(line)


def _parameters(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Describe the parameters of a class that says them elsewhere: in its annotations, or in its base's docstring."""
    if what != "class" or "Parameters" in lines or not dataclasses.is_dataclass(thing):
        return
    section = _annotated(thing) or _of_a_base(thing)
    if section:
        end = next((i for i, line in enumerate(lines[1:]) if line and set(line) == {"-"}), len(lines))
        lines[end:end] = ["", "Parameters", "----------", *section, ""]  # before the first section


def _annotated(thing: type) -> list[str]:
    """Return the texts in the annotations of an export format: its fields are options of the command line, too."""
    if not issubclass(thing, Format):
        return []
    hints = get_type_hints(thing, include_extras=True)
    told = ((each.name, getattr(hints[each.name], "__metadata__", ())) for each in dataclasses.fields(thing))
    return [line for name, about in told for text in about if isinstance(text, str) for line in (name, f"    {text}")]


def _of_a_base(thing: type) -> list[str]:
    """Return the section of the nearest base that has one: the fields are the same, only defaults differ."""
    texts = (inspect.cleandoc(vars(base).get("__doc__") or "") for base in thing.__mro__[1:])
    found = (re.search(r"(?:^|\n)Parameters\n-+\n(.*?)(?:\n\n\w+\n-+\n|\Z)", text, re.DOTALL) for text in texts)
    return next((section[1].splitlines() for section in found if section), [])


def _not_a_type(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Break the first line of a property's docstring at its colon: napoleon takes what is before one for a type."""
    if what in ("property", "attribute", "data") and lines and ": " in lines[0]:
        before, _, after = lines[0].partition(": ")
        lines[:1] = [f"{before}:", after]


def setup(app: Any) -> None:
    """Connect the above with Sphinx."""
    app.connect("builder-inited", _begin)
    app.connect("write-started", _write)
    app.connect("source-read", _read)
    app.connect("doctree-read", _no_empty_last_line)
    app.connect("doctree-read", _no_object)
    app.connect("doctree-read", _dark_pictures, priority=400)  # before Sphinx collects the images
    app.connect("autodoc-process-signature", _without_ranges)
    app.connect("autodoc-process-docstring", _parameters, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", _not_a_type, priority=400)
