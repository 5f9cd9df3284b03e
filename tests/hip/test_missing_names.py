"""Names of HIP that are not here."""

from __future__ import annotations

import pytest

from atops.hip import hip


@pytest.mark.parametrize("name", hip.ADVICE)
def test_a_missing_name_says_what_does_it_here(name: str) -> None:
    """What it advises is there, and what is not known is refused without advice."""
    with pytest.raises(AttributeError, match=f"has no {name}; (copy row by row|take hipMalloc)"):
        getattr(hip, name)
    with pytest.raises(AttributeError, match=r"atops\.hip\.hip has no hipFoo$"):
        hip.hipFoo  # type: ignore[attr-defined]  # noqa: B018  # there is none: it raises
    assert callable(hip.hipMalloc) and callable(hip.hipMemcpy) and callable(hip.hipMemcpyAsync)
