"""Modules from code images: opening one runs nothing, its text is compiled when a function is first asked for.

What is compiled must be what the image says it is.
"""

from __future__ import annotations

import os

from atops.base.errors import AtopsError, InvalidImage, InvalidType
from atops.kernels.compile.image import CodeImage
from atops.kernels.compile.module import Module
from atops.kernels.compile.program import Program
from atops.kernels.launch.target import TARGETS
from atops.kernels.source.front_end import Definitions

__all__ = ("load_module",)


def load_module(image: CodeImage | bytes | bytearray | memoryview | str | os.PathLike[str]) -> Module:
    """Return the module of an image: the image itself, its bytes, or the path of its file (2.8, topsModuleLoad).

    Raises InvalidImage for what is none, here or when a function of it is first asked for; OSError where the file
    cannot be read; InvalidType for anything else.
    """
    if isinstance(image, str | os.PathLike):
        image = CodeImage.load(image)
    elif isinstance(image, bytes | bytearray | memoryview):
        image = CodeImage.from_bytes(image)
    elif not isinstance(image, CodeImage):
        raise InvalidType(f"image is {image!r}; a code image, its bytes or the path of its file is right")
    target = TARGETS.get(image.arch)
    if target is None:
        raise InvalidImage(f"code image {image.name} is for {image.arch}; {', '.join(TARGETS)} are known")
    return Module(image.name, target, lambda: _definitions(image))


def _definitions(image: CodeImage) -> Definitions:
    """Compile the text of an image and compare what it defines with what the image says."""
    try:
        program = Program(image.source, image.name, dict(image.headers))
        for expression in image.expressions:
            program.add_name_expression(expression)
        compiled = program.compile(image.options)
        found = compiled.image()
    except AtopsError as error:
        raise InvalidImage(f"code image {image.name}: its text does not compile:\n{error}") from None
    for what in ("arch", "language", "options", "expressions", "functions", "variables", "headers"):
        says, is_so = getattr(image, what), getattr(found, what)
        if says != is_so:
            raise InvalidImage(f"code image {image.name} says that its {what} are {says}; its text has {is_so}")
    return compiled.unit.execute()
