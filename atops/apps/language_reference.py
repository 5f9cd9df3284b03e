"""The language's reference as a page of Markdown: `docs/language.md`.

`python -m atops.apps.language_reference` writes it. Its sentences stand here; all facts are in the language's tables.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import MappingProxyType

from atops import kernels
from atops.device.arch import ARCHITECTURES
from atops.device.dte.operations import OPERATIONS
from atops.kernels.tables.constructs import DTE, SPACES, SYNC, Construct
from atops.kernels.tables.vectors import FORMS, FUNCTION_TYPES, FUNCTIONS, KEYWORD_BYTES, OPERATORS, TYPE_SETS, VECTORS

__all__ = ("BESIDE", "CONSTRUCTS", "HEAD", "INTRODUCTIONS", "OTHER_NAMES", "TITLES", "language_reference", "main")

HEAD = """\
# The language, construct by construct

Every construct of the TOPS C++ language extensions, sections 8.1 to 8.8, with what a kernel writes here. This page is
made from the tables in `atops/kernels/tables`, which the tests prove row by row and from which the checks of the types
are read: `python -m atops.apps.language_reference` writes it. [kernels.md](kernels.md) explains the language with
programs, [porting.md](porting.md) ports kernels line by line.

`k` is `from atops import kernels as k`, `np` is numpy, `T` any element type and `n` a number of elements. Where nothing
is said to differ, nothing does. "Not said" marks what the text leaves open and what is done here.
"""

TITLES: Mapping[str, str] = MappingProxyType(
    {
        "8.1": "Function execution space specifiers",
        "8.2": "Variable memory space specifiers",
        "8.3": "Built-in vector types and operators",
        "8.4": "Mathematical functions",
        "8.5": "Built-in variables",
        "8.6": "Built-in macro definitions",
        "8.7": "Data transformation engine",
        "8.8": "Synchronization mechanism",
    }
)

INTRODUCTIONS: Mapping[str, str] = MappingProxyType(
    {
        "8.1": """\
A decorator is a function's specifier. A function in which a thread can be suspended is an `async def`, any other one a
`def`; the decorators take both.""",
        "8.2": """\
A declaration is a call that stands where C++ has the declaration, and gives an array. Global memory is a `k.Span`, in
strict mode local and shared memory too. The element type `T` is numpy's: `np.float32`, `np.int32`, `"bfloat16"`. Only
vector types take the text's spellings as well, for `float` and `int` are 64-bit types in Python and numpy.""",
        "8.3": """\
A vector type is its keyword indexed by its element: `k.vector4[np.float32]`, `k.vector4["unsigned int"]`,
`k.vector4["bool int"]`. Calling it makes a vector, `load` reads one from memory. Operators give new vectors and permit
exactly the types that their rows name: any other one is an InvalidType which names the permitted ones.""",
        "8.4": """\
Each function works on every lane, and on a whole array of vectors at once. `ulp` bounds its error in units of the last
place of the exact result, for each floating type: 0 is exact, 0.5 the nearest value. The text states no accuracy; what
is not exact is computed in the next wider type and rounded once, and the tests measure it.""",
        "8.5": """\
Each has `.x`, `.y` and `.z`, and unpacks: `x, y, z = k.threadIdx`. On the host they raise IllegalState.""",
        "8.6": """\
A kernel is compiled for the chip that runs it, unless it says otherwise.""",
        "8.7": """\
Every operation has its destination first and its dimensions outermost first, and moves bits: element types are equal,
but for `memcpy`, `slice_expand` and `shrink_deslice`. It is over when it returns; its `_async` form returns an event to
await. What does not fit is a DteError, which names thread, line, dimension and extents. Both chips have all of it, but
for the operations marked gcu300.""",
        "8.8": """\
Waits are awaited. A wait that can never end is a KernelDeadlock, and a request that is never awaited a MissingAwait,
both with threads and lines.""",
    }
)

BESIDE = """\
Sections 8.1 to 8.8 name `printf` in examples only, and the other functions of this table not at all. Error codes and
the host's side of kernel signals are those of the TOPS Runtime API, 2.3 and 2.11."""

