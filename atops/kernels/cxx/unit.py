"""From TOPS C++ source to kernels: preprocessed, rewritten, compiled, kept, and loaded when they are first asked for.

Diagnostics are in the file's own lines, whoever found the fault. A text may include the headers that come with this
package, those of the C++ library, and the named texts of its program; nothing else is read.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from functools import cache, partial
from pathlib import Path, PurePosixPath
from platform import machine

from atops.base.errors import CompilationError, InvalidValue
from atops.base.locks import make_lock
from atops.device.native.library import NOT_IN_KERNELS, SOURCES, NativeModule, how_loading_ends, load_module
from atops.device.native.toolchain import FLAGS, Kept, Toolchain, find_toolchain, keep, kept, key_of, processor
from atops.kernels.cxx.kernel import NativeKernel
from atops.kernels.cxx.reading import ONLY, outside, read_outside
from atops.kernels.cxx.registration import MAIN, CxxKernel, Rewritten
from atops.kernels.cxx.rewrite import rewrite
from atops.kernels.cxx.tokens import spelled
from atops.kernels.cxx.variables import LoadedModule
from atops.kernels.source.diagnostics import Diagnostic, DiagnosticLog, Severity, SourcePosition, SourceText
from atops.kernels.source.options import CompileOptions
from atops.kernels.source.python_unit import Definitions

__all__ = ("INCLUDE", "LANGUAGE", "CxxUnit", "read_cxx")

LANGUAGE = "TOPS C++"
INCLUDE = Path(__file__).parent / "include"
_OURS = frozenset((".h", ".cpp", ".py"))
# -g1, lines only: faults of the processor are told with theirs. Compilers take half of the widest registers by default.
# No arithmetic of floats traps here; where it could, g++ would leave loops with conditions in them as they are. A call
# at the end of a function stays a call: the line of its fault is the one that it returns to. A loop without an end
# stays, too: compilers of C++ may take it that there is none.
OPTIMISED = (
    "-O2", "-ftree-vectorize", "-fno-trapping-math", "-fno-optimize-sibling-calls", "-fno-finite-loops", "-g1",
    *(["-mprefer-vector-width=512"] if machine() in ("x86_64", "AMD64") else []),
)  # fmt: skip
SEEN = "-fsanitize=thread"
# Every load and store calls the runtime first (`device/native/src/hooks.cpp`). Not vectorised: the compilers leave out
# some accesses of what is. The sanitizer's own library is not linked.
WATCHED = (
    "-O1", "-fno-optimize-sibling-calls", "-fno-finite-loops", "-g1", SEEN,
    "-fno-builtin-memcpy", "-fno-builtin-memmove", "-fno-builtin-memset",
)  # fmt: skip
WRAPPED = ("-Wl,--wrap=memcpy", "-Wl,--wrap=memmove", "-Wl,--wrap=memset")
REFUSED = tuple(f"-Wl,--wrap={name}" for name in NOT_IN_KERNELS)
NAME_MISSING = ("-Wl,-z,defs", "-Wl,--warn-unresolved-symbols", "-Wl,--no-demangle")
_DEFINED_LATER = ("atops_", "__tsan_", "__wrap_", "__real_")  # by the runtime, when the module is loaded
PROGRAMS = ("-fexceptions", "-frtti", "-pthread")  # what host code may have and a kernel has not

_STDIN = re.compile(r'^# \d+ "[^"\n]*-stdin\.cpp".*\n', re.MULTILINE)
_SAID = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<kind>fatal error|error|warning|note): (?P<text>.*)$"
)
_CHIPS = re.compile(
    r'^[ \t]*#[ \t]*include[ \t]*(?:<|"(?=sip|include/common/))'
    r'(?P<name>(?:(?:krt|acore|common|tcle|tops|include/common)/[\w./]+|sip\d+intrin\.h))[>"]', re.MULTILINE,
)  # fmt: skip
_MARKER = re.compile(r'^(# \d+ ")([^"\n<]*/[^"\n]*)"', re.MULTILINE)  # of a file that was found through a folder
# What the headers say of a call, as g++ and clang++ tell it, and of a launch: `parameters` are the kernel's.
_DECLARED = r".* declared with (?:attribute error|'error' attribute): "
_LAUNCH = re.compile(rf"call to .*?Launch<void \(\*\)(?P<parameters>\(.*?\)), {_DECLARED}")
_SAYS = re.compile(rf"^call to {_DECLARED}")
_INCLUDED = re.compile(r"(In file included| +) from (?P<file>.+?):(?P<line>\d+)[:,]")
_PLACED = re.compile(r"const char\*, int\)")  # the last two parameters of a function of ours: where it is called
_COUNTED = re.compile(r"candidate expects (\d+) arguments?(, \d+ provided)")
_MORE = re.compile(r"cannot convert ('.*' \(type '.*'\)) to type 'const char\*'")
_PRIVATE = re.compile(r"__atops_\w+|atops::")
_NARROW = (re.compile(r"\bNarrow<[^<>]*half[^<>]*>"), "__fp16"), (re.compile(r"\bNarrow<[^<>]*brain[^<>]*>"), "__bf16")
_VECTOR = re.compile(r"\bVector<([\w ]+), (128|256|512)>")
_ALIAS = re.compile(r"'[^']*' \{aka '(__vector[24]? [\w ]+)'\}")
_KEYWORDS = {"128": "__vector", "256": "__vector2", "512": "__vector4"}
_NO_OPERATOR = re.compile(r"no match for 'operator(\S+)'|invalid operands to binary expression")


class CxxUnit:
    """A compiled text. Each execution gives kernels of the same machine code, and variables of its own."""

    language = LANGUAGE

    def __init__(self, path: Path, kernels: Sequence[CxxKernel], name: str, again: Callable[[], Path]) -> None:
        """`again` compiles the text so that every access is seen, and returns the module's file."""
        self.path = path
        self.kernels = list(kernels)
        self.name = name
        self._module: NativeModule | None = None
        self._again = again
        self._watched: NativeModule | None = None
        self._lock = make_lock()

    def execute(self) -> Definitions:
        """Return its kernels, loaded now."""
        if self._module is None:
            self._module = load_module(self.path)
        module = LoadedModule(self._module, self.name, self.watched)
        rows = {row.name.decode(): row for row in self._module.kernels}
        made = (NativeKernel(module, rows[each.name.removeprefix("::")], each) for each in self.kernels)
        return Definitions({each.name: each for each in made}, variables=module.variables)

    def watched(self) -> NativeModule:
        """Return the module whose every access is seen, compiled now if it was not yet. Raises CompilationError."""
        with self._lock:
            if self._watched is None:
                self._watched = load_module(self._again())
            return self._watched


