"""What the demo takes: its defaults, sizes with units, and what it refuses before it begins."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from atops.apps.demo_arguments import add_arguments


def parsed(*words: str) -> argparse.Namespace:
    """Return what the demo's parser makes of these words."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(words)


def test_defaults():
    """Nothing needs to be said: chunks of 1 MiB, four streams, eight in flight, threads, the environment's board."""
    assert vars(parsed()) == {
        "files": [], "trace": None, "records": None, "inline": False, "seed": None, "arch": None, "devices": None,
        "streams": 4, "in_flight": 8, "chunk": 1 << 20,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("65536", 65536), ("64K", 65536), ("64k", 65536), ("3M", 3 << 20), ("1024M", 1 << 30)]
)
def test_sizes(text: str, size: int):
    """A chunk's size is in bytes, or in KiB or MiB with a letter."""
    assert parsed("--chunk", text).chunk == size


@pytest.mark.parametrize(
    "words",
    [
        ("--chunk", "0"), ("--chunk", "-1"), ("--chunk", "1G"), ("--chunk", "K"), ("--chunk", "1KM"),
        ("--chunk", "1.5M"), ("--chunk", "²"), ("--chunk", "1025M"), ("--streams", "0"), ("--in-flight", "x"),
        ("--devices", "0"), ("--devices", "-1"), ("--seed", "x"), ("--arch", "gcu999"), ("--trace", "."),
        ("--trace", "not-there/x.json"), ("--records", "not-there/x.txt"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_is_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    """Each wrong value is refused with its option's name, before anything is read."""
    with pytest.raises(SystemExit) as left:
        parsed(*words)
    assert left.value.code == 2
    assert words[0] in capsys.readouterr().err


def test_a_file_to_write(tmp_path: Path):
    """A file that is there, or could be, may be written to."""
    assert parsed("--trace", str(tmp_path / "new.json")).trace == str(tmp_path / "new.json")
