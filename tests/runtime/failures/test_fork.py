"""After a fork the child starts with no driver; the parent's board is not the child's to use, nor to harm."""

from __future__ import annotations

import os

import pytest

from tests.runtime.child import run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.mark.slow
def test_the_child_is_refused_and_makes_its_own() -> None:
    """Every object of the parent raises NotInitialized in the child, new ones work, and the parent goes on."""
    assert run("forks", "objects") == "ok\n"


@pytest.mark.slow
def test_forks_of_a_busy_process() -> None:
    """Whatever lock is held in the moment of the fork, the child can make a driver and ends."""
    assert run("forks", "busy") == "ok\n"


@pytest.mark.slow
def test_a_fork_while_every_lock_of_a_module_is_held() -> None:
    """A lock that another thread held at the fork is free in the child: its kernels run."""
    assert run("forks", "held") == "ok\n"


@pytest.mark.slow
def test_the_child_cannot_free_the_parents_memory() -> None:
    """The child sees the same pages: what it closes and collects there gives none of them back to the system."""
    assert run("forks", "memory") == "ok\n"
