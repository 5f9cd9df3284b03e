"""Traces in files: saved without loss, loaded again by any viewer, refused with a reason when they are damaged.

A file is one JSON object. Records, counters and details are lists of integers in the order of their fields; names and
kinds are numbers into its tables, so that a reader of another version of this package can still tell what is meant.
"""

from __future__ import annotations

import errno
import gzip
import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from atops.base.errors import InvalidType, InvalidValue
from atops.base.trace.records import (
    AllocationEvent,
    Change,
    CommandEvent,
    CounterSample,
    HostWait,
    Kind,
    MemoryUse,
    Phase,
    Place,
    RaceEvent,
    RaceSide,
    Status,
    ThreadEvent,
    ThreadState,
    Trace,
    TraceNames,
    TraceRecord,
)
from atops.trace.chrome import to_chrome
from atops.trace.page import to_page

__all__ = ("VERSION", "check_target", "load", "records_from_json", "records_to_json", "save", "write", "write_page")

VERSION: Final = 1
FORMAT: Final = "atops-trace"
OWN: Final = "atops"  # where a Chrome trace has the trace itself
# The tables of a file: by the field of a row that is a number into one, what it is called and what is in it.
TABLES: Final[Mapping[str, tuple[str, type[IntEnum]]]] = {
    "kind": ("kinds", Kind),
    "status": ("statuses", Status),
    "phase": ("phases", Phase),
    "change": ("sorts_of_change", Change),
    "turn": ("turns", ThreadState),
}

Row = TypeVar("Row", TraceRecord, CommandEvent, AllocationEvent, ThreadEvent, MemoryUse)


def save(path: str | os.PathLike[str], trace: Trace) -> None:
    """Write a trace to `path`, compressed when it ends in .gz. A file that is there is replaced whole or not at all."""
    _put(Path(path), records_to_json(trace))


def write(path: str | os.PathLike[str], trace: Trace) -> None:
    """Write a trace in the form that the end of `path` asks for; `.gz` behind it compresses.

    `.html` is a page to look at in a browser. `.json` opens at ui.perfetto.dev and chrome://tracing, and holds the
    trace itself as well. Anything else is the trace alone, as `save` writes it. `load` reads the last two. A
    file that is there is replaced whole or not at all.
    """
    target = Path(path)
    kind = Path(target.stem).suffix if target.suffix == ".gz" else target.suffix
    if kind in (".html", ".htm"):
        return write_page(target, trace, target.name)
    if kind == ".json":
        seen = to_chrome(trace.records, counters=trace.counters, names=trace.names, steps=trace.steps,
                         anchor_ns=trace.anchor_ns, races=trace.races, waits=trace.waits)  # fmt: skip
        text = json.dumps(seen, separators=(",", ":"))[:-1] + f',"{OWN}":{records_to_json(trace)}}}'
    else:
        text = records_to_json(trace)
    _put(target, text)


