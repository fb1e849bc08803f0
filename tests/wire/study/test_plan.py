"""Prices before data, and the strictest limit."""

import pytest

from confrere.errors import BudgetExceeded, StudyError
from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger
from confrere_federation.studies.study_file import read_local
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


def test_local_files_are_relative_to_themselves_and_strict(folder):
    file = folder / "local" / "main.toml"
    local = read_local(file)
    assert local.data_path == folder / "local" / "main.csv"
    assert local.ledger_path == folder / "local" / "main.ledger"
    protects, relation = 'privacy_unit = "record"\n', 'neighbours = "replace-one"\n'
    policy = f"[policy]\n{protects}{relation}"
    for text, told in (
        (f'data = "x.csv"\n{policy}', "data: must be a table"),
        (f"{policy}max_epsilon = 1\n", r"\[policy\] does not know 'max_epsilon'"),
        (f"[policy]\n{relation}", r"policy\.privacy_unit: is missing"),
        (f"[policy]\n{protects}", r"policy\.neighbours: is missing"),
        ("", "policy: is missing"),
        (f'coordinator = "ssh-ed25519 AAAA"\n{policy}', "coordinator: must be a line"),
    ):
        file.write_text(f'party = "main"\n{text}')
        with pytest.raises(StudyError, match=told):
            read_local(file)


def test_a_limit_that_does_not_mention_delta_covers_pure_methods_only(edit, folder):
    path = edit(name='name = "plr"\ndelta = 1e-6')
    plan = ready(path)[2]
    assert str(plan.costs[0].guarantee) == "(1, 1e-06)-DP per record (replace-one)"
    with pytest.raises(BudgetExceeded, match="delta"):
        plan.check()
    text = path.read_text()
    path.write_text(text.replace("epsilon = 3.0 }", "epsilon = 3.0, delta = 1e-5 }"))
    main = ready(path)[2].costs[0]
    main.check()
    assert main.delta == 1e-5
