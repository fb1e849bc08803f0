"""A study between machines: what its coordinator asks, and the release at the end."""

from __future__ import annotations

import numpy as np

from confrere.errors import StudyError
from confrere.federation import Averaging, Expansion, Outcome, average, expand
from confrere.federation.transcript import Protocol
from confrere.model import Facts, Linear
from confrere.release import Release
from confrere.study.describing import described
from confrere.study.parameters import estimator_for
from confrere.study.running import Made
from confrere.study.study_file import Study


def protocol_of(study: Study, timeout: float | None = None) -> Protocol[Outcome]:
    """Return the coordinator's side of the study's method, as a function of whom to ask.

    It is the study's and nobody's: whoever has the same bytes has the same questions.
    """
    plan = estimator_for(study, study.method).protocol(len(study.schema.feature_names))
    quorum = study.quorum
    if isinstance(plan, Expansion):
        return lambda federation: expand(federation, plan, quorum=quorum, timeout=timeout)
    if isinstance(plan, Averaging):
        return lambda federation: average(federation, plan, quorum=quorum, timeout=timeout)
    raise StudyError(f"method.name: {study.method.name} does not run between machines yet.")


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
