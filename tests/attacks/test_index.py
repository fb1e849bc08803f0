"""Every attack that is known, by name, and the file whose test of that name carries it out."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

ATTACKS = """
Noise and price.
    fifty models, nothing charged: kernel/test_fence.py: fifty_models_for_nothing
    noise drawn in threads, forks and copies of a ticket: kernel/test_fence.py: tickets_and_streams_are_in_one_place
    a transfer promised as pure, with Gaussian noise: contracts/test_adaptive_plans.py: a_source_that_does_not_hold_changes_no_law_on_an_account_without_delta
    a body whose noise is longer than is certified: kernel/test_geometry.py: no_noise_is_longer_than_a_certificate_reckons_with
    a record that makes a fit fail after the charge: contracts/test_any_data.py: any_data_fit_and_neighbours_fare_alike
    faults put into the code on purpose: kernel/test_mutations.py: a_mutation_is_found
    keyed noise: two prices, another map, one more record: attacks/test_keyed_noise.py: with_the_whole_key_it_gives_noise
One record decides how others are read.
    a cell: contracts/test_cells.py: one_question_mark_does_not_change_what_minus_one_means
    a label: contracts/test_cells.py: one_label_does_not_change_what_the_others_mean
    any table: contracts/test_cells.py: a_cell_means_the_same_whatever_else_is_in_the_column
    no rows, or one: contracts/test_no_rows.py: a_fit_on_no_rows_looks_like_one_on_a_single_row
A coordinator.
    made-up parties read a part of a sum: wire/study/test_peers.py: made_up_parties_get_no_part_of_a_sum
    a table of counts by a sum that nobody approved: wire/study/test_sessions.py: a_policy_that_says_nothing_refuses_what_is_weaker_than_own_noise
    made-up parties pass for a small sum: wire/study/test_sessions.py: made_up_parties_do_not_pass_for_a_small_sum
    two parties with one key: wire/study/test_peers.py: two_parties_with_one_key_are_one
    un-noised answers that look like noised ones: wire/study/test_sessions.py: what_an_approver_is_shown_says_who_must_be_trusted
    a weaker trust than the policy allows: wire/study/test_sessions.py: a_policy_that_says_nothing_refuses_what_is_weaker_than_own_noise
    another request than was approved: attacks/test_hostile_coordinator.py: another_request_than_the_study_s_is_refused
    a lifetime cap under three names: faces/cli/test_home.py: one_table_under_three_names_pays_once
    a second study with an empty ledger: faces/cli/test_home.py: four_months_by_one_home_keep_one_cap
    a question after a refusal: wire/study/test_sessions.py: a_refusal_after_an_approval_is_never_charged
    a restored volume, two machines: attacks/test_keyed_noise.py: restored_volumes_and_two_machines_give_the_same_bytes
    a witness that is reset: kernel/ledger/test_ledger_witness.py: gives_nothing_back
A party.
    garbage in a sum: attacks/test_lost_tries.py: garbage_is_found_by_leaving_parties_out_in_turn_and_named
    ready, and nothing is sent: attacks/test_lost_tries.py: who_says_ready_and_withholds_costs_one_try
    a journal that is cut or holds garbage: attacks/test_lost_tries.py: a_journal_that_holds_garbage_is_no_end
    a lie, an old answer, another's: attacks/test_hostile_party.py: a_lie_is_refused_and_named
    signatures of any length: attacks/test_hostile_party.py: signatures_of_any_length_are_not_read
    one that starves the others: wire/line/test_line.py: one_party_does_not_take_the_places_of_the_others
    one that never answered, not on the card: wire/study/test_sessions.py: who_never_answered_is_on_the_card_that_the_others_sign
Strangers.
    idle connections: wire/line/test_line.py: strangers_who_hold_all_files_keep_nobody_from_answering
    any bytes: wire/test_messages.py: 3000_mutated_messages
    a local user who signs as the officer: faces/dashboard/test_auth.py: another_local_user_is_not_the_officer
    a kit of dotted keys: methods/schema/test_bounded_toml.py: long_keys_never_reach_the_parser
    code beside the rows that calls home: attacks/test_offline.py: code_that_sees_rows_reaches_nobody
Files and processes.
    a forged release: attacks/test_release_forgeries.py: an_edited_release_is_refused
    a changed ledger: kernel/ledger/test_ledger_tampering.py: a_change_of_any_field_of_any_row_shows
    kill -9 during fits: attacks/test_fit_kill.py: nothing_leaves_unpaid_when_fits_are_killed
    kill -9 of a ledger's writer: attacks/test_ledger_kill.py: nothing_let_out_is_ever_forgotten
    kill -9 between organisations: attacks/test_federation_kill.py: killed_at_a_step
    many at one cap: attacks/test_ledger_concurrency.py: processes_started_afresh
"""  # noqa: E501
ROWS = [line.strip().rsplit(": ", 2) for line in ATTACKS.splitlines() if line.startswith("    ")]


@pytest.mark.parametrize(("attack", "path", "name"), ROWS)
def test_every_attack_is_carried_out(attack, path, name):
    tree = ast.parse((TESTS / path).read_text())
    names = [
        n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == f"test_{name}"
    ]
    (found,) = names
    assert not any(ast.unparse(one) == "pytest.mark.slow" for one in found.decorator_list)
