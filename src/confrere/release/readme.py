"""The README of a release: how to predict without us, and how to check without us."""

from __future__ import annotations

import re

from confrere.release.card import Card
from confrere.release.plain import TOLERANCE, PlainModel
from confrere.release.predictors import Clip, Linear, Stack
from confrere.release.sshsig import NAMESPACE
from confrere.release.templates import render

_SCALED = '[(v - c) / s for v, c, s in zip(x, m["center"], m["scale"])]'
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|&~!])")


def readme(card: Card, model: PlainModel) -> str:
    """Return the text of ``README.md``."""
    return render(
        "README.md.j2",
        card=card,
        recipe="\n".join(recipe(model)),
        two_classes=not (isinstance(model.predictor, Linear) and model.predictor.coef.ndim == 2),
        share=isinstance(model.predictor, Stack) and model.predictor.combine == "vote",
        namespace=NAMESPACE,
        tolerance=TOLERANCE,
        plain=lambda text: _MARKDOWN.sub(r"\\\1", text),
    )


def recipe(model: PlainModel) -> list[str]:
    """Return about ten lines of Python, standard library alone, that define ``decision(x)``."""
    return [
        "import json, math",
        'm = json.load(open("model.json"))["model"]',
        "def dot(a, b, s=0.0):",
        "    for u, v in zip(a, b): s += u * v",
        "    return s",
        *_clip_lines(model),
        "def decision(x):",
        f'    x = clip({_SCALED}, m["clip"])' if model.clip else f"    x = {_SCALED}",
        *_decision_lines(model.predictor),
    ]


def _clip_lines(model: PlainModel) -> list[str]:
    groups = model.predictor.groups if isinstance(model.predictor, Stack) else ()
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


def _decision_lines(predictor: Linear | Stack) -> list[str]:
    if isinstance(predictor, Linear):
        if predictor.coef.ndim == 1:
            return ['    return dot(x, m["coef"], m["intercept"])']
        return ['    return [dot(x, w, b) for w, b in zip(m["coef"], m["intercept"])]']
    part = '[x[j] for j in g["features"]]'
    if any(group.clip for group in predictor.groups):
        part = f'clip({part}, g["clip"])'
    lines = [f'    z = [dot({part}, g["coef"], g["intercept"]) for g in m["groups"]]']
    if predictor.combine == "vote":
        lines.append("    t = [(v > 0) - (v < 0) for v in z]")
    else:
        lines.append('    t = [m["meta_scale"] * math.tanh(v / 2) for v in z]')
    return [*lines, '    return dot(t, m["coef"], m["intercept"])']
