"""From TOPS C++ source to kernels: preprocessed, rewritten, compiled, kept, and loaded when they are first asked for.

Diagnostics are in the file's own lines, whoever found the fault. A text may include the headers that come with this
package, those of the C++ library, and the named texts of its program; nothing else is read.
"""

from __future__ import annotations

import json
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

from atops.base.errors import CompilationError
from atops.base.locks import make_lock
from atops.device.native.library import NOT_IN_KERNELS, SOURCES, NativeModule, how_loading_ends, load_module
from atops.device.native.toolchain import FLAGS, Kept, Toolchain, find_toolchain, keep, kept, key_of, processor
from atops.kernels.cxx.columns import Columns
from atops.kernels.cxx.conditionals import with_halves_widened, wrapping_is_refused
from atops.kernels.cxx.kernel import NativeKernel
from atops.kernels.cxx.messages import take
from atops.kernels.cxx.reading import ONLY, Texts, names_included, outside, read_outside
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
HEAP = tuple(f"-fno-builtin-{name}" for name in ("malloc", "calloc", "realloc", "aligned_alloc", "free"))
# -g1, lines only: faults of the processor are told with theirs. Compilers take half of the widest registers by default.
# No arithmetic of floats traps here; where it could, g++ would leave loops with conditions in them as they are. A call
# at the end of a function stays a call: the line of its fault is the one that it returns to. A loop without an end
# stays, too: compilers of C++ may take it that there is none. So does memory of the C library that is taken and freed:
# what guards it sees what is wrong with that.
OPTIMISED = (
    "-O2", "-ftree-vectorize", "-fno-trapping-math", "-fno-optimize-sibling-calls", "-fno-finite-loops", "-g1",
    *HEAP, *(["-mprefer-vector-width=512"] if machine() in ("x86_64", "AMD64") else []),
)  # fmt: skip
SEEN = "-fsanitize=thread"
# Every load and store calls the runtime first (`device/native/src/hooks.cpp`). Not vectorised: the compilers leave out
# some accesses of what is. The sanitizer's own library is not linked.
WATCHED = (
    "-O1", "-fno-optimize-sibling-calls", "-fno-finite-loops", "-g1", SEEN,
    "-fno-builtin-memcpy", "-fno-builtin-memmove", "-fno-builtin-memset",
    *HEAP,
)  # fmt: skip
AS_WRITTEN = ("-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops")  # clang++; ziglang's takes -O1 for -O3
WRAPPED = ("-Wl,--wrap=memcpy", "-Wl,--wrap=memmove", "-Wl,--wrap=memset")
REFUSED = tuple(f"-Wl,--wrap={name}" for name in NOT_IN_KERNELS)
NAME_MISSING = ("-Wl,-z,defs", "-Wl,--warn-unresolved-symbols", "-Wl,--no-demangle")
_DEFINED_LATER = ("atops_", "__tsan_", "__wrap_", "__real_")  # by the runtime, when the module is loaded
BOM = "\ufeff"  # which some editors put in front of a text
# Texts for the chip are of C++17 or before: what was deprecated or taken away since is right there.
AS_BEFORE = ("-Wno-deprecated", "-Wdeprecated-declarations", "-Wno-register")
ALSO_BEFORE = ("-Wno-volatile", "-Wno-comma-subscript", "-Wno-deprecated-enum-enum-conversion",
               "-Wno-deprecated-enum-float-conversion")  # g++, where -Wno-deprecated means less
PROGRAMS = ("-fexceptions", "-frtti", "-pthread")  # what host code may have and a kernel has not

_STDIN = re.compile(r'^# \d+ "[^"\n]*-stdin\.cpp".*\n', re.MULTILINE)
_CHIPS = re.compile(
    r'^[ \t]*#[ \t]*include[ \t]*(?:<|"(?=sip|include/common/))'
    r'(?P<name>(?:(?:krt|acore|common|tcle|tops|include/common)/[\w./]+|sip\d+intrin\.h))[>"]', re.MULTILINE,
)  # fmt: skip
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z]\w*)", re.MULTILINE)
_MARKER = re.compile(r'^(# \d+ ")([^"\n<]*/[^"\n]*)"', re.MULTILINE)  # of a file that was found through a folder


