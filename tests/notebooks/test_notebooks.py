"""Every notebook runs on every kernel, leaves nothing behind, and shows what it is about."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.notebooks.runner import KERNELS, RAISES, ROOT, Kernel, from_source, run, text_of

NOTEBOOKS = sorted((ROOT / "examples" / "tour").glob("*.py")) + sorted((ROOT / "examples" / "notebooks").glob("*.py"))
OF_THE_RUNTIME = re.compile(r"atops/\w+/\w+\.py|site-packages|ipykernel_")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)

# What a reader must come to see, whatever the machine.
SHOWN = {
    "concurrency": (
        r"before: <Stream stream on device 0, 6 commands>\nafter:  \[3 3 3 3 3 3\]",
        r"array\(\[0, 0, 0, 0\], dtype=int32\)",
        r"array\(\[7, 7, 7, 7\], dtype=int32\)",
        r"satisfied by number",
        r"% of the copy time lay beside a kernel",
        r"without: \[0 0 0 0 0 0 6 5 4 3 2 1\]\nwith:    \[12 11 10  9  8  7  6  5  4  3  2  1\]",
        r"threads 0-4, 6-11 wait at syncthreads, In\[\d+\]:5; thread 5 has left the kernel",
        r"1 record in .*; 1 failed",
    ),
    "photographs": (
        r"gcu300, 2 devices",
        r"measure\(out, picture\): 192 B of L2 a block",
        r"In\[\d+\]:4:14: error: 'k' has no name 'locl'; did you mean 'local'\?\n",
        r"\n    band = k.locl\(.*\n             \^~~~\n",
    ),
    "tour": (
        r"<Device 0: Enflame S60 \(gcu300, emulated\)>",
        r"#scale#",
        r"\[0\. 3\. 6\. 9\.\] \.\.\. 3,145,725",
        r"\[-1\. -1\.",
        r"KernelDeadlock: .*threads 0-9 wait at syncthreads, In\[\d+\]:4; threads 10-11 have left the kernel",
        r"waited for by:\nIn\[\d+\], line 3, in <module>\n----> 3 await stream",
        r"1 record in .*; 1 failed",
        r"\[105, 108, 111, 114, 117\]",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@each_notebook
def test_each_notebook_runs(path: Path, kernel: Kernel):
    """It ends without a fault, shows what it promises, and no failure drags the runtime's lines along."""
    notebook = from_source(path)
    assert run(notebook, kernel) == []
    shown = "\n".join(map(text_of, notebook.cells))
    assert [pattern for pattern in SHOWN[path.stem] if not re.search(pattern, shown)] == []
    assert OF_THE_RUNTIME.search(shown) is None


@pytest.mark.slow
@each_notebook
def test_each_notebook_begins_with_imports(path: Path):
    """Its first cell loads the extension and awaits nothing: a failure in a first cell that awaits may hang it."""
    code = [cell.source for cell in from_source(path).cells if cell.cell_type == "code"]
    assert code[0].startswith("%load_ext atops_widgets\n")
    tree = ast.parse(code[0].partition("\n")[2])
    assert all(isinstance(node, ast.Import | ast.ImportFrom | ast.Assign) for node in tree.body)
    assert not any(isinstance(node, ast.Await) for node in ast.walk(tree))


@pytest.mark.slow
@each_notebook
def test_each_notebook_explains_itself(path: Path):
    """It opens with a title, has text before every few cells, and its text fits a screen."""
    cells = from_source(path).cells
    assert cells[0].cell_type == "markdown" and cells[0].source.startswith("# ")
    kinds = "".join(cell.cell_type[0] for cell in cells)
    assert "cccc" not in kinds
    assert max(len(line) for cell in cells for line in cell.source.splitlines()) <= 120


@pytest.mark.slow
@each_notebook
def test_each_notebook_checks_what_it_shows(path: Path):
    """Its results are asserted, and it has at least one cell that fails on purpose."""
    cells = from_source(path).cells
    assert sum(cell.source.count("assert ") for cell in cells if cell.cell_type == "code") >= 3
    assert any(RAISES in cell.metadata.get("tags", ()) for cell in cells)


def test_the_table_of_notebooks_is_complete():
    """The folder's README links each of them once."""
    text = (ROOT / "examples" / "notebooks" / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\((?:\.\./tour/)?(\w+)\.py\)", text)) == sorted(path.stem for path in NOTEBOOKS)
