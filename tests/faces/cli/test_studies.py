"""init, check, price and fit: from nothing to a release."""

from pathlib import Path

import pandas as pd

from confrere.cli import app
from confrere.kernel.measurements import Objective


def test_a_report_is_its_owners_alone_and_strict_fails_on_what_it_finds(line, folder):
    table = pd.read_csv("local/main.csv")
    table["age"] *= 12
    table.loc[3999, "patient_id"] = table.loc[0, "patient_id"]
    table.to_csv("local/main.csv", index=False)
    kept = Path("local/main.check.txt")
    kept.write_text("older, and open to all")
    kept.chmod(0o644)
    told = " ".join(line("check", "study.toml").stdout.split())
    assert "warning main: patient_id: 1 of 4000 rows (0.03%) are dropped" in told
    assert "lie above the bounds" in told
    assert "look at the table of main; next: confrere cost" in told
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "lie above the bounds" in kept.read_text()
    strict = line("check", "study.toml", "--strict", code=3)
    assert "look at the table of main (--strict)" in strict.stdout
    assert kept.stat().st_mode & 0o777 == 0o600
    assert not list(folder.rglob("*.ledger"))


def test_a_branch_starts_from_the_source_s_signed_release(line, folder):
    study = Path("study.toml")
    text = study.read_text().replace('name = "average"', 'name = "simcomb"')
    for name in ("main", "other"):
        line("keys", "new", f"{name}.key")
    own = Path("main.key.pub").read_text().strip()
    study.write_text(text.replace('role = "source"', f'role = "source"\nkey = "{own}"'))
    local = Path("local/main.toml")
    local.write_text(local.read_text().replace("# key_path", 'key_path = "../main.key" #'))
    line(*("fit", "study.toml", "--yes", "--local", "local/main.toml", "--out", "from-main"))
    branch = ("fit", "study.toml", "--yes", "--local", "local/branch-1.toml", "--out", "mine")
    assert "--source main=FOLDER" in line(*branch, code=3).stderr
    source = ("--source", "main=from-main/main")
    other = Path("other.key.pub").read_text().strip()
    signed = study.read_text()
    study.write_text(signed.replace(own, other))
    assert "main" in line(*branch, *source, code=5).stderr
    study.write_text(signed)
    line(*branch, *source)
    assert Path("mine/branch-1/card.json").is_file()


def test_an_unexpected_error_shows_its_class_and_never_its_words(line, folder, monkeypatch):
    def broken(self, *args, **kwargs):
        raise RuntimeError("S3CRET")

    monkeypatch.setattr(Objective, "sample", broken)
    result = line("fit", "study.toml", "--yes", code=1)
    assert "unexpected RuntimeError" in result.stderr
    assert "S3CRET" not in result.stderr
    assert "--attempt 2" in line("fit", "study.toml", "--yes", code=6).stderr
    again = ["fit", "study.toml", "--yes", "--debug", "--attempt", "2"]
    debugged = line.runner.invoke(app, again)
    assert debugged.exit_code == 1
    assert "S3CRET" in debugged.stderr