# Why a name is no construct of the text, and the names.
OTHER_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "What constructs make and take: their types, for annotations and `isinstance`.": (
            "BoundKernel", "CountedBarrier", "Kernel", "LaunchConfig", "Mask", "Pointer", "Space", "Variable",
            "Vector", "VectorType",
        ),
        "Memory spaces that pointers and mdspans name beside `k.Global`, `k.Shared` and `k.Local`.": (
            "Constant", "Generic", "Private",
        ),
        "The arithmetic on the built-in variables with which nearly every kernel begins.": (
            "thread_count", "thread_id", "tiles",
        ),
        "Kernels from source texts and code images, and what is known of them: TOPS Runtime API, 2.8 and 2.10.": (
            "CodeImage", "CompileOptions", "CompiledProgram", "Diagnostic", "DiagnosticLog", "FunctionAttributes",
            "Module", "Program", "Severity", "compile", "compile_source", "function_attributes", "load_module",
        ),
        "What a kernel says of itself: the work that a virtual clock is to count, and accesses that may meet.": (
            "cost", "relaxed",
        ),
    }
)  # fmt: skip


CONSTRUCTS: tuple[Construct, ...] = (*SPACES, *VECTORS, *FUNCTIONS, *DTE, *SYNC)

PAGE = Path("docs", "language.md")
_PROSE = re.compile(r"[a-z ,]+")
_OPERATION = re.compile(r"tops::(\w+)\(.*\)")
_TYPES = {form.cpp for form in FORMS}

Row = Sequence[str]


def _chips(first: int) -> str:
    """Return the names of the chips from the architecture `first` on."""
    return ", ".join(chip.name for chip in ARCHITECTURES.values() if chip.gcu_arch >= first)


def language_reference() -> str:
    """Return the page."""
    special = {"8.3": _vectors, "8.4": _functions, "8.7": _engine}
    parts = [HEAD]
    for section, title in TITLES.items():
        parts.append(f"## {section} {title}\n\n{INTRODUCTIONS[section]}\n")
        rows = [row for row in CONSTRUCTS if row.section == section and row not in _beside()]
        if len(chips := {row.gcu_arch for row in rows}) == 1:
            parts.append(f"Chips: {_chips(chips.pop())}.\n")
        parts.extend(special[section]() if section in special else _constructs(rows))
    parts.append(f"## Printing, assertions and signals\n\n{BESIDE}\n")
    parts.extend(_constructs(_beside()))
    parts.append("## Names that are no construct\n")
    parts.extend(_names())
    return "\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page to the file that is named, or to docs/language.md. Returns 0, or 2 where that cannot be."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    path = Path(given[0]) if given else PAGE
    if len(given) > 1 or not path.parent.is_dir():
        print(f"usage: python -m atops.apps.language_reference [{PAGE}], in a folder that is there", file=sys.stderr)
        return 2
    path.write_text(language_reference(), encoding="utf-8")
    return 0


def _beside() -> list[Construct]:
    """Return the rows of what stands beside the sections' constructs."""
    return [row for row in SYNC if row.section != "8.8"]


def _constructs(rows: Iterable[Construct]) -> Iterator[str]:
    """Yield rows as a table, with a column for types where a row names some."""
    rows = list(rows)
    typed = any(row.types for row in rows)
    yield _table(
        ["TOPS C++", "Python", "what it does", *["types"] * typed, "what differs, and why"],
        [[_code(row.cpp), _code(row.python), row.summary, *[_types(row)] * typed, _sentence(row.differs)]
         for row in rows],
    )  # fmt: skip


def _vectors() -> Iterator[str]:
    """Yield section 8.3: keywords, types by element, statements, operators."""
    types = [row for row in VECTORS if row.cpp in _TYPES]
    others = [row for row in VECTORS if row not in types and row not in OPERATORS]
    yield from _constructs(row for row in others if not row.cpp.endswith(";"))
    yield "**Types**: how many lanes a vector of each element has under each keyword.\n"
    yield _table(
        ["element", "in Python", *(f"`__{keyword}`" for keyword in KEYWORD_BYTES)],
        [
            [f"`{spelling}`", f"`{_key(spelling, types)}`", *(_lanes(keyword, spelling) for keyword in KEYWORD_BYTES)]
            for spelling in dict.fromkeys(form.spelling for form in FORMS)
        ],
    )
    yield from (f"- `{row.cpp}`: {row.differs}" for row in types if row.differs and "same type" not in row.differs)
    yield "- A mask has both names, `bool int` and `bool unsigned int`, and so on: they are one type.\n"
    yield "**Variables and memory**\n"
    yield from _constructs(row for row in others if row.cpp.endswith(";"))
    yield "**Operators**\n"
    yield from _constructs(OPERATORS)
    yield _legend(TYPE_SETS)


