"""A study from its file: read, priced before any data are touched, and run over any engine."""

from confrere_federation.studies.encoded_rows import (
    check_table,
    read_rows,
    save_report,
)
from confrere_federation.studies.local_file import (
    Local,
    check_peers,
    confirm_peers,
    gather_locals,
    peer_lines,
    read_local,
    standing_refusal,
)
from confrere_federation.studies.priced_plan import StudyPlan, make_plan, read_plan
from confrere_federation.studies.running import (
    Made,
    check_destination,
    check_keys,
    check_words,
    prepare,
    reader_for,
    refuse_taken,
    save_made,
)
from confrere_federation.studies.sessions import (
    CoordinatorSession,
    approval_of,
    approve_study,
    changed_facts,
    earlier_grants,
    lift_refusal,
    make_grant,
    party_session,
    refuse_study,
)
from confrere_federation.studies.study_file import Study, read_study, study_from_bytes
from confrere_federation.studies.template import write_example, write_template

__all__ = [
    "CoordinatorSession",
    "Local",
    "Made",
    "Study",
    "StudyPlan",
    "approval_of",
    "approve_study",
    "changed_facts",
    "check_destination",
    "check_keys",
    "check_peers",
    "check_table",
    "check_words",
    "confirm_peers",
    "earlier_grants",
    "gather_locals",
    "lift_refusal",
    "make_grant",
    "make_plan",
    "party_session",
    "peer_lines",
    "prepare",
    "read_local",
    "read_plan",
    "read_rows",
    "read_study",
    "reader_for",
    "refuse_study",
    "refuse_taken",
    "save_made",
    "save_report",
    "standing_refusal",
    "study_from_bytes",
    "write_example",
    "write_template",
]