def write_page(path: str | os.PathLike[str], trace: Trace, title: str = "trace") -> None:
    """Write a trace as one page of HTML that opens without a network: a timeline to zoom in, figures and a text."""
    _put(Path(path), to_page(trace, title))


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return where a trace will be written. Raises now what would be raised then: InvalidType, OSError.

    What can be seen before: a path that is a folder, in no folder, or in one that takes no file.
    """
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise InvalidType(f"the file of a trace is {path!r}; expected a path")
    target = Path(path)
    if not os.fspath(path) or target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a trace cannot be written to a folder", os.fspath(path))
    folder = target.parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "a trace cannot be written there: the folder is missing", str(folder))
    if not os.access(target if target.exists() else folder, os.W_OK):
        raise PermissionError(errno.EACCES, "a trace cannot be written there", str(target))
    return target.absolute()  # the program may go to another folder


def _put(target: Path, text: str) -> None:
    """Write a file whole or not at all; what is no ordinary file, such as a pipe, is written to as it is."""
    data = text.encode()
    data = gzip.compress(data, mtime=0) if target.suffix == ".gz" else data
    if target.exists() and not target.is_file():
        target.write_bytes(data)
        return
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def load(path: str | os.PathLike[str]) -> Trace:
    """Read what `save` or `write` wrote. Raises InvalidValue, naming the file and the reason, when it is no trace."""
    data = Path(path).read_bytes()
    try:
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        return records_from_json(data.decode())
    except (EOFError, OSError, UnicodeDecodeError, zlib.error) as error:
        raise InvalidValue(f"{os.fspath(path)} is cut off or damaged: {error}") from error
    except InvalidValue as error:
        raise InvalidValue(f"{os.fspath(path)}: {error}") from error


def records_to_json(trace: Trace) -> str:
    """Return a trace as the text of a trace file."""
    texts: dict[str, int] = {}

    def rows(values: Iterable[tuple[int | str, ...]]) -> list[list[int]]:
        return [
            [texts.setdefault(value, len(texts)) if isinstance(value, str) else int(value) for value in row]
            for row in values
        ]

    return json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "fields": TraceRecord._fields,
            **{name: [member.name for member in members] for name, members in TABLES.values()},
            "records": rows(trace.records),
            "moments": rows(trace.moments),
            "changes": rows(trace.changes),
            "steps": rows(trace.steps),
            "uses": rows(trace.uses),
            "names": list(texts),
            "races": [[*race[:-2], list(race.first), list(race.second)] for race in trace.races],
            "waits": [list(wait) for wait in trace.waits],
            "counters": [list(sample) for sample in trace.counters],
            "dropped": trace.dropped,
            **({} if trace.anchor_ns is None else {"anchor_ns": trace.anchor_ns}),
            "devices": sorted(trace.names.devices.items()),
            "streams": [[*key, name] for key, name in sorted(trace.names.streams.items())],
            "capacities": [[*key, most] for key, most in sorted(trace.names.capacities.items())],
            "notes": dict(trace.names.notes),
            "callers": sorted(trace.names.callers.items()),
            "sites": [[number, *place] for number, place in sorted(trace.names.sites.items())],
        },
        separators=(",", ":"),
    )


def records_from_json(text: str) -> Trace:
    """Return the trace in the text of a trace file.

    Raises InvalidValue when the text is cut off, is not a trace, is of another version, or contradicts itself.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"the trace is cut off or damaged: {error}") from error
    if isinstance(content, dict) and "traceEvents" in content:
        content = content.get(OWN)
        if content is None:
            raise InvalidValue("this is a Chrome trace without what atops.profile adds to it; there is no way back")
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidValue(f"this is no trace; expected a JSON object whose format is {FORMAT!r}")
    if content.get("version") != VERSION:
        raise InvalidValue(f"the trace is of version {content.get('version')!r}; this package reads version {VERSION}")
    if content.get("fields") != list(TraceRecord._fields):
        raise InvalidValue(f"the trace has the fields {content.get('fields')!r}; expected {TraceRecord._fields!r}")
    try:
        return _trace(content)
    except KeyError as error:
        raise InvalidValue(f"the trace is damaged: it has no {error}") from error
    except (IndexError, TypeError, AttributeError, ValueError) as error:
        raise InvalidValue(f"the trace is damaged: {type(error).__name__}: {error}") from error


