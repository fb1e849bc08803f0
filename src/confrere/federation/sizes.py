"""How many records stand behind a party: declared, or counted with noise."""

from __future__ import annotations

import numpy as np

from confrere.federation.counts import COUNT, SIZE, expected_count
from confrere.federation.expected import MOST_RECORDS, Expected, Numbers
from confrere.federation.federation import Federation
from confrere.federation.outcome import receipts_in
from confrere.federation.payload import Payload
from confrere.federation.stacked import stacked
from confrere.guarantee import Neighbours
from confrere.plans.party_rows import Sizes


def ask_sizes(
    federation: Federation,
    *,
    count_epsilon: float | None = None,
    quorum: float = 1.0,
    timeout: float | None = None,
) -> Sizes:
    """Ask everyone for its number of records.

    Parameters
    ----------
    federation : Federation
    count_epsilon : float, optional
        Have every party count with noise at this price, under add-remove neighbours. By default
        sizes are public facts, as replace-one neighbours take them to be.
    quorum, timeout
        As for :meth:`~confrere.federation.Federation.gather`.
    """
    if count_epsilon is None:
        declared = Expected({"size": Numbers((), "<i8", lowest=1, highest=MOST_RECORDS)})
        answers = federation.gather(
            SIZE.name, Payload(), quorum=quorum, timeout=timeout, expect=lambda _: declared
        )
        neighbours = Neighbours.REPLACE_ONE
    else:
        request = Payload({"epsilon": float(count_epsilon)})
        counted = expected_count(COUNT, request, MOST_RECORDS)
        answers = federation.gather(
            COUNT.name, request, quorum=quorum, timeout=timeout, expect=lambda _: counted
        )
        neighbours = Neighbours.ADD_REMOVE
    told: list[int] = np.maximum(1, stacked(answers, "size", (), "<i8")).tolist()
    counts = dict(zip(answers, told, strict=True))
    return Sizes(counts, neighbours, receipts_in(answers) if count_epsilon is not None else {})
