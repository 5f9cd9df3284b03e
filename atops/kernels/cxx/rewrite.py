"""From TOPS C++ to C++: what no macro can say is written anew, names and lines stay.

The text has been through the preprocessor. Only what comes from the program's own files is read; line markers tell.

    __vector4 float              atops::Vector<float, 512>, and so on for the other vectors and masks
    __fp16, __bf16               types of the headers
    __shared__ T x[n];           a reference to memory of the block's L2; __local__ to the thread's L1
    extern __shared__ T x[];     a pointer to the launch's dynamic shared memory
    the same at the top          nothing; each use becomes a call that finds the memory of the block that asks
    kernel<<<2, 12>>>(...)       a call of what launches
    __global__, __device__ ...   nothing; a kernel is noted, and registered at the end
    __device__ T x = value;      the value under another name, and a reference to where the host has the variable
    an unknown intrinsic(...)    a fault with its name, where it is reached
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from atops.kernels.cxx.declarations import (
    OF_TYPES,
    QUALIFIERS,
    noted_kernels,
    of_headers,
    taken_alignment,
    used_bare,
)
from atops.kernels.cxx.refusals import Refusals
from atops.kernels.cxx.registration import MAIN, CxxKernel, CxxVariable, Fault, Rewritten, registration
from atops.kernels.cxx.scopes import Shared
from atops.kernels.cxx.tokens import Token, closing, parts_of, spelled, tokens

__all__ = ("rewrite",)

BYTES = {"__vector": 128, "__vector2": 256, "__vector4": 512}
FIRST_WITH_VECTORS = 300
_WIDTHS = {"char": 1, "short": 2, "int": 4, "long": 8}
_NARROW = {"__fp16": "__atops_fp16", "__bf16": "__atops_bf16"}
# The compiler spells these out where it instruments accesses, and tells of none of them. Of the others it does know.
_COPIES = {f"__builtin_{name}": f"::{name}" for name in ("memcpy", "memmove", "memset")}
_SPACES = frozenset(("__shared__", "__local__", "__private__"))
_DROPPED = frozenset(("__private_dte__", "__shared_dte__", "__DTU_INTRIN_AS__", "__TCLE_AS__"))
_SPECIFIERS = frozenset(("__global__", "__device__", "__host__", "__cooperative__", "__constant__"))
_BESIDE = frozenset(("static", "inline", "extern", "const", "constexpr", "__forceinline__", "volatile"))
_AHEAD = _BESIDE | {'"C"'}
# What means the same at the end of the text as in the function that launches.
_PLAIN_TYPE = re.compile(rf"{'|'.join(OF_TYPES)}|double|true|false|const|(u_?)?int\d+_t|size_t")
# What the macros `__global__` and so on stand for on the chip; literals are passed over.
_ATTRIBUTE = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|__attribute__[ \t]*\(\([ \t]*(global|device|host|constant|shared|cooperative)[ \t]*\)\)'
)


def rewrite(
    preprocessed: str, own: Sequence[str], gcu_arch: int | None = 300, uses: Sequence[str] = (), program: bool = False
) -> Rewritten:  # fmt: skip
    """Rewrite the parts of a preprocessed text that come from files named in `own`; vectors are gcu300's.

    `uses` are templates of kernels with their arguments, `scale<float>`: each is a kernel by this name. Of a `program`
    the `main` is run, and its host code may have exceptions.
    """
    found = Rewritten()
    rewriter = _Rewriter(found, gcu_arch is None or gcu_arch >= FIRST_WITH_VECTORS, program)
    pieces: list[str] = []
    parts = parts_of(preprocessed)
    rewriter.bare = used_bare(text for file, _, text in parts if file in own)
    for file, line, text in parts:
        pieces.append(rewriter.part(text, file, line) if file in own else text)
    for use in uses:
        if (template := found.templates.get(use.partition("<")[0])) is not None:
            found.kernels.append(replace(template, name=f"::{use}"))
    for name, (file, line) in found.undefined.items():
        plain = name.removeprefix("::")
        found.faults.append(Fault(f"{plain} is declared extern, and not defined in this text", file, line))
    pieces.append(registration(found.kernels, found.variables, list(found.templates.values()), found.main))
    found.text = "".join(pieces)
    return found


class _Rewriter(Refusals):
    """Goes through the tokens of the program's own files, one part after the other."""

    def __init__(self, found: Rewritten, vectors: bool, program: bool) -> None:
        self.found = found
        self.vectors = vectors
        self.program = program
        self.scopes: list[str | None] = []  # names of namespaces that are open; None is another brace
        self.numbers = count()
        super().__init__()
        self.file = ""
        self.kernels: dict[str, bool] = {}  # names, and whether the text has them for kernels only
        self.dynamic: set[str] = set()  # names of dynamic shared memory at the top of the text
        self.shared = Shared()
        self.main: list[str] = []  # the part's text so far, and where in it the declaration at the top begins
        self.beginning = 0
        self.bare: dict[str, str] = {}  # names at the top that the program has for nothing else, and where they are
        self._takers = {
            **dict.fromkeys(BYTES, self._vector), **dict.fromkeys(_SPACES, self._memory),
            **dict.fromkeys(_SPECIFIERS, self._specifier), "namespace": self._namespace, "using": self._using,
        }  # fmt: skip

    def part(self, text: str, file: str, line: int) -> str:
        """Return a part of the text, rewritten."""
        self.file, self.line = file, line
        if "__attribute__" in text:
            text = _ATTRIBUTE.sub(
                lambda each: each[0] if each[1] is None else f"__{each[1]}__".ljust(len(each[0])), text
            )
        self.kernels = noted_kernels(text, self.kernels)
        before, self.given = len(self.given), list(tokens(text))
        self._carry_over(before)
        for place, token in enumerate(self.given):
            if token.kind in ("name", "mark") and (why := self.refused_attributes(place)):
                self._fault(why)
            self._count_lines(token)
        self.line = line
        self.main = out = list[str]()
        self.beginning = place = 0
        while place < len(self.given):
            place = self._one(place, out)
        return "".join(out)

    def _fault(self, message: str) -> None:
        self.found.faults.append(Fault(message, self.file, self.line))

    @property
    def _at_top(self) -> bool:
        return None not in self.scopes

    # ---- one token

    def _one(self, place: int, out: list[str]) -> int:
        """Take the token at `place`, and what belongs to it. Returns the place behind."""
        token = self.given[place]
        if token.kind == "name":
            if (end := self._name(place, out)) is not None:
                return end
        elif token.kind == "mark":
            if token.text == "{":
                self.scopes.append(None)
            elif token.text == "}" and self.scopes:
                self.scopes.pop()
            if token.text[-1] in "};" and self._at_top and out is self.main:  # the end of what defines a variable, too
                self.beginning = len(out) + 1  # behind this token
            elif token.text == "<<<":
                if self._before(place) in (")", "]"):
                    return self._launch(place, place, False, out)
                self._fault("<<< is preceded by no kernel's name")
        elif token.kind == "text" and token.text == '"C"' and self._before(place) == "extern":
            brace = self._next(place + 1)
            if self._text(brace) == "{":
                out.append(self._join(place, brace + 1))
                self.scopes.append("")
                self.line += self._join(place, brace + 1).count("\n")
                return brace + 1
        self._count_lines(token)
        out.append(token.text)
        return place + 1

    def _name(self, place: int, out: list[str]) -> int | None:
        """Take a name that says something else in C++. Returns the place behind; None where it stays."""
        text = self.given[place].text
        taken = self._takers.get(text)
        if taken is not None:
            return taken(place, out)
        if (other := _NARROW.get(text) or _COPIES.get(text)) is not None:
            out.append(other)
            return place + 1
        if text == "__noinline__" and self._before(place) not in ("(", ","):  # those are of an attribute
            out.append("__attribute__((noinline))")
            return place + 1
        if text in _DROPPED:
            out.append(" " * len(text))
            return place + 1
        if text in self.shared.words and (used := self._shared_at(place)) is not None:
            end, known = used
            out.append(known + self._skip(place, end))
            return end
        if text in self.bare and self._before(place) not in ("::", ".", "->"):
            out.append(f"{self.bare[text]}::{text}")
            return place + 1
        if (behind := self._of_kernels(place, out)) is not None:
            return behind
        if text == "extern" and self._text(self._next(place + 1)) == "__shared__":
            return self._dynamic(place, out)
        if text == "main" and self.program and self._is_main(place):
            out.append(MAIN)
            return place + 1
        self._refuse(place, text)
        if self.is_unknown_intrinsic(place):
            out.append(f'atops::Unsupported("{text}")')
            return place + 1
        return None

    def _refuse(self, place: int, text: str) -> None:
        """Fault a name that no kernel may have here."""
        if why := self.refusal(place, self.program):
            self._fault(why)
        if self.kernels.get(text) and not self._at_top and self.is_plain_call(place) and not self.hides(place):
            self._fault(f"kernel {text} is called as a function; host code launches it: {text}<<<grid, block>>>(...) "
                        "(TOPS C++, 8.1)")  # fmt: skip

    def _using(self, place: int, out: list[str]) -> int:
        """Take `using`, by which a name of another namespace may be shared memory; it stays as it is."""
        self.shared.use(each.text for each in self.given[place : self.end_of_declaration(place)])
        out.append(self.given[place].text)
        return place + 1

    def _is_main(self, place: int) -> bool:
        """Whether the program's `main` is defined here; let it return 0 where it returns nothing, as a main does."""
        if not self._at_top or any(self.scopes) or self._text(self._next(place + 1)) != "(":
            return False
        body = self._next(closing(self.given, self._next(place + 1)) + 1)
        if self._text(body) == "try":
            body = self._next(body + 1)
        if self._text(body) != "{":
            return True  # it is declared only
        last = closing(self.given, body) - 1
        self.given[last] = self.given[last]._replace(text=f"{self.given[last].text} return 0;")
        self.found.main = True
        return True

    def _namespace(self, place: int, out: list[str]) -> int:
        """Take `namespace a::b {`; an alias or a `using namespace` stays as it is."""
        end = place + 1
        name = ""
        while end < len(self.given) and self.given[end].text not in ("{", ";", "="):
            if self.given[end].kind not in ("space", "line"):
                name += self.given[end].text
            end += 1
        if self._text(end) == "{":
            self.scopes.append(name.removeprefix("inline"))
            end += 1
        for each in self.given[place:end]:
            self._count_lines(each)
        out.append(self._join(place, end))
        if out is self.main:
            self.beginning = len(out)
        return end

    # ---- launches

    def _of_kernels(self, place: int, out: list[str]) -> int | None:
        """Take a launch, and the name of a kernel that a template makes, where a program takes its address."""
        own = self.given[place].text in self.kernels and self._is_own(place)
        if (opening := self.launch_at(place)) is not None:
            return self._launch(place, opening, own, out)
        arguments = self.behind_name(place)
        if not self.program or self._text(arguments) != "<":
            return None
        last = self._text(self._place_before(arguments))
        alone = self.kernels.get(last) or last in of_headers()  # theirs are told by their arguments
        if own or not alone or not self._template(spelled(self._join(place, arguments))):
            return None
        if (end := self.value_at(place, arguments)) is None:
            return None
        name = spelled(self._join(place, arguments)) + self._rewritten(arguments, end)
        out.append(f"atops::made<&{name}, {int(self._is_cooperative(name))}>(){self._skip(place, end)}")
        self.line += self._join(place, end).count("\n")
        return end

    def _launch(self, place: int, opening: int, own: bool, out: list[str]) -> int:
        """Take `kernel<<<grid, block, shared, stream>>>`; the arguments follow as those of a call.

        What has no kernel's name, such as `table[i]` or a parameter, is a pointer to one. So is a kernel's name
        that something of the function's own has here.
        """
        closing_at = next((at for at in range(opening, len(self.given)) if self._text(at) == ">>>"), None)
        if closing_at is None or self._text(self._next(closing_at + 1)) != "(":
            self._fault("a launch is written kernel<<<grid, block, shared, stream>>>(arguments)")
            return place + 1
        name = self._rewritten(place, opening).strip()
        given = self._rewritten(opening + 1, closing_at).strip()
        ends = self._skip(place, closing_at + 1)
        self.line += self._join(place, closing_at + 1).count("\n")
        of_kernel = "<" in name or (name.rpartition("::")[2] in self.kernels and not (own and "::" not in name))
        if self._before(place) in (".", "->") or not of_kernel:
            out.append(f"{name}->*atops::Launching{{atops::Configuration({given})}}{ends}")
            return closing_at + 1
        self._instantiate(spelled(self._join(place, opening)))
        known = {each.name.rpartition("::")[2] for each in self.found.kernels if not each.overload}
        plain = "<" in name or name.rpartition("::")[2] in known
        kind = f"decltype(&{name})" if plain else "void"  # the arguments of a template are deduced by the call
        together = int(self._is_cooperative(name))
        out.append(
            f'atops::launch<{kind}>("{spelled(name)}", {together}, atops::Configuration({given}), '
            f"[](auto &...each) {{ {name}(each...); }}){ends}"
        )
        return closing_at + 1

    def _instantiate(self, name: str) -> None:
        """Note the kernel that a launch makes of a template, if its arguments are plain."""
        plain, _, arguments = name.partition("<")
        template = self._template(plain)
        local = re.findall(r"(?<!::)\b[A-Za-z_]\w*\b(?!::)", arguments)
        if template is None or not arguments or not all(_PLAIN_TYPE.fullmatch(each) for each in local):
            return
        made = f"::{template.name.removeprefix('::')}<{arguments}"
        if all(each.name != made for each in self.found.kernels):
            self.found.kernels.append(replace(template, name=made))

    def _template(self, name: str) -> CxxKernel | None:
        """Return the template of kernels that a name stands for here."""
        scopes = [each for each in self.scopes if each]
        found = (self.found.templates.get("::".join([*scopes[:end], name])) for end in range(len(scopes), -1, -1))
        return next(filter(None, found), None)

    def _is_cooperative(self, name: str) -> bool:
        plain = spelled(name.partition("<")[0]).rpartition("::")[2]
        known = [*self.found.kernels, *self.found.templates.values()]
        return any(each.cooperative for each in known if each.name.rpartition("::")[2] == plain)

    # ---- types

    def _vector(self, place: int, out: list[str]) -> int:
        """Take `__vector4 bool unsigned int` and its like."""
        keyword = self.given[place].text
        if not self.vectors:
            self._fault(f"{keyword}: vectors exist from gcu{FIRST_WITH_VECTORS} on (TOPS C++, 8.3)")
        words: list[str] = []
        end = place + 1
        while True:
            at = self._next(end)
            text = self._text(at)
            if text not in OF_TYPES:
                break
            words.append(text)
            end = at + 1
        if not words:  # a name that stands for a type
            end = self._next(end)
            while self._text(end) == "::" or (end < len(self.given) and self.given[end].kind == "name"):
                words.append(self._text(end))
                end += 1
                if self._text(end) != "::":
                    break
            name = "".join(words)
            if not name:
                self._fault(f"{keyword} is followed by no type")
        else:
            name = " ".join(_NARROW.get(each, each) for each in words if each != "bool")
        if "bool" in words:
            width = next((_WIDTHS[each] for each in words if each in _WIDTHS), 4)
            made = f"atops::Mask<{width}, {BYTES[keyword]}>"
        else:
            made = f"atops::Vector<{name or 'int'}, {BYTES[keyword]}>"
        out.append(made + self._skip(place, end))
        self.line += self._join(place, end).count("\n")
        return end

    # ---- memory

    def _memory(self, place: int, out: list[str]) -> int:
        """Take `__shared__` and `__local__`: a declaration of memory, or the space of a pointer, which C++ has not."""
        end = self.end_of_declaration(place)
        first = self._next(place + 1)
        if end is None or self.is_pointer(first, end) or first >= end:
            out.append(" " * len(self.given[place].text))
            return place + 1
        if self._at_top and self.given[place].text != "__shared__":
            self._fault(f"{self.given[place].text} memory outside of a function; declare it in the kernel")
            return place + 1
        while out and out[-1].strip() in ("static", "volatile", ""):
            if not out[-1].strip() and "\n" in out[-1]:
                break
            out.pop()
        members = self._members(first, end, taken_alignment(out))
        if members is None:
            self._fault(f"a declaration of {self.given[place].text} memory that was not understood")
            return place + 1
        number = next(self.numbers)
        function = "shared_memory" if self.given[place].text == "__shared__" else "local_memory"
        own, names = members
        out.append(f"struct __atops_memory_{number} {{ {own} }}; " + self._skip(place, end))
        self.line += self._join(place, end).count("\n")
        if self._at_top:
            scope = "::".join(["", *self._namespaces(), f"__atops_memory_{number}"])
            for each in names:
                self.shared.note(self._namespaces(), each, f"atops::shared_memory(&{scope}::{names[-1]}).{each}")
            return end + 1
        for start, _ in self.declarators(self.declared_name(first, end) or first, end):
            self.hide(self._next(start), False)  # the top of the text may have such a name, too
        place_of_all = f"__atops_place_{number}"
        refs = f"auto &{place_of_all} = atops::{function}(&__atops_memory_{number}::{names[-1]});"
        out.append(" ".join([refs, *(f"[[maybe_unused]] auto &{each} = {place_of_all}.{each};" for each in names)]))
        return end + 1

    def _namespaces(self) -> list[str]:
        """Return the namespaces that are open, as they are named from the outermost one on."""
        return [part for each in self.scopes if each for part in each.split("::")]

    def _shared_at(self, place: int) -> tuple[int, str] | None:
        """Return the place behind `a::name`, and what stands for that shared memory; None for something else."""
        if (named := self.qualified(place, self.shared.words)) is None:
            return None
        end, names, from_top = named
        known = self.shared.find([] if from_top else self._namespaces(), names, from_top)
        alone = len(names) == 1 and not from_top
        return None if known is None or (alone and not self._is_use(place)) else (end, known)

    def _is_use(self, place: int) -> bool:
        """Whether a name stands for shared memory that is declared at the top, not for something of the function."""
        if self._before(place) in (".", "->"):
            return False
        return not self.is_label(place) and not self._is_own(place)

    def _is_own(self, place: int) -> bool:
        """Whether something of a function or class has a name here; one that is declared here does from now on."""
        if self.declares(place, self._at_top) or self.declares_alone(place):
            self.hide(place, self._at_top)
        return self.hides(place)

    def _members(self, first: int, end: int, aligned: str) -> tuple[str, list[str]] | None:
        """Return the members that a declaration becomes, and their names; `aligned` stands before it."""
        name_at = self.declared_name(first, end)
        if name_at is None:
            return None
        kind, names, members = self._rewritten(first, name_at).strip(), list[str](), list[str]()
        for start, stop in self.declarators(name_at, end):
            at = self._next(start)
            if at >= stop or self.given[at].kind != "name":
                return None
            name, rest = self.given[at].text, self._rewritten(at + 1, stop).strip()
            names.append(name)
            if rest.startswith("("):
                rest = f" = {kind}{rest}"  # the arguments of a constructor
            members.append(f"{aligned}{kind} {name}{rest};")
        return " ".join(members), names

    def _rewritten(self, start: int, end: int) -> str:
        """Return some tokens on one line, their types rewritten."""
        inner: list[str] = []
        given, line, hidden = self.given, self.line, self._hidden
        self._hidden = self._within(start)
        self.given = [each for each in given[start:end] if each.kind != "line"]
        place = 0
        while place < len(self.given):
            place = self._one(place, inner)
        self.given, self.line, self._hidden = given, line, hidden
        return "".join(inner).replace("\n", " ")

    def _dynamic(self, place: int, out: list[str]) -> int:
        """Take `extern __shared__ T name[];`."""
        end = self.end_of_declaration(place)
        name_at = None if end is None else self.declared_name(self._next(self._next(place + 1) + 1), end)
        if end is None or name_at is None or self._text(self._next(name_at + 1)) != "[":
            self._fault("extern __shared__ is declared as an array without a size: extern __shared__ T name[];")
            return place + 1
        start = self._next(self._next(place + 1) + 1)
        words = [each for each in self.given[start:name_at] if each.text not in QUALIFIERS or each.text == "const"]
        given, self.given = self.given, words
        kind = self._rewritten(0, len(words)).strip()
        self.given = given
        name = self.given[name_at].text
        skipped = self._skip(place, end)
        if self._at_top:
            self.dynamic.add(name)
            self.shared.note(self._namespaces(), name, f"atops::dynamic_shared<{kind}>()")
            out.append(skipped)
        else:
            self.hide(name_at, False)
            out.append(f"[[maybe_unused]] {kind} *{name} = atops::dynamic_shared<{kind}>();{skipped}")
        self.line += self._join(place, end).count("\n")
        return end + 1

    # ---- functions and variables

    def _specifier(self, place: int, out: list[str]) -> int:
        """Take `__global__` and its like, which C++ has not; note a kernel."""
        words, at = [self.given[place].text], place + 1
        while True:
            at = self._next(at)
            text = self._text(at)
            if text in _SPECIFIERS or text in _BESIDE:
                words.append(text)
                at += 1
            elif self._text(at) in ("__attribute__", "alignas"):
                at = closing(self.given, self._next(at + 1)) + 1
            else:
                break
        if not {"__device__", "__host__"}.isdisjoint(words) and self._text(at) in _SPACES:
            pass  # `__device__ __shared__` is `__shared__`
        elif "__global__" in words:
            if both := {"__device__", "__host__"}.intersection([*words, self._before(place)]):
                self._fault(f"a kernel is no {min(both)} function, too (TOPS C++, 8.1)")
            self._kernel(place, at, "__cooperative__" in words or self._before(place) == "__cooperative__")
        elif "__constant__" in words or self.is_variable(at):
            self._variable(words, place, at, out)
        out.append(" " * len(self.given[place].text))  # what follows keeps its column
        return place + 1

    def _variable(self, words: list[str], place: int, at: int, out: list[str]) -> None:
        """Note variables, and let each name stand for where the host has it: what follows is changed in its place.

        A constant expression stays as it is: it may be the extent of an array.
        """
        before = place - 1
        while before >= 0 and (self.given[before].kind in ("space", "line") or self.given[before].text in _AHEAD):
            words = [*words, self.given[before].text]
            before -= 1
        end = self.end_of_declaration(at)
        name_at = None if end is None else self.declared_name(at, end)
        if end is None or name_at is None:
            return self._fault("a declaration of a variable that was not understood")
        array = self._text(self._next(name_at + 1)) == "["
        if "constexpr" in words or ("const" in words and not array and not self.is_pointer(at, end)):
            return None
        static = not self._at_top and "static" in words
        if (not self._at_top and not static) or '"C"' in words or (not static and self.is_template(place)):
            return self._fault(f"{words[0]} variables are defined at the top of the text or in a namespace")
        line = self.line + self._join(place, name_at).count("\n")
        behind = ";"
        for start, stop in self.declarators(name_at, end):
            start = self._next(start)
            while start < stop and self.given[start].text in ("*", "const"):
                start = self._next(start + 1)
            if start >= stop or self.given[start].kind != "name":
                return self._fault("a declaration of a variable that was not understood")
            behind += self._reference(start, line, words, static)
        self.given[end] = Token("mark", behind)
        if static:  # what it begins with lies before the function, where the tables reach it
            self._hoist(at, end, behind)
            return None
        for each in range(place + 1, at):
            if self.given[each].text in _SPECIFIERS:
                self.given[each] = Token("space", " ")
        return None

    def _reference(self, at: int, line: int, words: list[str], static: bool) -> str:
        """Rename the variable at a place, note it, and return the reference that has its name."""
        name, constant = self.given[at].text, "__constant__" in words
        scope = "::".join(["", *(each for each in self.scopes if each), ""])
        number = len(self.found.variables)
        initial = f"__atops_initial_{name}{f'_{number}' if static else ''}"
        self.given[at] = Token("name", initial)
        known = self.found.undefined.pop(f"{scope}{name}", None)
        if "extern" in words:
            self.found.undefined[f"{scope}{name}"] = (self.file, line)
        if known is not None:
            return ""  # an extern declaration has noted it
        self.found.variables.append(CxxVariable(f"{scope}{name}", f"{scope}{initial}", constant, self.file, line))
        kind = f"{'' if static else 'static '}{'const ' * constant}auto"
        return f" {kind} &{name} = atops::variable({number}, {initial});"

    def _hoist(self, at: int, end: int, references: str) -> None:
        """Move the definition of a function's static variable before the function; the references stay."""
        before = self.beginning
        while before < len(self.main) and (not self.main[before].strip() or self.main[before].lstrip().startswith("#")):
            before += 1  # line markers stay at the beginning of their lines
        self.main.insert(before, f" static {self._rewritten(at, end)}; ")
        for each in range(at, end):
            if self.given[each].kind != "line":
                self.given[each] = Token("space", "\n" * self.given[each].text.count("\n"))
        self.given[end] = Token("mark", references.removeprefix(";").strip() or ";")

    def _kernel(self, place: int, at: int, cooperative: bool) -> None:
        """Note a kernel whose name and parameters follow."""
        if not self._at_top:
            return self._fault("a kernel is a member of a class, or in a function; it is a function (TOPS C++, 8.1)")
        template = self.is_template(place)
        opening = at
        while opening < len(self.given) and self.given[opening].text not in ("(", ";", "{"):
            opening += 1
        name_at = opening - 1
        while name_at > at and self.given[name_at].kind in ("space", "line"):
            name_at -= 1
        if template and self._text(name_at) in (">", ">>>"):
            return self._instance(at, opening)
        if self._text(opening) != "(" or self.given[name_at].kind != "name":
            return self._fault("__global__ is followed by no function")
        if (self._join(at, name_at).split() or [self._before(place)]) != ["void"]:  # `void __global__`, too
            named = self.given[name_at].text
            return self._fault(f"kernel {named} returns a value; a kernel returns void (TOPS C++, 8.1)")
        end = closing(self.given, opening)
        after = self._next(end + 1)
        if self._text(after) != "{":
            return None  # a declaration; the definition follows
        name = "::".join(["", *(each for each in self.scopes if each), self.given[name_at].text])
        line = self.line + self._join(place, name_at).count("\n")
        known = next((each for each in self.found.kernels if each.name == name and not template), None)
        if known is not None and (known.file, known.line) == (self.file, line):
            return None  # it was noted at another of its specifiers
        wrong = "" if template else self.refused_parameter(opening, end)
        if wrong or (known is not None and not self.program):  # host code tells them apart by their types
            wrong = wrong or "is defined twice; the host knows it by its name alone"
            return self._fault(f"kernel {self.given[name_at].text} {wrong} (TOPS C++, 8.1)")
        body = {each.text for each in self.given[after : closing(self.given, after)] if each.kind == "name"}
        dynamic = body >= {"extern", "__shared__"} or not body.isdisjoint(self.dynamic)
        kernel = CxxKernel(name, self.parameter_names(opening, end), cooperative, self.file, line, dynamic)
        if not template and not self.kernels.get(self.given[name_at].text, True):
            kernel = replace(kernel, overload=self._alias(opening, end))
        if template:
            self.found.templates[name.removeprefix("::")] = kernel
        else:
            self.found.kernels.append(kernel)
        return None

    def _alias(self, opening: int, end: int) -> str:
        """Name the type of a kernel before it: where a function has its name, too, that says which of them is meant."""
        scope = [each for each in self.scopes if each]
        alias = f"__atops_kernel_{next(self.numbers)}"
        parameters = ", ".join(
            self._rewritten(start, self.default_at(start, stop)) for start, stop in self.declarators(opening + 1, end)
        )
        before = self.beginning
        while before < len(self.main) and (not self.main[before].strip() or self.main[before].lstrip().startswith("#")):
            before += 1  # line markers stay at the beginning of their lines
        self.main.insert(before, f" using {alias} = void({parameters.strip()}); ")
        return "::".join(["", *scope, alias])

    def _instance(self, at: int, opening: int) -> None:
        """Take `template __global__ void name<arguments>(...);`: a kernel of a template that stands before it."""
        words = [each.text for each in self.given[at:opening] if each.kind not in ("space", "line")]
        if words[:1] != ["void"]:
            return self._fault("__global__ is followed by no function")
        name = spelled(" ".join(words[1:]))
        scope = [each for each in self.scopes if each]
        template = self.found.templates.get("::".join([*scope, name.partition("<")[0]]))
        if template is None:
            return self._fault(f"{name} is made of no template of a kernel that stands before it")
        self.found.kernels.append(replace(template, name="::".join(["", *scope, name])))
        return None