def read_cxx(
    source: SourceText, headers: Mapping[str, str], options: CompileOptions, log: DiagnosticLog,
    uses: Sequence[str] = (), program: bool = False, watched: bool = False,
) -> CxxUnit | None:  # fmt: skip
    """Compile a text and its headers. Returns None where `log` has an error. Raises NotSupported without a compiler.

    `uses` are names of kernels that are wanted; one with arguments, `scale<float>`, is made of a template. A `program`
    has a `main`, which is run; its host code may have exceptions. `watched`: every access of its kernels is seen.
    """
    toolchain = find_toolchain()
    name = PurePosixPath(source.name).stem
    flags: tuple[str, ...] = WATCHED if watched else OPTIMISED
    if program:
        flags += PROGRAMS
    found = _built(toolchain, source, headers, options, log, uses, flags, program)
    if found is None:
        return None
    kernels = [CxxKernel(each, tuple(names), *rest) for each, names, *rest in json.loads(found.notes)[0]]
    return CxxUnit(found.path, kernels, name, partial(_watched, toolchain, source, headers, options, uses))


def _watched(
    toolchain: Toolchain, source: SourceText, headers: Mapping[str, str], options: CompileOptions, uses: Sequence[str]
) -> Path:  # fmt: skip
    """Return the file of the module whose every access is seen. Raises CompilationError."""
    log = DiagnosticLog()
    found = _built(toolchain, source, headers, options, log, uses, WATCHED)
    if found is None:
        raise CompilationError("\n".join(map(str, log.errors)))
    return found.path


def _built(
    toolchain: Toolchain, source: SourceText, headers: Mapping[str, str], options: CompileOptions, log: DiagnosticLog,
    uses: Sequence[str], flags: Sequence[str], program: bool = False,
) -> Kept | None:  # fmt: skip
    """Return the module's file and its kernels, compiled if it is not kept. None where `log` has an error."""
    key = _key(toolchain, source, headers, options, [*uses, *flags, *([MAIN] if program else [])])
    if (known := kept(key)) is not None:
        log.again(Diagnostic(Severity(severity), *rest) for severity, *rest in json.loads(known.notes)[1])
        return known
    before = len(log.errors)
    with tempfile.TemporaryDirectory(prefix="atops-") as folder:
        texts = _Texts(source, headers, Path(folder))
        preprocessed = _preprocess(toolchain, texts, options, log)
        if preprocessed is None:
            return None
        found = rewrite(
            preprocessed, texts.names, options.target.gcu_arch, [spelled(each) for each in uses if "<" in each], program
        )
        if program and not found.main:
            log.error("the program has no main", source)
        if not program and not found.kernels and found.templates:
            first, names = next(iter(found.templates.values())), ", ".join(found.templates)
            log.warning(
                f"the text has templates of kernels only ({names}): instantiate one, `template __global__ void "
                f"{next(iter(found.templates))}<float>(...);`, or name it by add_name_expression",
                texts.of(first.file), SourcePosition(first.line),
            )  # fmt: skip
        for fault in found.faults:
            log.error(fault.message, texts.of(fault.file), SourcePosition(fault.line))
        if len(log.errors) > before:
            return None
        made = _compile(toolchain, found, texts, options, log, flags)
        if made is None or (not program and not _loads(made, source, log)):
            return None
        notes = json.dumps([[astuple(each) for each in found.kernels], [astuple(each) for each in log.entries]])
        return Kept(keep(key, made, notes), notes)


