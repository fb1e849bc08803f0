"""The files to begin with: a study, local files, and patients who do not exist to try them on."""

from __future__ import annotations

import secrets
from pathlib import Path

import numpy as np

from confrere.errors import StudyError
from confrere_federation.studies.study_file import Study, study_from_bytes, template

_EXAMPLE_ROWS = {"main": 4000, "branch-1": 1500, "branch-2": 1000}


def write_template(folder: Path, seed: int | None = None) -> list[Path]:
    """Write ``study.toml``, a local file per party and, by a seed, patients who do not exist."""
    content, local = template("study.toml"), template("local.toml")
    study, texts = study_from_bytes(content.encode()), {folder / "study.toml": content}
    for name in (party.name for party in study.parties):
        text = local.replace("# data_path", "data_path") if seed is not None else local
        texts[folder / "local" / f"{name}.toml"] = text.replace("{party}", name)
        if seed is not None:
            texts[folder / "local" / f"{name}.csv"] = _simulated(study, name, seed)
    taken = [path.name for path in texts if path.exists()]
    if taken:
        raise StudyError(f"folder: {taken[0]} is there already; choose another folder.")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(texts)


def _simulated(study: Study, party: str, seed: int) -> str:
    """Draw patients from the template's own public facts: none of them exists."""
    count = _EXAMPLE_ROWS[party]
    one = secrets.token_hex(4)  # two examples are two data sets, each with a ledger of its own
    rng = np.random.default_rng([seed, *party.encode()])
    age, bmi, glucose = rng.normal(size=(3, count))
    chance = 1 / (1 + np.exp(2.6 - 0.5 * age - 0.6 * bmi - 1.1 * glucose))
    bounds = [feature.to_dict()["bounds"] for feature in study.schema.features[:3]]
    numbers = [52 + 16 * age, 26 + 5 * bmi, 5.5 + 1.2 * glucose]
    clipped = [np.clip(x, *b).round(1) for x, b in zip(numbers, bounds, strict=True)]
    columns = {
        "patient_id": [f"simulated-{party}-{one}-{number}" for number in range(count)],
        **dict(zip(("age", "bmi", "Glu0"), clipped, strict=True)),
        "smoker": rng.choice(["never", "former", "current"], size=count, p=[0.6, 0.2, 0.2]),
        "diabetes": np.where(rng.random(count) < chance, "yes", "no"),
    }
    rows = zip(*columns.values(), strict=True)
    return "\n".join(",".join(map(str, row)) for row in [columns, *rows]) + "\n"
