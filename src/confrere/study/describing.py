"""What a study adds to a release: its words, its encoding and its hash."""

from __future__ import annotations

from dataclasses import replace

from confrere.ledger import Ledger
from confrere.model import Encoder
from confrere.release import Adversary, CardNotes, Release
from confrere.study.study_file import Study


def described(
    study: Study, release: Release, *, ledger: Ledger | None = None, n_here: int = 1
) -> Release:
    """Return the release with the study's facts and card.

    Parameters
    ----------
    study : Study
    release : Release
    ledger : Ledger, optional
        The one that was charged, where one party paid: the card shows the budget.
    n_here : int, default=1
        How many organisations' data were read by one process.
    """
    encoder = Encoder(study.schema, rows=study.file.encoding.rows, weighted=study.weighted)
    model = replace(release.model, encoder=encoder)
    return replace(release, model=model, _card=None).describe(
        _notes(study, release, n_here), ledger=ledger
    )


def _notes(study: Study, release: Release, n_here: int) -> CardNotes:
    promise = study.promise
    operator = Adversary(
        who="whoever ran the study on one machine",
        sees="the data of all organisations, and each one's own release",
        protected=False,
    )
    return CardNotes(
        title=study.title,
        purpose=study.purpose,
        unit_detail=f"one {promise.unit}",
        max_rows_per_unit=promise.max_rows_per_unit,
        parties_per_unit=min(promise.parties_per_unit, max(1, len(release.parties))),
        adversaries=(operator,) if n_here > 1 else (),
        trust=_trust(n_here),
        preprocessing=(_bounded(study),),
        tuning="none on the data: every parameter stands in the study file",
        study_sha256=study.sha256,
    )


def _trust(n_here: int) -> str:
    if n_here == 1:
        return "each organisation computed on its own data; nobody else saw them"
    return f"one process read the data of {n_here} organisations; its operator is trusted"


def _bounded(study: Study) -> str:
    promise = study.promise
    if promise.unit_column is None:
        return f"that a {promise.unit} has {promise.max_rows_per_unit} row at most is assumed"
    return f"rows of a {promise.unit} beyond {promise.max_rows_per_unit} were dropped"
