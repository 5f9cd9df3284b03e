"""The cluster grid as text: a line for each block, the waits, and the source with the threads at its lines."""

from __future__ import annotations

import textwrap

from atops.trace.text import format_bytes
from atops_widgets.cluster_grid.words import STATES
from atops_widgets.drawing.scene import Scene

__all__ = ("describe", "mark_words")


def describe(scene: Scene, width: int) -> str:
    """Return the text of a scene."""
    told = scene.told
    parts = [str(told["say"])]
    if told["blocks"]:
        letters = ", ".join(f"{letter} {words}" for _, letter, words, _ in told["states"])
        parts += ["", f"Each letter is a thread: {letters}."]
        parts += _blocks(scene)
    if told["waits"]:
        parts += ["", "Waits:"]
        for threads, what, missing, hope, _ in told["waits"]:
            text = f"{threads} at {what}, waiting for {missing}: {hope}"
            parts += textwrap.wrap(text, max(40, width), initial_indent="  ", subsequent_indent="    ")
    for number, (title, rows) in enumerate(told["sections"]):
        parts += ["", f"{title}:"]
        for line, text in rows:
            parts.append(f"{mark_words(told['stands'], number, line):>9} {line:>5} {text}".rstrip())
    return "\n".join(parts)


def mark_words(marks: list[list[int]], section: int, line: int) -> str:
    """Return the threads at a line as letters with counts: "3B 1R"; empty without any."""
    return " ".join(f"{count}{STATES[turn][0]}" for where, at, turn, count in marks if (where, at) == (section, line))


def _blocks(scene: Scene) -> list[str]:
    told, turns = scene.told, scene.columns["turn"].astype(int).tolist()
    parts, at, before = [], 0, None
    for block, cluster, l2_bytes, threads in told["blocks"]:
        if cluster != before:
            before = cluster
            parts.append(f"cluster {cluster}" if cluster >= 0 else "clusters not told")
        letters = "".join(STATES[turn][0] for turn in turns[at : at + threads])
        used = sum(scene.columns["l1_bytes"][at : at + threads].tolist())
        at += threads
        parts.append(f"  block {block:<5} {letters}  L1 {format_bytes(int(used))} in all, L2 {format_bytes(l2_bytes)}")
    more = told["all_blocks"] - told["first"] - len(told["blocks"])
    if told["first"] or more > 0:
        parts.append(f"  {told['first']:,} blocks before these and {max(0, more):,} after them are not told")
    return parts
