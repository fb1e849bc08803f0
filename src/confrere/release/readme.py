"""The README of a release: how to predict without us, and how to check without us."""

from __future__ import annotations

import re

from confrere.model import Clip, Linear, Model, Stack
from confrere.model.model_json import TOLERANCE
from confrere.model.scoring import LARGEST
from confrere.release.card import Card
from confrere.release.sshsig import NAMESPACE
from confrere.release.templates import render

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|&~!])")


def readme(card: Card, model: Model) -> str:
    """Return the text of ``README.md``."""
    return render(
        "README.md.j2",
        card=card,
        recipe="\n".join(recipe(model)),
        two_classes=len(model.classes) == 2,
        share=isinstance(model, Stack) and model.combine == "vote",
        namespace=NAMESPACE,
        tolerance=TOLERANCE,
        plain=lambda text: _MARKDOWN.sub(r"\\\1", text),
    )


def recipe(model: Model) -> list[str]:
    """Return about ten lines of Python, standard library alone, that define ``decision(x)``."""
    return [
        "import json, math",
        'm = json.load(open("model.json"))["model"]',
        "def dot(a, b, s=0.0):",
        "    for u, v in zip(a, b): s += u * v",
        "    return s",
        *_clip_lines(model),
        "def decision(x):",
        f"    x = [max(-{LARGEST:g}, min({LARGEST:g}, v)) for v in x]",
        *(['    x = clip(x, m["clip"])'] if model.clip else []),
        *_decision_lines(model),
    ]


def _clip_lines(model: Model) -> list[str]:
    groups = model.groups if isinstance(model, Stack) else ()
    clips: list[Clip | None] = [model.clip, *(group.clip for group in groups)]
    norms = {clip.norm for clip in clips if clip is not None}
    mixed = len({group.clip is None for group in groups}) == 2
    if not norms:
        return []
    euclidean, absolute = "math.sqrt(dot(u, u))", "dot(map(abs, u), [1.0] * len(u))"
    norm = f'{euclidean} if c["norm"] == 2 else {absolute}'
    if norms == {2}:
        norm = euclidean
    return [
        "def clip(u, c):",
        *(["    if c is None: return u"] if mixed else []),
        f"    n = {norm}",
        '    return [v * (c["radius"] / max(c["bound"], n)) for v in u]',
    ]


def _decision_lines(model: Model) -> list[str]:
    if isinstance(model, Linear):
        if len(model.classes) == 2:
            return ['    return dot(x, m["coef"], m["intercept"])']
        return ['    return [dot(x, w, b) for w, b in zip(m["coef"], m["intercept"])]']
    assert isinstance(model, Stack)
    part = '[x[j] for j in g["features"]]'
    if any(group.clip for group in model.groups):
        part = f'clip({part}, g["clip"])'
    low = {
        "vote": "    t = [(v > 0) - (v < 0) for v in z]",
        "alone": "    t = z",
        "stack": "    t = [math.tanh(v / 2) / math.sqrt(len(z)) for v in z]",
    }
    return [
        f'    s = [dot({part}, g["coef"], g["intercept"]) for g in m["groups"]]',
        '    z = [g["sharpness"] * (v - g["baseline"]) for v, g in zip(s, m["groups"])]',
        low[model.combine],
        '    return dot(t, m["coef"], m["intercept"])',
    ]