def _functions() -> Iterator[str]:
    """Yield section 8.4: the functions with their bounds."""
    rows = [
        [_code(row.cpp), _code(row.python), row.summary, _types(row), f"{row.ulp:g}", _sentence(row.differs)]
        for row in FUNCTIONS
    ]
    yield _table(["TOPS C++", "Python", "what it does", "types", "ulp", "what differs, and why"], rows)
    yield _legend(FUNCTION_TYPES)


def _engine() -> Iterator[str]:
    """Yield section 8.7: contexts, parameters and events, the operations with their shapes, configured contexts."""
    calls = {row: match[1] for row in DTE if (match := _OPERATION.fullmatch(row.cpp)) and match[1] in OPERATIONS}
    first, last = (DTE.index(row) for row in (next(iter(calls)), next(reversed(calls))))
    yield from _constructs(DTE[:first])
    yield (
        "**Operations.** The shapes' rules hold for each dimension `i` of `src`. `dst` has as many dimensions, for "
        "`memcpy` any number, for the broadcasts at least as many; so have offsets, shapes and strides.\n"
    )
    rows = [
        [_code(row.cpp), _code(row.python), row.summary, "<br>".join(map(_code, OPERATIONS[name].work.rules)) or "any",
         _sentence(row.differs), _chips(row.gcu_arch)]
        for row, name in calls.items()
    ]  # fmt: skip
    yield _table(["TOPS C++", "Python", "what it does", "shapes", "what differs, and why", "chip"], rows)
    yield f"Their asynchronous forms: {', '.join(f'`k.{name}_async`' for name in calls.values())}.\n"
    yield "**Configured contexts**: a context keeps an operation, is patched and triggered, as often as wanted.\n"
    yield from _constructs(DTE[last + 1 :])


def _names() -> Iterator[str]:
    """Yield the names that no construct has, each with the first sentence of its docstring."""
    for reason, names in OTHER_NAMES.items():
        yield f"{reason}\n"
        yield _table(["name", "is"], [[f"`k.{name}`", _first_sentence(getattr(kernels, name))] for name in names])


def _key(spelling: str, types: Iterable[Construct]) -> str:
    """Return the index by which a keyword has its type of this element."""
    python = next(row.python for row in types if row.cpp.partition(" ")[2] == spelling)
    return python[python.index("[") :]


def _lanes(keyword: str, spelling: str) -> str:
    """Return how many lanes an element has under a keyword; nothing where there is no such type."""
    return next((str(form.lanes) for form in FORMS if (form.keyword, form.spelling) == (keyword, spelling)), "")


def _legend(words: Iterable[str]) -> str:
    """Say which types each of the words stands for, where they say less."""
    sets = {**TYPE_SETS, **FUNCTION_TYPES}
    lines = [
        f"- {_words(each)}: {', '.join(_code(form.cpp) for form in FORMS if form.cpp in sets[each])}"
        for each in words
        if len(sets[each]) <= len(FORMS) // 2
    ]
    return "\n".join([*lines, ""])


def _types(row: Construct) -> str:
    """Return the permitted types: the words that stand for sets of them, or spellings."""
    return "; ".join(_words(each) if each in TYPE_SETS or each in FUNCTION_TYPES else f"`{each}`" for each in row.types)


def _words(text: str) -> str:
    """Return words for a set of types, with their keyword as code."""
    return re.sub(r"__\w+", r"`\g<0>`", text)


def _table(head: Row, rows: Iterable[Row]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|\n" for line in lines)


def _code(text: str) -> str:
    """Return a spelling as code; one that is prose, or marks its code itself, as it stands."""
    text = text.replace("|", "\\|")
    return text if not text or "`" in text or _PROSE.fullmatch(text) else f"`{text}`"


def _sentence(text: str) -> str:
    """Return a text as a sentence, so that rows read alike. It begins as it stands where that is code."""
    return text and f"{text[0].upper()}{text[1:]}".removesuffix(".") + "."


def _first_sentence(documented: object) -> str:
    """Return the first sentence of a docstring, up to its colon where it has one."""
    if isinstance(documented, Enum):
        return f"The {documented.value} memory space."
    text = " ".join((inspect.getdoc(documented) or "").split())
    return re.split(r"(?<=[.:]) (?=[A-Z`])|(?<=[.])$", text, maxsplit=1)[0].removesuffix(":").removesuffix(".") + "."


if __name__ == "__main__":
    sys.exit(main())
