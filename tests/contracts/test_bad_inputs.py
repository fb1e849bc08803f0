"""What people get wrong in Python, in study files and on the command line, in three tables.

Every message names the thing (argument, key, column, file) and says what to do; nothing is spent,
and no value or count of a table is printed. Warnings are errors here, so none floods.
"""

import re
import shutil
import warnings
from functools import partial
from math import nan
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from typer.testing import CliRunner

from confrere import (
    Ledger,
    PrivateLogisticRegression,
    PublicSchema,
    SampleStackingClassifier,
    TransferClassifier,
)
from confrere.catalogue import find_method
from confrere.cli import app
from confrere.rows import open_table
from confrere.schema import Category, Label, Number
from tests.examples import write_plain_example

SECRET, ROWS = "S3CRET", 173
X = np.random.default_rng(0).normal(size=(ROWS, 6)) / 4
Y = (X[:, 0] > 0).astype(int)
FEATURES = (Number("age", bounds=(18, 100)), Category("smoker", values=("never", "former")))
SCHEMA = PublicSchema(FEATURES, Label("ill", positive="yes", negative="no"))
UPPER = PublicSchema(FEATURES, Label("ill", positive="YES", negative="no"))
TABLE = pd.DataFrame({"age": 41.5, "smoker": "never", "ill": ["yes"] * 9 + ["no"] * 164})


def on(X, y=None, kind=PrivateLogisticRegression, account="patients", **settings):
    return lambda ledger: kind(budget=ledger[account], **settings).fit(X, y)


given = partial(on, X, Y)


def cell(column, value):
    table = TABLE.astype({column: object})
    table.loc[3:20, column] = value
    return on(table, schema=SCHEMA)


def around(wrap):
    return lambda ledger: wrap(PrivateLogisticRegression(budget=ledger["patients"]))


def quietly(act):
    return lambda ledger: warnings.simplefilter("ignore") or act(ledger)


searched = around(lambda one: GridSearchCV(one, {"epsilon": [0.5, 1.0]}, cv=3).fit(X, Y))
validated = around(lambda one: cross_val_score(one, X, Y, cv=4))

