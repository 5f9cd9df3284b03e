"""What the documents say is true: their Python runs, their links lead somewhere, their tables are the code's tables."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import atops
from atops import kernels, tops
from atops.device.arch import ARCHITECTURES
from tests.every import every

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS, *sorted((ROOT / "examples").rglob("*.md")), ROOT / "benchmarks/README.md"]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

FENCE = re.compile(r"^```(\S*)[ \t]*([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
FILE = re.compile(r"[\w./-]*\w\.(?:py|js|md|toml|txt)\b")
FOLDER = re.compile(r"`([\w./-]+)/`")

# Files that pages name and the tree does not have, and why.
NOT_IN_THE_TREE = {
    "scale.py": "the reader's program, whose lines a kernel's errors name",
    "saxpy.py": "the reader's program, which is compiled under this name",
    "13_twice.py": "the teacher's own lesson",
}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the word after it ("fragment", or nothing), its text and where that begins."""

    language: str
    mark: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        yield Block(match[1], match[2], match[3], text.count("\n", 0, match.start(3)) + 1)


def run(page: Path, name: str) -> int:
    """Run the Python blocks of a page from top to bottom in one namespace, and return how many there were.

    A block marked as a fragment is not run, but it is Python. Errors name the line of the page.
    """
    namespace: dict[str, Any] = {"__name__": "document"}
    count = 0
    for block in blocks(page):
        if block.language != "python":
            continue
        source = "\n" * (block.line - 1) + block.text
        if block.mark == "fragment":
            compile(source, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            continue
        assert not block.mark, f"{name}:{block.line}: ```python {block.mark}; expected nothing, or fragment"
        exec(compile(source, name, "exec", dont_inherit=True), namespace)
        count += 1
    namespace.clear()  # its functions keep it, and it keeps memory of the device that the next page sees, too
    return count


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Every Python block runs as it stands, after those above it, or is marked as a fragment."""
    monkeypatch.chdir(tmp_path)
    run(page, str(page.relative_to(ROOT)))


@every("page", PAGES, ids=NAMES)
def test_the_links_of_a_page_lead_somewhere(page: Path):
    """Each relative link names a file of the project, and each fragment a heading of its page."""
    for target, fragment in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in target:
            continue
        there = page.parent / target if target else page
        assert there.exists(), f"{target} is no file"
        assert not fragment or fragment in headings(there), f"{target}#{fragment} is no heading"


def headings(page: Path) -> set[str]:
    """Return the fragments that name the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def missing(text: str, files: set[str]) -> set[str]:
    """Return the files and folders that a page names by the ends of their paths and that are not among `files`."""
    names = {name.lstrip("./") for name in FILE.findall(text)}
    named = {name for name in names if not any(f"/{file}".endswith(f"/{name}") for file in files)}
    folders = {name.lstrip("./") for name in FOLDER.findall(text)}
    return named | {f"{name}/" for name in folders if not any(f"/{name}/" in f"/{file}" for file in files)}


@pytest.mark.slow
def test_the_files_that_pages_name_exist():
    """Every file and folder that docs/ and CONTRIBUTING.md name is in the tree, except those with a reason."""
    tops = ("atops", "widgets", "tests", "benchmarks", "docs", "examples")
    paths = [path for top in tops for path in (ROOT / top).rglob("*.*")] + list(ROOT.glob("*.*"))
    files = {path.relative_to(ROOT).as_posix() for path in paths}
    faults = {
        f"{page.name}: {name}"
        for page in (*DOCS, ROOT / "CONTRIBUTING.md")
        for name in missing(page.read_text(encoding="utf-8"), files) - set(NOT_IN_THE_TREE)
    }
    assert not faults, "no such file:\n" + "\n".join(sorted(faults))
    assert not [name for name in NOT_IN_THE_TREE if not missing(name, files)], "these exist now"


def test_a_file_that_does_not_exist_is_named():
    """A page names files by the end of their path, whole names only; folders stand in backquotes."""
    files = {"atops/device/chip.py", "atops/base/errors.py"}
    text = "device/chip.py, `errors.py`, rors.py, exec/chip.py, `device/`, `base/waiting/`"
    assert missing(text, files) == {"rors.py", "exec/chip.py", "base/waiting/"}


def test_the_pages_have_python():
    """README and the kernel page show code that runs: the search for blocks finds it."""
    found = [block.language for block in blocks(ROOT / "docs" / "kernels.md")]
    assert found.count("python") >= 8 and "cpp" in found
    assert "python" in [block.language for block in blocks(ROOT / "README.md")]


def test_a_block_that_fails_is_named(tmp_path: Path):
    """The error's line is the page's; blocks see those above; a fragment is not run, and has to be Python."""
    page = tmp_path / "page.md"
    texts = "python\na = 1\n", "python fragment\nawait missing(...)\n", "python\nassert a == 2\n"
    page.write_text("".join(f"```{text}```\n" for text in texts), encoding="utf-8")
    with pytest.raises(AssertionError) as failure:
        run(page, "page.md")
    assert (str(failure.traceback[-1].path), failure.traceback[-1].lineno + 1) == ("page.md", 8)
    page.write_text("```python fragment\na b\n```\n", encoding="utf-8")
    with pytest.raises(SyntaxError):
        run(page, "page.md")


def test_the_limits_are_those_of_the_chips():
    """The kernel page's launch limits are the architectures' figures."""
    text = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    chips = [ARCHITECTURES[name] for name in ("gcu210", "gcu300")]
    rows = {
        "blocks in x, y, z": [" × ".join(f"{extent:,}" for extent in chip.max_grid) for chip in chips],
        "threads of a block in x, y, z": [" × ".join(f"{extent:,}" for extent in chip.max_block) for chip in chips],
        "threads of a block": [f"{chip.max_threads_per_block:,}" for chip in chips],
        "blocks of a cooperative grid": [f"{chip.clusters:,}" for chip in chips],
        "bytes of constants that a kernel names": [f"{chip.constant_bytes:,}" for chip in chips],
        "bytes of `k.private`, each thread": [f"{chip.stack_bytes:,}" for chip in chips],
        "bytes of `k.local`, each thread": [f"{chip.l1_usable:,}" for chip in chips],
        "bytes of shared memory, each block": [f"{chip.l2_usable:,}" for chip in chips],
    }
    for what, figures in rows.items():
        assert f"| {what} | {' | '.join(figures)} |" in text


def test_the_port_has_the_lines_of_the_original():
    """In the kernel page C++ and Python correspond line by line, up to the brace that closes the loop."""
    page = list(blocks(ROOT / "docs" / "kernels.md"))
    [original] = [block for block in page if block.language == "cpp"]
    port = page[page.index(original) + 1]
    left = [line for line in original.text.splitlines()[:-1] if line.strip() != "}"]
    right = port.text.partition("\n\n")[0].splitlines()[1:]  # without its decorator
    assert len(left) == len(right)
    words = re.compile(r"syncthreads|mdspan|memcpy|slice_transpose|deslice|dte_scope|init|destroy|panel|strip|width")
    for ours, theirs in zip(right, left, strict=True):
        assert words.findall(ours) == words.findall(theirs)


SPOKEN = re.compile(r"[A-Za-z_]\w*")
# Both languages have them, in other places; a shared context has a name of its own in Python.
ONE_LANGUAGE = frozenset(("for", "if", "int", "float", "in", "while", "return", "tops_dte_ctx_t"))


def pairs() -> list[tuple[list[str], list[str]]]:
    """Return the lines of the kernels that the porting page has side by side: C++, and the Python beside it."""
    page = list(blocks(ROOT / "docs" / "porting.md"))
    return [
        (block.text.splitlines(), page[place + 1].text.splitlines())
        for place, block in enumerate(page)
        if block.language == "cpp"
    ]


@pytest.mark.parametrize(("left", "right"), pairs(), ids=["ping_pong", "centre"])
def test_both_columns_of_a_port_have_the_same_lines(left: list[str], right: list[str]):
    """Line by line they speak of the same names; where C++ closes a brace, Python's line is empty."""
    assert len(left) >= 40 and right[-1]
    while left[-1].strip() == "}":
        left.pop()
    assert len(left) == len(right)
    words = [{*SPOKEN.findall(" ".join(lines))} - ONE_LANGUAGE for lines in (left, right)]
    both = {name for name in words[0] & words[1] if len(name) > 1}
    assert {"memcpy", "memcpy_async"} & both and {"mdspan", "src", "dst", "threadIdx"} <= both
    for ours, theirs in zip(right, left, strict=True):
        assert bool(ours.strip()) is (theirs.strip() not in ("", "}"))
        assert both & {*SPOKEN.findall(ours)} == both & {*SPOKEN.findall(theirs)}, (theirs, ours)


NAMED: dict[str, Any] = {
    "array": atops.DeviceArray,
    "atops": atops,
    "buffer": atops.Buffer,
    "completion": atops.Completion,
    "device": atops.Device,
    "event": atops.Event,
    "k": kernels,
    "pool": atops.MemoryPool,
    "stream": atops.Stream,
    "tops": tops,
}
SPAN = re.compile(r"`([^`]+)`")
FROM = sorted((ROOT / "docs" / "coming_from").glob("*.md"))


def unknown(text: str) -> Iterator[str]:
    """Yield what a piece of Python names and its objects lack: attributes, and arguments of calls by name."""
    text += {"@": "\ndef f(): pass", ":": " pass"}.get(text[0] if text[0] == "@" else text[-1], "")
    for node in ast.walk(compile(text, text, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)):
        if isinstance(node, ast.Attribute):
            owner = named(node.value)
            if owner is not None and not hasattr(owner, node.attr):
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and callable(function := named(node.func)):
            taken = inspect.signature(function).parameters.values()
            if not any(each.kind is each.VAR_KEYWORD for each in taken):
                extra = {word.arg for word in node.keywords} - {each.name for each in taken}
                yield from (f"{name}= of {ast.unparse(node.func)}" for name in sorted(extra, key=str))


def named(node: ast.expr) -> Any:
    """Return the object that an expression names, None where that is not known."""
    if isinstance(node, ast.Name):
        return NAMED.get(node.id)
    if isinstance(node, ast.Attribute) and (owner := named(node.value)) is not None:
        value = getattr(owner, node.attr, None)
        return value if inspect.ismodule(value) or inspect.isclass(value) or inspect.isroutine(value) else None
    return None


@pytest.mark.parametrize("page", FROM, ids=[page.stem for page in FROM])
def test_the_names_for_those_who_come_from_elsewhere_exist(page: Path):
    """What the tables of these pages tell to write is Python, of names that are there."""
    rows = [re.split(r"(?<!\\)\|", line) for line in page.read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    spans = [span for row in rows for span in SPAN.findall(row[2])]
    assert page.stem == "index" or len(spans) >= 20
    assert not (faults := [fault for span in spans for fault in unknown(span)]), faults


def test_a_name_that_does_not_exist_is_seen():
    """Attributes, keyword arguments and names of modules are looked up; names that are the reader's are not."""
    texts = "stream.synchronize()", "device.create_stream(prio=1)", "@k.jit", "with atops.Devise(1):", "await x.f(y)"
    assert [fault for text in texts for fault in unknown(text)] == [
        "stream.synchronize", "prio= of device.create_stream", "k.jit", "atops.Devise",
    ]  # fmt: skip


def test_the_reference_has_every_name():
    """Each public name of `atops` has its place in the reference; the C-style functions' families are all there."""
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    shown = set(re.findall(r"^::: atops\.(\w+)$", text, re.MULTILINE))
    elsewhere = {"aml", "distributed", "errors", "hip", "kernels", "tops"}  # pages of their own
    assert set(atops.__all__) - elsewhere <= shown
    families = {path.stem for path in (ROOT / "atops" / "tops" / "functions").glob("[a-z]*.py")} - {"api"}
    assert set(re.findall(r"^::names atops\.tops\.functions\.(\w+) ", text, re.MULTILINE)) == families


@pytest.mark.soak
def test_the_site_is_built(tmp_path: Path):
    """`make docs` builds without a warning, every page is in the navigation, and the functions are on their page."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    texts = {path.relative_to(tmp_path / "site").as_posix(): path for path in (tmp_path / "site").rglob("*.html")}
    assert {"index.html", "reference/tops.html", "examples/first_pipeline.py.html"} <= set(texts)
    functions = texts["reference/tops.html"].read_text(encoding="utf-8")
    assert all(f'id="{name.lower()}"' in functions for name in ("topsMalloc", "topsStreamWaitEvent"))
