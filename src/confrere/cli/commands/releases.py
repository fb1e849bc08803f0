"""verify, predict and release: what one does with what was released."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.envelope import Answer, command, good
from confrere.cli.options import Keys, Release, existing_ledger, pairs
from confrere.cli.views import facts
from confrere.errors import StudyError
from confrere.release import (
    SignedAddition,
    Utility,
    card_page,
    load_rehearsal,
    load_release,
    read_additions,
    read_folder,
    shown,
    sign_release,
    verify_release,
)
from confrere.study import predict as predicted
from confrere.study import read_table, unit_column_of


@command("predict")
def predict(
    release: Release,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A table: CSV.")],
    out: Annotated[Path | None, typer.Option(help="Where predictions go.")] = None,
    ids: Annotated[
        str | None, typer.Option(help="The column that says whose row it is; else the study's.")
    ] = None,
    encoded: Annotated[
        bool, typer.Option("--encoded", help="The columns are encoded as the model's own were.")
    ] = False,
    key: Keys = None,
) -> Answer:
    """Predict the raw rows of a table with a released model; spends nothing."""
    model = load_release(release, require_signature_from=pairs(key, "--key") or None)
    encoder = model.model.encoder
    units = {ids or "", unit_column_of(release) or ""}
    table = read_table(
        data, schema=None if encoder is None or encoded else encoder.schema, texts=units
    )
    named = ids or next((unit for unit in units if unit in table.columns), None)
    found = predicted(model, table, encoded=encoded, ids=named)
    if out is None:
        rows = found.to_dict(orient="list")
        return Answer("", {"rows": len(found), "predictions": rows}, text=found.to_csv(index=False))
    found.to_csv(out, index=False)
    return Answer(f"{len(found)} predictions in {out}", {"rows": len(found), "out": str(out)})


@command("verify")
def verify(
    release: Release,
    key: Keys = None,
    study: Annotated[Path | None, typer.Option(help="The study it must be of.")] = None,
    ledger: Annotated[
        list[Path] | None, typer.Option(help="A ledger that must have its charge; repeat it.")
    ] = None,
    release_id: Annotated[
        str | None, typer.Option("--id", help="The id that its makers told you.")
    ] = None,
) -> Answer:
    """Check that a release is whole, signed by whom you say, and consistent with itself."""
    keys = pairs(key, "--key")
    found = verify_release(
        release,
        require_signature_from=keys or None,
        ledgers=[existing_ledger(path) for path in ledger or ()],
        study=None if study is None else _content(study),
        release_id=release_id,
    )
    if study is not None:
        from confrere.study.running import check_words
        from confrere.study.study_file import read_study

        check_words(read_study(study), found.release)
    card = found.release.card
    message = "verified"
    if not keys:
        signed = "signatures not looked at" if found.signers else "unsigned"
        message = f"consistent, {signed}: who made it is not shown; give --key PARTY=FILE"
    told = {"release_id": card.release_id, "status": card.status, "epsilon": card.epsilon}
    signers = {"signers": dict(found.signers), "verified_signers": list(keys)}
    return Answer(
        message,
        {**told, **signers, "checked": list(found.checked)},
        [good("ok", line) for line in found.checked],
    )


@command("release show")
def show(release: Release) -> Answer:
    """Print a release's card in words."""
    card = load_rehearsal(release).card
    added = read_additions(read_folder(release))
    against = [
        f"{one.who} ({one.sees}): "
        + ("NOT PROTECTED" if one.epsilon is None else f"epsilon {shown(one.epsilon)}")
        for one in card.guarantee.adversaries
    ]
    measured = _quality_lines(card.utility, added)
    told = {
        "status": card.status,
        "purpose": card.product.purpose,
        "price": f"epsilon {shown(card.epsilon)}, {card.guarantee.unit_detail}",
        "in words": card.risk_in_words.text,
        "against": "\n".join(against),
        "not protected": "\n".join(card.unprotected),
        "quality": "\n".join(measured) or "not measured: confrere evaluate",
        "proof": card.mechanism.theorem,
    }
    data = {**card.to_dict(), "additions": [one.addition.to_dict() for one in added]}
    return Answer("", data, [facts(card.product.title, told)])


def _quality_lines(paid: Sequence[Utility], added: Sequence[SignedAddition]) -> list[str]:
    """Say how good it is: as it was paid for with the release, and as partners measured it."""
    first = [
        f"{one.metric}: {one.value:.3f}, measured on {one.measured_on} ({one.basis})"
        for one in paid
    ]
    return first + [
        f"{one.name} {one.value:.3f} ({one.low:.3f} to {one.high:.3f}), measured by "
        f"{each.addition.party} on {each.addition.quality.records} records"
        for each in added
        for one in each.addition.quality.measures
    ]


@command("release page")
def page(
    release: Release,
    out: Annotated[Path, typer.Option(help="The page's file.")] = Path("card.html"),
    key: Keys = None,
) -> Answer:
    """Write a release's card as one printable page."""
    loaded = load_rehearsal(release)
    added = read_additions(read_folder(release), pairs(key, "--key"))
    out.write_text(card_page(loaded, added), encoding="utf-8")
    return Answer(f"the card is in {out}", {"page": str(out)})


@command("release onnx")
def onnx(
    release: Release,
    out: Annotated[Path, typer.Option(help="The graph's file.")] = Path("model.onnx"),
    key: Keys = None,
) -> Answer:
    """Write a release's model and its encoder as a graph for any ONNX runtime."""
    found = load_release(release, require_signature_from=pairs(key, "--key") or None)
    out.write_bytes(found.to_onnx())
    return Answer(f"the graph is in {out}", {"onnx": str(out)})


@command("release sign")
def sign(
    release: Release,
    party: Annotated[str, typer.Option(help="Who signs.")],
    key: Annotated[Path, typer.Option("--key", help="The party's private key.")],
) -> Answer:
    """Add a party's signature to a whole release."""
    place = sign_release(release, key, party)
    return Answer(f"{party} signed it: {place}", {"party": party, "signature": str(place)})


def _content(study: Path) -> bytes:
    try:
        return study.read_bytes()
    except OSError as error:
        raise StudyError(f"the study cannot be read: {error.strerror}.") from None
