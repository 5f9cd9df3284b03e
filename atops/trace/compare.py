"""Two traces beside each other: their commands aligned, and the first that differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from atops.base.trace.records import Status, Trace, TraceRecord
from atops.trace.words import KIND_NAMES, format_bytes, format_ns, shortened

__all__ = ("Comparison", "Pair", "What", "compare", "told")

MOST: Final = 2_000  # commands between the first and the last that differ which are aligned one by one
AROUND: Final = 3  # commands that are alike shown before and behind others

What: TypeAlias = Literal["alike", "another time", "another end", "earlier in the second", "later in the second",
                          "only in the first", "only in the second"]  # fmt: skip
SAID: Final[Mapping[What, tuple[str, str]]] = {  # of one command, and of several
    **{each: (each, each) for each in get_args(What)},
    "another end": ("ends otherwise", "end otherwise"), "another time": ("takes another time", "take another time"),
}  # fmt: skip
Key: TypeAlias = tuple[int, str, int, str, int]


class Pair(NamedTuple):
    """One command of both runs, or of one of them. One that moved stands where it comes first in either."""

    one: TraceRecord | None
    other: TraceRecord | None
    what: What

    @property
    def differs(self) -> bool:
        """Whether it is another command, another order or another end; another time alone is none."""
        return self.what not in ("alike", "another time")


@dataclass(frozen=True)
class Comparison:
    """Commands of two traces, aligned in the order in which they ended. `print(comparison)` shows where they differ."""

    one: Trace
    other: Trace
    pairs: tuple[Pair, ...]
    left_out: int = 0
    """Commands that were not aligned: too many lie between the first and the last that differ."""

    @property
    def first(self) -> int | None:
        """The place in `pairs` of the first that differs; None where the same commands end in the same order."""
        return next((at for at, pair in enumerate(self.pairs) if pair.differs), None)

    @property
    def verdict(self) -> str:
        """Say in a sentence how they compare."""
        counts = Counter(pair.what for pair in self.pairs)
        if self.first is None:
            count, times = len(self.pairs), counts["another time"]
            if count < 2:
                same = f"both run {'the same command' if count else 'no command'}"
            else:
                same = f"both run the same {count:,} commands, which end in the same order"
            of = f"{times:,} of them " if count > 1 else "it "
            took = f"; {of}{SAID['another time'][times > 1]}" if times else ", in the same time"
            return same + (took if count else "")
        parts = [f"{count:,} {SAID[what][count > 1]}" for what, count in counts.most_common() if what != "alike"]
        more = f"; {self.left_out:,} were not compared" if self.left_out else ""
        return f"they differ from command {self.first + 1} on: {', '.join(parts)}{more}"

    def shown(self) -> Iterator[tuple[int, Sequence[Pair]]]:
        """Yield what is to be shown: (place, pairs); where pairs are left out that are alike, (their number, ())."""
        near = {at + by for at, pair in enumerate(self.pairs) if pair.differs for by in range(-AROUND, AROUND + 1)}
        place = 0
        for seen, group in groupby(range(len(self.pairs)), near.__contains__):
            count = sum(1 for _ in group)
            yield (place, self.pairs[place : place + count]) if seen else (count, ())
            place += count

    def __str__(self) -> str:
        lines = [self.verdict]
        for place, pairs in self.shown():
            if not pairs:
                lines.append(f"      ... {place:,} alike ...")
            for at, pair in enumerate(pairs, place):
                sign = {"only in the first": "-", "only in the second": "+", "alike": " ", "another time": " "}
                mark = ">" if at == self.first else " "
                trace, record = (self.one, pair.one) if pair.one is not None else (self.other, pair.other)
                assert record is not None, "a pair has one"
                words = told(record, trace)
                if pair.what not in ("only in the first", "only in the second", "alike"):
                    words += f"; {_said(pair)}"
                lines.append(f"{mark} {at + 1:>4} {sign.get(pair.what, '!')} {words}")
        return "\n".join(lines)


def compare(one: Trace, other: Trace) -> Comparison:
    """Align the commands of two traces, in the order in which they ended.

    A trace holds them in it, also those that end at one moment, as on the virtual clock they often do.
    A command is the same as another where stream, kind, name and bytes are. What stands between the first and the last
    that differ is aligned one by one, up to 2,000 commands of each.
    """
    left, right = (sorted(each.records, key=lambda record: record.finished_ns) for each in (one, other))
    keys, others = [_key(each, one) for each in left], [_key(each, other) for each in right]
    most = min(len(keys), len(others))
    ahead = next((at for at in range(most) if keys[at] != others[at]), most)
    behind = next((at for at in range(most - ahead) if keys[-1 - at] != others[-1 - at]), most - ahead)
    ends, other_ends = len(keys) - behind, len(others) - behind
    middle, other_middle = left[ahead:ends], right[ahead:other_ends]
    left_out = max(0, len(middle) - MOST) + max(0, len(other_middle) - MOST)
    pairs = [_pair(*each) for each in zip(left[:ahead], right[:ahead], strict=True)]
    pairs += _aligned(middle[:MOST], keys[ahead:ends][:MOST], other_middle[:MOST], others[ahead:other_ends][:MOST])
    pairs += [_pair(*each) for each in zip(left[ends:], right[other_ends:], strict=True)]
    return Comparison(one, other, tuple(pairs), left_out)


def _key(record: TraceRecord, trace: Trace) -> Key:
    stream = trace.names.streams.get((record.device, record.stream), "") or f"stream {record.stream}"
    return record.device, stream, int(record.kind), record.name, record.bytes


def _pair(one: TraceRecord, other: TraceRecord) -> Pair:
    if one.status != other.status:
        return Pair(one, other, "another end")
    return Pair(one, other, "alike" if one.duration_ns == other.duration_ns else "another time")


def _aligned(
    left: Sequence[TraceRecord], keys: Sequence[Key], right: Sequence[TraceRecord], others: Sequence[Key]
) -> list[Pair]:
    """Align commands; one that only moved is one pair, where it comes first in either."""
    blocks = SequenceMatcher(None, keys, others, autojunk=False).get_opcodes()
    there = _moved([each for each in blocks if each[0] != "equal"], keys, others)
    here = {other: one for one, other in there.items()}
    pairs: list[Pair] = []
    shown: set[int] = set()  # of what moved, places in the first
    for tag, begin, end, start, stop in blocks:
        if tag == "equal":
            pairs += [_pair(*each) for each in zip(left[begin:end], right[start:stop], strict=True)]
            continue
        for at in range(begin, end):
            if at not in there:
                pairs.append(Pair(left[at], None, "only in the first"))
            elif at not in shown:
                pairs.append(Pair(left[at], right[there[at]], "later in the second"))
                shown.add(at)
        for at in range(start, stop):
            if at not in here:
                pairs.append(Pair(None, right[at], "only in the second"))
            elif here[at] not in shown:
                pairs.append(Pair(left[here[at]], right[at], "earlier in the second"))
                shown.add(here[at])
    return pairs


def _moved(
    blocks: Sequence[tuple[str, int, int, int, int]], keys: Sequence[Key], others: Sequence[Key]
) -> dict[int, int]:
    """Return where in the first and where in the second a command stands that is in both, but in no equal block."""
    loose: dict[Key, list[int]] = {}
    for at in (at for _, _, _, start, stop in blocks for at in range(start, stop)):
        loose.setdefault(others[at], []).append(at)
    there: dict[int, int] = {}
    for at in (at for _, begin, end, _, _ in blocks for at in range(begin, end)):
        if found := loose.get(keys[at]):
            there[at] = found.pop(0)
    return there


def told(record: TraceRecord, trace: Trace) -> str:
    """Return a command in words: stream, kind, name, bytes, when and for how long, and how it ended."""
    _, stream, *_ = _key(record, trace)
    first = min((each.submitted_ns for each in trace.records), default=0)
    parts = [f"{shortened(stream)}: {KIND_NAMES[record.kind]}"]
    parts += [shortened(record.name)] if record.name else []
    parts += [format_bytes(record.bytes)] if record.bytes else []
    parts.append(f"at {format_ns(record.started_ns - first)}")
    parts += [f"for {format_ns(record.duration_ns)}"] if record.duration_ns else []
    parts += [record.status.name.lower()] if record.status is not Status.DONE else []
    return " ".join(parts)


def _said(pair: Pair) -> str:
    one, other = pair.one, pair.other
    assert one is not None and other is not None, "both have it"
    if pair.what == "another end":
        return f"{one.status.name.lower()} in the first, {other.status.name.lower()} in the second"
    if pair.what != "another time":
        return pair.what
    return f"{format_ns(other.duration_ns)} in the second"
