"""The programs of the tree whose synchronisation is certified: how each text becomes something that can be run."""

from __future__ import annotations

import ast
import importlib
import math
import re
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

import atops
from atops.base.errors import AtopsError
from tests.test_docs import blocks

__all__ = ("PROGRAMS", "Program", "Runnable")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
Runnable = Callable[[], Any]
Made = Callable[[ast.Module, str], Runnable]

with pytest.MonkeyPatch.context() as patch:  # what they import lies beside them
    patch.syspath_prepend(EXAMPLES / "puzzles")
    patch.syspath_prepend(EXAMPLES / "kernels")
    judge = importlib.import_module("judge")
    importlib.import_module("measured")


@dataclass(frozen=True)
class Program:
    """A text, and `made(tree, file)`, which returns what runs a tree of it; options, and whether orders can differ."""

    name: str
    text: str
    made: Made
    options: atops.EmulatorOptions
    ordered: bool = True  # False: what it shows depends on an order, or it races on purpose
    few: Made | None = None  # makes a smaller run of it, for thousands of schedules

    def runnable(self, tree: ast.Module) -> Runnable:
        """Return the program of a tree, which is this text's or one of its mutants."""
        return self.made(tree, f"{self.name}.py")


def _namespace(tree: ast.Module, file: str) -> dict[str, Any]:
    module = types.ModuleType("mutant")
    sys.modules["mutant"] = module  # where dataclasses look for their module
    exec(compile(tree, file, "exec", dont_inherit=True), module.__dict__)
    return module.__dict__


def _main(tree: ast.Module, file: str) -> Runnable:
    main: Runnable = _namespace(tree, file)["main"]
    return main


def _puzzle(tree: ast.Module, file: str, sizes: int | None = None) -> Runnable:
    """All sizes of a puzzle, or the first few, each against what is wanted."""
    found = _namespace(tree, file)

    async def solve() -> None:
        for size in found["SIZES"][:sizes]:
            problem = found["problem"](*size)
            out, *_ = await judge.launch(found["solve"], problem)
            assert np.array_equal(out, problem.wanted), "wrong result"

    return solve


def _measured(tree: ast.Module, file: str, few: bool = False) -> Runnable:
    """All sizes of an example kernel against numpy, or the smallest; the stated one is last, where tiles come round."""
    example = _namespace(tree, file)["EXAMPLE"]
    sizes = (*example.others, example.size)
    if few:
        sizes = (min(sizes, key=math.prod),)

    async def check() -> None:
        for size in sizes:
            await example.check(*size)

    return check


def _careful(tree: ast.Module, file: str) -> Runnable:
    careful: Runnable = _namespace(tree, file)["careful"]  # main checks it, and another that races
    return careful


def _fewer(made: Made, tree: ast.Module, file: str) -> Runnable:
    """An example with fewer steps, where it has thousands."""
    text = ast.unparse(tree)
    for much, little in (("(1000, 65536)", "(10, 256)"), ("(20, 12000, 4)", "(6, 1200, 4)"), ("4 << 20", "1 << 12")):
        text = text.replace(much, little)
    return made(ast.parse(text), file)


def _notebook(tree: ast.Module, file: str) -> Runnable:
    """The cells of a notebook as one coroutine. Cells that end in an error have to."""
    code = compile(tree, file, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)

    async def cells() -> None:
        namespace = {"__name__": "__main__", "AtopsError": AtopsError, "ROWS": 8, "k": atops.kernels}
        await eval(code, namespace)

    return cells


