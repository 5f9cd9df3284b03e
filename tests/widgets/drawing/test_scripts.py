"""The scripts as they are sent: one module each, below the limit, valid, tested by node where there is one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from atops_widgets import WIDGETS
from atops_widgets.drawing.page import _small, board_script, inline_script, module_script
from tests.every import every
from tests.widgets.host import missing

MOST_BYTES = 30_000  # of JavaScript that one widget sends, the shared base included
JS_TESTS = Path(__file__).parents[1] / "js"
SHARED = ("base", "lanes", "races", "time_axis", "time_cursor")
TEXT = re.compile(r"""("(?:[^"\\]|\\.)*")""")
BOARD = [kind.script for kind in WIDGETS]
NAMES = [*BOARD, "scheduler/scheduler.js", "scheduler/explorer.js"]


@pytest.mark.parametrize("name", NAMES)
def test_a_script_is_one_small_module(name: str) -> None:
    """What a widget sends is at most 30 kB, imports nothing, names no address and has one default export."""
    text = module_script(name)
    assert len(text.encode()) <= MOST_BYTES
    assert not re.search(r"^\s*import\b|\bimport\s*\(|https?://(?!www\.w3\.org/)|\bfetch\(", text, re.MULTILINE)
    assert len(re.findall(r"^export default ", text, re.MULTILINE)) == 1


def test_a_board_is_one_module_too() -> None:
    """The board's script has what its widgets share once: it takes less than they do for themselves."""
    text = board_script(tuple(BOARD))
    assert len(text.encode()) < 0.65 * sum(len(module_script(name).encode()) for name in BOARD)
    assert len(re.findall(r"^export default", text, re.MULTILINE)) == 1
    assert "const widget = {" in inline_script(text)


@pytest.mark.parametrize("name", NAMES)
def test_texts_stay_as_they_are(name: str) -> None:
    """What makes a script small leaves its texts alone: each that is written in its file is sent."""
    lines = (files("atops_widgets") / name).read_text(encoding="utf-8").splitlines()
    written = {each for line in lines if not line.lstrip().startswith("//") for each in TEXT.findall(line)}
    sent = module_script(name)
    assert [each for each in written if each not in sent and not each.endswith('.js"')] == []
    assert not re.search(r"`[^`]*\$\{[^}`]*`", sent)  # no template in a template


@pytest.mark.parametrize("name", [*(f"drawing/{name}.js" for name in SHARED), *NAMES])
def test_lines_may_be_joined(name: str) -> None:
    """No line ends in a comment and no text goes over several lines: what is sent has fewer lines than the file."""
    lines = (files("atops_widgets") / name).read_text(encoding="utf-8").splitlines()
    code = [line for line in lines if not line.lstrip().startswith("//")]
    assert [line for line in code if re.search(r"[;{},)\]]\s*//|/\*", line)] == []
    assert [line for line in code if line.count("`") % 2] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_page_holds_the_script_without_exports(name: str) -> None:
    """In an HTML page the default export is a constant, and nothing can end the script element early."""
    text = inline_script(module_script(name))
    assert "export " not in re.sub(r"\".*?\"|'.*?'|`.*?`", "", text)
    assert "const widget = mount(" in text
    assert "</" not in text


@pytest.fixture(scope="module")
def node() -> str:
    """The path of node."""
    found = shutil.which("node")
    if found is None:
        missing("no node is installed to run the scripts' own tests with")
    return str(found)


@pytest.mark.slow
@pytest.mark.parametrize("test", sorted(JS_TESTS.glob("*.test.mjs")), ids=lambda path: path.name)
def test_the_scripts_own_tests(node: str, test: Path, tmp_path: Path) -> None:
    """The pure functions of the scripts pass their tests."""
    for name in NAMES:
        (tmp_path / Path(name).name).with_suffix(".mjs").write_text(module_script(name, exports=True), encoding="utf-8")
    environment = {**os.environ, "ATOPS_SCRIPTS": str(tmp_path)}
    done = subprocess.run(
        [node, "--test", str(test)], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@every("text, sent", [
    ("  const a = b + c - 1;\n", "let a=b+c-1;\n"),
    ("x = y - -1 + +z;\n", "x=y - -1 + +z;\n"),
    ('say("a + b", `c - ${d}`);\n', 'say("a + b",`c - ${d}`);\n'),
    ("let a = 1;\nconst {b} = c;\nlet d;\n", "let a=1,{b}=c,d;"),
    ("const a = 1;\nconst b = 2;\nconst c = () => { d(); };\nconst e = 3;\n",
     "let a=1,b=2,c=()=>{d();};let e=3;"),
    ("if (a) {\n  b += [\n    1, 2,\n  ];\n}\nc();\n", "if(a){b+=[1,2]}c();"),
])  # fmt: skip
def test_what_makes_a_script_small(text: str, sent: str) -> None:
    """White space goes where nothing runs together, neighbours of one kind become one, texts stay."""
    assert _small(text).strip("\n") == sent.strip("\n")


def test_shared_functions_that_nothing_calls_are_not_sent() -> None:
    """What a widget does not call of what it could is left out, also what only such a function calls."""
    assert "function spotsOf" in module_script("queues/queues.js", exports=True)
    assert "function spotsOf" not in module_script("cluster_grid/cluster_grid.js", exports=True)
    assert "export function" not in module_script("queues/queues.js")
    assert "export function layout" in module_script("queues/queues.js", exports=True)
