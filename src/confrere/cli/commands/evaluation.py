"""evaluate: how good a release is on a table, at a price, written beside it and signed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from confrere.cli.envelope import Answer, Option, command, wrote
from confrere.cli.options import agreed_payer, existing_ledger, pairs
from confrere.estimators import ReleasedClassifier
from confrere.estimators.predictions import evaluation_rows
from confrere.evaluation import evaluate as measure
from confrere.evaluation import public_thresholds
from confrere.kernel.guarantee import Guarantee, check_epsilon
from confrere.release import add_evaluation, load_release, read_private_key
from confrere.release.additions import check_words
from confrere.views import amount, shown


@command("evaluate")
def evaluate(
    release: Path,
    table: Annotated[Path, Option("Raw rows with labels: CSV.", metavar="TABLE")],
    *,
    epsilon: Annotated[float, "The price, per record of the table."],
    ledger: Annotated[Path, Option("The ledger of the table's owner.", envvar="CONFRERE_LEDGER")],
    account: str | None = None,
    key: Annotated[
        list[str] | None,
        Option("Who measures, and its private key to sign with.", metavar="PARTY=FILE"),
    ] = None,
    measured_on: Annotated[str | None, "On which records, in words that give nothing away."] = None,
    label: Annotated[str | None, "The label's column, where the release has no schema."] = None,
    unit_column: Annotated[str | None, "Whose row it is, if not as its study says."] = None,
    yes: bool = False,
) -> Answer:
    """Measure accuracy, AUC and calibration on private rows, with intervals, for an epsilon.

    The owner's ledger is charged before noise is drawn. With --key what was found is written
    beside the release as a signed addition, which verify checks; the release stays as it is.
    """
    check_epsilon(epsilon)
    book, signer = existing_ledger(ledger), _signer(key, measured_on)
    found = load_release(release)
    rows = partial(evaluation_rows, release, found, table, label, unit_column)
    n_samples = sum(len(some) for some, _ in rows())
    two = len(found.model.classes) == 2
    metrics: list[Any] = ["accuracy", "auc", "calibration"] if two else ["accuracy", "confusion"]
    by = "no: give --key PARTY=FILE" if signer is None else f"by {signer[0]}"
    told = {"pays for": ", ".join(metrics), "signed": by}
    payer = agreed_payer(book, account, Guarantee(epsilon), told, what="evaluation", yes=yes)
    encoder = found.model.encoder
    outcome = None if encoder is None else encoder.schema.outcome
    result = measure(
        ReleasedClassifier(source=found),
        rows(),
        epsilon=epsilon,
        metrics=metrics,
        # Two queries share the price: errors, and scores.
        thresholds=public_thresholds(
            n_samples, epsilon / 2, (outcome and outcome.base_rate) or 0.5
        ),
        ledger=book,
        account=payer,
    )
    quality = result.quality()
    data = {"quality": quality, "receipt": result.receipt.to_dict(), "addition": None}
    spent = f"epsilon {shown(epsilon)} spent, {amount(book.left(payer))} left"
    if signer is None:
        return Answer(f"{spent}; not written", data, [result])
    words = measured_on or f"a table of {result.n_samples} records"
    try:
        place = add_evaluation(
            release, quality, result.receipt, party=signer[0], key=signer[1], measured_on=words
        )
    except OSError as error:
        # What was paid for is shown, whatever became of the folder.
        return Answer(f"{spent}; not written: {error.strerror}", data, [result])
    message = f"{spent}; next: confrere verify {release} --ledger {ledger}"
    return Answer(message, data | {"addition": str(place)}, [result, *wrote(place)])


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
