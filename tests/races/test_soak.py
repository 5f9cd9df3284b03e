"""The soak of schedules: right programs of streams are silent, and a soak that was ended goes on where it stood."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.races import soak
from tests.races.seeded import PAIRS


@pytest.mark.slow
def test_right_programs_are_silent_under_schedules() -> None:
    """All but those of the tree, which have their own tests, and those of the tables of `atops.check`."""
    said = {name: each(8, 0) for name, each in soak.RUNS.items() if name.startswith(("kernel/", "stream/", "right/"))}
    assert {name: text for name, text in said.items() if text} == {}
    assert len(said) > 100


@pytest.mark.slow
def test_it_goes_on_where_it_stood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """What has a line is not run again, one that was cut is, and one that says something is named."""
    into = tmp_path / "lines.jsonl"
    lines = [{"name": "twin/broken_lock", "seed": seed, "schedules": 200, "said": ""} for seed in (0, 200)]
    text = "\n".join(map(json.dumps, lines))
    into.write_text(text[:-5] + "\n")
    monkeypatch.setattr("sys.argv", ["soak", "twin/broken_lock", "--schedules", "203", "--into", str(into)])
    assert soak.main() == 0
    assert [line["schedules"] for line in soak.done(into).values()] == [200, 3]
    assert "1 programs, 203 schedules without a word, 203 of each at least" in capsys.readouterr().out


def test_what_is_wrong_is_said() -> None:
    """By the check of each."""
    assert soak.checked(PAIRS["twin/locks_in_two_orders"].wrong, 5, 0)
