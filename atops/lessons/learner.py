"""What a learner has: lessons by number or name, and a small file of what was passed."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from atops.base.errors import InvalidValue
from atops.base.log_fields import get_logger
from atops.lessons.lesson import Lesson
from atops.lessons.source import Source, sources

__all__ = ("Progress", "find_source", "open_lesson")

log = get_logger("atops.lessons")
PARTS = ("task", "question")


class Progress:
    """The parts of lessons that were passed, in a JSON file: `{"lesson": ["task", "question"]}`.

    The file is that of `ATOPS_PROGRESS`, or `atops/lessons.json` in the folder for a user's state (`XDG_STATE_HOME`,
    else `~/.local/state`). One that cannot be read counts as empty, and is kept as `lessons.json.damaged` when the next
    is written; where none can be written, that is logged: no lesson fails for it.
    """

    def __init__(self, path: Path | None = None) -> None:
        state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        named = os.environ.get("ATOPS_PROGRESS") or Path(state, "atops", "lessons.json")
        self.path = Path(named).expanduser() if path is None else path

    def passed(self) -> dict[str, list[str]]:
        """Return the parts that were passed, by the lesson's name."""
        read: object = None
        with suppress(OSError):
            read = self._read()
        if not isinstance(read, dict):
            return {}
        kept = {str(name): parts for name, parts in read.items() if isinstance(parts, list)}
        return {name: [part for part in PARTS if part in parts] for name, parts in kept.items()}

    def _read(self) -> object:
        try:
            return json.loads(self.path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None

    def note(self, lesson: str, part: str, right: bool) -> None:
        """Note that a part was passed. What was passed once stays so."""
        known = self.passed()
        if not right or part in known.get(lesson, ()):
            return
        known[lesson] = [each for each in PARTS if each in (*known.get(lesson, ()), part)]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists() and not isinstance(self._read(), dict):
                os.replace(self.path, self.path.with_name(f"{self.path.name}.damaged"))
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".lessons-")
            with open(handle, "w", encoding="utf-8") as file:
                json.dump(known, file, indent=1, sort_keys=True)
            os.replace(name, self.path)
        except OSError as error:
            log.warning("that the %s of %s is passed cannot be noted in %s: %s", part, lesson, self.path, error)


def find_source(wanted: int | str) -> Source:
    """Return the source of a lesson by its number, its name, or a part of its name that is of no other lesson's.

    Raises InvalidValue for what is no lesson's, with all their names.
    """
    known = sources()
    text = str(wanted).lower().strip().replace(" ", "_")
    if text.isdecimal():
        found = [each for each in known if each.number == int(text)]
    else:
        found = [each for each in known if each.name == text] or [each for each in known if text and text in each.name]
    if len(found) > 1:
        raise InvalidValue(f"{wanted!r} is in the names of {', '.join(each.name for each in found)}; write more of it")
    if not found:
        raise InvalidValue(f"no lesson is {wanted!r}; there are {', '.join(each.name for each in known)}")
    return found[0]


def open_lesson(wanted: int | str) -> Lesson:
    """Return a lesson by its number, its name or a part of it; what is passed is noted in the learner's file.

    Raises InvalidValue for what is no lesson's.
    """
    lesson = find_source(wanted).lesson
    lesson.progress = Progress()
    return lesson