class CxxUnit:
    """A compiled text. Each execution gives kernels of the same machine code, and variables of its own."""

    language = LANGUAGE

    def __init__(
        self, path: Path, kernels: Sequence[CxxKernel], name: str, again: Callable[[Sequence[str]], Path]
    ) -> None:  # fmt: skip
        """`again` compiles the text with other flags, or the same where it is kept no more; it returns the file."""
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
            try:
                self._module = load_module(self.path, again=partial(self._again, OPTIMISED))
            except OSError as error:  # ziglang's linker tells of no function that is defined nowhere
                raise CompilationError(f"{self.name} cannot be loaded: {error}") from None
        module = LoadedModule(self._module, self.name, self.watched)
        rows = {row.name.decode(): row for row in self._module.kernels}
        made = (NativeKernel(module, rows[each.name.removeprefix("::")], each) for each in self.kernels)
        return Definitions({each.name: each for each in made}, variables=module.variables)

    def watched(self) -> NativeModule:
        """Return the module whose every access is seen, compiled now if it was not yet. Raises CompilationError."""
        with self._lock:
            if self._watched is None:
                again = partial(self._again, WATCHED)
                self._watched = load_module(again(), again=again)
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
    return CxxUnit(found.path, kernels, name, partial(_again, toolchain, source, headers, options, uses))


def _again(
    toolchain: Toolchain, source: SourceText, headers: Mapping[str, str], options: CompileOptions, uses: Sequence[str],
    flags: Sequence[str],
) -> Path:  # fmt: skip
    """Return the file of a module, compiled where it is not kept. Raises CompilationError."""
    log = DiagnosticLog()
    found = _built(toolchain, source, headers, options, log, uses, flags)
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
        texts = Texts(source, headers, Path(folder))
        preprocessed = _preprocess(toolchain, texts, options, log)
        if preprocessed is None:
            return None
        found = rewrite(
            preprocessed, texts.names, options.target.gcu_arch, [spelled(each) for each in uses if "<" in each], program
        )
        if program and not found.main:
            if _built(toolchain, source, headers, options, log, uses, flags) is not None:  # what it has is right
                log.error("the program has no main", source)
            return None
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
        if made is None or (not program and not _loads(made, texts, log)):
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


def _preprocess(toolchain: Toolchain, texts: Texts, options: CompileOptions, log: DiagnosticLog) -> str | None:
    """Return the text with everything that it includes. None where `log` has an error."""
    macros = [f"-D{name}={value}" for name, value in options.built_in.items() if value is not None]
    # The program's own come behind the headers, whose parameters may have such names, but those that headers ask for.
    asked = {name: text for name, text in options.defines if name.startswith("_") or name == "NDEBUG"}
    macros += [f"-D{name}={text}" for name, text in asked.items()]
    defines = "".join(f"#define {name} {text}\n" for name, text in options.defines if name not in asked)
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
    with tempfile.TemporaryDirectory(prefix="atops-") as apart:
        _keep_apart(texts, [name for name, _ in options.defines if name not in asked], Path(apart))
        folders = [f"-I{each}" for each in (texts.folder, apart, INCLUDE, SOURCES)]
        result = toolchain.run(
            [*FLAGS, "-x", "c++", "-E", "-include", "atops/tops.h", *folders, *macros, "-"],
            f'{defines}# 1 "{name}"\n{texts.source.text.removeprefix(BOM)}\n', texts.folder,
        )  # fmt: skip
    if toolchain.zig:  # which reads a file of its own in place of the standard input
        result.stdout = _STDIN.sub("", result.stdout)
    found = _MARKER.sub(lambda marker: f'{marker[1]}{posixpath.normpath(marker[2])}"', result.stdout)
    if _reads_others(found, texts, log, toolchain, apart):  # of which the compiler's words would tell what they hold
        return None
    failed = result.returncode != 0
    take(result.stderr, texts, log, failed, None)
    return None if failed else found


def _stand_in(texts: Texts, log: DiagnosticLog) -> None:
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


def _keep_apart(texts: Texts, names: list[str], folder: Path) -> None:
    """Put headers in front of ours that hide the program's macros from them, where `N` and `T` are parameters."""
    whole = "\n".join(each.text for each in dict.fromkeys(texts.texts.values()))
    hidden = [each for each in dict.fromkeys([*names, *_DEFINED.findall(whole)]) if each != "NDEBUG"]
    before = "".join(f'#pragma push_macro("{each}")\n#undef {each}\n' for each in hidden)
    after = "".join(f'#pragma pop_macro("{each}")\n' for each in hidden)
    for name in _headers().intersection([*names_included(whole), "atops/elementwise.h"]) if hidden else ():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"#pragma once\n{before}#include_next <{name}>\n{after}")


