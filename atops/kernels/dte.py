"""The DTE as a kernel writes it: contexts, scopes, events, and the operations in three forms. TOPS C++, 8.7.

Each operation is made, with its types and its documentation, from its row in the operation table
(device/dte/operations.py); here it has its names.

    k.slice(ctx, dst, src, offsets)                 is over when it returns, and needs no `await`
    event = k.slice_async(ctx, dst, src, offsets)   until the event has been awaited, `dst` may not be read nor `src`
                                                    overwritten
    ctx.config_slice(dst, src, offsets)             is done at each `ctx.trigger()`

All operations raise DteError, naming thread and line, where the chip lacks the operation, where the context is not
ready, has a transfer in flight or belongs to another thread, where an operand lies in no memory that the context
reaches, and where shapes, offsets or types do not fit: at the trigger, when configured. They raise IllegalAddress where
an operand's allocation is dead, and MissingAwait after a forgotten request.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeAlias

from atops.base.errors import InvalidType
from atops.device.call_site import caller
from atops.device.dte import operations as rows
from atops.device.dte.configured import ConfiguredContext
from atops.device.dte.context import DteContext, issue
from atops.device.dte.context import memcpy as memcpy_at_once
from atops.device.dte.context import memcpy_async as memcpy_started
from atops.device.dte.operations import Operation
from atops.device.dte.transfer import DteEvent, no_context
from atops.device.exec.thread import Request, current_thread
from atops.device.geometry import frozen
from atops.kernels.memory.sharing import shared_object

__all__ = (
    "broadcast", "broadcast_async", "deslice", "deslice_async", "dte_scope", "event", "memcpy", "memcpy_async",
    "memset", "memset_async", "memset_deslice", "memset_deslice_async", "mirror_lr", "mirror_lr_async",
    "mirror_lr_deslice", "mirror_lr_deslice_async", "mirror_lr_pad", "mirror_lr_pad_async", "mirror_tb",
    "mirror_tb_async", "mirror_tb_deslice", "mirror_tb_deslice_async", "mirror_tb_pad", "mirror_tb_pad_async", "pad",
    "pad_async", "shared_dte_ctx", "shrink_deslice", "shrink_deslice_async", "slice", "slice_async", "slice_broadcast",
    "slice_broadcast_async", "slice_deslice", "slice_deslice_async", "slice_expand", "slice_expand_async", "slice_pad",
    "slice_pad_async", "slice_transpose", "slice_transpose_async", "sub_sample", "sub_sample_async", "tops_destroy_dte",
    "tops_dte_ctx_t", "tops_init_dte", "transpose", "transpose_async", "transpose_deslice", "transpose_deslice_async",
    "wait",
)  # fmt: skip

P = ParamSpec("P")
Forms = tuple[Callable[P, None], Callable[P, DteEvent]]

_AT_ONCE = """
def {name}(ctx: DteContext, {arguments}) -> None:{respelled}
    event = issue(operation, ctx, dst, {src}, {given}, now=True)
    if ctx.chain is not None:
        event.complete()
"""
_STARTED = """
def {name}_async(ctx: DteContext, {arguments}) -> DteEvent:{respelled}
    return issue(operation, ctx, dst, {src}, {frozen})
"""
_CONFIGURE = """
def config_{name}(self, {arguments}) -> None:{respelled}
    self.configure(operation, dst, {src}, {given})
