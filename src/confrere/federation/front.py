"""The public names of the room, which is where operations are installed."""

from confrere.data.frame import Frame
from confrere.federation.answers import Answers
from confrere.federation.carrier import Answering, Carrier
from confrere.federation.federation import Federation, LocalFederation
from confrere.federation.grant import Grant, Policy, run_name
from confrere.federation.messages import PROTOCOL, PartyError, Payload, Question, SignedAnswer
from confrere.federation.operation import OPERATIONS, Operation, PartyFacts, SumOperation, install
from confrere.federation.party import Books, LocalParty
from confrere.federation.protocols import FederatedEvaluation, Outcome, collaborate, evaluation
from confrere.federation.serving import serve
from confrere.federation.summing import Summed
from confrere.federation.sums import evaluation_together, total_records
from confrere.federation.votes import VotingOutcome, poll
from confrere.methods.average import Averaging
from confrere.methods.expansion import Expansion
from confrere.methods.votes import Released, Voting

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
