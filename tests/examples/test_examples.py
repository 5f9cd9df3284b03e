"""Every example runs as a user runs it, arrives at its assert, and would fail without what it is about."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import atops
from tests.examples.forks import Ran, run_each

pytestmark = pytest.mark.timeout(300)  # the first test runs all programs

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
NAMES = [path.stem for path in EXAMPLES]

# Lines that an example cannot do without, whatever runs first: with one of them taken away its run fails.
NEEDED = [
    ("cooperative_reduction", "await k.syncblocks()"),
    ("cancellation_and_back_pressure", 'stream.wait_value(gate, 1, "Eq")'),
    ("deadlock_named", "stream.clear_error()"),
    ("double_buffering", "await arriving[now]"),
    ("double_buffering", "await leaving[now]"),
    ("double_buffering", "await leaving[0]"),
    ("double_buffering", "await leaving[1]"),
    ("first_pipeline", "stream.launch(add, (2, 12), y, 1.0)"),
    ("host_coroutine_in_stream_order", "limit = stream.call(ask)"),
    ("check_schedules", "await k.syncthreads()"),
    ("pool_allocation", "stream.free(scratch)"),
    ("trio_program", 'stream.wait_value(gate, 1, "Eq")'),
    ("virtual_time", "up.wait(left[turn - buffers])"),
]

# Examples that bring a driver or a loop of their own.
SETTLED = {
    "check_schedules", "overlap_by_virtual_time", "replay_from_a_seed", "trio_program", "two_devices", "virtual_time",
}  # fmt: skip
MODES: dict[str, dict[str, Any]] = {
    "strict": {"strict": True},
    "gcu210": {"arch": "gcu210"},
    "eager": {"dte": "eager"},
    "seeded": {"dte": "seeded", "seed": 5, "strict": True},
    "virtual": {"clock": "virtual", "seed": 6},
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Run all examples."""
    return run_each(EXAMPLES, tmp_path_factory.mktemp("examples"))


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=NAMES)
def test_each_example_runs(path: Path, ran: Ran):
    """It ends well, says something, complains of nothing, and leaves no file behind."""
    ended = ran[path]
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout and not ended.stderr


@pytest.mark.slow
def test_each_example_arrives_at_its_assert(tmp_path: Path):
    """`main` ends in an assert, and one that demands the contrary fails: it is reached, and it can fail."""
    for path in EXAMPLES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        last = main_of(tree).body[-1]
        assert isinstance(last, ast.Assert)
        last.test = ast.UnaryOp(ast.Not(), last.test)
        (tmp_path / path.name).write_text(ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8")
    ran = run_each(sorted(tmp_path.glob("*.py")), tmp_path)
    said = [done.stderr for done in ran.values()]
    assert [text for text in said if not re.search(r"^AssertionError", text, re.MULTILINE)] == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in SETTLED])
def test_each_example_runs_inline_in_every_mode(name: str, mode: str):
    """Its program says nothing of a mode, and holds in all of them, on both chips, in another order of everything."""
    main = runpy.run_path(str(FOLDER / f"{name}.py"))["main"]
    atops.run(main, atops.EmulatorOptions(**MODES[mode]))


@pytest.mark.slow
def test_what_an_example_is_about_is_needed(tmp_path: Path):
    """Without the one line it fails, and soon."""
    for number, (name, line) in enumerate(NEEDED):
        text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        assert text.count(line) == 1, line
        (tmp_path / f"{number}.py").write_text(text.replace(line, "pass"), encoding="utf-8")
    ran = run_each([tmp_path / f"{number}.py" for number in range(len(NEEDED))], tmp_path)
    codes = [done.returncode for done in ran.values()]
    assert codes == [1] * len(NEEDED), "a program that hangs is killed"


@pytest.mark.parametrize("path", EXAMPLES, ids=NAMES)
def test_each_example_says_what_to_look_at(path: Path):
    """It opens with its idea and with what to look at, fits two screens, and uses public names only."""
    text = path.read_text(encoding="utf-8")
    assert "Look at: " in (ast.get_docstring(ast.parse(text)) or "")
    assert len(text.splitlines()) <= 80
    assert set(re.findall(r"^\s*(?:from|import) (atops[\w.]*)", text, re.MULTILINE)) <= {"atops", "atops.base.errors"}


def test_the_table_of_examples_is_complete():
    """The folder's README links every example once, and nothing else of the folder."""
    linked = re.findall(r"\]\((\w+)\.py\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert sorted(linked) == NAMES


def main_of(tree: ast.Module) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """Return an example's `main`."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "main":
            return node
    raise AssertionError("an example has a main")