"""


# Where the text has other names for parameters, its names serve too.
_RESPELLED = """
    if text or {last} is MISSING:
        {names}, = respelled(operation, ({names},), text)"""
_MISSING = object()


def _respelled(operation: Operation[...], given: tuple[object, ...], text: dict[str, object]) -> list[object]:
    """Return the arguments of an operation, of which `text` were given by the text's names for parameters.

    Raises TypeError as a call does that has a parameter twice, lacks one, or names one that there is not.
    """
    names = list(operation.signature.parameters)[1:]
    values = dict(zip(names, given, strict=True))
    for spelled, value in text.items():
        name = operation.respelled.get(spelled)
        if name is None:
            known = ", ".join([*names, *operation.respelled])
            raise TypeError(f"{operation.name}() got an unexpected keyword argument {spelled!r}; it has {known}")
        if values[name] is not _MISSING and values[name] is not operation.defaults.get(name, _MISSING):
            raise TypeError(f"{operation.name}() got {spelled!r} and {name!r}, which are one parameter")
        values[name] = value
    lacking = [repr(name) for name, value in values.items() if value is _MISSING]
    if lacking:
        raise TypeError(f"{operation.name}() missing {' and '.join(lacking)}; its parameters are {', '.join(names)}")
    return list(values.values())


def _forms(operation: Operation[P]) -> Forms[P]:
    """Return the functions by which a kernel does an operation, at once and asynchronously."""
    return _documented(operation, _written(operation, _AT_ONCE), _written(operation, _STARTED))


def _documented(operation: Operation[P], at_once: Callable[P, None], started: Callable[P, DteEvent]) -> Forms[P]:
    """Give both functions of an operation the documentation that its row has for them."""
    section = f"(TOPS C++, {operation.section})"
    awaited = "before `dst` is read or `src` overwritten" if operation.takes_source else "before `dst` is read"
    at_once.__doc__ = f"{operation.documentation}\n\n{section}"
    started.__doc__ = f"Start `{operation.name}` and return the event to await {awaited} {section}."
    return at_once, started


def _configured(operation: Operation[Concatenate[DteContext, P]]) -> Callable[Concatenate[ConfiguredContext, P], None]:
    """Return the method by which a context is configured to do an operation."""
    method: Callable[Concatenate[ConfiguredContext, P], None] = _written(operation, _CONFIGURE)
    summary = f"{operation.summary[0].lower()}{operation.summary[1:]}"
    method.__doc__ = f"Configure `{operation.name}`: {summary} (TOPS C++, beside {operation.section})"
    return method


def _written(operation: Operation[...], template: str) -> Any:
    """Return the function that a template makes of an operation's row: its own signature, and no call that is not due.

    A function that took any arguments and handed them on would cost a small transfer up to a tenth more.
    """
    _ctx, *arguments = operation.signature.parameters.values()
    lists = {each.name for each in arguments if each.annotation == "Ints"}  # which a kernel may change before the wait
    shown, check = ", ".join(map(_shown, arguments)), ""
    if operation.respelled:
        required = [each.name for each in arguments if each.default is each.empty]
        absent = {name: " = MISSING" for name in required if name not in ("dst", "src")}
        shown = ", ".join([*(_shown(each) + absent.get(each.name, "") for each in arguments), "**text: object"])
        check = _RESPELLED.format(last=required[-1], names=", ".join(each.name for each in arguments))
    text = template.format(
        name=operation.name,
        arguments=shown,
        respelled=check,
        src="src" if operation.takes_source else None,
        given=f"{{{', '.join(f'{each!r}: {each}' for each in operation.parameters)}}}",
        frozen=f"{{{', '.join(f'{x!r}: frozen({x})' if x in lists else f'{x!r}: {x}' for x in operation.parameters)}}}",
    )
    names: dict[str, Any] = {
        "operation": operation, "issue": issue, "frozen": frozen, "DteEvent": DteEvent, "__name__": __name__,
        "MISSING": _MISSING, "respelled": _respelled,
    }  # fmt: skip
    exec(compile(text, f"{__file__} {operation.name}", "exec"), names)
    made = names.popitem()[1]  # what was defined last
    if operation.respelled:
        ctx_or_self = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD) if template is _CONFIGURE else _ctx
        made.__signature__ = operation.signature.replace(parameters=[ctx_or_self, *arguments])
    return made


def _shown(argument: Parameter) -> str:
    default = "" if argument.default is argument.empty else f" = {argument.default!r}"
    return f"{argument.name}: {argument.annotation}{default}"


memcpy, memcpy_async = _documented(rows.memcpy, memcpy_at_once, memcpy_started)
memset, memset_async = _forms(rows.memset)
slice, slice_async = _forms(rows.slice)
deslice, deslice_async = _forms(rows.deslice)
transpose, transpose_async = _forms(rows.transpose)
slice_transpose, slice_transpose_async = _forms(rows.slice_transpose)
transpose_deslice, transpose_deslice_async = _forms(rows.transpose_deslice)
pad, pad_async = _forms(rows.pad)
mirror_tb, mirror_tb_async = _forms(rows.mirror_tb)
mirror_lr, mirror_lr_async = _forms(rows.mirror_lr)
broadcast, broadcast_async = _forms(rows.broadcast)
slice_pad, slice_pad_async = _forms(rows.slice_pad)
slice_deslice, slice_deslice_async = _forms(rows.slice_deslice)
slice_broadcast, slice_broadcast_async = _forms(rows.slice_broadcast)
slice_expand, slice_expand_async = _forms(rows.slice_expand)
shrink_deslice, shrink_deslice_async = _forms(rows.shrink_deslice)
memset_deslice, memset_deslice_async = _forms(rows.memset_deslice)
mirror_tb_pad, mirror_tb_pad_async = _forms(rows.mirror_tb_pad)
mirror_lr_pad, mirror_lr_pad_async = _forms(rows.mirror_lr_pad)
mirror_tb_deslice, mirror_tb_deslice_async = _forms(rows.mirror_tb_deslice)
mirror_lr_deslice, mirror_lr_deslice_async = _forms(rows.mirror_lr_deslice)
sub_sample, sub_sample_async = _forms(rows.sub_sample)


class tops_dte_ctx_t(ConfiguredContext):  # the language's own name
    """A context of the data transformation engine (TOPS C++, 8.7).

    It is given to an operation, which configures and starts in one; or configured by a method, then patched by `set_`
    methods, started by `trigger()`, as often as wanted, and connected to another one by `connect`. `config_` methods
    take what the operation of that name takes. They raise DteError, naming thread and line, where the chip lacks the
    operation, for a context that is not ready or is in flight, and for memory that it cannot reach. What the operation
    demands of shapes, offsets and types is checked when it is triggered.
    """

    __slots__ = ()

    config_memcpy = _configured(rows.memcpy)
    config_memset = _configured(rows.memset)
    config_slice = _configured(rows.slice)
    config_deslice = _configured(rows.deslice)
    config_transpose = _configured(rows.transpose)
    config_slice_transpose = _configured(rows.slice_transpose)
    config_transpose_deslice = _configured(rows.transpose_deslice)
    config_pad = _configured(rows.pad)
    config_mirror_tb = _configured(rows.mirror_tb)
    config_mirror_lr = _configured(rows.mirror_lr)
    config_broadcast = _configured(rows.broadcast)
    config_slice_pad = _configured(rows.slice_pad)
    config_slice_deslice = _configured(rows.slice_deslice)
    config_slice_broadcast = _configured(rows.slice_broadcast)
    config_slice_expand = _configured(rows.slice_expand)
    config_shrink_deslice = _configured(rows.shrink_deslice)
    config_memset_deslice = _configured(rows.memset_deslice)
    config_mirror_tb_pad = _configured(rows.mirror_tb_pad)
    config_mirror_lr_pad = _configured(rows.mirror_lr_pad)
    config_mirror_tb_deslice = _configured(rows.mirror_tb_deslice)
    config_mirror_lr_deslice = _configured(rows.mirror_lr_deslice)
    config_sub_sample = _configured(rows.sub_sample)


event: TypeAlias = DteEvent


def shared_dte_ctx() -> tops_dte_ctx_t:
    """Return the block's context of this line, one and the same for all its threads: `__shared__ tops_dte_ctx_t ctx`.

    One thread initialises it; it moves between global and shared memory, for one thread at a time (TOPS C++, 8.7).
    """
    thread = current_thread()
    return shared_object(thread, lambda: tops_dte_ctx_t.of_block(thread.block))


def tops_init_dte(ctx: tops_dte_ctx_t) -> None:
    """Make a context ready for use, as `ctx.init()` does. Raises DteError on another thread's (TOPS C++, 8.7)."""
    _context(ctx, "tops_init_dte").init()


