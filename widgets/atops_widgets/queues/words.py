"""Sentences on waiting commands and failed streams, for page, SVG, terminal and screen reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from atops.base.trace.records import MOVES, Kind, Status, TraceNames
from atops.device.call_site import file_shown
from atops.trace.words import KIND_NAMES, format_bytes, format_ns
from atops_widgets.feed.columns import plural
from atops_widgets.queues.ledger import Held, Ledger, States, Token, TokenState

__all__ = ("Words",)

DEEPEST: Final = 16  # streams that a chain of waits is followed through


@dataclass(frozen=True, slots=True)
class Words:
    """The streams of one moment in words. `heads` are the states of all heads; times count from the origin."""

    ledger: Ledger
    held: Held
    names: TraceNames
    texts: list[str]
    heads: States
    origin_ns: int

    def stream(self, stream: int) -> str:
        """Return the label of a stream."""
        key = self.ledger.streams[stream]
        label = self.names.streams.get(key) or f"stream {key[1]}"
        return label if key[0] == 0 else f"{label} (device {key[0]})"

    def head(self, stream: int) -> Token | None:
        """Return the head of a stream; None of an idle one."""
        return self.heads.token(int(self.held.heads[stream])) if stream >= 0 else None

    def command(self, slot: int) -> str:
        """Return a command in words: kind, name, bytes, number."""
        ledger = self.ledger
        name, size = self.texts[int(ledger["name"][slot])], int(ledger["bytes"][slot])
        what = KIND_NAMES[Kind(ledger["kind"][slot])] + (f" {name}" if name else "")
        what += f" of {format_bytes(size)}" if size and ledger["kind"][slot] != Kind.WAIT_VALUE else ""
        return f"{what} (number {ledger['seq'][slot]})"

    def doing(self, token: Token) -> str:
        """Return what a head does, or what it waits for and why."""
        if token.state is TokenState.PENDING:
            return f"{self.command(token.slot)} is enqueued and has not begun"
        since = f"since {format_ns(token.since_ns - self.origin_ns)}"
        if token.state is TokenState.RUNNING:
            return f"{self.command(token.slot)} runs {since}"
        return f"{self._waiting(token, f'waits {since}')}{self._root(token)}"

    def target(self, token: Token) -> int:
        """Return the seq of what a token waits for: its cause, or what keeps an engine busy; -1 if not known."""
        if token.state is not TokenState.WAITING or token.cause >= 0:
            return token.cause
        busy = self._busy(token)
        return busy[0].seq if busy else -1

    def failure(self, stream: int) -> str:
        """Return how a stream failed and what was skipped behind it; empty if nothing did."""
        ledger = self.ledger
        if not len(self.held.broken):
            return ""
        own = self.held.broken[ledger["where"][self.held.broken] == stream]
        status = ledger["status"][own]
        failed, skipped, aborted = (own[status == each] for each in (Status.FAILED, Status.SKIPPED, Status.ABORTED))
        parts = []
        if len(failed):
            parts.append(f"{self.command(int(failed[-1]))} failed")
            parts += [f"{len(failed) - 1:,} more failed before it"] if len(failed) > 1 else []
        if len(skipped):
            known = failed[failed < skipped[-1]]
            after = known[-1] if len(known) else 0
            behind = int((skipped > after).sum())
            which = f"number {ledger['seq'][after]}" if len(known) else "a failure that was not seen"
            which = "it" if len(known) and after == failed[-1] else which
            parts.append(f"{behind:,} skipped behind {which}")
            parts += [f"{len(skipped) - behind:,} behind earlier ones"] if behind < len(skipped) else []
        parts += [f"{len(aborted):,} aborted, the last {self.command(int(aborted[-1]))}"] if len(aborted) else []
        return "; ".join(parts)

    def capacity(self, stream: int) -> int:
        """Return how many commands a stream takes, 0 where there is no limit or it is not known."""
        return self.names.capacities.get(self.ledger.streams[stream], 0)

    def _waiting(self, token: Token, waits: str = "waits") -> str:
        kind, me = Kind(self.ledger["kind"][token.slot]), f"number {token.seq}{self._line(token.slot)}"
        cause = int(self.ledger.slots(np.array([token.cause]))[0]) if token.cause >= 0 else -1
        if kind is Kind.WAIT_VALUE:
            return f"{me} {waits} for {self._word(token.slot)}{self._writer(cause)}"
        if kind is Kind.WAIT_EVENT:
            if token.cause < 0:
                return f"{me} {waits} for an event, whose record is not known"
            return f"{me} {waits} for the event of {self._place(token.cause, cause)}"
        me = f"{self.command(token.slot)}{self._line(token.slot)}"
        if token.cause >= 0:
            same = cause >= 0 and self.ledger["where"][cause] == self.ledger["where"][token.slot]
            reason = "" if same else ": order of the null stream"
            return f"{me} {waits} behind {self._place(token.cause, cause)}{reason}"
        return f"{me} {waits} for {self._engine(token, kind)}"

    def _line(self, slot: int) -> str:
        """Return the line that enqueued a command, in brackets; empty where it is not known."""
        place = self.names.sites.get(int(self.ledger["site"][slot]))
        return f" [{file_shown(place.file)}:{place.line}]" if place is not None else ""

    def _engine(self, token: Token, kind: Kind) -> str:
        """Return what a command without a cause waits for: a copy engine or clusters, and what has them now."""
        busy = self._busy(token)
        if kind in MOVES:
            what = "a free copy engine or link"
        elif kind is Kind.LAUNCH:
            what = "a free cluster" if busy else "a free cluster, or for the other grids of a cooperative launch"
        else:
            return "what the trace does not tell"
        if not busy:
            return what
        more = f", and {len(busy) - 1:,} more" if len(busy) > 1 else ""
        first = f"{self.command(busy[0].slot)} in {self.stream(int(self.ledger['where'][busy[0].slot]))}"
        return f"{what}: {first} runs there{more}"

    def _busy(self, token: Token) -> list[Token]:
        """Return the heads that run on the same device and could be what a copy or a launch waits for."""
        ledger, kind = self.ledger, Kind(self.ledger["kind"][token.slot])
        same = MOVES if kind in MOVES else {Kind.LAUNCH} & {kind}
        runs = self.heads.slots[self.heads.state == TokenState.RUNNING]
        runs = runs[np.isin(ledger["kind"][runs], list(same))]
        device = ledger.streams[int(ledger["where"][token.slot])][0]
        here = [slot for slot in runs.tolist() if ledger.streams[int(ledger["where"][slot])][0] == device]
        return [head for slot in here if (head := self.heads.token(slot)) is not None]

    def _word(self, slot: int) -> str:
        device, offset = int(self.ledger["on_device"][slot]), int(self.ledger["on_offset"][slot])
        if offset < 0:
            return "a value at an address that was not told"
        return f"a value at {offset:#x} of {'host memory' if device < 0 else f'device {device}'}"

    def _writer(self, cause: int) -> str:
        if cause < 0:
            return ""
        return f", which {self.command(cause)} in {self.stream(int(self.ledger['where'][cause]))} writes"

    def _place(self, seq: int, slot: int) -> str:
        """Return a command, its stream, and what stands before it there."""
        if slot < 0:
            return f"number {seq}, which is not held"
        stream = int(self.ledger["where"][slot])
        record = self.ledger["kind"][slot] == Kind.RECORD
        text = (f"number {seq}" if record else self.command(slot)) + f" in {self.stream(stream)}"
        if self.ledger["ended"][slot] <= self.held.at_ns:
            return f"{text}, which is over"
        before = int(np.searchsorted(self.held.queue(stream), slot))
        return text + (f", behind {plural(before, 'command')}" if before else "")

    def _root(self, token: Token) -> str:
        """Return what a chain of waits comes down to, where it is longer than one link."""
        seen, here = set[int](), token
        for depth in range(DEEPEST):
            slot = int(self.ledger.slots(np.array([here.cause]))[0]) if here.cause >= 0 else -1
            stream = int(self.ledger["where"][slot]) if slot >= 0 else -1
            head = self.head(stream)
            if head is None or head.slot in seen or slot < head.slot or head.slot == here.slot:
                break
            seen.add(head.slot)
            if head.state is not TokenState.WAITING:
                if head.slot == slot and not depth:
                    return ""  # it was named already
                does = "runs" if head.state is TokenState.RUNNING else "has not begun"
                return f"; {self.stream(stream)} {does} {self.command(head.slot)}"
            here = head
        if here is token:
            return ""
        return f"; at the root of it, {self.stream(int(self.ledger['where'][here.slot]))}: {self._waiting(here)}"


