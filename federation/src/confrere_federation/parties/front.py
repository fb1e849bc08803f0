"""The public names of the room, which is where operations are installed."""

from confrere.data.frame import Frame
from confrere.methods.average import Averaging
from confrere.methods.expansion import Expansion
from confrere.methods.votes import Released, Voting
from confrere_federation.engines.carrier import Answering, Carrier
from confrere_federation.parties.answers import Answers
from confrere_federation.parties.federation import Federation, LocalFederation
from confrere_federation.parties.grant import Grant, Policy, run_name
from confrere_federation.parties.messages import (
    PROTOCOL,
    PartyError,
    Payload,
    Question,
    SignedAnswer,
)
from confrere_federation.parties.operation import (
    OPERATIONS,
    Operation,
    PartyFacts,
    SumOperation,
    install,
)
from confrere_federation.parties.party import Books, LocalParty
from confrere_federation.parties.protocols import (
    FederatedEvaluation,
    Outcome,
    collaborate,
    evaluation,
)
from confrere_federation.parties.serving import serve
from confrere_federation.parties.summing import Summed
from confrere_federation.parties.sums import evaluation_together, total_records
from confrere_federation.parties.votes import VotingOutcome, poll

__all__ = [
    "OPERATIONS",
    "PROTOCOL",
    "Answering",
    "Answers",
    "Averaging",
    "Books",
    "Carrier",
    "Expansion",
    "FederatedEvaluation",
    "Federation",
    "Frame",
    "Grant",
    "LocalFederation",
    "LocalParty",
    "Operation",
    "Outcome",
    "PartyError",
    "PartyFacts",
    "Payload",
    "Policy",
    "Question",
    "Released",
    "SignedAnswer",
    "SumOperation",
    "Summed",
    "Voting",
    "VotingOutcome",
    "collaborate",
    "evaluation",
    "evaluation_together",
    "install",
    "poll",
    "run_name",
    "serve",
    "total_records",
]
