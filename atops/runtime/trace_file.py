"""Traces in files: saved without loss, loaded again by any viewer, refused with a reason when they cannot be right.

A file is one JSON object. Records and counters are lists of integers in the order that `fields` gives; names and kinds
are numbers into its tables, so that a reader of another version of this package can still tell what is meant.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from atops.base.errors import InvalidValue
from atops.base.records import CounterSample, Kind, Status, Trace, TraceNames, TraceRecord

__all__ = ("VERSION", "load", "records_from_json", "records_to_json", "save")

VERSION: Final = 1
FORMAT: Final = "atops-trace"
KIND, STATUS, NAME = (TraceRecord._fields.index(field) for field in ("kind", "status", "name"))


def save(path: str | os.PathLike[str], trace: Trace) -> None:
    """Write a trace to `path`, compressed when it ends in .gz. A file that is there is replaced whole or not at all."""
    target = Path(path)
    data = records_to_json(trace).encode()
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(gzip.compress(data, mtime=0) if target.suffix == ".gz" else data)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def load(path: str | os.PathLike[str]) -> Trace:
    """Read a trace that `save` wrote. Raises InvalidValue, naming the file and the reason, when it is not one."""
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
    rows = [
        [texts.setdefault(value, len(texts)) if isinstance(value, str) else int(value) for value in record]
        for record in trace.records
    ]
    return json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "fields": TraceRecord._fields,
            "kinds": [kind.name for kind in Kind],
            "statuses": [status.name for status in Status],
            "names": list(texts),
            "records": rows,
            "counters": [list(sample) for sample in trace.counters],
            "dropped": trace.dropped,
            "devices": sorted(trace.names.devices.items()),
            "streams": [[*key, name] for key, name in sorted(trace.names.streams.items())],
            "notes": dict(trace.names.notes),
        },
        separators=(",", ":"),
    )


def records_from_json(text: str) -> Trace:
    """Return the trace in the text of a trace file.

    Raises InvalidValue when the text is cut off, is not a trace, is of another version, or contradicts itself.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InvalidValue(f"the trace is cut off or damaged: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidValue(f"this is no trace; a JSON object whose format is {FORMAT!r} is right")
    if content.get("version") != VERSION:
        raise InvalidValue(f"the trace is of version {content.get('version')!r}; this package reads version {VERSION}")
    if content.get("fields") != list(TraceRecord._fields):
        raise InvalidValue(f"the trace has the fields {content.get('fields')!r}; {TraceRecord._fields!r} are right")
    try:
        return _trace(content)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InvalidValue(f"the trace is damaged: {type(error).__name__}: {error}") from error


def _trace(content: dict[str, Any]) -> Trace:
    kinds = [Kind[name] for name in content["kinds"]]
    statuses = [Status[name] for name in content["statuses"]]
    texts = content["names"]
    records: list[TraceRecord] = []
    for row in content["records"]:
        values: list[Any] = _integers(row, len(TraceRecord._fields))
        for place, table in ((KIND, kinds), (STATUS, statuses), (NAME, texts)):
            if values[place] < 0:
                raise ValueError(f"{TraceRecord._fields[place]} is {values[place]}; a place in its table is right")
            values[place] = table[values[place]]
        records.append(TraceRecord._make(values))
    names = TraceNames(
        devices={device: name for device, name in content["devices"]},
        streams={(device, stream): name for device, stream, name in content["streams"]},
        notes=content["notes"],
    )
    counters = tuple(CounterSample._make(_integers(row, 3)) for row in content["counters"])
    return Trace(tuple(records), counters, names, content["dropped"])


def _integers(row: Sequence[Any], count: int) -> list[int]:
    if len(row) != count or any(type(value) is not int for value in row):
        raise ValueError(f"{row!r} is no list of {count} integers")
    return list(row)
