"""Organisations that add up where nobody sees into the sum, for tests."""

import numpy as np

from confrere.methods.asking import Size, Sizes
from confrere.methods.sums import Gradient, GradientRounds, Minimiser, OneMessage
from confrere_federation.parties import Frame, Payload, requests
from confrere_federation.parties.messages import Question, SignedAnswer
from confrere_federation.parties.requests import request_for
from tests.unit.federation.signed_run import COLUMNS, Loopback, Organisations

FOUR = ("a", "b", "c", "d")
ONE = OneMessage(frame=Frame(COLUMNS), epsilon=1.0)
ROUNDS = GradientRounds(frame=Frame(COLUMNS), epsilon=1.0, delta=1e-6, rounds=3, reserve=2)
PLANS = {"one message": ONE, "rounds": ROUNDS}


class Summers(Organisations):
    """Four organisations, three of whom are enough for a sum."""

    def __init__(self, folder, *, plan=ONE, quorum=0.75, **more):
        super().__init__(folder, plan=plan, names=FOUR, quorum=quorum, **more)

    @property
    def operation(self):
        return self.kind.operation

    @property
    def kind(self):
        return Minimiser if isinstance(self.plan, OneMessage) else Gradient

    def sized(self):
        return Sizes({name: self.sizes[name] for name in self.names})

    def request(self):
        """The first request of a run, as the coordinator derives it."""
        return self.asked().write()

    def asked(self):
        plan = type(self.plan)(**{**vars_of(self.plan), "quorum": self.quorum})
        more = () if isinstance(plan, OneMessage) else (plan.centre,)
        return request_for(self.kind(plan, self.sized(), *more))

    def mechanism(self):
        plan = type(self.plan)(**{**vars_of(self.plan), "quorum": self.quorum})
        return plan.mechanism(self.sized())

    def begun(self):
        """Ask for sizes, and return the evidence that every further question needs."""
        federation = self.federation(journal="by-hand")
        federation.gather(request_for(Size()), dict.fromkeys(self.names, 0))
        return federation._steps

    def announcement(self, name, evidence, step=0):
        question = ready_for(self.operation, self.request())
        reply = self.ask(name, "ready", question, step=step, evidence=evidence)
        assert isinstance(reply, bytes), reply
        return requests.read_key(name, SignedAnswer.open(reply, self.public).payload)

    def share(self, name, roster, evidence, step=0, request=None):
        question = requests.share_question(request or self.request(), roster)
        return self.ask(name, self.operation, question, step=step, evidence=evidence)

    def words(self, reply):
        return SignedAnswer.open(reply, self.public).payload.arrays["masked"].view(np.uint64)

    def restart(self, name):
        self.sessions[name] = self.session(name)


def vars_of(plan):
    return {name: getattr(plan, name) for name in plan.__dataclass_fields__}


def ready_for(operation, request):
    """Return the question whether one is ready for a sum."""
    return Payload({**request.values, "sum": operation}, request.arrays)


def asked_for(content, there):
    """Return the operation that a question is about."""
    return Question.open(content, there.coordinator.public_key())[0].operation


def carrier_with(there, change):
    """Return a carrier whose exchange is ``change(exchange, questions)``."""
    carrier = Loopback(there.sessions)
    exchange = carrier.exchange
    carrier.exchange = lambda questions, timeout: change(
        lambda asked: exchange(asked, timeout), questions
    )
    return carrier
