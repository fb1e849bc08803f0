"""The template's example without experts: nothing is checked, and every party is charged once."""

from pathlib import Path

from confrere_federation.studies.study_file import write_template


def write_plain_example(folder: Path) -> None:
    write_template(folder, seed=0)
    study = folder / "study.toml"
    study.write_text(study.read_text().replace(", sign = 1", ""))
