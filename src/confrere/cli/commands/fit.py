"""Fit: show the price, have the amount typed, learn, and write the releases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.envelope import Answer, aside, command, good
from confrere.cli.options import (
    ApprovedBy,
    Auxiliary,
    Data,
    Justification,
    LedgerFile,
    Locals,
    Reason,
    approver,
    pairs,
    reason_of,
)
from confrere.cli.payers import SpendUnasked, confirm
from confrere.cli.views import price_table, promise_line, receipt_facts, receipt_table
from confrere.release import Release, load_release
from confrere.study import (
    Local,
    Made,
    Study,
    approval_of,
    check_destination,
    check_keys,
    gather_locals,
    make_plan,
    prepare,
    read_plan,
    read_study,
    refuse_taken,
    save_made,
)


@command("fit")
def fit(
    study: Annotated[
        Path | None, typer.Argument(metavar="[STUDY]", help="The study file, or --plan.")
    ] = None,
    plan: Annotated[Path | None, typer.Option(help="A plan that confrere price wrote.")] = None,
    local: Locals = None,
    data: Data = None,
    ledger: LedgerFile = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="PARTY=FILE", help="The private key to sign with."),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="PARTY=FOLDER", help="What a source elsewhere has released."),
    ] = None,
    source_key: Annotated[
        list[str] | None,
        typer.Option(metavar="PARTY=FILE", help="Its public key: it must have signed."),
    ] = None,
    auxiliary: Auxiliary = None,
    out: Annotated[
        Path | None,
        typer.Option(envvar="CONFRERE_OUT", help="Where releases go; confrere-out/ID by default."),
    ] = None,
    name: ApprovedBy = None,
    reason: Reason = None,
    justification: Justification = None,
    yes: SpendUnasked = False,
    allow_uncapped: Annotated[
        bool, typer.Option("--allow-uncapped", help="Go ahead where nothing caps the spending.")
    ] = False,
) -> Answer:
    """Learn what a study describes, for the parties that live here, and write the releases.

    Shows the price first and asks for the amount to be typed. Every party's own ledger is charged
    before any noise is drawn; a plan pays once, and carried out again it gives the same.
    """
    if study is None and plan is None:
        raise typer.BadParameter("give a study file or --plan.", param_hint="'STUDY'")
    agreed = None if plan is None else read_plan(plan)
    path = study if study is not None else agreed.study_path if agreed else Path()
    found = read_study(path)
    locals_ = gather_locals(
        found,
        path,
        local or (),
        data=pairs(data, "--data", found),
        keys=pairs(key, "--key", found),
        ledger=ledger,
    )
    priced = make_plan(found, locals_, None if agreed is None else agreed.plan_id)
    if agreed is not None:
        agreed.check(found, priced)
    folder = out or Path("confrere-out") / found.id
    sources = _sources(found, source, source_key)
    runner = prepare(
        found, priced, locals_, sources, auxiliary=auxiliary, allow_uncapped=allow_uncapped
    )
    check_keys(locals_)
    refuse_taken(found, folder, list(runner.rows))
    approval = approval_of(
        name=approver(name),
        reason=reason_of(reason, found),
        justification=justification or found.promise.justification,
    )
    console = aside()
    console.print(price_table(priced))
    console.print(promise_line(priced, found.promise.unit))
    if not yes:
        confirm(priced.amount)
    check_destination(found, folder, list(runner.rows))
    with console.status("learning"):
        made = runner.run(approval)
    places = {one.name: save_made(found, one, folder, locals_) for one in made}
    return _answer(found, made, places, locals_)


def _sources(
    study: Study, texts: list[str] | None, key_texts: list[str] | None
) -> dict[str, Release]:
    keys = pairs(key_texts, "--source-key")
    return {
        name: load_release(
            folder,
            require_signature_from={name: keys[name]} if name in keys else None,
            allow_simulated=study.simulated,
        )
        for name, folder in pairs(texts, "--source").items()
    }


def _answer(
    study: Study, made: list[Made], places: dict[str, Path], locals_: dict[str, Local]
) -> Answer:
    signed = [name for one in made for name in one.receipts if locals_[name].key_path]
    releases = [
        {
            "name": one.name,
            "folder": str(places[one.name]),
            "page": str(places[one.name].with_name(f"{one.name}.html")),
            "release_id": one.release.release_id,
            "status": one.release.card.status,
            "epsilon": one.release.card.epsilon,
            "receipts": [
                receipt_facts(name, receipt)
                for name, receipts in one.receipts.items()
                for receipt in receipts
            ],
        }
        for one in made
    ]
    first = places[made[0].name]
    return Answer(
        f"{len(made)} release(s), {'signed' if signed else 'not signed'}; next: confrere verify "
        f"{first}",
        {"study_sha256": study.sha256, "releases": releases},
        [receipt_table(made), *(good("wrote", f"{r['folder']} and {r['page']}") for r in releases)],
    )