def _key(
    toolchain: Toolchain, source: SourceText, headers: Mapping[str, str], options: CompileOptions, uses: Sequence[str]
) -> str:  # fmt: skip
    """Return the digest of all that the module depends on: where nothing has changed, no compiler is called."""
    texts = [source.name, source.text, *(part for pair in sorted(headers.items()) for part in pair)]
    asked = json.dumps([options.arguments(), list(uses)])
    return key_of(["module", toolchain.version, processor(), _ours(), *FLAGS, asked, *texts])


@cache
def _ours() -> str:
    """Return the digest of the headers that every program gets, and of what rewrites its text.

    Where the headers lie is part of it: debug lines tell them from the program's own files by that.
    """
    here = Path(__file__).parent
    files = [path for folder in (INCLUDE, SOURCES, here) for path in sorted(folder.rglob("*")) if path.suffix in _OURS]
    return key_of([str(INCLUDE), *(part for path in files for part in (path.name, path.read_bytes()))])


class _Texts:
    """The program's own texts: its source, and the headers as files of a folder that is gone afterwards."""

    def __init__(self, source: SourceText, headers: Mapping[str, str], root: Path) -> None:
        up = max((PurePosixPath(name).parts.count("..") for name in headers), default=0)
        below = "below"
        while any(below in name for name in headers):
            below += "_"
        self.source, self.folder = source, root.joinpath(*[below] * up)  # where `../` still is in `root`
        self.folder.mkdir(parents=True, exist_ok=True)
        self.texts = {source.name: source}
        self.stand_ins: set[str] = set()  # headers that were put where the chip's are missing
        files: dict[Path, SourceText] = {}
        for name, text in headers.items():
            parts = PurePosixPath(name)
            if parts.is_absolute():
                continue  # no name of a header: an include of it finds nothing
            path = Path(posixpath.normpath(self.folder / parts))
            files[path] = self.texts[str(path)] = self.texts[str(parts)] = SourceText(name, text)  # as it is found
        written: dict[str, Path] = {}
        for path, header in files.items():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                if header.text in written:
                    os.link(written[header.text], path)  # by another name; `#pragma once` knows it again
                else:
                    path.write_text(header.text)
                    written[header.text] = path
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                raise InvalidValue(f"headers: {header.name!r} is a text, or lies below one, and a folder") from None

    @property
    def names(self) -> list[str]:
        """The names by which line markers know them."""
        return list(self.texts)

    def of(self, file: str) -> SourceText | str:
        """Return the text of a file; its name where it is none of the program's."""
        return self.texts.get(posixpath.normpath(file), file)


def _preprocess(toolchain: Toolchain, texts: _Texts, options: CompileOptions, log: DiagnosticLog) -> str | None:
    """Return the text with everything that it includes. None where `log` has an error."""
    macros = [f"-D{name}={value}" for name, value in options.built_in.items() if value is not None]
    macros += [f"-D{name}={text}" for name, text in options.defines]
    name = texts.source.name.replace("\\", "\\\\").replace('"', '\\"')
    wrong = False
    for text in dict.fromkeys(texts.texts.values()):
        folder = "" if text is texts.source else posixpath.dirname(text.name)
        for line, message in outside(text.text, texts.texts, folder):
            log.error(message, text, SourcePosition(line))
            wrong = True
    if wrong:
        return None
    _stand_in(texts, log)
    result = toolchain.run(
        [*FLAGS, "-x", "c++", "-E", "-include", "atops/tops.h", f"-I{texts.folder}", f"-I{INCLUDE}", f"-I{SOURCES}",
         *macros, "-"],
        f'# 1 "{name}"\n{texts.source.text}\n', texts.folder,
    )  # fmt: skip
    if toolchain.zig:  # which reads a file of its own in place of the standard input
        result.stdout = _STDIN.sub("", result.stdout)
    found = _MARKER.sub(lambda marker: f'{marker[1]}{posixpath.normpath(marker[2])}"', result.stdout)
    if _reads_others(found, texts, log, toolchain):  # of which the compiler's words would tell what they hold
        return None
    failed = result.returncode != 0
    _take(result.stderr, texts, log, failed)
    return None if failed else found


