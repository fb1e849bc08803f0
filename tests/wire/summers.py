"""Organisations that add up where nobody sees into the sum, for tests."""

from dataclasses import replace

import numpy as np

from confrere.data.frame import Frame
from confrere.methods.asking import Sizes, known_sizes
from confrere.methods.sums import GradientRounds, OneMessage
from confrere_federation.parties.messages import Question, SignedAnswer
from confrere_federation.parties.requests import request_for
from tests.wire.signed_run import COLUMNS, Loopback, Organisations

FOUR = ("a", "b", "c", "d")
ONE = OneMessage(frame=Frame(COLUMNS), epsilon=1.0)
ROUNDS = GradientRounds(frame=Frame(COLUMNS), epsilon=1.0, delta=1e-6, rounds=3, max_retries=2)


class Summers(Organisations):
    """Four organisations, three of whom are enough for a sum."""

    def __init__(self, folder, *, plan=ONE, quorum=0.75, **more):
        super().__init__(folder, plan=plan, names=FOUR, quorum=quorum, **more)

    @property
    def operation(self):
        return self.plan.operation

    def sized(self):
        return Sizes({name: self.sizes[name] for name in self.names})

    def request(self):
        """The first request of a run, as the coordinator derives it."""
        return self.asked().payload

    def asked(self):
        sizes = self.sized()
        plan = replace(self.plan, quorum=self.quorum).among(sizes).at(sizes)
        return request_for(plan.asked(sizes))

    def mechanism(self):
        return self.asked().mechanism

    def begun(self):
        """Ask for sizes, and return the evidence that every further question needs."""
        federation = self.federation(journal="by-hand")
        federation.run_protocol(known_sizes(self.names, self.plan.delta))
        return federation._steps

    def announcement(self, name, evidence, step=0):
        reply = self.share(name, {}, evidence, step)
        assert isinstance(reply, bytes), reply
        return SignedAnswer.open(reply, self.public).payload.arrays["announcement"].tobytes()

    def announced(self, evidence, step=0, names=FOUR):
        return {name: self.announcement(name, evidence, step) for name in names}

    def share(self, name, roster, evidence, step=0, request=None):
        """Ask for a share; without a roster, whether one is ready."""
        named = {one: word.hex() for one, word in roster.items()}
        told = {"step": step, "evidence": evidence, "roster": named}
        return self.ask(name, self.operation, request or self.request(), **told)

    def words(self, reply):
        return SignedAnswer.open(reply, self.public).payload.arrays["masked"].view(np.uint64)

    def restart(self, name):
        self.sessions[name] = self.session(name)


def asked_for(content, there):
    """Return the operation that a question is about, or whether one is ready."""
    question = Question.open(content, there.coordinator.public_key())[0]
    return "ready" if question.asks_ready else question.operation


def carrier_with(there, change):
    """Return a carrier whose exchange is ``change(exchange, questions)``."""
    carrier = Loopback(there.sessions)
    exchange = carrier.exchange
    carrier.exchange = lambda questions, timeout: change(
        lambda asked: exchange(asked, timeout), questions
    )
    return carrier
