"""Checking a program under many schedules: `atops.check`.

strategies    ways of going through the schedules: at random, with few switches, all that differ
search        run until one fails; knows a program as a function of a chooser
shrink        fewer switches for the same failure
runner        one run of a program under a chooser
command_touches  what steps of streams, engines and tasks touch; task_calls: what a task asks the package
actors        the actor that a name belongs to, short names, and places in the program
check         `atops.check` itself, and its awaitable twin
stepper       one choice at a time, by its user
look          what there is where a run waits for a choice; variables: the memory that a program names
check_report  what a check found; drawing: the failing run as text
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Searches on the workers of a cluster, by a client and what is checked. Put here by `atops`, which knows them.
CLUSTERS: list[Callable[[Any, Any], Any]] = []
