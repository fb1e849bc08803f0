"""verify, predict and release: what one does with what was released."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated

import pyarrow as pa

from confrere.cli.envelope import Answer, Option, command
from confrere.cli.options import existing_ledger, pairs
from confrere.data.tables import WRITERS, open_table, written
from confrere.errors import InvalidParameter, StudyError
from confrere.estimators.predictions import predictions
from confrere.extras import extra
from confrere.release import (
    card_page,
    load_rehearsal,
    load_release,
    read_additions,
    read_folder,
    sign_release,
    verify_release,
)
from confrere.views import Word


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
        raise InvalidParameter(f"out: the name must end in {', '.join(WRITERS)}.")
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
    return Answer(f"{seen}{rows} predictions in {out}", {"rows": rows, "out": str(out)})


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
    keys = pairs(key, "--key")
    found = verify_release(
        release,
        require_signature_from=keys or None,
        ledgers=[existing_ledger(path) for path in ledger or ()],
        study=None if study is None else _content(study),
        release_id=release_id,
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
    told = {"release_id": card.release_id, "status": card.status, "epsilon": card.epsilon}
    signers = {"signers": dict(found.signers), "verified_signers": list(keys)}
    return Answer(
        message,
        {**told, **signers, "checked": list(found.checked)},
        [Word("ok", "good", f" {line}") for line in found.checked],
    )


@command("release show")
def show(release: Path) -> Answer:
    """Print a release's card in words."""
    found = load_rehearsal(release)
    added = read_additions(read_folder(release))
    data = {**found.card.to_dict(), "additions": [one.addition.to_dict() for one in added]}
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
    return Answer(f"the card is in {out}", {"page": str(out)})


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
    return Answer(f"the graph is in {out}", {"onnx": str(out)})


@command("release sign")
def sign(
    release: Path,
    *,
    party: Annotated[str, "Who signs."],
    key: Annotated[Path, "The party's private key."],
) -> Answer:
    """Add a party's signature to a whole release."""
    place = sign_release(release, key, party)
    return Answer(f"{party} signed it: {place}", {"party": party, "signature": str(place)})


def _content(study: Path) -> bytes:
    try:
        return study.read_bytes()
    except OSError as error:
        raise StudyError(f"the study cannot be read: {error.strerror}.") from None
