"""The conventions of the code base, held by reading its source: sizes, names, docstrings, types, and what is never done."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from tests.names import public_names

import duelrank
import duelrank.experiments  # registers kinds of experiments, and a baseline
import duelrank.export
from duelrank.core import registry
from duelrank.core.grammar import parse
from duelrank.core.registry import Part, aliases, classes, spell, walk

ROOT = Path(duelrank.__file__).parent
REFERENCE = Path(__file__).with_name("reference")
STAGES = (
    "datasets",
    "representation",
    "exploration",
    "multileaving",
    "users",
    "inference",
    "projection",
    "updates",
    "metrics",
)

FUNCTION_MEDIAN, FUNCTION_P90, FUNCTION_MOST = 8, 24, 45

#: Where a number over the budget reads better than what would be under it: "module:function" -> why.
TOO_LONG: dict[str, str] = {}

Function = ast.FunctionDef | ast.AsyncFunctionDef


# Read and parsed by the first test that asks: every worker collects this file, few run its tests.
@cache
def sources() -> dict[str, str]:
    """Return the text of each module by its path."""
    return {str(path.relative_to(ROOT)): path.read_text() for path in sorted(ROOT.rglob("*.py"))}


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax of each module by its path."""
    return {module: ast.parse(source) for module, source in sources().items()}


@cache
def references() -> dict[str, ast.Module]:
    """Return the syntax of each module of slow references by its path."""
    return {f"tests/reference/{path.name}": ast.parse(path.read_text()) for path in sorted(REFERENCE.glob("*.py"))}


def functions(tree: ast.Module):
    """Yield (qualified name, node, whether it can be seen from outside) of every function, nested ones too."""

    def walk(node, prefix, public):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (*Function.__args__, ast.ClassDef)):
                name = f"{prefix}{child.name}"
                seen = public and (not child.name.startswith("_") or is_dunder(child.name))
                if not isinstance(child, ast.ClassDef):
                    yield name, child, seen
                yield from walk(child, f"{name}.", seen and isinstance(child, ast.ClassDef))
            elif not isinstance(child, ast.expr):  # where no function is defined
                yield from walk(child, prefix, public)

    yield from walk(tree, "", True)


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def length(node: Function) -> int:
    """Lines of a function, from `def`, without its docstring."""
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node, clean=False) is not None:
        doc = node.body[0]
        lines -= doc.end_lineno - doc.lineno + 1
    return lines


def decorators(node) -> list[str]:
    return [ast.unparse(decorator) for decorator in node.decorator_list]


@cache
def lengths() -> dict[str, int]:
    """Return the lengths of all functions by module and name."""
    return {f"{module}:{name}": length(node) for module, tree in trees().items() for name, node, _ in functions(tree)}


class TestSizes:
    def test_functions(self):
        too_long = {name: n for name, n in lengths().items() if n > FUNCTION_MOST and name not in TOO_LONG}
        assert too_long == {}
        assert np.median(list(lengths().values())) <= FUNCTION_MEDIAN
        assert np.percentile(list(lengths().values()), 90) <= FUNCTION_P90

    def test_exceptions_are_still_needed(self):
        assert [name for name in TOO_LONG if lengths().get(name, 0) <= FUNCTION_MOST] == []


class TestDocstrings:
    def test_every_module_opens_with_a_sentence(self):
        first_lines = {module: (ast.get_docstring(tree) or "").partition("\n")[0] for module, tree in trees().items()}
        assert {module: line for module, line in first_lines.items() if not re.search(r"[.:!?)]$", line)} == {}

    def test_every_public_function_and_method_has_one(self):
        missing = [
            f"{module}:{name}"
            for module, tree in trees().items()
            for name, node, public in functions(tree)
            if public and not is_dunder(node.name) and ast.get_docstring(node) is None and not is_override_stub(node)
        ]
        assert missing == []

    def test_every_public_class_has_one(self):
        missing = [
            f"{module}:{node.name}"
            for module, tree in trees().items()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and ast.get_docstring(node) is None
        ]
        assert missing == []


