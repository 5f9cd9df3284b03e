"""What an installation brings: packages that are imported are declared where they are needed; versions are one."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import atops

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OURS = frozenset(("atops", "atops_widgets", "benchmarks", "examples", "tests"))

# Packages that need no declaration, each with the reason.
FOUND_OR_NOT = {
    "IPython": "comes with ipywidgets",
    "pytest": "a plugin of pytest is imported by pytest",
    "typing_extensions": "for type checkers, which have it",
}
CALLED = {"ziglang"}  # packages that the wheel runs, and does not import


def normal(name: str) -> str:
    """Return a distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def named(requirements: list[object]) -> Iterator[str]:
    """Yield the distributions that requirements name; those of this package's extras and of included groups too."""
    for requirement in requirements:
        if isinstance(requirement, dict):
            yield from named(PROJECT["dependency-groups"][requirement["include-group"]])
            continue
        match = re.match(r"([\w.-]+)(?:\[([\w,]+)\])?", str(requirement))
        assert match
        if match[1] != "atops":
            yield normal(match[1])
        elif match[2]:
            for extra in match[2].split(","):
                yield from named(PROJECT["project"]["optional-dependencies"][extra])


def imported(*folders: str) -> dict[str, str]:
    """Return the packages that modules of these folders import, each with a module that does."""
    packages: dict[str, str] = {}
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            else:
                continue
            packages |= {name.partition(".")[0]: str(path.relative_to(ROOT)) for name in names}
    return {name: path for name, path in packages.items() if name not in OURS | sys.stdlib_module_names}


def undeclared(packages: dict[str, str], declared: set[str]) -> list[str]:
    """Return the packages of which no distribution is declared."""
    homes = packages_distributions()
    return [
        f"{path} imports {name}"
        for name, path in sorted(packages.items())
        if not declared & {normal(home) for home in homes.get(name, [name])} and name not in FOUND_OR_NOT
    ]


@pytest.mark.slow
def test_what_the_wheel_imports_is_a_dependency_or_in_an_extra():
    """Every package that `atops` or `atops_widgets` imports comes with the wheel or with one of its extras."""
    project = PROJECT["project"]
    declared = {*named(project["dependencies"]), *named(["atops[all]"])}
    assert not undeclared(imported("atops", "widgets"), declared)


@pytest.mark.slow
def test_the_extras_serve_what_the_wheel_has():
    """Every package of an extra is imported by a module of the wheel."""
    homes = packages_distributions()
    modules = {name for name in imported("atops", "widgets")}
    used = {normal(home) for name in modules for home in homes.get(name, [name])} | CALLED
    for extra in PROJECT["project"]["optional-dependencies"]:
        assert set(named([f"atops[{extra}]"])) <= used, extra


def test_every_package_is_pinned():
    """What can be installed has a version in constraints.txt, so that a set-up can be repeated."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pinned = {normal(line.partition("==")[0]) for line in text.splitlines() if "==" in line}
    groups = [name for group in PROJECT["dependency-groups"].values() for name in named(group)]
    assert {*named(PROJECT["project"]["dependencies"]), *named(["atops[all]"]), *groups} <= pinned
    assert set(named(PROJECT["build-system"]["requires"])) <= pinned


def test_the_version_is_one():
    """The package says its version, and the changelog has it."""
    assert re.fullmatch(r"\d+\.\d+\.\d+", atops.__version__)
    assert f"\n## {atops.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_page_of_the_package_has_no_link_into_the_tree():
    """The long description is README, and its links and pictures are those that lead somewhere from a package page."""
    command = [sys.executable, "-m", "hatchling", "metadata", "readme"]
    text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=True).stdout
    assert "asyncio.run(main())" in text
    assert not re.findall(r"\]\((?!https?:)[^)]*\)", text)


@pytest.mark.slow
@pytest.mark.parametrize("package", ["anywidget", "ipywidgets"])
def test_the_widgets_name_their_extra(package: str):
    """Without its packages `import atops_widgets` says what to install."""
    program = f"import sys; sys.modules[{package!r}] = None; import atops_widgets"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=100)
    last = done.stderr.splitlines()[-1]
    assert last == f"ModuleNotFoundError: atops_widgets needs the package {package}: pip install 'atops[notebook]'"
