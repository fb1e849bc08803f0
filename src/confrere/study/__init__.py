"""A study from its file: read, priced before any data are touched, and run over any engine."""

from confrere.rows.row_tables import read_table
from confrere.study.approving import (
    approval_of,
    approve_study,
    changed_facts,
    earlier_grants,
    lift_refusal,
    refuse_study,
)
from confrere.study.budget import Budget, budget_of
from confrere.study.data_check import check_table, evaluation_rows, header_of, save_report
from confrere.study.encoded_rows import Rows, predict, read_rows, unit_column_of
from confrere.study.local_file import (
    Local,
    LocalPolicy,
    gather_locals,
    read_local,
    standing_refusal,
)
from confrere.study.peers import check_peers, confirm_peers, peer_lines
from confrere.study.priced_plan import Agreed, Price, StudyPlan, make_plan, read_plan
from confrere.study.running import (
    Made,
    Runner,
    check_destination,
    check_keys,
    prepare,
    refuse_taken,
    save_made,
)
from confrere.study.sessions import (
    CoordinatorSession,
    Finished,
    make_grant,
    party_session,
)
from confrere.study.study_file import Study, read_study, study_from_bytes
from confrere.study.study_tables import EncodingTable, Party, Promise
from confrere.study.template import write_example, write_template

__all__ = [
    "Agreed",
    "Budget",
    "CoordinatorSession",
    "EncodingTable",
    "Finished",
    "Local",
    "LocalPolicy",
    "Made",
    "Party",
    "Price",
    "Promise",
    "Rows",
    "Runner",
    "Study",
    "StudyPlan",
    "approval_of",
    "approve_study",
    "budget_of",
    "changed_facts",
    "check_destination",
    "check_keys",
    "check_peers",
    "check_table",
    "confirm_peers",
    "earlier_grants",
    "evaluation_rows",
    "gather_locals",
    "header_of",
    "lift_refusal",
    "make_grant",
    "make_plan",
    "party_session",
    "peer_lines",
    "predict",
    "prepare",
    "read_local",
    "read_plan",
    "read_rows",
    "read_study",
    "read_table",
    "refuse_study",
    "refuse_taken",
    "save_made",
    "save_report",
    "standing_refusal",
    "study_from_bytes",
    "unit_column_of",
    "write_example",
    "write_template",
]
