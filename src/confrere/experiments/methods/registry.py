"""From a name in a specification to a method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confrere.experiments.methods import many_parties, one_party, printed_transfer, transfer
from confrere.experiments.methods.run import Run

#: Every method: the problem and a run in, metrics out.
METHODS: dict[str, Callable[[Any, Run], dict[str, Any]]] = {
    "plr": one_party.plr,
    "pst-s": one_party.pst_s,
    "pst-f": one_party.pst_f,
    "ceiling": one_party.ceiling,
    "printed plr": one_party.printed_plr,
    "printed pst-s": one_party.printed_pst_s,
    "printed pst-f": one_party.printed_pst_f,
    "direct": transfer.direct,
    "source only": transfer.source_only,
    "simcomb": transfer.simcomb,
    "pst-h": transfer.pst_h,
    "average": transfer.average,
    "expert": transfer.expert,
    "alone": transfer.alone,
    "pooled": transfer.pooled,
    "printed direct": printed_transfer.direct,
    "printed source only": printed_transfer.source_only,
    "printed simcomb": printed_transfer.simcomb,
    "printed pst-h": printed_transfer.pst_h,
    "collaborative": many_parties.collaborative,
    "printed ofpa": many_parties.printed_ofpa,
    "printed ofaa": many_parties.printed_ofaa,
    "multiparty": many_parties.multiparty,
    "batch": many_parties.batch,
    "individual": many_parties.individual,
    "majority": many_parties.majority,
}
