"""A study in one process: who pays, when, and what comes out."""

import numpy as np
import pytest

from confrere.errors import InvalidData, StudyError
from confrere.ledger import Ledger
from confrere_federation.parties.federation import checked
from confrere_federation.parties.messages import PartyError, Payload
from confrere_federation.parties.requests import request_for
from confrere_federation.studies.running import Learning, cost_of, local_party, make_plan, prepare
from confrere_federation.studies.study_file import read_study
from tests.wire.study.conftest import ready


def entries(folder, party):
    return Ledger(folder / "local" / f"{party}.ledger").entries()


def test_a_plan_pays_once_and_carried_out_again_gives_the_same(edit, folder):
    """Whoever had been killed, or comes second, gets what was answered; nothing is drawn again."""
    study, locals_, plan = ready(edit())
    first, second = (prepare(study, plan, locals_) for _ in range(2))
    (made,) = first.run()
    for runner in (second, prepare(study, plan, locals_)):
        (again,) = runner.run()
        assert again.release.release_id == made.release.release_id
    for party in locals_:
        assert len(entries(folder, party)) == 1
    (other,) = prepare(
        study, make_plan(study, locals_, attempt=2), locals_
    ).run()  # another plan pays anew
    assert other.release.release_id != made.release.release_id
    assert len(entries(folder, "main")) == 2


def test_a_table_that_changed_since_it_was_read_is_found_before_the_charge(edit, folder):
    """How rows are encoded follows from their number: they are read again, with their labels."""
    study, locals_, plan = ready(edit(name='name = "pst-f"'))
    runner = prepare(study, plan, locals_)
    table = folder / "local" / "main.csv"
    rows = table.read_text().splitlines(keepends=True)
    table.write_text("".join([rows[0], *reversed(rows[1:])]))
    cost, policy = cost_of(study), runner._policy("main", None)
    party = local_party(study, cost, locals_["main"], runner.rows["main"], policy)
    encoded = party.encoded_by(request_for(Learning(study, study.method)).encoder(len(party.y)))
    np.testing.assert_array_equal(encoded.y, party.y[::-1])
    table.write_text("".join(rows[:-1]))
    with pytest.raises(InvalidData, match="changed"):
        runner.run()
    assert not entries(folder, "main")


@pytest.mark.parametrize("size", [1, 10**10])
def test_a_size_that_no_model_has_is_the_party_s_own_fault(edit, size):
    """Others have paid when an answer is looked at; nobody makes as many rows as somebody says."""
    study = read_study(edit(name='name = "pst-f"'))
    learning = Learning(study, study.method)
    answer = Payload(arrays={"high": np.zeros(2)})
    found = checked(answer, "main", lambda _: learning.response(size))
    assert found == PartyError("InvalidReply:size" if size == 1 else "InvalidReply:shape")


def test_a_party_that_nothing_caps_is_refused(edit, folder):
    local = folder / "local" / "main.toml"
    local.write_text(local.read_text().replace("lifetime_epsilon = 30.0\n", ""))
    study, locals_, plan = ready(edit(main_cap=""))
    with pytest.raises(StudyError, match="nothing caps what main may ever spend"):
        prepare(study, plan, locals_)
    assert not (folder / "local" / "main.ledger").exists()


@pytest.mark.parametrize("method", ['name = "average"', 'name = "plr"', 'name = "sums"'])
def test_outcomes_of_several_classes_are_learned_too(edit, method):
    path = edit(name=method, label='classes = ["no", "yes", "not known"]')
    study, locals_, plan = ready(path)
    made = prepare(study, plan, locals_).run()
    assert {one.release.model.classes for one in made} == {("no", "not known", "yes")}
