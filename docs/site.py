"""What `make docs` adds to the pages of this folder: the tree's other Markdown files, and a page for each example.

Pages name files by their place in the tree, as any viewer of the tree follows them; in the site a link leads to the
page that the file became. A link to a file that is no page of the site becomes its name.

A line `::names atops.kernels` becomes a section for each public name of that module, with the signature and docstring
that it has when it is imported: many are made from tables, which a reader of the source text does not find.
"""

from __future__ import annotations

import ast
import inspect
import posixpath
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
TOP = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
}
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")
NAMES = re.compile(r"^::names ([\w.]+)(?: as ([\w.]+))?$", re.MULTILINE)
NOISE = re.compile(r"\batops\.(?:\w+\.)*|'")  # in annotations: the modules of types, and quotes
FETCHED = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=[\"']?(https?://[^\"' >]+)")
PICTURE = re.compile(r"(!\[[^\]]*\]\()docs/")


def place_of(path: str) -> str | None:
    """Return where the site has a file of the tree, both relative to their roots; None where it has no page of it."""
    if path in TOP:
        return TOP[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.startswith("examples/") and (ROOT / path).is_dir():
        path = f"{path.rstrip('/')}/README.md"
    if path.startswith("examples/") and (ROOT / path).is_file():
        return f"{path}.md" if path.endswith(".py") else path
    return None


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that come from outside of docs/."""
    examples = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "examples").rglob("*.*"))]
    for path in (*TOP, *examples):
        if not path.endswith((".md", ".py")) or path.endswith("__init__.py") or not (place := place_of(path)):
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=_example(path, text) if path.endswith(".py") else text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to the pages of the site."""
    markdown = NAMES.sub(lambda match: "\n".join(_names(match[1], match[2] or match[1])), markdown)
    place = page.file.src_uri
    homes = {site: path for path, site in TOP.items()}
    source = homes.get(place) or (place if place.startswith("examples/") else f"docs/{place}")
    folder, here = posixpath.dirname(source), posixpath.dirname(place)

    def led(match: re.Match[str]) -> str:
        words, target, fragment = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join(folder, target))
        if (site := place_of(path)) is None:
            return words
        return f"[{words}]({posixpath.relpath(site, here or '.')}{fragment})"

    parts = re.split(r"(^```.*?^```$|`[^`\n]*`(?!\]))", PICTURE.sub(r"\1", markdown), flags=re.MULTILINE | re.DOTALL)
    return "".join(part if place % 2 else LINK.sub(led, part) for place, part in enumerate(parts))


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that fetches something from a network."""
    if found := FETCHED.findall(output):
        raise PluginError(f"{page.file.src_uri} fetches {', '.join(found)}")
    return output


def _example(path: str, text: str) -> str:
    """Return a program as a page: its docstring, then the program."""
    about = ast.get_docstring(ast.parse(text)) or ""
    return f"# {Path(path).stem.replace('_', ' ').capitalize()}\n\n`{path}`\n\n{about}\n\n````python\n{text}\n````\n"


def _names(listed: str, module: str) -> Iterator[str]:
    """Yield the sections of the names that `listed` lists, each as it is in `module`."""
    level = "##" if listed == module else "###"
    for name in sorted(import_module(listed).__all__, key=lambda name: (name.lower(), name)):
        value = getattr(import_module(module), name)
        if listed != module and not inspect.isroutine(value):
            continue
        yield from _section(f"{level} {name}", name, value)
        if inspect.isclass(value):
            for method, member in vars(value).items():
                if not method.startswith("_") and inspect.isfunction(member):
                    yield from _section(f"{level}# {name}.{method}", method, member)


def _section(heading: str, name: str, value: object) -> Iterator[str]:
    """Yield heading, signature and docstring."""
    yield f"\n{heading}\n"
    if inspect.isroutine(value):
        waits = "async " if inspect.iscoroutinefunction(value) else ""
        yield f"```python\n{waits}def {name}{NOISE.sub('', str(inspect.signature(value)))}\n```\n"
    yield inspect.getdoc(value) or ""
