"""verify, predict and release: what one does with what was released."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.answers import Answer, command, good
from confrere.cli.options import AllowSimulated, Keys, Release, pairs
from confrere.cli.views import facts
from confrere.errors import InvalidRelease, StudyError
from confrere.ledger import Ledger
from confrere.release import Card, card_page, load_release, read_folder, shown, sign_release
from confrere.study import predict as predicted
from confrere.study import read_table


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    command(app, "predict")(predict)
    command(app, "verify")(verify)
    release = typer.Typer(help="Show a release's card, make its page, add a signature.")
    app.add_typer(release, name="release", no_args_is_help=True)
    command(release, "show")(show)
    command(release, "page")(page)
    command(release, "sign")(sign)


def predict(
    release: Release,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A table: CSV.")],
    out: Annotated[Path | None, typer.Option(help="Where predictions go.")] = None,
    key: Keys = None,
    allow_simulated: AllowSimulated = False,
) -> Answer:
    """Predict the rows of a table with a released model; spends nothing."""
    model = load_release(
        release,
        require_signature_from=pairs(key, "--key") or None,
        allow_simulated=allow_simulated,
    )
    found = predicted(model, read_table(data))
    if out is None:
        rows = found.to_dict(orient="list")
        return Answer("", {"rows": len(found), "predictions": rows}, text=found.to_csv(index=False))
    found.to_csv(out, index=False)
    return Answer(f"{len(found)} predictions in {out}", {"rows": len(found), "out": str(out)})


def verify(
    release: Release,
    key: Keys = None,
    study: Annotated[Path | None, typer.Option(help="The study it must be of.")] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger that must have its charge.")
    ] = None,
    allow_simulated: AllowSimulated = False,
) -> Answer:
    """Check that a release is whole, signed by whom you say, and consistent with itself."""
    keys = pairs(key, "--key")
    signers = read_folder(release, require_signature_from=keys or None).signers
    card = load_release(
        release, require_signature_from=keys or None, allow_simulated=allow_simulated
    ).card
    checked = ["every file is the one that SHA256SUMS lists", "the card fits its receipts"]
    checked += [f"{name} signed it" for name in keys]
    if study is not None:
        _check_study(card, study)
        checked.append("it is of this study")
    if ledger is not None:
        _check_ledger(card, ledger)
        checked.append("the ledger has its charge, and the chain is whole")
    message = "verified"
    if not keys:
        message += "; whole, but who made it is not shown: give --key PARTY=FILE"
    told = {"release_id": card.release_id, "status": card.status, "epsilon": card.epsilon}
    return Answer(
        message,
        {**told, "signers": dict(signers), "verified_signers": list(keys), "checked": checked},
        [good("ok", line) for line in checked],
    )


def show(release: Release) -> Answer:
    """Print a release's card in words."""
    card = load_release(release, allow_simulated=True).card
    against = [
        f"{one['who']} ({one['sees']}): "
        + ("NOT PROTECTED" if one["epsilon"] is None else f"epsilon {shown(one['epsilon'])}")
        for one in card.guarantee["adversaries"]
    ]
    told = {
        "status": card.status,
        "purpose": card.product["purpose"],
        "price": f"epsilon {shown(card.epsilon)}, {card.guarantee['unit_detail']}",
        "in words": card.risk_in_words["text"],
        "against": "\n".join(against),
        "not protected": "\n".join(card.unprotected),
        "proof": card.mechanism["theorem"],
    }
    return Answer("", card.to_dict(), [facts(card.product["title"], told)])


def page(
    release: Release,
    out: Annotated[Path, typer.Option(help="The page's file.")] = Path("card.html"),
) -> Answer:
    """Write a release's card as one printable page."""
    card = load_release(release, allow_simulated=True).card
    out.write_text(card_page(card), encoding="utf-8")
    return Answer(f"the card is in {out}", {"page": str(out)})


def sign(
    release: Release,
    party: Annotated[str, typer.Option(help="Who signs.")],
    key: Annotated[Path, typer.Option("--key", help="The party's private key.")],
) -> Answer:
    """Add a party's signature to a whole release."""
    place = sign_release(release, key, party)
    return Answer(f"{party} signed it: {place}", {"party": party, "signature": str(place)})


def _check_study(card: Card, study: Path) -> None:
    try:
        digest = hashlib.sha256(study.read_bytes()).hexdigest()
    except OSError as error:
        raise StudyError(f"the study cannot be read: {error.strerror}.") from None
    if card.study_sha256 != digest:
        raise InvalidRelease("the release is of another study, or of another version of it.")


def _check_ledger(card: Card, path: Path) -> None:
    if not path.exists():
        raise StudyError(f"ledger: there is no {path.name}.")
    ledger = Ledger(path)
    receipts = [one for paid in card.accounting["parties"].values() for one in paid["receipts"]]
    heads = [card.accounting["receipt"], *receipts]
    hashes = {entry.hash for entry in ledger.entries()}
    own = [head["hash"] for head in heads if head is not None and head["hash"] in hashes]
    if not own:
        raise InvalidRelease("the ledger has no charge of this release.")
    for head in own:
        ledger.verify(head=head)