def tops_destroy_dte(ctx: tops_dte_ctx_t) -> None:
    """Give a context back, as `ctx.destroy()` does. Raises DteError while a transfer is in flight (TOPS C++, 8.7)."""
    _context(ctx, "tops_destroy_dte").destroy()


def wait(event: DteEvent) -> Request:
    """Return the request that waits for an asynchronous operation: `await k.wait(event)`, or just `await event`.

    An event may be waited for once or many times. Raises InvalidType for anything else (TOPS C++, 8.7, `tops::wait`).
    """
    if not isinstance(event, DteEvent):
        raise InvalidType(f"wait() at {caller()} expects what an asynchronous DTE operation returned, got {event!r}")
    return event.made_by(current_thread())


class dte_scope:  # the language's own name
    """Initialise a context for a `with` block and destroy it at the end: `tops::dte_scope`.

    Without an argument the context is a private one of its own. At the end of the block no transfer may be in flight
    (DteError), unless an exception is already under way. The text does not have it, published kernels do (beside
    TOPS C++, 8.7).
    """

    __slots__ = ("_ctx",)

    def __init__(self, ctx: tops_dte_ctx_t | None = None) -> None:
        """Take a context, or make a private one."""
        self._ctx = tops_dte_ctx_t() if ctx is None else _context(ctx, "dte_scope")

    def __enter__(self) -> tops_dte_ctx_t:
        self._ctx.init()
        return self._ctx

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is None:
            self._ctx.destroy()


def _context(ctx: object, asked: str) -> tops_dte_ctx_t:
    if not isinstance(ctx, tops_dte_ctx_t):
        raise no_context(current_thread(), ctx, asked)
    return ctx
