"""Methods by name: a problem and a run in, metrics out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confrere_research.methods import main_and_branches, many_parties, one_party, printed_branches
from confrere_research.methods.run import Run

__all__ = ["METHODS", "Run"]

#: Every method: the problem and a run in, metrics out.
METHODS: dict[str, Callable[[Any, Run], dict[str, Any]]] = {
    "plr": one_party.plr,
    "pst-s": one_party.pst_s,
    "pst-f": one_party.pst_f,
    "ceiling": one_party.ceiling,
    "printed plr": one_party.printed_plr,
    "printed pst-s": one_party.printed_pst_s,
    "printed pst-f": one_party.printed_pst_f,
    "direct": main_and_branches.direct,
    "source only": main_and_branches.source_only,
    "simcomb": main_and_branches.simcomb,
    "pst-h": main_and_branches.pst_h,
    "average": main_and_branches.average,
    "expert": main_and_branches.expert,
    "alone": main_and_branches.alone,
    "pooled": main_and_branches.pooled,
    "printed direct": printed_branches.direct,
    "printed source only": printed_branches.source_only,
    "printed simcomb": printed_branches.simcomb,
    "printed pst-h": printed_branches.pst_h,
    "collaborative": many_parties.collaborative,
    "printed ofpa": many_parties.printed_ofpa,
    "printed ofaa": many_parties.printed_ofaa,
    "multiparty": many_parties.multiparty,
    "batch": many_parties.batch,
    "individual": many_parties.individual,
    "majority": many_parties.majority,
}