@cache
def _headers() -> frozenset[str]:
    """Return the names of our headers, by which texts include them."""
    return frozenset(each.relative_to(INCLUDE).as_posix() for each in INCLUDE.rglob("*.h"))


def _reads_others(preprocessed: str, texts: Texts, log: DiagnosticLog, toolchain: Toolchain, apart: str) -> bool:
    """Report files that are neither the program's own nor headers; return whether there were any."""
    known = texts.stand_ins | texts.texts.keys()
    others = read_outside(preprocessed, known, (str(INCLUDE), str(SOURCES), apart), toolchain)
    for name in others:
        log.error(f"#include of {name!r}: {ONLY}", texts.source)
    return bool(others)


def _compile(
    toolchain: Toolchain, found: Rewritten, texts: Texts, options: CompileOptions, log: DiagnosticLog,
    flags: Sequence[str],
) -> Path | None:  # fmt: skip
    """Return the module's file. None where `log` has an error.

    A function that is called and defined nowhere is a fault where it is reached, and an error of a whole program.
    """
    lines = ["-gdwarf-4"] if toolchain.clang else []  # addr2line finds no lines of the C++ library's calls in version 5
    words = [*FLAGS, *lines, *flags, "-march=native", *(["-w"] if options.no_warnings else ["-Wformat"])]
    words += [*AS_BEFORE, *(() if toolchain.clang else ALSO_BEFORE), "-x", toolchain.preprocessed, "-"]
    words += AS_WRITTEN if toolchain.clang and SEEN in flags else ()
    if toolchain.clang:  # debug lines are otherwise those of a file "-"; x > y > z is a warning, as before clang 21
        words += ["-Xclang", "-main-file-name", "-Xclang", texts.source.name, "-Wno-error=parentheses"]
    links = [*(() if toolchain.zig else NAME_MISSING), *REFUSED]  # zig's linker knows no warnings for that
    made = texts.folder / "module.so"
    text, told, first = found.text, False, None
    while True:
        result = _made(toolchain, words, links, text, made, SEEN in flags)
        first = first or result
        if result.returncode and (widened := with_halves_widened(text, result.stderr)) != text:
            text = widened
            continue
        missing = {} if result.returncode or told else _missing(result.stderr)
        if not missing:
            break
        told = True
        for each in missing:
            _tell_missing(each, texts.source, log.error if found.main else log.warning)
        if found.main:
            return None
        text += "".join(map(_fault_for, missing.items()))
    failed = result.returncode != 0
    if failed and wrapping_is_refused(result.stderr):
        result, text = first, found.text
    take(result.stderr, texts, log, failed, Columns(text))
    if failed or log.errors:
        return None
    if not made.exists():
        raise CompilationError(f"{toolchain.command[0]} made no module and said nothing")
    return made


def _tell_missing(function: str, source: SourceText, say: Callable[..., None]) -> None:
    """Say that a function is defined nowhere, at its first place in the text."""
    where = re.search(rf"\b{re.escape(function.partition('(')[0].rpartition('::')[2])}\b", source.text)
    line = source.text.count("\n", 0, where.start()) + 1 if where else 0
    message = f"{function} is declared, and defined in no text of the program"
    say(message, source, SourcePosition(line) if line else None)


def _made(
    toolchain: Toolchain, words: Sequence[str], links: Sequence[str], text: str, made: Path, seen: bool
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Compile and link a text."""
    if not seen:
        return toolchain.run([*words, "-shared", *links, "-o", str(made)], text)
    unit = made.with_suffix(".o")  # linked by itself: otherwise the sanitizer's library would be, too
    result = toolchain.run([*words, "-c", "-o", str(unit)], text)
    return result if result.returncode else toolchain.run(["-shared", *WRAPPED, *links, str(unit), "-o", str(made)])


def _loads(made: Path, texts: Texts, log: DiagnosticLog) -> bool:
    """Tell whether a module can be loaded; `log` says why where it cannot."""
    end, place = how_loading_ends(made)
    if end:
        file, line = place or ("", 0)
        name = next((each for each in texts.names if file.endswith(f"/{each}")), None)
        log.error(
            f"its objects at file scope cannot be made: loading it {end}. Contexts of the DTE, their scopes and "
            "barriers are made in kernels; an initialiser uses what is made before it, and no address of the device",
            texts.of(name or texts.source.name), SourcePosition(line, 0) if name else None,
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