def is_override_stub(node: Function) -> bool:
    """Whether a function is only there for the type checker or as another function's setter."""
    return any(name in ("overload", "typing.overload") or name.endswith(".setter") for name in decorators(node))


class TestTypes:
    def test_every_function_is_annotated(self):
        bare = []
        for module, tree in trees().items():
            for name, node, _ in functions(tree):
                arguments = node.args
                named = [
                    *arguments.posonlyargs,
                    *arguments.args,
                    *arguments.kwonlyargs,
                    arguments.vararg,
                    arguments.kwarg,
                ]
                if node.returns is None or any(
                    a is not None and a.annotation is None and a.arg not in ("self", "cls") for a in named
                ):
                    bare.append(f"{module}:{name}")
        assert bare == []

    def test_annotations_are_never_evaluated_early(self):
        early = [module for module, tree in trees().items() if any(functions(tree)) and not postpones_annotations(tree)]
        assert early == []


def postpones_annotations(tree: ast.Module) -> bool:
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    return any(name.name == "annotations" for node in imports for name in node.names)


class TestNever:
    def find(self, pattern: str) -> list[str]:
        return [
            f"{module}:{number}: {line.strip()}"
            for module, source in sources().items()
            for number, line in enumerate(source.splitlines(), 1)
            if re.search(pattern, line)
        ]

    def test_nothing_is_remembered_behind_the_callers_back(self):
        assert self.find(r"self\._last") == []

    def test_no_global_random_numbers(self):
        # A type may be named, and a generator of a given seed may be made where no stream reaches, such as in scipy.
        assert self.find(r"np\.random\.(?!Generator\b|default_rng\(\w)") == []
        assert self.find(r"^\s*(import random\b|from random import)") == []

    #: Modules that may import pickle, and why.
    PICKLE: ClassVar = {
        "testing/checks.py": "checks that a recipe survives the trip to a worker process",
        "experiments/workers.py": "sends runs to this process's own workers, classes of a notebook by value",
    }

    def test_nothing_is_evaluated_or_unpickled(self):
        calls = [
            f"{module}:{node.lineno}: {ast.unparse(node)[:60]}"
            for module, tree in trees().items()
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("eval", "exec", "compile", "__import__")
        ]
        assert calls == []
        imports = [
            f"{module}:{node.lineno}"
            for module, tree in trees().items()
            for node in ast.walk(tree)
            if isinstance(node, (ast.Import, ast.ImportFrom))
            and module not in self.PICKLE
            and {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}
            & {getattr(node, "module", None), *(name.name for name in node.names)}
        ]
        assert imports == []
        assert self.find(r"allow_pickle\s*=\s*True") == []

    def test_no_constructor_swallows_its_parameters(self):
        swallowing = [
            f"{module}:{name}"
            for module, tree in trees().items()
            for name, node, _ in functions(tree)
            if node.name == "__init__" and (node.args.vararg or node.args.kwarg)
        ]
        assert swallowing == []

    def test_no_wildcard_import(self):
        assert self.find(r"^from .* import \*") == []


