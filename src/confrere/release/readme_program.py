"""The program in a release's README: it predicts from ``model.json`` with plain Python alone.

Only the lines that a model needs are written. What it reads is public, and what it does is what
:mod:`confrere.model` and :mod:`confrere.schema.encoding` do.
"""

from __future__ import annotations

from confrere.model import Clip, Linear, Model, Stack
from confrere.model.scoring import LARGEST
from confrere.schema.encoding import Encoding, NumberColumn, OneHotColumn


def program(model: Model) -> list[str]:
    """Return lines that define ``decision(x)`` and, with an encoder, ``predict(row)``."""
    lines = [
        "import json, math, re" if model.encoder else "import json, math",
        'm = json.load(open("model.json", encoding="utf-8"))["model"]',
    ]
    if model.encoder is not None:
        lines += _encoder_lines(model.encoder.encoding)
    lines += _decision_function(model)
    if model.encoder is not None:
        lines += _predict_lines(model)
    return lines


def _encoder_lines(encoding: Encoding) -> list[str]:
    numbers = [column for column in encoding.columns if isinstance(column, NumberColumn)]
    others = [column for column in encoding.columns if not isinstance(column, NumberColumn)]
    lines = [
        'e = m["encoder"]["encoding"]',
        "def meaning(v):",
        '    t = "" if v is None else str(v).strip()',
        '    if t in e["na"]: return None',
        "    try: u = float(t)",
        "    except ValueError:",
        '        if re.fullmatch("0[xX][0-9a-fA-F]{1,16}", t): return float(int(t, 16))',
        '        return {"true": 1.0, "false": 0.0}.get(t.lower(), t)',
        '    return t if "_" in t or not t.isascii() else u if u == u else None',
        "def cell(c, v):",
        "    u = meaning(v)",
    ]
    number = [
        '        if u is None or u in map(meaning, c["na"]): return c["missing"]',
        '        u = max(c["clip"][0], min(c["clip"][1], float(u)))',
    ]
    if any(column.log for column in numbers):
        number.append('        if c["log"]: u = math.log1p(u - c["clip"][0])')
    if any(column.knots for column in numbers):
        number += [
            '        k, i = c["knots"], len(c["knots"]) - 1',
            "        b = [max(0.0, min(1.0, (u - k[j - 1]) / (k[j] - k[j - 1]) if j > 0 else 1.0,",
            "             (k[j + 1] - u) / (k[j + 1] - k[j]) if j < i else 1.0))",
            "             for j in range(len(k))] or [u]",
        ]
    else:
        number.append("        b = [u]")
    place = [
        '        if isinstance(u, float): u = "%d" % u if u.is_integer() else "%.15g" % u',
        '        k = -1 if u is None else c["codes"].get(u, -2)',
        '        if k < 0: return c["missing"] if k == -1 else c["unknown"]',
    ]
    ones, score = '[float(j == k) for j in range(len(c["centre"]))]', '[c["scores"][k]]'
    kinds = {isinstance(column, OneHotColumn) for column in others}
    if kinds == {True, False}:
        place.append(f'        b = {score} if "scores" in c else {ones}')
    else:
        place.append(f"        b = {ones if True in kinds else score}")
    if numbers and others:
        lines += ['    if c["kind"] == "number":', *number, "    else:", *place]
    else:
        lines += [line[4:] for line in (number if numbers else place)]
    lines += [
        '    b = [(p - q) / r for p, q, r in zip(b, c["centre"], c["scale"])]',
        '    return b + c["present"]',
        "def encode(row):",
        '    x = [v for c in e["columns"] for v in cell(c, row.get(c["column"]))]',
    ]
    if encoding.weights is not None:
        lines.append('    x = [v * w for v, w in zip(x, e["weights"])]')
    norm = 'max(math.hypot(*x), e["norm"])' if encoding.rows == "clip" else "math.hypot(*x) or 1.0"
    return [*lines, f"    n = {norm}", "    return [v / n for v in x]"]


def _decision_function(model: Model) -> list[str]:
    return [
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
    if len(model.classes) > 2:
        return _class_lines(model, part)
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


def _class_lines(model: Stack, part: str) -> list[str]:
    """Return a stack of more than two classes: every group has one score per class."""
    meta = {
        "vote": "    t = [[float(k == u.index(max(u))) for k in range(len(u))] for u in z]",
        "alone": "    t = z",
        "stack": "    t = [[math.tanh(v / 2) / math.sqrt(len(z)) for v in u] for u in z]",
    }
    return [
        "    z = []",
        f'    for g, p in [(g, {part}) for g in m["groups"]]:',
        '        s = [dot(p, w, b) - g["baseline"] for w, b in zip(g["coef"], g["intercept"])]',
        '        z += [[g["sharpness"] * v for v in s]]',
        meta[model.combine],
        '    return [dot(u, m["coef"], m["intercept"]) for u in zip(*t)]',
    ]


def _predict_lines(model: Model) -> list[str]:
    """Return the function from a raw row to its label and the probabilities of all labels."""
    begin = [
        "def predict(row):",
        '    s, names = decision(encode(row)), m["encoder"]["labels"] or m["classes"]',
    ]
    votes = isinstance(model, Stack) and model.combine == "vote"
    if len(model.classes) > 2 and votes:
        whole = 'sum(m["coef"])'
        return [*begin, f"    return names[s.index(max(s))], [v / {whole} for v in s]"]
    if len(model.classes) > 2:
        return [
            *begin,
            "    w = [math.exp(v - max(s)) for v in s]",
            "    return names[s.index(max(s))], [v / sum(w) for v in w]",
        ]
    p = "(1 + math.tanh(s / 2)) / 2"
    if votes:
        p = '(1 + s / sum(m["coef"])) / 2'
    return [*begin, f"    p = {p}", "    return names[s > 0], [1 - p, p]"]
