"""Every example runs as it is, and so do the first chapters of the documentation."""

import os
import re
import runpy
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

from confrere.cli import app
from confrere_federation.studies.study_file import write_template

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))


def run(arguments, folder):
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONWARNINGS": "ignore"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def blocks_of(page, language):
    text = (ROOT / page).read_text()
    blocks = re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)
    assert blocks
    return blocks


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to be in, where a program of ours may run without a process of its own."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield tmp_path


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example, here):
    runpy.run_path(str(example), run_name="__main__")


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("README.md", "1-DP per record"),
        ("docs/start.md", "1-DP per record"),
        ("docs/howto/add_a_mechanism.md", "99.9% confidence"),
    ],
)
def test_the_code_of_a_page_runs_in_order(page, said, tmp_path):
    library_alone = 'import sys; sys.modules["confrere_federation"] = None'
    done = run(["-c", "\n".join([library_alone, *blocks_of(page, "python")])], tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert said in done.stdout


@pytest.mark.parametrize(
    ("page", "owner"), [("docs/start.md", "main"), ("docs/howto/four_hospitals.md", "west")]
)
def test_the_commands_of_a_page_run_in_order(page, owner, tmp_path):
    lines = [line for block in blocks_of(page, "sh") for line in block.splitlines()]
    # Setting up is what the tests run in already.
    script = "\n".join(line for line in lines if not line.startswith("make "))
    script = f'set -e\nconfrere() {{ "{sys.executable}" -m confrere.cli "$@"; }}\n{script}'
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if not k.startswith("CONFRERE_")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "1-DP per record" in done.stdout
    assert "consistent, unsigned" in done.stdout
    (ledger,) = tmp_path.rglob(f"{owner}.ledger")
    assert ledger.stat().st_size


PAPERS = sorted((ROOT / "examples" / "papers").glob("*.py"))


@pytest.fixture
def example(here, monkeypatch):
    write_template(here / "study", seed=0)
    monkeypatch.chdir(here / "study")
    return here / "study"


@pytest.mark.parametrize("script", PAPERS, ids=lambda path: path.stem)
def test_a_papers_methods_on_a_table_of_ones_own(script, example, capsys):
    code = [line for line in script.read_text().split('"""')[2].splitlines() if line]
    assert len(code) <= 15
    for name, own in (("main.csv", "people.csv"), ("branch-1.csv", "branch.csv")):
        (example / "local" / name).rename(example / own)
    (example / "study.toml").rename(example / "schema.toml")
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.count("1-DP per") >= 2


@pytest.mark.parametrize("script", PAPERS, ids=lambda path: path.stem)
def test_a_papers_method_by_a_study_file(script, example):
    study = script.with_suffix(".toml").read_text()
    (example / "study.toml").write_text(study)
    unit = tomllib.loads(study)["privacy"]["privacy_unit"]
    for local in (example / "local").glob("*.toml"):
        # Each organisation's policy allows what the paper's method asks for, and whom it protects.
        lines = [one for one in local.read_text().splitlines() if not one.startswith("operations")]
        text = "\n".join(lines).replace('privacy_unit = "record"', f'privacy_unit = "{unit}"')
        local.write_text(text)
    done = CliRunner().invoke(app, ["fit", "study.toml", "--yes"])
    assert done.exit_code == 0, done.output
    assert "release(s)" in done.output


def test_every_cell_of_the_notebook_page_runs_and_shows_something(tmp_path):
    """Run as a notebook would: the last expression of a cell is what it displays."""
    cells = blocks_of("docs/notebook.md", "python")
    program = f"""
import ast
space, kinds = {{}}, []
for cell in {cells!r}:
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), space)
    if last is None:
        continue
    shown = eval(compile(ast.Expression(last.value), "cell", "eval"), space)
    kinds.append(type(shown).__name__)
    if hasattr(shown, "_repr_html_"):
        assert shown._repr_html_().startswith(("<div", "<style"))
print(*kinds)
"""
    done = run(["-W", "error", "-c", program], tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "11 times" in done.stdout
    kinds = done.stdout.split("\n")[-2].split()
    assert kinds == [
        *("PublicSchema", "DataReport", "Guarantee", "Ledger", "PrivateLogisticRegression"),
        *("float", "Evaluation", "Release", "Guarantee"),
    ]


def test_the_reference_explains_every_key_of_its_study():
    def keys(table, prefix=""):
        for name, value in table.items():
            if isinstance(value, list) and value and isinstance(value[0], dict):
                value = value[0]
            if isinstance(value, dict) and name not in ("features", "label", "settings"):
                yield from keys(value, f"{prefix}{name}.")
            else:
                yield f"{prefix}{name}"

    text = (ROOT / "docs/study.md").read_text()
    reference = text.partition("| methods |")[0]
    rows = [line for line in reference.splitlines() if line.startswith("| `")]
    explained = set()
    for row in rows:
        first, *others = re.findall(r"`([\w.*]+)`", row.split(" | ")[0])
        table = first.partition(".")[0]
        explained |= {first} | {table + other for other in others}
    for block in blocks_of("docs/study.md", "toml"):
        assert set(keys(tomllib.loads(block))) <= explained
