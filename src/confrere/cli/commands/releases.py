"""evaluate, predict, verify and release: what one does with what was released."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from confrere.assurance.cohort import verify_table
from confrere.assurance.evaluation import Metric
from confrere.assurance.evaluation import evaluate as measure
from confrere.assurance.inference import infer
from confrere.cli.app import Answer, Option, command, pairs, said, wrote
from confrere.cli.commands.ledgers import agreed_payer, existing_ledger
from confrere.data.tables import WRITERS, open_table, written
from confrere.errors import InvalidParameter
from confrere.estimators import ReleasedClassifier
from confrere.estimators.predictions import evaluation_rows, predictions
from confrere.extras import extra
from confrere.kernel.guarantee import Guarantee, check_epsilon
from confrere.release import (
    add_evaluation,
    card_page,
    load_rehearsal,
    load_release,
    read_additions,
    read_folder,
    read_private_key,
    sign_release,
    verify_release,
)
from confrere.release.additions import check_words
from confrere.release.folder import TABLE
from confrere.views import Word, amount, shown


@command("predict")
def predict(
    release: Path,
    data: Annotated[Path, Option("A table: CSV, Parquet.", metavar="DATA")],
    *,
    out: Annotated[Path | None, f"Where predictions go: {', '.join(WRITERS)}."] = None,
    ids: Annotated[str | None, "The column that says whose row it is; else the study's."] = None,
    encoded: Annotated[bool, "The columns are encoded as the model's own were."] = False,
    key: list[str] | None = None,
) -> Answer:
    """Predict the raw rows of a table with a released model; spends nothing."""
    if out is not None and out.suffix not in WRITERS:
        raise InvalidParameter(f"--out: the name must end in {', '.join(WRITERS)}.")
    if out is not None and not out.absolute().parent.is_dir():
        raise InvalidParameter(f"--out: there is no folder {out.parent}.")
    model = load_release(release, require_signature_from=pairs(key, "--key") or None)
    table = open_table(data)
    found = predictions(release, model, table, encoded=encoded, ids=ids)
    if out is None:
        text = io.BytesIO()
        told = pa.concat_tables(written(found, text, ".csv")).to_pydict()
        rows = len(told["predicted"])
        return Answer("", {"rows": rows, "predictions": told}, text=text.getvalue().decode())
    draft = out.with_name(f".{out.name}.part")
    rows = sum(map(len, written(found, draft, out.suffix)))
    draft.replace(out)
    seen = f"{table.seen}; " if table.seen else ""
    return Answer(f"{seen}{rows} predictions in {out}", {"rows": rows, "out": out})


@command("verify")
def verify(
    release: Path,
    *,
    key: list[str] | None = None,
    study: Annotated[Path | None, "The study it must be of."] = None,
    ledger: Annotated[list[Path] | None, "A ledger that must have its charge; repeat it."] = None,
    release_id: Annotated[str | None, Option("The id that its makers told you.", "--id")] = None,
) -> Answer:
    """Check that a release is whole, signed by whom you say, and consistent with itself."""
    keys = pairs(key, "--key") or None
    books = list(map(existing_ledger, ledger or ()))
    text = None if study is None else study.read_bytes()
    whole = read_folder(release, require_signature_from=keys)
    if f"{TABLE}.toml" in whole.files:
        schema, checked = verify_table(whole, ledgers=books, study=text)
        told = {"epsilon": max(one.epsilon for one in schema.paid), "checked": list(checked)}
        return Answer("verified", told, [Word("ok", "good", f" {line}") for line in checked])
    found = verify_release(
        release, require_signature_from=keys, ledgers=books, study=text, release_id=release_id
    )
    if study is not None:
        room = "confrere_federation.studies"
        agreed = extra("federation", f"{room}.study_file").read_study(study)
        extra("federation", f"{room}.running").check_words(agreed, found.release)
    card = found.release.card
    message = "verified"
    if not keys:
        signed = "signatures not looked at" if found.signers else "unsigned"
        message = f"consistent, {signed}: who made it is not shown; give --key PARTY=FILE"
    said = {"release_id": card.release_id, "status": card.status, "epsilon": card.epsilon}
    signers = {"signers": dict(found.signers), "verified_signers": list(keys or ())}
    return Answer(
        message,
        {**said, **signers, "checked": list(found.checked)},
        [Word("ok", "good", f" {line}") for line in found.checked],
    )


@command("release show")
def show(
    release: Path,
    *,
    scorecard: Annotated[bool, "Points per bin of every column instead, to add by hand."] = False,
) -> Answer:
    """Print a release's card in words."""
    found = load_rehearsal(release)
    if scorecard:
        points = found.scorecard()
        return Answer("", {"points": points.columns(), "note": points.note}, [points])
    added = read_additions(read_folder(release))
    data = {**found.card.to_dict(), "additions": [one.addition for one in added]}
    return Answer("", data, [found.view(added)])