def _trace(content: dict[str, Any]) -> Trace:
    tables: dict[str, Sequence[object]] = {
        field: [members[each] for each in content[name]]
        for field, (name, members) in TABLES.items()
        if name in content
    }
    if not isinstance(content["names"], list) or not isinstance(content["notes"], dict):
        raise ValueError("names are no list, or notes no object")
    tables["name"] = _texts(content["names"])
    names = TraceNames(
        devices=dict(zip(*_named(content["devices"], 1), strict=True)),
        streams=dict(zip(*_named(content["streams"], 2), strict=True)),
        notes=dict(zip(_texts(content["notes"]), _texts(content["notes"].values()), strict=True)),
        sites={_integers([number], 1)[0]: _place(*place) for number, *place in content.get("sites", ())},
        callers={row[0]: row[1] for row in (_integers(row, 2) for row in content.get("callers", ()))},
        capacities={(row[0], row[1]): row[2] for row in (_integers(row, 3) for row in content.get("capacities", ()))},
    )
    return Trace(
        _read(TraceRecord, content["records"], tables),
        tuple(CounterSample._make(_integers(row, 3)) for row in content["counters"]),
        names,
        _integers([content["dropped"]], 1)[0],
        _read(CommandEvent, content.get("moments", ()), tables),  # a file of before there were details has none
        _read(AllocationEvent, content.get("changes", ()), tables),
        _read(ThreadEvent, content.get("steps", ()), tables),
        _read(MemoryUse, content.get("uses", ()), tables),
        None if "anchor_ns" not in content else _integers([content["anchor_ns"]], 1)[0],  # as above
        tuple(_race(*row) for row in content.get("races", ())),
        tuple(HostWait._make(_integers(row, 4)) for row in content.get("waits", ())),
    )


def _read(kind: type[Row], rows: Iterable[Sequence[object]], tables: Mapping[str, Sequence[object]]) -> tuple[Row, ...]:
    """Return the rows of a file as values, with what their numbers into tables stand for."""
    places = [(place, field) for place, field in enumerate(kind._fields) if field in TABLES or field == "name"]
    found: list[Row] = []
    for row in rows:
        numbers: list[int] = _integers(row, len(kind._fields))
        values: list[object] = [*numbers]
        for place, field in places:
            if numbers[place] < 0:
                raise ValueError(f"{field} is {numbers[place]}; expected a place in its table")
            values[place] = tables[field][numbers[place]]
        found.append(kind._make(values))
    return tuple(found)


def _texts(values: Iterable[object]) -> list[str]:
    found: list[str] = []
    for each in values:
        if not isinstance(each, str):
            raise ValueError(f"{each!r} is no text")
        found.append(each)
    return found


def _named(rows: Iterable[Sequence[object]], count: int) -> tuple[list[Any], list[str]]:
    """Return what rows of so many integers and a name give names to, and the names."""
    rows = list(rows)
    keys = [_integers(row[:-1], count) for row in rows]
    return [tuple(key) if count > 1 else key[0] for key in keys], _texts(row[-1] for row in rows)


def _place(file: object, line: object, function: object) -> Place:
    if type(file) is not str or type(line) is not int or type(function) is not str:
        raise ValueError(f"{[file, line, function]!r} is no place; expected a file, a line and a function")
    return Place(file, line, function)


def _race(*row: Any) -> RaceEvent:
    at, kind, memory, device, offset, ranges, advice, first, second = row
    if any(type(text) is not str for text in (kind, memory, advice)):
        raise ValueError(f"{[kind, memory, advice]!r} are no texts of a race")
    places = tuple((start, stop) for start, stop in (_integers(each, 2) for each in ranges))
    at, device, offset = _integers([at, device, offset], 3)
    return RaceEvent(at, kind, memory, device, offset, places, advice, _side(*first), _side(*second))


def _side(actor: object, what: object, write: object, *numbers: object) -> RaceSide:
    if type(actor) is not str or type(what) is not str or type(write) is not bool:
        raise ValueError(f"{[actor, what, write]!r} is no side of a race")
    return RaceSide(actor, what, write, *_integers(numbers, 4))


def _integers(row: Sequence[object], count: int) -> list[int]:
    if len(row) != count or any(type(value) is not int for value in row):
        raise ValueError(f"{row!r} is no list of {count} integers")
    return list(row)  # type: ignore[arg-type]  # looked at above
