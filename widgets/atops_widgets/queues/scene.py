"""The scene of the queues at a moment: rows of streams and tokens of commands, for page, SVG and text."""

from __future__ import annotations

from typing import Final

import numpy as np

from atops.trace.words import format_ns
from atops_widgets.drawing.scene import Scene, Window, whole_option
from atops_widgets.feed.axis import TimeAxis
from atops_widgets.feed.columns import Column, plural
from atops_widgets.feed.feed import NOTHING, Feed
from atops_widgets.queues.ledger import NEVER, NEWEST, WAITING, Ledger, Strip, TokenState, chosen_streams, holding
from atops_widgets.queues.words import Words

__all__ = ("MOST_ROWS", "Board")

MOST_ROWS: Final = 16  # streams drawn at once; the rest is a page further down
MOST_TOKENS: Final = 64  # of the front of each queue
MOST_FRAMES: Final = 48  # moments that a saved picture can go back to
FEW_FRAMES: Final = 12  # the same of a long trace
IN_FRAMES: Final = 24  # tokens of each queue there
NONE: Final = np.zeros(0, np.int64)
STRIP_AGAIN: Final = 1.05  # the strip of a long ledger is made anew when it has grown by this factor
EXACT: Final = 50_000  # commands up to which it is made anew each time


class Board:
    """The queues of one feed: keeps the ledger from one scene to the next."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.ledger = Ledger()
        self._strip = Strip()
        self._drawn: tuple[int, TimeAxis | None, tuple[Column, Column, int]] = 0, None, (NONE, NONE, 0)

    def scene(self, window: Window, most: int = MOST_ROWS) -> Scene:
        """Return what the streams held at the cursor, or hold now; in a trace that is over, where most was queued.

        Options: first (the stream to begin with), frames (to add the pictures of so many moments, for a saved page).
        """
        feed, ledger = self.feed, self.ledger
        ledger.update(feed.moments, feed.records)
        if feed.missed or feed.missed_details:
            ledger.end_missed()
        axis = window.axis(feed.axis())
        edges, bins, most_at = self._over_time(axis)
        origin = feed.origin_ns
        cursor = feed.selection.cursor_ns
        fullest = cursor is None and not feed.live and bool(len(ledger)) and int(ledger["ended"].max()) < NEVER
        if fullest:
            cursor = most_at
        picture = self._at(cursor, window, most, MOST_TOKENS)
        told = {**picture.told, "strip": [axis.first - origin, axis.last - origin], "fullest": fullest}
        told["say"] = ("when most was queued, " if fullest else "") + told["say"]
        if (frames := whole_option(window.options, "frames")) > 0:
            frames = min(frames, MOST_FRAMES if len(ledger) <= EXACT else FEW_FRAMES)
            moments = axis.moment(axis.place(axis.last) * np.arange(1, frames + 1) / frames).tolist()
            told["frames"] = [_frame(self._at(each, window, most, IN_FRAMES)) for each in moments]
        return Scene(told, {**picture.columns, "queued": bins, "edges": edges - origin})

    def _at(self, cursor: int | None, window: Window, most: int, tokens_each: int) -> Scene:
        """Return the picture of a moment; None: of the newest."""
        feed, ledger = self.feed, self.ledger
        held = holding(ledger, NEWEST if cursor is None else cursor)
        chosen = int(ledger.slots(np.array([feed.selection.seq]))[0]) if feed.selection.seq != NOTHING else -1
        selected = int(ledger["where"][chosen]) if chosen >= 0 else -1
        first = max(0, whole_option(window.options, "first"))
        streams, count = chosen_streams(ledger, held, most, first, selected)
        heads = held.states(ledger, feed.moments, held.heads[held.heads >= 0])
        words = Words(ledger, held, feed.names, feed.texts.all, heads, feed.origin_ns)
        tokens = self._tokens(words, streams, chosen, tokens_each)
        told = self._told(words, streams, count, cursor)
        told |= {"first": first, "kinds": np.unique(tokens["kind"]).tolist(), "linked": self._linked(words, chosen)}
        return Scene(told, tokens)

    def _tokens(self, words: Words, streams: list[int], chosen: int, most: int) -> dict[str, Column]:
        """Return the tokens of each stream as columns: what is over, the front of its queue, and what is pointed at."""
        ledger, held = self.ledger, words.held
        heads = [head for stream in streams if (head := words.head(stream)) is not None]
        pointed = ledger.slots(np.array([*{words.target(head) for head in heads} - {-1}], np.int64))
        pointed = np.append(pointed[pointed >= 0], [chosen] if chosen >= 0 else NONE)
        place = np.full(len(ledger.streams), -1, np.int64)  # of each stream, among those shown
        place[streams] = np.arange(len(streams))
        rows = place[held.streams]
        order = np.argsort(rows, kind="stable")
        order = order[np.searchsorted(rows[order], 0) :]
        rows, slots = rows[order], held.commands[order]
        positions = np.arange(len(rows)) - np.searchsorted(rows, rows)
        shown = positions < most
        if len(pointed):
            shown |= np.isin(slots, pointed)
        lately = held.lately(ledger, streams)
        over = [(number, slot, at - len(lately[stream]))
                for number, stream in enumerate(streams) for at, slot in enumerate(lately[stream])]  # fmt: skip
        front = np.stack([rows[shown], slots[shown], positions[shown]])
        every = np.concatenate([np.array(over, np.int64).reshape(-1, 3).T, front], 1)
        rows, slots, positions = every[:, np.argsort(every[0], kind="stable")]
        return self._columns(words, (rows, slots, positions), pointed)

    def _columns(self, words: Words, place: tuple[Column, Column, Column], kept: Column) -> dict[str, Column]:
        rows, slots, positions = place
        ledger, inside = self.ledger, positions >= 0
        states = words.held.states(ledger, self.feed.moments, slots[inside]).of(slots[inside])
        cause = states.cause.copy()
        for at in np.flatnonzero((states.state == WAITING) & (cause < 0)).tolist():
            cause[at] = words.target(states.at(at))

        def filled(values: Column, over: Column | int) -> Column:
            column = np.empty(len(slots), np.int64)
            column[inside], column[~inside] = values, over
            return column

        ended = ledger["ended"][slots[~inside]]
        return {
            "row": rows.astype(np.int16),
            "position": positions.astype(np.int32),
            "seq": ledger["seq"][slots],
            "kind": ledger["kind"][slots],
            "state": filled(states.state, int(TokenState.OVER)).astype(np.uint8),
            "status": np.where(inside, 0, ledger["status"][slots]).astype(np.uint8),
            "name": ledger["name"][slots],
            "bytes": ledger["bytes"][slots],
            "cause": filled(cause, -1),
            "since": filled(states.since, ended) - self.feed.origin_ns,
            "kept": (np.isin(slots, kept) | (positions == 0)).astype(np.uint8),
        }

    def _told(self, words: Words, streams: list[int], count: int, cursor: int | None) -> dict[str, object]:
        """Return the rows in words, and what is told about all of it."""
        feed, held, ledger = self.feed, words.held, self.ledger
        queued, work = int(held.open.sum()), int((held.open > 0).sum())
        waits = words.heads.slots[words.heads.state == WAITING]
        notes = [f"{len(streams)} of {count:,} streams"] if count > len(streams) else []
        at = held.at_ns if cursor is not None else NEVER
        if ledger.detailed_ns == NEVER or at < ledger.detailed_ns:
            notes.append("only commands that ended are known" + " here" * (ledger.detailed_ns != NEVER))
        when = "now" if cursor is None else f"at {format_ns(cursor - feed.origin_ns)}"
        parts = [f"{when}: {plural(queued, 'command')} in {plural(work, 'stream')}"] if queued else [f"{when}: idle"]
        if len(waits):
            more = f" and {len(waits) - 1:,} more wait" if len(waits) > 1 else " waits"
            parts.append(words.stream(int(ledger["where"][waits[0]])) + more)
        parts += [plural(len(held.broken), "command") + " failed, skipped or aborted"] if len(held.broken) else []
        parts += notes if "only" in "".join(notes) else []
        if not count:
            notes, parts = [], ["Nothing was enqueued yet." if feed.live else "no commands"]
        return {
            "rows": [self._row(words, stream) for stream in streams],
            "streams": count,
            "when": when,
            "at": None if cursor is None else cursor - feed.origin_ns,
            "note": "; ".join(notes),
            "say": "; ".join(parts),
        }

    def _row(self, words: Words, stream: int) -> dict[str, object]:
        held, head = words.held, words.head(stream)
        return {
            "label": words.stream(stream),
            "open": int(held.open[stream]),
            "over": int(held.over[stream]),
            "capacity": words.capacity(stream),
            "reason": "" if head is None else words.doing(head),
            "waits": head is not None and head.state is TokenState.WAITING,
            "failure": words.failure(stream),
        }

    def _linked(self, words: Words, chosen: int) -> dict[str, list[int]]:
        """Return what a selected command waits for, and which heads wait for it, while it is not over."""
        held = words.held
        if chosen < 0 or self.ledger["ended"][chosen] <= held.at_ns:
            return {"before": [], "after": []}
        seq, stream = int(self.ledger["seq"][chosen]), int(self.ledger["where"][chosen])
        queue = held.queue(stream)
        place = int(np.searchsorted(queue, chosen))
        head = words.head(stream)
        before = [int(self.ledger["seq"][queue[place - 1]])] if place else [words.target(head)] if head else []
        after = [int(self.ledger["seq"][slot]) for slot in queue[place + 1 : place + 2]]
        after += words.heads.seqs[words.heads.cause == seq].tolist()
        return {"before": [each for each in before if each >= 0], "after": after}

    def _over_time(self, axis: TimeAxis) -> tuple[Column, Column, int]:
        """Return the edges of parts of the time, how many commands were not over in each, and when most were."""
        ledger, (count, drawn, found) = self.ledger, self._drawn
        exact = len(ledger) <= EXACT or not self.feed.live or axis is not self.feed.axis()
        if drawn is None or (axis is not drawn if exact else len(ledger) >= count * STRIP_AGAIN):
            found = self._strip.parts(ledger, axis)
            self._drawn = len(ledger), axis, found
        return found


def _frame(picture: Scene) -> dict[str, object]:
    """Return a picture as JSON: one of the moments that a saved page can go back to."""
    return {**picture.told, "columns": {name: column.tolist() for name, column in picture.columns.items()}}
