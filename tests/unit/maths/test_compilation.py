"""Compiled functions must not depend on a place to keep their machine code."""

from __future__ import annotations

from numba.core import caching

from confrere.maths.compilation import compiled


def half(x: float) -> float:
    return x / 2


def test_without_any_place_for_the_cache_functions_still_compile(monkeypatch):
    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])
    assert compiled(half)(3.0) == 1.5