def _stand_in(texts: _Texts, log: DiagnosticLog) -> None:
    """Put a header where a text includes one of the chip's that there is none of: what is known of all of them."""
    for text in dict.fromkeys(texts.texts.values()):
        for found in _CHIPS.finditer(text.text):
            name = found["name"]
            path = texts.folder / name
            if ".." in name or path.exists() or (INCLUDE / name).exists():
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text('#include "atops/elementwise.h"\n')
            texts.stand_ins |= {str(path), name}  # in quotes it is found from the folder
            where = SourcePosition(text.text.count("\n", 0, found.start()) + 1)
            log.warning(f"<{name}> is none of the headers of this emulator: names of it may be missing", text, where)


def _reads_others(preprocessed: str, texts: _Texts, log: DiagnosticLog, toolchain: Toolchain) -> bool:
    """Report files that are neither the program's own nor headers; return whether there were any."""
    known = texts.stand_ins | texts.texts.keys()
    others = read_outside(preprocessed, known, (str(INCLUDE), str(SOURCES)), toolchain)
    for name in others:
        log.error(f"#include of {name!r}: {ONLY}", texts.source)
    return bool(others)


def _compile(
    toolchain: Toolchain, found: Rewritten, texts: _Texts, options: CompileOptions, log: DiagnosticLog,
    flags: Sequence[str],
) -> Path | None:  # fmt: skip
    """Return the module's file. None where `log` has an error.

    A function that is called and defined nowhere is a fault where it is reached, and an error of a whole program.
    """
    lines = ["-gdwarf-4"] if toolchain.clang else []  # addr2line finds no lines of the C++ library's calls in version 5
    words = [*FLAGS, *lines, *flags, "-march=native", *(["-w"] if options.no_warnings else ["-Wformat"])]
    words += ["-x", toolchain.preprocessed, "-"]
    if toolchain.clang:  # debug lines are otherwise those of a file "-"; x > y > z is a warning, as before clang 21
        words += ["-Xclang", "-main-file-name", "-Xclang", texts.source.name, "-Wno-error=parentheses"]
    links = [*(() if toolchain.zig else NAME_MISSING), *REFUSED]  # zig's linker knows no warnings for that
    made = texts.folder / "module.so"
    text = found.text
    while True:
        if SEEN in flags:  # linked by itself: otherwise the sanitizer's library would be, too
            unit = texts.folder / "module.o"
            result = toolchain.run([*words, "-c", "-o", str(unit)], text)
            if result.returncode == 0:
                result = toolchain.run(["-shared", *WRAPPED, *links, str(unit), "-o", str(made)])
        else:
            result = toolchain.run([*words, "-shared", *links, "-o", str(made)], text)
        missing = {} if result.returncode else _missing(result.stderr)
        if not missing or text is not found.text:
            break
        for each in missing:
            where = re.search(rf"\b{re.escape(each.partition('(')[0].rpartition('::')[2])}\b", texts.source.text)
            line = texts.source.text.count("\n", 0, where.start()) + 1 if where else 0
            say = log.error if found.main else log.warning
            message = f"{each} is declared, and defined in no text of the program"
            say(message, texts.source, SourcePosition(line) if line else None)
        if found.main:
            return None
        text += "".join(map(_fault_for, missing.items()))
    failed = result.returncode != 0
    _take(result.stderr, texts, log, failed)
    if failed or log.errors:
        return None
    if not made.exists():
        raise CompilationError(f"{toolchain.command[0]} made no module and said nothing")
    return made


def _loads(made: Path, source: SourceText, log: DiagnosticLog) -> bool:
    """Tell whether a module can be loaded; `log` says why where it cannot."""
    if end := how_loading_ends(made):
        log.error(
            f"its objects at file scope cannot be made: loading it {end}. Contexts of the DTE, their scopes and "
            "barriers are made in kernels; an initialiser uses what is made before it, and no address of the device",
            source,
        )  # fmt: skip
    return not end