#: What is done; what the message must name; what it must say to do.
PYTHON = {
    "epsilon 0": (given(epsilon=0), "epsilon", "must be a number > 0"),
    "delta of a record": (given(delta=0.01), "delta", "Use 0 for pure privacy"),
    "delta that the account has not": (given(delta=1e-6), "'patients'", "ledger raise .* --delta"),
    "neighbours": (given(neighbours="add-remove"), "neighbours", r"AddRemove\(n_samples\)"),
    "labels=": (given(labels=[0, 1]), "labels", "it is now classes"),
    "C=": (given(C=1.0), "'C'", "it is now alpha"),
    "unknown": (given(zzz=1.0), "zzz", "it has epsilon, schema, budget"),
    "account": (given(account="patient"), "'patient'", "there is: 'patients'"),
    "no cap": (on(X, Y, account="no cap"), "'no cap'", "Open one with a cap"),
    "another relation": (on(X, Y, account="other"), "'other'", "open an account for it"),
    "frozen": (on(X, Y, account="frozen"), "'frozen'", "ask who froze it"),
    "too dear": (given(epsilon=5.0), "account's cap in the ledger", "ledger raise .* --epsilon"),
    "search": (searched, "GridSearchCV", "7 times.*Defaults follow public rules"),
    "search that is too dear": (quietly(searched), "asked for epsilon 5.5, 3 left", "Ask for less"),
    "cross-validation": (validated, "Cross-validation .* 4 times", "evaluation.evaluate"),
    "cross-validation that is too dear": (quietly(validated), "epsilon 4, 3 left", "Ask for less"),
    "old schema": (given(schema={"age": (0, 1)}), "schema", "must be a PublicSchema"),
    "no labels": (on(X), "y", r"Give fit\(X, y\)"),
    "NaN in y": (on(X, np.where(Y == 1, nan, 0)), "y has NaN", "drop rows without a label"),
    "numbers to predict": (on(X, X[:, 0]), "continuous", "discrete classes"),
    "NaN": (on(np.where(np.arange(6) == 2, nan, X), Y), "X has NaN", "schema=.*imputer learns"),
    "empty frame": (on(TABLE[:0], schema=SCHEMA), "X has no rows", "minimum of 1 is required"),
    "path for a table": (on("rows.csv", schema=SCHEMA, y=Y), "X", r"open_table\(path\)"),
    "column not there": (on(TABLE.drop(columns="smoker"), schema=SCHEMA), "'smoker'", "lacks"),
    "column twice": (on(pd.concat([TABLE, TABLE.age], axis=1), schema=SCHEMA), "'age'", "keep one"),
    "missing cell": (cell("age", None), "'age'", "declare what becomes of it, missing ="),
    "text for a number": (cell("age", SECRET), "'age'", "name such texts in na"),
    "undeclared value": (cell("smoker", SECRET), "'smoker'", "declare it"),
    "missing label": (cell("ill", None), "'ill'", "drop them by a rule"),
    "positive value that no row has": (on(TABLE, schema=UPPER), "'ill'", "declare it"),
    "undeclared label": (cell("ill", SECRET), "'ill'", "declare it"),
    "no file": (lambda _: open_table("none.csv"), "none.csv", "No such file"),
    "source not there": (on(X, Y, TransferClassifier, source="main"), "'main'", "give the path"),
    "parts": (on(X, Y, SampleStackingClassifier, n_groups=999), "n_groups", "ask for fewer"),
    "a method's name": (lambda _: find_method("PSTF"), "name", "did you mean 'pst-f'"),
    "bounds": (lambda _: Number("age", bounds=(100, 18)), "'age'", "must be below the upper"),
}