@command("release page")
def page(
    release: Path,
    *,
    out: Annotated[Path, "The page's file."] = Path("card.html"),
    key: list[str] | None = None,
) -> Answer:
    """Write a release's card as one printable page."""
    loaded = load_rehearsal(release)
    added = read_additions(read_folder(release), pairs(key, "--key"))
    out.write_text(card_page(loaded, added), encoding="utf-8")
    return said("the card is in {page}", page=out)


@command("release onnx")
def onnx(
    release: Path,
    *,
    out: Annotated[Path, "The graph's file."] = Path("model.onnx"),
    key: list[str] | None = None,
) -> Answer:
    """Write a release's model and its encoder as a graph for any ONNX runtime."""
    found = load_release(release, require_signature_from=pairs(key, "--key") or None)
    out.write_bytes(found.to_onnx())
    return said("the graph is in {onnx}", onnx=out)


@command("release sign")
def sign(
    release: Path,
    *,
    party: Annotated[str, "Who signs."],
    key: Annotated[Path, "The party's private key."],
) -> Answer:
    """Add a party's signature to a whole release."""
    place = sign_release(release, key, party)
    return said("{party} signed it: {signature}", party=party, signature=place)


@command("evaluate")
def evaluate(
    release: Path,
    table: Annotated[Path, Option("Raw rows with labels: CSV.", metavar="TABLE")],
    *,
    epsilon: Annotated[float, "The privacy cost, per record of the table."],
    ledger: Annotated[Path, Option("The ledger of the table's owner.", envvar="CONFRERE_LEDGER")],
    account: str | None = None,
    key: Annotated[
        list[str] | None,
        Option("Who measures, and its private key to sign with.", metavar="PARTY=FILE"),
    ] = None,
    measured_on: Annotated[str | None, "On which records, in words that give nothing away."] = None,
    label: Annotated[str | None, "The label's column, where the release has no schema."] = None,
    unit_column: Annotated[str | None, "Whose row it is, if not as its study says."] = None,
    by: Annotated[str | None, "A column with declared values: the AUC for each of them."] = None,
    odds_ratios: Annotated[bool, "Odds ratios instead, of a fit for inference of TABLE."] = False,
    yes: bool = False,
) -> Answer:
    """Measure accuracy, AUC and calibration on private rows, with intervals, for an epsilon.

    The owner's ledger is charged before noise is drawn. With --key what was found is written
    beside the release as a signed addition, which verify checks; the release stays as it is.
    """
    check_epsilon(epsilon)
    book, signer = existing_ledger(ledger), _signer(key, measured_on)
    found = load_release(release)
    metrics: list[Metric] = ["accuracy", "confusion"]
    if len(found.model.classes) == 2:
        signs = found.model.encoder is not None and found.model.encoder.schema.has_signs
        metrics = ["accuracy", "auc", "calibration", *(("experts",) if signs else ())]
    if odds_ratios:
        asked: Any = partial(infer, found, open_table(table).whole())
    else:
        rows = evaluation_rows(release, found, table, label, unit_column)
        asked = partial(measure, ReleasedClassifier(source=found), rows, metrics=metrics, by=by)
    signed = "no: give --key PARTY=FILE" if signer is None else f"by {signer[0]}"
    told = {"spent on": "odds ratios" if odds_ratios else ", ".join(metrics), "signed": signed}
    payer = agreed_payer(book, account, Guarantee(epsilon), told, what="evaluation", yes=yes)
    result = asked(epsilon=epsilon, budget=book[payer])
    quality = result.quality()
    data = {"quality": quality, "receipt": result.receipt, "addition": None}
    spent = f"epsilon {shown(epsilon)} spent, {amount(book.left(payer))} left"
    if signer is None:
        return Answer(f"{spent}; not written", data, [result])
    words = measured_on or f"a table of {quality['records']} records"
    try:
        place = add_evaluation(
            release, quality, result.receipt, party=signer[0], key=signer[1], measured_on=words
        )
    except OSError as error:
        # What was paid for is shown, whatever became of the folder.
        return Answer(f"{spent}; not written: {error.strerror}", data, [result])
    message = f"{spent}; next: confrere verify {release} --ledger {ledger}"
    return Answer(message, data | {"addition": place}, [result, *wrote(place)])


def _signer(key: list[str] | None, measured_on: str | None) -> tuple[str, Path] | None:
    """Return who signs and with which key, once both are known to be usable."""
    keys = pairs(key, "--key")
    if not keys:
        return None
    if len(keys) > 1:
        raise typer.BadParameter("one party measures.", param_hint="'--key'")
    ((party, path),) = keys.items()
    check_words(party, measured_on or "a table")
    read_private_key(path)
    return party, path
