"""A study between machines: the coordinator's job, a party's file, and the release at the end.

Questions carry the study's hash in place of the schema's, and a party answers for its own study's
only: both sides are about the same bytes, features, encoding and price.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from confrere.errors import OperationRefused, StudyError
from confrere.federation import Outcome
from confrere.ledger import Ledger
from confrere.model import Facts, Linear
from confrere.release import Release
from confrere.study.describing import described
from confrere.study.limits import open_account
from confrere.study.local import Local
from confrere.study.parameters import estimator_for
from confrere.study.plan import Plan
from confrere.study.rows import read_rows
from confrere.study.running import Made
from confrere.study.study import Study
from confrere.study.tables import parse, read_bytes

if TYPE_CHECKING:
    from confrere.federation.flower.job import Job

_ROWS, _PARTY = "rows.npz", "party.toml"


def job_of(study: Study, timeout: float) -> Job:
    """Return what the coordinator is to do; needs the ``flower`` extra."""
    from confrere.federation.flower.job import Job

    _check(study)
    model = estimator_for(study, study.method)
    return Job(
        plan=model._plan(len(study.schema.feature_names)),
        parties=tuple(party.name for party in study.parties),
        quorum=study.quorum,
        timeout=timeout,
        schema=study.sha256,
    )


@contextmanager
def party_files(study: Study, plan: Plan, local: Local, folder: Path) -> Iterator[Path]:
    """Write what a party's node needs, and take the encoded rows away when it has stopped.

    Yields
    ------
    Path
        The party file, for :func:`confrere.federation.flower.run_party`: it says what is allowed.
        The rows beside it are its owner's alone.
    """
    try:
        yield _write_party(study, plan, local, folder)
    finally:
        forget_rows(folder)


def joined_before(study: Study, local: Local, folder: Path) -> bool:
    """Whether the party was in this study from here before, and goes on with it.

    Then part of the price may be paid, and no budget need cover the whole of it again; the ledger
    still refuses what is beyond its cap.
    """
    file = folder / _PARTY
    if not file.exists() or not local.ledger_path.exists():
        return False
    return parse(read_bytes(file, "the party file"), "the party file").values.get("schema") == (
        study.sha256
    )


def forget_rows(folder: Path) -> None:
    """Remove the encoded rows that a party which was killed had left."""
    (folder / _ROWS).unlink(missing_ok=True)


def _write_party(study: Study, plan: Plan, local: Local, folder: Path) -> Path:
    _check(study)
    party = study.party(local.party)
    if local.data_path is None:
        raise StudyError(f"data_path: the local file of {party.name} does not say where it lies.")
    allowed = local.policy.operations
    refused = [] if allowed is None else [o for o in study.method.operations if o not in allowed]
    if refused:
        raise OperationRefused(f"{party.name}: its policy does not allow {', '.join(refused)}.")
    rows = read_rows(study, local.data_path)
    price = next(p.guarantee for p in plan.prices if p.party == party.name)
    going_on = joined_before(study, local, folder)
    ledger = Ledger(local.ledger_path) if going_on else open_account(party, local, price)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    forget_rows(folder)  # an old file would keep its old permissions
    data = folder / _ROWS
    with os.fdopen(os.open(data, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        np.savez(stream, X=rows.X.to_numpy(dtype=np.float64), y=rows.y.astype(np.float64))
    settings = {
        "name": party.name,
        "data": str(data.resolve()),
        "ledger": str(ledger.path),
        "account": party.account,
        "answers": f"{ledger.path}.answers",
        "operations": list(study.method.operations),
        "unit": str(price.unit),
        "relation": str(price.neighbours),
        "epsilon_per_run": price.epsilon,
        "schema": study.sha256,
    }
    seed = study.seed_for(party.name)
    if seed is not None:
        settings["random_state"] = seed
    file = folder / _PARTY
    # Texts, numbers and lists of texts are written alike in JSON and TOML.
    lines = (f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    file.write_text("".join(lines), encoding="utf-8")
    return file


def release_of(study: Study, outcome: Outcome) -> Made:
    """Return the release of what all parties gave."""
    model = estimator_for(study, study.method)
    release = Release(
        kind="collaborative",
        model=Linear(
            coef=outcome.coef[None, :],
            intercept=np.array([outcome.intercept]),
            classes=tuple(np.unique(model.classes).tolist()),
            features=tuple(study.schema.feature_names),
            facts=Facts(
                method=study.method.name,
                parties=len(outcome.sizes),
                rounds=study.parameters.get("rounds", 1),
                n_samples=sum(outcome.sizes.values()),
                **outcome.frame.learned_with(),
            ),
        ),
        guarantee=outcome.guarantee,
        receipt=None,
        simulated=outcome.simulated,
        parties=outcome.receipts,
    )
    return Made(study.id, described(study, release), outcome.receipts)


def _check(study: Study) -> None:
    if study.engine != "flower":
        raise StudyError("federation.engine: 'local' runs in one process: use confrere fit.")
