"""Prices before data, and the strictest limit."""

import pytest

from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger
from tests.wire.study.conftest import ready


@pytest.mark.parametrize(
    ("cap", "lifetime", "ledger_cap", "limit", "by"),
    [
        (3.0, 30.0, None, 3.0, "study"),
        (3.0, 2.0, None, 2.0, "local policy"),
        (3.0, 2.0, 1.5, 1.5, "ledger"),
        (3.0, 30.0, 9.0, 3.0, "study"),
    ],
)
def test_of_all_limits_the_strictest_wins(edit, folder, cap, lifetime, ledger_cap, limit, by):
    path = edit(main_cap=f"cap = {{ epsilon = {cap} }}")
    local = folder / "local" / "main.toml"
    local.write_text(local.read_text().replace("30.0", str(lifetime)))
    if ledger_cap is not None:
        ledger = Ledger(folder / "local" / "main.ledger")
        ledger.open_account("main/checkups-2010", epsilon=ledger_cap)
        ledger.charge("main/checkups-2010", Guarantee(0.25), purpose="earlier")
    budget = ready(path)[2].costs[0]
    assert (budget.limit, budget.limit_by) == (limit, by)
    assert budget.left == limit - (0.25 if ledger_cap else 0)
