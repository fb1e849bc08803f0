"""evaluate: how good a release is on a table, at a price, written beside it and signed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from confrere.cli.envelope import Answer, command, good
from confrere.cli.options import (
    OwnersLedger,
    PayingAccount,
    Release,
    SpendUnasked,
    agreed_payer,
    existing_ledger,
    pairs,
)
from confrere.cli.views import listing
from confrere.estimators import ReleasedClassifier
from confrere.evaluation import evaluate as measure
from confrere.evaluation import public_thresholds
from confrere.kernel.guarantee import Guarantee, check_epsilon
from confrere.ledger.accounts import amount
from confrere.release import add_evaluation, load_release, read_private_key, shown
from confrere.release.additions import check_words
from confrere.study import evaluation_rows


@command("evaluate")
def evaluate(
    release: Release,
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Raw rows with labels: CSV.")],
    epsilon: Annotated[float, typer.Option(help="The price, per record of the table.")],
    ledger: OwnersLedger,
    account: PayingAccount = None,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="PARTY=FILE", help="Who measures, and its private key to sign with."),
    ] = None,
    measured_on: Annotated[
        str | None, typer.Option(help="On which records, in words that give nothing away.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="The label's column, where the release has no schema.")
    ] = None,
    unit_column: Annotated[
        str | None, typer.Option(help="Whose row it is, if not as the release's study says.")
    ] = None,
    yes: SpendUnasked = False,
) -> Answer:
    """Measure accuracy, AUC and calibration on private rows, with intervals, for an epsilon.

    The owner's ledger is charged before noise is drawn. With --key what was found is written
    beside the release as a signed addition, which verify checks; the release stays as it is.
    """
    check_epsilon(epsilon)
    book = existing_ledger(ledger)
    signer = _signer(key, measured_on)
    found = load_release(release)
    model = ReleasedClassifier(source=found)
    X, y = evaluation_rows(release, found, table, label=label, unit_column=unit_column)
    two = len(found.model.classes) == 2
    metrics: list[Any] = ["accuracy", "auc", "calibration"] if two else ["accuracy", "confusion"]
    told = {
        "pays for": ", ".join(metrics),
        "signed": "no: give --key PARTY=FILE" if signer is None else f"by {signer[0]}",
    }
    price = Guarantee(epsilon)
    payer = agreed_payer(book, account, price, told, what="evaluation", yes=yes)
    result = measure(
        model,
        X,
        y,
        epsilon=epsilon,
        metrics=metrics,
        # Two queries share the price: errors, and scores.
        thresholds=public_thresholds(len(X), epsilon / 2, _base_rate(found)),
        ledger=book,
        account=payer,
    )
    data: dict[str, Any] = {
        "quality": result.quality(),
        "receipt": result.receipt.to_dict(),
        "addition": None,
    }
    shown_parts: list[Any] = [_table(result)]
    message = f"epsilon {shown(epsilon)} spent, {amount(book.left(payer))} left; not written"
    if signer is not None:
        words = measured_on or f"a table of {result.n_samples} records"
        try:
            place = add_evaluation(
                release,
                result.quality(),
                result.receipt,
                party=signer[0],
                key=signer[1],
                measured_on=words,
            )
        except OSError as error:
            # What was paid for is shown, whatever became of the folder.
            return Answer(f"{message}: {error.strerror}", data, shown_parts)
        data["addition"] = str(place)
        shown_parts.append(good("wrote", place))
        message = f"epsilon {shown(epsilon)} spent, {amount(book.left(payer))} left; next: "
        message += f"confrere verify {release} --ledger {ledger}"
    return Answer(message, data, shown_parts)


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


def _base_rate(release: Any) -> float:
    encoder = release.model.encoder
    outcome = None if encoder is None else encoder.schema.outcome
    return 0.5 if outcome is None or outcome.base_rate is None else outcome.base_rate


def _table(result: Any) -> Any:
    names = ("measure", "estimate", "low", "high")
    title = f"Quality on {result.n_samples} records, {result.confidence:.0%} intervals"
    quality = result.quality()
    rows = [(one["name"], one) for one in quality["measures"]]
    rows += [
        (f"p of {quality['positive']} in {one['from']:.2f} to {one['to']:.2f}", one)
        for one in quality["calibration"]
        if one["high"] - one["low"] < 0.99
    ]
    told = [(name, *(f"{one[key]:.3f}" for key in ("value", "low", "high"))) for name, one in rows]
    return listing(title, *names, right=names[1:], rows=told)