def isort_key(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest, as the linter sorts them."""
    constant = name.isupper() and len(name) > 1
    return (0 if constant else 1 if name[0].isupper() else 2, name)


class TestNames:
    @pytest.mark.parametrize("stage", STAGES)
    def test_a_stage_has_the_same_name_in_every_room(self, stage):
        """Its parts, its kernels, its lockstep form and its reference; and no part of a stage lives elsewhere."""
        assert {f"{stage}.py", f"{stage}/__init__.py"} & trees().keys()
        assert f"kernels/{stage}.py" in trees()
        assert f"lockstep/{stage}.py" in trees() or stage == "datasets"  # which the engine only reads
        assert (REFERENCE / f"{stage}.py").is_file()

    @pytest.mark.parametrize("stage", [*STAGES, "algorithms"])
    def test_each_stage_has_one_interface(self, stage):
        module = importlib.import_module(f"duelrank.{stage}")
        interfaces = [cls for cls in vars(module).values() if inspect.isclass(cls) and inspect.isabstract(cls)]
        assert any(issubclass(cls, Part) for cls in interfaces)

    def test_only_packages_list_their_names(self):
        assert [name for name, source in sources().items() if "__all__ =" in source and "__init__" not in name] == []

    def test_all_is_sorted_and_true(self):
        for module in (name for name, source in sources().items() if "__all__ = [" in source):
            name = "duelrank." + module.removesuffix(".py").replace("/", ".").removesuffix("__init__").rstrip(".")
            loaded = importlib.import_module(name.rstrip("."))
            assert list(loaded.__all__) == sorted(set(loaded.__all__), key=isort_key), module
            assert [entry for entry in loaded.__all__ if not hasattr(loaded, entry)] == [], module

    def test_the_stub_of_the_package_says_what_the_package_has(self):
        tree = ast.parse(Path(duelrank.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
        imported = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
        (listed,) = (ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign))
        assert listed == sorted(imported, key=isort_key)
        assert set(duelrank.__all__) == imported
        assert all(hasattr(duelrank, name) for name in imported)


class TestParts:
    #: Of the classes that have a field without a default.
    EXAMPLES: ClassVar = {
        "RunSpec": "RunSpec(mgd, synthetic, perfect)",
        **{name: f"{name}(title='t')" for name in ("Ablation", "Curves", "Drift", "League", "Tables", "Views")},
        "Sweep": "Sweep(title='t', label='l', recipe='mgd', field='n_candidates', values=(1, 9))",
        "Guards": "Guards(title='t', recipes=('a',), guards=('b',), columns=('alarm', 'mean'))",
        "Backfill": "Backfill(title='t', recipes=('a',), production=('Feature(0)',), lists=(100,))",
        "Collection": "Collection(('mq2007', 'synthetic(seed=1)'))",
        "FrozenWeights": "FrozenWeights(mgd)",
        "Imported": "Imported('mq2008')",
        "Incomplete": "Incomplete(synthetic)",
        "LongTail": "LongTail(synthetic)",
        "Represented": "Represented(mgd)",
        "Chain": "Chain(query-scaled, ramps)",
        "Fixed": "Fixed((MinMax(0.0, 9.0), Unscaled()))",
        "MinMax": "MinMax(0.0, 9.0)",
        "Standard": "Standard(3.0, 1.0)",
    }

    @pytest.mark.parametrize("name", classes())
    def test_every_registered_class_is_a_frozen_dataclass(self, name):
        cls = classes()[name]
        assert dataclasses.is_dataclass(cls)
        assert cls.__dataclass_params__.frozen
        assert "__dataclass_fields__" in vars(cls)
        assert cls.__repr__ is not object.__repr__
        assert cls.kind != Part.kind, "its family has no name of its own"
        assert cls.__name__ == name

    @pytest.mark.parametrize("name", classes())
    def test_every_registered_class_comes_back_from_its_repr(self, name):
        part = parse(self.EXAMPLES[name]) if name in self.EXAMPLES else classes()[name]()
        assert parse(repr(part)) == part
        assert parse(spell(part)) == part
        assert hash(parse(repr(part))) == hash(part)
        assert name in self.EXAMPLES or parse(name) == part

    # The registered ones: what a user has imported is known at collection already, and gone in the tests' own home.
    @pytest.mark.parametrize("name", registry._ALIASES)
    def test_every_alias_comes_back_from_its_repr(self, name):
        part = parse(name)
        assert part == aliases()[name]
        assert parse(repr(part)) == part
        assert parse(spell(part)) == part

    def test_inert_fields_are_fields(self):
        for cls in (each for each in classes().values() if each.inert_fields):
            paths = {(*path, item.name) for path, part in walk(cls()) for item in dataclasses.fields(part)}
            assert {tuple(name.split(".")) for name in cls.inert_fields} <= paths

    def test_every_concrete_part_is_registered(self):
        for _, module, _ in pkgutil.walk_packages([str(ROOT)], "duelrank."):
            if not module.startswith(("duelrank.cli", "duelrank.testing")) and not module.endswith("__main__"):
                importlib.import_module(module)

        def below(cls):
            for child in cls.__subclasses__():
                yield child
                yield from below(child)

        ours = {
            cls for cls in below(Part) if cls.__module__.startswith("duelrank.") and ".testing." not in cls.__module__
        }
        families = {"DuelingBandit", "Experiment"}  # families with working defaults, nothing to be named themselves
        forgotten = {c.__name__ for c in ours if not inspect.isabstract(c) and not c.__name__.startswith("_")}
        assert forgotten - set(registry._CLASSES) - families == set()


def described() -> dict[str, object]:
    """The classes and functions that the reference describes, without interfaces, errors and the bodies of HTTP requests.

    Where two have one name, the later one's is followed by its module.
    """
    found: dict[str, object] = {}
    pages = sorted((Path(__file__).parents[1] / "docs" / "reference" / "api").glob("*.md"))
    assert pages
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for name, options in re.findall(r"^\.\. automodule:: (\S+)\n((?:   :.*\n)*)", text, re.MULTILINE):
            module = importlib.import_module(name)
            chosen = re.search(r":members: (.+)", options)
            for each in re.findall(r"\w+", chosen[1]) if chosen else public_names(module):
                thing = getattr(module, each)
                if has_examples(thing) and thing not in found.values():
                    found[each if each not in found else f"{each} ({name.rpartition('.')[2]})"] = thing
    return found


def has_examples(thing: object) -> bool:
    """Whether an example of a thing makes sense: the HTTP API has those of its structures, and shows their docstrings."""
    if not inspect.isclass(thing):
        return inspect.isfunction(inspect.unwrap(thing))  # also one that remembers what it returned
    interface = inspect.isabstract(thing) or getattr(thing, "_is_protocol", False)
    return not (interface or issubclass(thing, Exception) or thing.__module__ == "duelrank.service.http.schema")


def takes_parameters(cls: type) -> bool:
    """Whether a class is made with arguments, and is not an error, whose argument is its message."""
    return not issubclass(cls, Exception) and bool(inspect.signature(cls).parameters)


def describes_parameters(cls: type) -> bool:
    """Whether a class or a base has a section about parameters; options of export formats are described one by one."""
    return issubclass(cls, duelrank.export.Format) or any(
        "\nParameters\n---" in inspect.cleandoc(vars(each).get("__doc__") or "") for each in cls.__mro__
    )


DESCRIBED = described()


class TestExamples:
    """The examples themselves run with the doctests of the package; these tests are about their form."""

    PARTS: ClassVar = {name: cls for name, cls in classes().items() if cls.__module__.startswith("duelrank.")}
    PUBLIC: ClassVar = {name: getattr(duelrank, name) for name in duelrank.__all__}
    ALL: ClassVar = PARTS | PUBLIC | DESCRIBED
    #: Public names without an example, and why. An interface and an error have none either: what one makes or raises has.
    WITHOUT: ClassVar = {
        **dict.fromkeys(
            ("alias", "register", "register_format", "register_storage", "load_extension", "load_extensions"),
            "what it registers would stay for the tests after it; CONTRIBUTING.md has whole files",
        ),
        "Experiment": "CONTRIBUTING.md has a kind of one's own",
        **dict.fromkeys(("Entry", "ImportReport", "remove"), "the examples of info and add have it"),
        **dict.fromkeys(("Cell", "Column", "Row"), "the example of Table has it"),
        **dict.fromkeys(
            ("ApiKey", "NewEvent", "Usage", "SnapshotInfo", "StoredSnapshot"),
            "a value that the methods of a store take or return",
        ),
        **dict.fromkeys(("Alarm", "GuardCounts"), "a value within a Guard, whose example has it"),
        **dict.fromkeys(("Picture", "Section"), "a value within a Report"),
        **dict.fromkeys(
            ("replicate", "replication_table", "Replication"),
            "compares with published numbers of sets that are not free",
        ),
        **dict.fromkeys(("CandidateValue", "Evaluation"), "a result; the example of evaluate has it"),
        "Documents": "what a candidate of one's own gets",
        "evaluate_store": "needs the store of a service; the tutorial on what rankings would have been worth has one",
        "Reference": "the example of reference_for has it",
        **dict.fromkeys(("feature_curves", "style_panel"), "draws; the gallery has the figure"),
        "Lockstep": "compiles for seconds before its first run; docs/lockstep.md has commands",
        "Rejected": "what the HTTP layer makes of an event that cannot be read",
        "fetch": "needs the network",
        "home": "differs between machines",
        "read_suite": "docs/experiments.md has a whole file",
        "to_terminal": "for a terminal of a given width",
        "warm_up": "returns nothing: later runs are faster",
    }
    NAMES: ClassVar = sorted(ALL.keys() - WITHOUT)
    MOST = 6  # statements, without imports

    def test_only_what_is_described_and_has_no_example_is_excused(self):
        assert [name for name in self.WITHOUT if name not in self.ALL] == []
        assert [name for name in self.WITHOUT if "\nExamples\n" in inspect.cleandoc(self.ALL[name].__doc__)] == []

    def of(self, name: str) -> list[doctest.Example]:
        """The statements of the section Examples in the docstring of a class or function, not in that of its base."""
        found = self.ALL[name]
        text = inspect.cleandoc((vars(found)["__doc__"] if inspect.isclass(found) else found.__doc__) or "")
        _, heading, section = text.partition("\nExamples\n--------\n")
        assert heading, f"{name} has no section Examples"
        return doctest.DocTestParser().get_examples(section)

    @pytest.mark.parametrize("name", NAMES)
    def test_every_part_and_public_name_has_a_short_one_that_ends_in_a_result(self, name):
        statements = [each for each in self.of(name) if not each.source.startswith(("import ", "from "))]
        assert 1 <= len(statements) <= self.MOST
        assert statements[-1].want

    @pytest.mark.parametrize("name", NAMES)
    def test_it_imports_all_that_it_uses(self, name):
        """Doctests know the names of their module; who copies an example does not."""
        tree = ast.parse("".join(each.source for each in self.of(name)))
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
        caught = {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)}
        imported = {each.asname or each.name for node in imports for each in node.names}
        made = {node.id for node in names if isinstance(node.ctx, ast.Store)} | caught
        made |= {node.name for node in ast.walk(tree) if isinstance(node, (*Function.__args__, ast.ClassDef))}
        made |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        used = {node.id for node in names if isinstance(node.ctx, ast.Load)}
        assert used - made - imported - set(vars(builtins)) == set()
        assert imported <= used, "it imports something for nothing"

    #: Classes with parameters that have no section about them, because their first sentence says it all.
    SAID: ClassVar = {
        *("AsyncClient", "Receipt", "Rejected", "Replication", "SnapshotInfo", "Usage"),
    }

    def test_every_class_describes_its_parameters_or_has_those_of_a_base(self):
        taking = {name: cls for name, cls in self.ALL.items() if inspect.isclass(cls) and takes_parameters(cls)}
        silent = {name for name, cls in taking.items() if not describes_parameters(cls)}
        assert silent == self.SAID

    def test_doctests_of_the_package_are_collected(self, pytestconfig):
        assert "src" in pytestconfig.getini("testpaths")
        assert "--doctest-modules" in pytestconfig.getini("addopts")


class TestImporting:
    def test_importing_the_package_is_light(self):
        heavy = (
            "numpy",
            "numba",
            "scipy",
            "matplotlib",
            "starlette",
            "uvicorn",
            "sklearn",
            "typer",
            "rich",
            "ir_measures",
            "dask",
            "onnx",
            "psycopg",
            "pandas",
            "pyterrier",
        )
        code = f"import sys, duelrank; print([name for name in {heavy!r} if name in sys.modules])"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert found.stdout.strip() == "[]"

    def test_importing_all_public_names_leaves_what_takes_long_for_later(self):
        slow = ("numba", "scipy", "matplotlib", "http.client")
        code = f"import sys; from duelrank import *; print([name for name in {slow!r} if name in sys.modules])"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert found.stdout.strip() == "[]"

    def test_a_command_line_that_completes_a_word_leaves_what_takes_long_for_later(self):
        slow = ("numba", "scipy", "matplotlib", "http.client", "importlib.metadata")
        code = f"import sys, duelrank.cli; print([name for name in {slow!r} if name in sys.modules])"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert found.stdout.strip() == "[]"

    def test_kernels_import_numbers_only(self):
        allowed = {"__future__", "decimal", "math", "typing", "numpy", "duelrank"}
        compiler = {"kernels/lanes.py": {"numba", "llvmlite"}}
        ours = ("duelrank.kernels", "duelrank.core.compiling")
        for module, tree in trees().items():
            if module.startswith("kernels/"):
                for node in ast.walk(tree):
                    names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
                    names += [node.module] if isinstance(node, ast.ImportFrom) else []
                    assert {name.split(".")[0] for name in names} <= allowed | compiler.get(module, set()), module
                    assert all(name.startswith(ours) for name in names if name.startswith("duelrank")), module


def kernels(private: bool = False) -> list[tuple[str, ast.FunctionDef]]:
    """Return all public kernels, and perhaps the private ones, each with the path of its module."""
    return [
        (module, node)
        for module, tree in trees().items()
        if module.startswith("kernels/")
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and (private or not node.name.startswith("_"))
        and any(name.startswith("kernel") for name in decorators(node))
    ]


class TestKernels:
    def test_every_kernel_has_a_slow_twin_with_the_same_parameters(self):
        for module, node in kernels():
            place = module.replace("kernels/", "tests/reference/", 1)
            assert place in references(), f"{place} does not exist: it should hold {node.name}"
            twins = {twin.name: twin for twin in references()[place].body if isinstance(twin, ast.FunctionDef)}
            assert node.name in twins, f"{place} has no {node.name}"
            parameters = [argument.arg for argument in node.args.args]
            assert [argument.arg for argument in twins[node.name].args.args] == parameters, f"{place}:{node.name}"
            assert not any("kernel" in name for name in decorators(twins[node.name])), (
                f"{place}:{node.name} is compiled"
            )

    def test_kernels_do_not_import_numba_so_that_they_are_lazy_and_cached_in_our_folder(self):
        importers = {
            module
            for module, tree in trees().items()
            for node in ast.walk(tree)
            if (isinstance(node, ast.Import) and any(name.name.startswith("numba") for name in node.names))
            or (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("numba"))
        }
        assert importers == {
            "core/compiling.py",
            "kernels/lanes.py",
        }  # the latter inside of functions that compilation calls

    def test_kernels_compute_the_same_bits_on_every_processor(self):
        """No BLAS, no order of additions that the compiler chooses, no function of the C library: `elementary` has its own."""
        of_the_library = {
            "exp",
            "expm1",
            "log",
            "log1p",
            "log2",
            "log10",
            "pow",
            "tanh",
            "sin",
            "cos",
            "lgamma",
            "gamma",
        }
        of_the_library |= {"power", "tan", "atan", "hypot", "cbrt", "exp2", "logaddexp"}
        of_blas = {"dot", "vdot", "matmul", "einsum", "linalg"}
        found = [
            f"{module}:{node.lineno}: {ast.unparse(node)}"
            for module, kernel in kernels(private=True)
            for node in ast.walk(kernel)
            if (isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.MatMult))
            or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and ast.unparse(node.right) != "2")
            or (isinstance(node, ast.Attribute) and node.attr in of_the_library | of_blas)
            or (isinstance(node, ast.keyword) and node.arg in ("fastmath", "parallel"))
        ]
        assert found == []

    def test_no_twin_has_lost_its_kernel(self):
        known = {(module.split("/")[1], node.name) for module, node in kernels()}
        orphans = [
            f"{module}:{node.name}"
            for module, tree in references().items()
            for node in tree.body
            if isinstance(node, ast.FunctionDef)
            and not node.name.startswith("_")
            and (module.split("/")[2], node.name) not in known
        ]
        assert orphans == []
