"""Python's parser as several threads may use it at once."""

from __future__ import annotations

import ast
import gc
import sys
import threading
import time

import pytest

from atops.base.python_ast import ATTEMPTS, expression_tree, module_tree

TEXT = "def f(x):\n" + "".join(f"    x = ({i} + ({i} * (x - [{i}, (x,)][0])))\n" for i in range(50))


def test_trees():
    """The trees are Python's own, and so are the errors."""
    assert ast.dump(module_tree(TEXT, "f.py")) == ast.dump(ast.parse(TEXT))
    assert ast.dump(expression_tree("1 + x")) == ast.dump(ast.parse("1 + x", mode="eval"))
    with pytest.raises(SyntaxError) as info:
        module_tree("def", "f.py")
    assert info.value.filename == "f.py"


@pytest.mark.slow
def test_threads_parse_at_once():
    """Valid texts are read, whatever other threads read meanwhile."""
    before, threshold, failures = sys.getswitchinterval(), gc.get_threshold(), []

    class Litter:
        """Something whose finalizer gives up the turn, in whatever the collector interrupts."""

        def __del__(self) -> None:
            time.sleep(0)

    def parse() -> None:
        try:
            for _ in range(15):
                for _ in range(30):
                    litter = Litter()
                    litter.me = litter
                module_tree(TEXT)
        except BaseException as error:
            failures.append(error)

    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    try:
        threads = [threading.Thread(target=parse) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
        gc.set_threshold(*threshold)
    assert not failures


def test_a_parser_that_another_one_disturbs_tries_again(monkeypatch):
    """A SystemError is no verdict on the text: it is read again, and only raised where that never helps."""
    left = [3]

    def disturbed(*arguments, **named):
        left[0] -= 1
        if left[0] >= 0:
            raise SystemError("AST constructor recursion depth mismatch (before=60, after=29)")
        return parse(*arguments, **named)

    parse = ast.parse
    monkeypatch.setattr(ast, "parse", disturbed)
    assert isinstance(expression_tree("1").body, ast.Constant)
    left[0] = 2 * ATTEMPTS
    with pytest.raises(SystemError):
        module_tree("1")