@pytest.mark.parametrize("case", PYTHON)
def test_python(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("books.ledger")
    for account, relation in (("patients", "replace-one"), ("other", "add-remove")):
        ledger.open_account(account, epsilon=3.0, neighbours=relation)
    ledger.open_account("no cap")
    ledger.open_account("frozen", epsilon=3.0)
    ledger.freeze("frozen", reason="study over")
    act, named, advised = PYTHON[case]
    with warnings.catch_warnings(), pytest.raises(Exception, match=rf"(?s){named}") as refused:
        act(ledger)
    assert refused.match(f"(?s){advised}")
    assert not {SECRET, str(ROWS), "41.5"} & set(re.findall(r"[\w.]+", str(refused.value)))
    assert ledger.entries() == []


AVERAGE, EPSILON, RECORD = 'name = "average"', "epsilon = 1.0   ", 'privacy_unit = "record" '
CAP, METHOD, RELEASE = "cap = { epsilon = 3.0 }", "[method]", "out/diabetes-2026"
#: What stands in a study, what is written instead, the key, and what to do about it.
STUDY = [
    ("schema = 1", "schema = 2", "schema", "must be 1"),
    ('title = "Dia', 'subtitle = "x"\ntitle = "Dia', "'subtitle'", "did you mean 'title'"),
    ("not for denying care", "anonymous", "study.purpose", "say by how much"),
    ('mode = "private"', 'mode = "public"', "study.mode", "'private' or 'simulation'"),
    (RECORD, "", "privacy.privacy_unit", "is missing; write it"),
    (RECORD, 'privacy_unit = "party" ', "privacy: average guarantees record", "Change one of them"),
    ('neighbours = "replace-one" ', 'relation = "x"', "'relation'", "it is neighbours now"),
    ('neighbours = "replace-one" ', 'neighbours = "add-remove" ', "privacy.records", "add it"),
    ("unit_column =", "unit_colum =", "'unit_colum'", "did you mean 'unit_column'"),
    ("parties_per_unit = 1", "parties_per_unit = 4", "parties_per_unit", "must be 3 at most"),
    ('kind = "number"', 'kind = "numbr"', "'age'", "must be one of number, ordered"),
    ("bounds = [18, 100]", "bound = [18, 100]", "'age': 'bound'", "is none of bounds"),
    (AVERAGE, 'name = "PSTF"', "method.name", "did you mean 'pst-f'"),
    (AVERAGE, 'name = "pst-s"\nn_groups = 100000000000', "method.n_groups", "a smaller number"),
    (AVERAGE, 'name = "vote"', "auxiliary", "give its sha256"),
    (METHOD, f'[auxiliary]\nsha256 = "{"0" * 64}"\n{METHOD}', "auxiliary", "delete the table"),
    (METHOD, f"[evaluation]\nepsilon = 1\n{METHOD}", "'evaluation'", "confrere evaluate"),
    (METHOD, f'[encoding]\nrows = "clip"\n{METHOD}', "'encoding'", "leave it out"),
    (EPSILON, "epsilon = 0   ", "method.epsilon", "a number above 0"),
    (EPSILON, f'{EPSILON}\nloss = "square"', "method.loss", 'it is now purpose="inference"'),
    (EPSILON, f'{EPSILON}\nnoise = "schema"', "method.noise", "it is now geometry"),
    (EPSILON, f"{EPSILON}\nrounds = 0.5", "method.rounds", "must be a whole number"),
    (EPSILON, f"{EPSILON}\nn_groups = 3", "method.n_groups", "it has alpha"),
    ('name = "branch-1"', 'name = "main"', "party.name: 'main'", "a name of its own"),
    (CAP, "cap = 3.0", r"party\[0\].cap", "{ key = value }"),
    ('engine = "local"', 'engine = "smoke"', "federation.engine", "'local', 'line' or 'flare'"),
    ("quorum = 1.0", "quorum = 1.5", "federation.quorum", "must be 1 at most"),
    ("split_seed = 20261115", "noise_seed = 3", "random.noise_seed", "study.mode = 'simulation'"),
    (EPSILON, f"{EPSILON}\nnormalise = true", "method.normalise", "leave it out"),
    (EPSILON, f"{EPSILON}\nprior_check = true", "method.prior_check", "leave it out"),
]
STUDY_FILE, UPPER_YES = "study.toml", ('["yes"]', '["YES"]')
FIT, CHECK, MAIN, LOCAL = (
    "fit study.toml --yes",
    "check study.toml",
    "local/main.csv",
    "local/main.toml",
)
EVALUATE = f"evaluate {RELEASE} local/branch-1.csv --epsilon {{}} --ledger local/branch-1.ledger"
#: The words, the exit code, what is named and what to do; then what a file holds instead (nothing,
#: where it is not there; or one text for another), and what is typed.
LINE = [
    *((CHECK, 3, *told, ("study.toml", old, new)) for old, new, *told in STUDY),
    ("chekc", 2, "'chekc'", "Did you mean 'check'"),
    ("ledger", 2, "needs a command", "confrere ledger show"),
    ("check nostudy.toml", 3, "'nostudy.toml'", "confrere init FOLDER"),
    (CHECK, 3, "local/main.csv of main", "see data_path", (MAIN, None)),
    (CHECK, 3, "main.csv", 'encoding = "cp1252"', (MAIN, "é".encode("latin-1"))),
    (CHECK, 3, "main.csv", "save it as CSV", (MAIN, b"PK\x03\x04" + bytes(99))),
    (CHECK, 3, "first line of main.csv", r'header = \["age"', (MAIN, b"52,no,no\n")),
    (CHECK, 3, "main.csv is empty", "names the columns", (MAIN, b"")),
    (CHECK, 3, "refused main: smoker", "declare them", (MAIN, "never", SECRET)),
    (CHECK, 0, "no row has a positive label", "declare", (STUDY_FILE, *UPPER_YES)),
    (CHECK, 3, "'mian'", "there is main, branch-1", (LOCAL, '"main"', '"mian"')),
    (CHECK, 3, "'data_pat'", "did you mean 'data_path'", (LOCAL, "data_path", "data_pat")),
    (FIT, 3, "'smoker'", "declare it", (MAIN, "never", SECRET)),
    (FIT, 6, "main: its policy protects", "Agree on one", (LOCAL, "replace-one", "add-remove")),
    (FIT, 4, "lifetime_epsilon of the party's policy", "raises it", (LOCAL, "= 3.0", "= 0.5")),
    (FIT, 4, "max_epsilon_per_run of the party's", "raises it", (LOCAL, "= 1.0", "= 0.5")),
    (FIT, 4, "cap in the study", "a study with a higher", ("study.toml", "= 2.0 }", "= 0.5 }")),
    (FIT, 4, "asked for delta", "--delta CAP", ("study.toml", EPSILON, f"{EPSILON}\ndelta = 1e-6")),
    ("fit study.toml", 7, "the amount was not typed", "type the amount", (), "\n"),
    (
        "fit study.toml",
        7,
        "main: no row has a positive",
        "see confrere check",
        (STUDY_FILE, *UPPER_YES),
        "\n",
    ),
    ("plan", 2, "'--records'", "confrere plan --help"),
    ("init .", 3, "study.toml is there", "choose another folder"),
    ("verify nowhere", 5, "'nowhere'", "give the path of a release"),
    (f"verify {RELEASE}", 5, "card.json", "ask the sender", (f"{RELEASE}/card.json", "dia", "di")),
    (f"verify {RELEASE} --ledger no.ledger", 3, "no.ledger", "confrere ledger open no.ledger"),
    (f"predict {RELEASE} none.csv", 3, "none.csv", "No such file"),
    (EVALUATE.format(50), 4, "branch-1/checkups-2010", "ledger raise"),
    (EVALUATE.format(0.5), 7, "the amount was not typed", "type the amount", (), "\n"),
    ("ledger show study.toml", 3, "study.toml", "give the path of one"),
    ("schema new --out s.toml", 3, "nothing was typed", "run it again", (), "\n"),
    ("schema diff study.toml no.toml", 3, "no.toml", "give the path of a study"),
    ("party study.toml", 3, "no kit beside it", "confrere kit open"),
    ("status nowhere", 3, "nowhere", "that a coordinator or party wrote"),
]


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """The example, and the same with its release."""
    before, after = (tmp_path_factory.mktemp(name) for name in ("before", "after"))
    for place in (before, after):
        write_plain_example(place)
    words = ["fit", str(after / "study.toml"), "--yes", "--out", str(after / "out")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONFRERE_WITNESS", str(tmp_path_factory.mktemp("witness")))
        assert CliRunner().invoke(app, words).exit_code == 0
    return before, after


def charges():
    return sum(path.read_text().count('"charge"') for path in Path().rglob("*.ledger"))


@pytest.mark.parametrize("case", LINE, ids=lambda case: f"{case[0]}: {case[2]}, {case[3]}")
def test_line(examples, tmp_path, monkeypatch, case):
    words, code, named, advised, change, typed, *_ = (*case, (), "")
    first = examples[not words.startswith("fit ")]
    monkeypatch.chdir(shutil.copytree(first, tmp_path / "here"))
    match change:
        case [path, None]:
            Path(path).unlink()
        case [path, content]:
            Path(path).write_bytes(content)
        case [path, old, new]:
            assert old in Path(path).read_text()
            Path(path).write_text(Path(path).read_text().replace(old, new))
    before = charges()
    ended = CliRunner().invoke(app, words.split(), input=typed or "")
    said = " ".join((ended.stdout + ended.stderr).split())
    assert ended.exit_code == code, said
    assert re.search(named, said), said
    assert re.search(advised, said), said
    assert SECRET not in said
    assert "4000" not in ended.stderr
    assert charges() == before
