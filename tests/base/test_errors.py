"""The error tree: whatever is raised can be raised again, and sent to another process."""

from __future__ import annotations

import pickle

from atops.base import errors
from atops.base.errors import AtopsError
from tests.every import every


@every("kind", [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, AtopsError)])
def test_an_error_is_made_again(kind: type[AtopsError]) -> None:
    """With its kind, its message and its notes."""
    error = kind("words")
    error.add_note("note")
    again = error.fresh(), pickle.loads(pickle.dumps(error)), kind.__new__(kind, "words")
    assert [type(each) for each in again] == [kind] * 3 and {str(each) for each in again} == {"words"}
    assert [each.__notes__ for each in again[:2]] == [["note"], ["note"]]
