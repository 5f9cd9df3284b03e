"""The scripts of the widgets: plain ES modules beside the Python files, each joined with the base that all share."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final

__all__ = ("inline_script", "module_script")

BASE: Final = "drawing/base.js"
IMPORT_OF_BASE: Final = re.compile(r'^import \{[^}]*\} from "\.\./drawing/base\.js";\n', re.MULTILINE)
COMMENT_LINE: Final = re.compile(r"^\s*//.*\n", re.MULTILINE)
INDENTATION: Final = re.compile(r"^[ ]+", re.MULTILINE)
# Ends of lines where no statement ends, or one whose end is marked: behind an opening, before a closing.
NEEDLESS: Final = re.compile(r"(?<=[;{,(\[\n])\n+(?!export )|\n+(?=[})\]])")
EXPORT: Final = re.compile(r"^export (default )?", re.MULTILINE)


@cache
def module_script(name: str) -> str:
    """Return the ES module that a widget sends: the base and the file `name`, without comments and white space.

    No line of a script ends in a comment, and no text in it goes over several lines.
    """
    folder = files("atops_widgets")
    own = (folder / name).read_text(encoding="utf-8")
    text = (folder / BASE).read_text(encoding="utf-8") + IMPORT_OF_BASE.sub("", own)
    return NEEDLESS.sub("", INDENTATION.sub("", COMMENT_LINE.sub("", text)))


def inline_script(name: str) -> str:
    """Return the same for a page's own `<script type="module">`: its default export is the constant `widget`."""
    text = EXPORT.sub(lambda match: "const widget = " if match[1] else "", module_script(name))
    return text.replace("</", "<\\/")
