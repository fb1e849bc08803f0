"""The boundary between organisations, its in-process engine, and the multi-party algorithms."""

from confrere.protocols.answers import Answers
from confrere.protocols.averaging import Averaging, average
from confrere.protocols.ballots import Elected, poll
from confrere.protocols.evaluation import Evaluation, evaluate
from confrere.protocols.expansion import Expansion, expand
from confrere.protocols.federation import Federation, PartyError
from confrere.protocols.frame import Frame
from confrere.protocols.journal import Journalled
from confrere.protocols.local import LocalFederation
from confrere.protocols.operation import OPERATIONS, Facts, Operation, install
from confrere.protocols.outcome import Outcome
from confrere.protocols.party import Books, LocalParty, PartyGroup, Policy
from confrere.protocols.payload import Payload
from confrere.protocols.question import Question, answer, read_reply
from confrere.protocols.serving import PROTOCOL, serve
from confrere.protocols.voting import Released, Voting

__all__ = [
    "OPERATIONS",
    "PROTOCOL",
    "Answers",
    "Averaging",
    "Books",
    "Elected",
    "Evaluation",
    "Expansion",
    "Facts",
    "Federation",
    "Frame",
    "Journalled",
    "LocalFederation",
    "LocalParty",
    "Operation",
    "Outcome",
    "PartyError",
    "PartyGroup",
    "Payload",
    "Policy",
    "Question",
    "Released",
    "Voting",
    "answer",
    "average",
    "evaluate",
    "expand",
    "install",
    "poll",
    "read_reply",
    "serve",
]