def _missing(said: str) -> dict[str, str]:
    """Return what the linker has found no definition of, by the names in the text, with those that it goes by."""
    found = dict.fromkeys(re.findall(r"undefined reference to [`']([^\s']+)'", said))
    names = [each for each in found if not each.startswith(_DEFINED_LATER)]
    reader = shutil.which("c++filt")
    if not names or reader is None:
        return {each: each for each in names}
    plain = subprocess.run([reader], input="\n".join(names), capture_output=True, text=True, check=False).stdout
    return dict(zip(plain.splitlines(), names, strict=True))


def _fault_for(missing: tuple[str, str]) -> str:
    """Return the definition of a function that the program has not: it is a fault."""
    plain, name = missing
    function = f"__atops_missing_{key_of([name])[:16]}"
    said = f"called {plain}, which is declared, and defined in no text of the program"
    return (
        f'\nextern "C" __attribute__((visibility("hidden"))) void {function}() __asm__("{name}");\n'
        f'extern "C" void {function}() {{ atops::fail(atops::Fault::launch_failure, "{said}", "", 0); }}\n'
    )


def _in_words_of_the_text(said: str) -> str:
    """Return what the compiler says without names of the headers: vectors as the text has them, and what to do."""
    text = _PRIVATE.sub("", said)
    if launch := _LAUNCH.match(text):
        text = f"{text[launch.end() :]}, which are {launch['parameters']}"
    text = _SAYS.sub("", text)
    for narrow, name in _NARROW:
        text = narrow.sub(name, text)
    text = _ALIAS.sub(r"'\1'", _VECTOR.sub(lambda found: f"{_KEYWORDS[found[2]]} {found[1]}", text))
    operands = re.findall(r"'(__vector[24]? [\w ]+)'", text)
    found = _NO_OPERATOR.match(text)
    if found is None or len(operands) != 2:
        return text
    if operands[0].split(" ", 1)[1] != operands[1].split(" ", 1)[1]:
        return f"{text}; both have to be of one type: convert one with tops::vcast"
    if operands[0] != operands[1]:
        return f"{text}; both have to be of one length"
    if found[1] in ("/", "/="):
        return f"{text}; call div(a, b) or tops::vdiv(a, b)"
    if found[1] in ("<<", ">>"):
        return f"{text}; it is of unsigned elements: call tops::vsh{'l' if found[1] == '<<' else 'r'}(a, b)"
    return text


def _take(said: str, texts: _Texts, log: DiagnosticLog, failed: bool) -> None:
    """Take what the compiler says into the log: what is said of the program's own lines, in its own words."""
    before, elsewhere = len(log.errors), list[str]()
    own = placed = False
    for line in said.splitlines():
        found = _SAID.match(line)
        if found is None:
            continue
        text, kind, file = _in_words_of_the_text(found["text"]), found["kind"], found["file"]
        if text.startswith("candidate: "):
            placed = _PLACED.search(text) is not None
        elif placed and (counted := _COUNTED.search(text)) is not None:
            text = f"candidate expects up to {int(counted[1]) - 2} arguments{counted[2]}"
        elif placed and (more := _MORE.search(text)) is not None:
            text = f"candidate takes no argument more, and is given {more[1]}"
        source = texts.of(file)
        if isinstance(source, str):
            if kind.endswith("error"):
                elsewhere.append(f"{text}")
            own = own and kind == "note"
            continue
        where = SourcePosition(int(found["line"]), int(found["column"] or 1))
        if kind.endswith("error"):
            log.error(text, source, where)
            own = True
        elif kind == "warning":
            log.warning(text, source, where)
            own = True
        elif own and "Anything" not in text:  # the type of what an unknown intrinsic gives
            log.note(text, source, where)
    if failed and len(log.errors) == before:
        detail = elsewhere[0] if elsewhere else said.strip().splitlines()[-1] if said.strip() else "it said nothing"
        end = SourcePosition(texts.source.text.rstrip().count("\n") + 1, 1)
        detail, where = _behind(said, texts) or (detail, end)
        log.error(f"the compiler refuses it: {detail}", texts.source, where)


def _behind(said: str, texts: _Texts) -> tuple[str, SourcePosition] | None:
    """Return an error that is in no line of the program, and the line that it comes from: an include, an open brace."""
    within, wrong = None, ""
    for line in said.splitlines():
        if included := _INCLUDED.match(line):
            if texts.of(included["file"]) is texts.source:
                within = SourcePosition(int(included["line"]), 1)
        elif found := _SAID.match(line):
            if found["kind"].endswith("error"):
                wrong = found["text"]
                if within is not None and found["file"] != "registration":
                    return wrong, within
            elif found["kind"] == "note" and wrong and texts.of(found["file"]) is texts.source:
                return wrong, SourcePosition(int(found["line"]), int(found["column"] or 1))
    return None
