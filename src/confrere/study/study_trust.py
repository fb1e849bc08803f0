"""Whom the parties of a study have to trust: as weak as the weakest of all that it asks for."""

from __future__ import annotations

from confrere.mechanisms.secure_sum import colluders_of
from confrere.study.study_file import Study
from confrere.trust import OWN_NOISE, Trust, TrustKind


def trust_of(study: Study, n_here: int = 1) -> Trust:
    """Return whom a party of the study has to trust.

    Parameters
    ----------
    study : Study
    n_here : int, default=1
        How many organisations' tables one process reads: whoever runs it sees more of the others
        than any coordinator does.
    """
    voted = study.method.shape == "votes"
    if n_here > 1 or (voted and study.trust == "coordinator"):
        return Trust(TrustKind.COORDINATOR)
    facts, count = study.file.facts, len(study.payers)
    summed = [study.colluding] if study.adds_up else []
    if facts is not None:
        summed.append(colluders_of(facts.colluding, count, study.quorum_of_sums))
    return Trust.sum_of(min(summed), count) if summed else OWN_NOISE