def cells_of(path: Path) -> str:
    """Return the code of a notebook, line by line where it stands, with cells that fail inside `try`, and unwatched."""
    lines: list[str] = []
    for cell in re.split(r"^(?=# %%(?: |$))", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
        head, *body = cell.splitlines() or [""]
        if "raises-exception" in head and "# %%kernel" in body[0]:  # of the compiler of cells
            lines += ["#"] * (len(body) + 1)
        elif "raises-exception" in head:
            code = [f"    {each}" for each in body if each and not each.startswith("#")]
            lines += ["try:", *code, "    raise AssertionError('this cell has to fail')", "except AtopsError: pass"]
            lines += ["#"] * (len(body) - len(code) - 2)
        else:
            lines += [head, *body]
    text = "\n".join(lines)
    text = re.sub(r"^from atops_widgets import watch$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^(from IPython.display.*|watched.*|Image\(.*|HTML\(.*)$", "", text, flags=re.MULTILINE)
    text = text.replace("turned, numbers, False)", "turned, numbers, True)")  # else a race is there on purpose,
    text = text.replace(" and not np.array_equal(wrong, right)", "")  # by which another would not be seen
    return re.sub(r"^board = atops.Driver\(.*$", "board = atops.current_driver()", text, flags=re.MULTILINE)


def _page(tree: ast.Module, file: str) -> Runnable:
    """The blocks of a page of the documents, in one namespace."""
    code = compile(tree, file, "exec", dont_inherit=True)

    def page() -> None:
        exec(code, {"__name__": "document"})

    return page


def blocks_of(path: Path) -> str:
    """Return the Python of a page, line by line where it stands."""
    lines = [""] * len(path.read_text(encoding="utf-8").splitlines())
    for block in blocks(path):
        if block.language == "python" and not block.mark:
            lines[block.line - 1 : block.line - 1 + block.text.count("\n")] = block.text.splitlines()
    text = "\n".join(lines).replace("EmulatorOptions(seed=", "EmulatorOptions(detect=True, seed=")
    return OWN_BOARD.sub(RUNS_BOARD, text)


def _service(tree: ast.Module, file: str) -> Runnable:
    """The batcher with a small network: callers at once, more than a batch holds."""
    found = _namespace(tree, file)
    batcher_of = found.get("Batcher") or importlib.import_module("examples.service.batcher").Batcher
    network_of = found.get("Network") or importlib.import_module("examples.service.kernels").Network
    generator = np.random.default_rng(3)
    layer = generator.random((8, 20), np.float32), generator.random(20, np.float32)
    photographs = generator.random((7, 8), np.float32)
    wanted = photographs @ layer[0] + layer[1]
    wanted /= np.sqrt((wanted * wanted).sum(axis=1, keepdims=True))

    async def serve() -> None:
        answers: dict[int, Any] = {}

        async def ask(number: int) -> None:
            answers[number] = await batcher.submit(photographs[number])

        device = atops.Device(0)
        async with (
            network_of(device, [layer]) as network,
            batcher_of(device, network.embed, size=3, delay=0.001) as batcher,
        ):
            async with anyio.create_task_group() as tasks:
                for number in range(len(photographs)):
                    tasks.start_soon(ask, number)
            assert batcher.running == batcher.waiting == 0
            try:
                await batcher.submit("no photograph")
            except Exception as error:
                assert type(error).__name__ == "BatchFailed"
            else:
                raise AssertionError("the batch has to fail")
        for number, row in enumerate(wanted):
            assert np.allclose(answers[number], row, atol=1e-5), "wrong answer"

    return serve


PAGES = (
    "docs/streams.md", "docs/tutorial.md", "docs/porting.md", "docs/tracing.md",
    "docs/howto/hand_over.md",
)  # fmt: skip

OWN_BOARD = re.compile(r"async with atops\.Driver\(.*\) as driver:.*")  # with threads
RUNS_BOARD = "if driver := atops.current_driver():"
OF_FUNCTION: dict[str, Made] = {"check_schedules": _careful}  # where `main` is not the program
TIMES = {"overlap_by_virtual_time", "virtual_time", "priorities"}  # whose subject are times, first come, first served

# Programs that cannot run in one thread, or whose subject is a failure, and why. They run as users run them elsewhere.
LEFT_OUT = {
    "trio_program": "has a loop of its own",
    "two_processes": "events between processes need a board with threads",
    "callbacks": "sleeps until a callback wakes it, which needs a board with threads",
    "pool_of_two_processes": "has another process, whose order no schedule chooses",
    "replay_from_a_seed": "a race is its subject",
    "deadlock_named": "a deadlock is its subject",
}


def _kernels(options: atops.EmulatorOptions) -> Iterator[Program]:
    for path in sorted((EXAMPLES / "puzzles").glob("p*.py")):
        yield Program(path.stem, path.read_text(), _puzzle, options, few=partial(_puzzle, sizes=1))
    for path in sorted((EXAMPLES / "kernels").glob("*.py")):
        if path.stem not in ("measured", "in_cxx"):  # which hold no kernel in Python
            yield Program(path.stem, path.read_text(), _measured, options, few=partial(_measured, few=True))


def _examples(options: atops.EmulatorOptions) -> Iterator[Program]:
    for path in sorted(EXAMPLES.glob("*.py")):
        if path.stem not in LEFT_OUT:
            text, options = OWN_BOARD.sub(RUNS_BOARD, path.read_text()), replace(options, devices=2)
            made = OF_FUNCTION.get(path.stem, _main)
            text = text.replace("await count(mended=False)", "raise NotImplementedError")  # which races on purpose
            yield Program(path.stem, text, made, options, path.stem not in TIMES, partial(_fewer, made))
    for path in sorted((*(EXAMPLES / "tops").glob("*.py"), *(EXAMPLES / "hip").glob("*.py"))):
        if path.stem not in LEFT_OUT:
            text = path.read_text().replace("range(200)", "range(2)")  # passes that only take time
            name, ordered = f"{path.parent.name}_{path.stem}", path.stem not in TIMES
            yield Program(name, text, _main, replace(options, devices=4), ordered)
    for name in ("batcher", "kernels"):
        text = (EXAMPLES / "service" / f"{name}.py").read_text()
        yield Program(f"service_{name}", text, _service, options)


def _pages(options: atops.EmulatorOptions) -> Iterator[Program]:
    for path in [*(EXAMPLES / "tour").glob("*.py"), *sorted((EXAMPLES / "notebooks").glob("*.py"))]:
        yield Program(path.stem, cells_of(path), _notebook, replace(options, devices=2), ordered=False)
    for page in PAGES:
        path = ROOT / page
        yield Program(f"page_{path.stem}", blocks_of(path), _page, replace(options, devices=2), ordered=False)


def _programs() -> Iterator[Program]:
    options = atops.EmulatorOptions(detect=True, clock="virtual")
    for some in (_kernels, _examples, _pages):
        yield from some(options)


PROGRAMS = {program.name: program for program in _programs()}
