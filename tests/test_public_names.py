"""The public names of what a program holds are those that the reference lists: a new inner name has an underscore."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import atops

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"
LISTED = re.compile(r"^::: atops\.(\w+)\n    options:\n      members: \[([^\]]*)\]", re.MULTILINE)
SHOWN = re.compile(r"^::: atops\.(\w+)$", re.MULTILINE)

# What the runtime's modules call or set in each other's hottest or lowest objects. Nothing may be added here: what is
# behind a Stream or a Driver has its place there.
INNER = {
    "Buffer": {"allocation", "end", "lend", "offset", "release_in", "settled", "take_over", "when_collected"},
    "Completion": {
        "aborted", "add_waiter", "awaits", "awaits_at", "begin", "callbacks", "command", "context", "deps",
        "discard_waiter", "duty", "engine", "epoch", "failure", "finish", "give", "instead", "keeps_order", "lost",
        "over", "parked",
        "place", "queue", "settle", "share", "stage", "started_ns", "stop", "submitted_ns", "take_waiters", "thread",
        "told", "untold", "waiters", "writer",
    },
    "Device": {"context", "end_wait", "outstanding"},
    "Event": {
        "check_recordable", "end_sharing", "interprocess", "launch", "recorded_by", "shared", "stamp",
    },
    "MemoryPool": {
        "cancel", "context", "give", "lock", "opens", "put_off", "release_excess", "returned", "settled", "share",
        "since", "take", "when_collected", "withdraw",
    },
}  # fmt: skip
INNER["Pipeline"] = {"settled", "when_collected"}
INNER["StreamTask"] = INNER["Completion"]
INNER["DeviceArray"] = INNER["HostArray"] = INNER["Symbol"] = INNER["Buffer"]


def names_of(thing: object) -> set[str]:
    """Return the names of an object that have no underscore, without those that are only answered with a cure."""
    kind = type(thing)
    known = {name for name in dir(kind) if hasattr(kind, name)}
    if kind.__dictoffset__:
        known |= vars(thing).keys()
    return {name for name in known if not name.startswith("_")}


def listed() -> dict[str, set[str]]:
    """Return the names that the reference lists, by class."""
    texts = [page.read_text(encoding="utf-8") for page in sorted(REFERENCE.glob("*.md"))]
    return {name: set(re.findall(r"\w+", members)) for text in texts for name, members in LISTED.findall(text)}


@pytest.fixture
def things() -> Iterator[dict[str, object]]:
    """Give one object of each class that a program holds, by the name of the class."""
    driver = atops.Driver()
    device = atops.Device(0, driver)
    stream = device.create_stream()
    made = [
        driver, device, stream, stream.record(), stream.call(int), stream.allocate(4), stream.empty(4),
        device.host_malloc(4), device.default_pool, atops.ExternalStream(stream), atops.profile(),
        *(each.__new__(each) for each in (atops.StreamTask, atops.Symbol, atops.Pipeline)),
    ]  # fmt: skip
    yield {type(each).__name__: each for each in made}
    driver.close()


def test_what_has_no_underscore_is_in_the_reference(things: dict[str, object]):
    """Each class lists its names there, all of them and no others, beside the inner ones that are known here."""
    assert listed().keys() == things.keys()
    for kind, thing in things.items():
        names, inner = names_of(thing), INNER.get(kind, set())
        assert names - inner == listed()[kind], kind
        assert inner <= names, f"{kind}: {inner - names} have gone, take them out of the table"


def test_the_other_classes_are_records():
    """What the reference shows without a list has fields and values, and hides nothing behind them."""
    shown = {name for page in REFERENCE.glob("*.md") for name in SHOWN.findall(page.read_text(encoding="utf-8"))}
    classes = {name: kind for name in shown & {*atops.__all__} if inspect.isclass(kind := getattr(atops, name))}
    plain = enum.Enum | tuple | Exception
    records = {
        name for name, kind in classes.items()
        if dataclasses.is_dataclass(kind) or issubclass(kind, plain) or getattr(kind, "_is_protocol", False)
    }  # fmt: skip
    assert classes.keys() - records == listed().keys()
