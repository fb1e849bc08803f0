"""A run between organisations in one process: real keys, approvals, ledgers and signatures."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from confrere.data.frame import Frame
from confrere.ledger import Ledger
from confrere.methods.average import Averaging
from confrere.methods.sums import Sums
from confrere.release.signing import fingerprint, generate_key, sign_bytes
from confrere_federation.parties.answers import Answers
from confrere_federation.parties.federation import (
    PartySession,
    SignedFederation,
    dry_run,
    with_quorum,
)
from confrere_federation.parties.messages import Question, refused
from confrere_federation.parties.party import (
    LocalParty,
    PartyAccounts,
    SignedApproval,
    Snapshots,
    run_name,
)
from tests.wire.conftest import make_data
from tests.wire.rounds import collaborate

STUDY = "5" * 64
COLUMNS = 3
PLAN = Averaging(frame=Frame(COLUMNS), epsilon=1.0, rounds=2)
SIGNED = "test-release"


class Loopback:
    """Carries messages within a process; ``tamper`` may change a party's replies on the way."""

    def __init__(self, sessions, tamper=None):
        self.sessions = sessions
        self.tamper = tamper or {}
        self.sent = []

    def connected(self):
        return list(self.sessions)

    def exchange(self, questions, timeout):
        replies = {}
        for name, content in questions.items():
            self.sent.append((name, content))
            reply = self.sessions[name].handle(content)
            changed = self.tamper.get(name)
            replies[name] = reply if changed is None else changed(content, reply)
        return replies


class Refuse(Exception):
    """A release that is not what the answers give."""


class Organisations:
    """Three organisations and a coordinator, each with a key of its own."""

    def __init__(self, folder, *, plan=PLAN, names=("a", "b", "c"), quorum=0.6, sizes=None):
        self.folder = folder
        self.plan = plan
        self.names = tuple(names)
        self.quorum = quorum
        self.coordinator = Ed25519PrivateKey.generate()
        self.keys = {name: Ed25519PrivateKey.generate() for name in self.names}
        self.public = {name: key.public_key() for name, key in self.keys.items()}
        self.sizes = sizes or {name: 40 + 10 * k for k, name in enumerate(self.names)}
        self.sessions = {name: self.session(name) for name in self.names}

    @property
    def run(self):
        return run_name(STUDY)

    def protocol(self, parties):
        plan = self.plan
        plan = replace(plan, quorum=self.quorum) if isinstance(plan, Sums) else plan
        return with_quorum(plan.steps(parties), self.quorum)

    def learn(self, federation):
        plan = self.plan
        plan = replace(plan, quorum=self.quorum) if isinstance(plan, Sums) else plan
        return collaborate(federation, plan, quorum=self.quorum)

    def approval(self, name, **changes):
        now = datetime.now(UTC)
        epsilon = self.plan.epsilon
        facts = {
            "party": name,
            "account": "study",
            "study_id": "a-study",
            "study_sha256": STUDY,
            "requests": dry_run(self.protocol, self.names, STUDY)[name],
            "unit": "record",
            "relation": "replace-one",
            "epsilon_per_run": epsilon,
            "delta_per_run": getattr(self.plan, "delta", 0.0),
            "attempts": 1,
            "expires": now + timedelta(days=1),
            "approved_by": "the officer",
            "reason": "a test",
            "approved_at": now,
        }
        return SignedApproval(**(facts | changes))

    def ledger(self, name, cap=100.0):
        ledger = Ledger(self.folder / f"{name}.ledger")
        if not ledger.accounts():
            ledger.open_account(
                "study", epsilon=cap, delta=0.5, unit="record", neighbours="replace-one"
            )
        return ledger

    def local(self, name, approval, **more):
        books = PartyAccounts(
            ledger=self.ledger(name, **more),
            account="study",
            policy=approval.policy,
            answers=Answers(self.folder / f"{name}.answers"),
            snapshots=Snapshots.at(self.folder / f"{name}.secret", self.folder / f"{name}.rows"),
        )
        seed = self.names.index(name)
        return LocalParty(name, *make_data(self.sizes[name], COLUMNS, seed), books)

    def session(self, name, **changes):
        approval = self.approval(name, **changes.pop("approval", {}))
        facts = {
            "protocol": self.protocol,
            "parties": self.public,
            "coordinator": self.coordinator.public_key(),
            "key": self.keys[name],
            "accept": lambda files, outcome: self.accept(name, files, outcome),
        } | changes
        return PartySession(self.local(name, approval), approval, **facts)

    def accept(self, name, files, outcome):
        if files != {"weights": outcome.weights.tobytes()}:
            raise Refuse
        return sign_bytes(files["weights"], self.keys[name], namespace=SIGNED)

    def federation(self, *, tamper=None, journal="journal", carrier=None, key=None, run=None):
        return SignedFederation(
            study=STUDY,
            key=key or self.coordinator,
            parties=self.public,
            carrier=carrier or Loopback(self.sessions, tamper),
            run=run or self.run,
            journal=Answers(self.folder / journal),
        )

    def spent(self, name):
        return self.ledger(name).spent("study")

    def ask(self, name, operation, payload, *, step=0, evidence=(), key=None, **changes):
        """Send one question by hand and return the code, or the reply's bytes."""
        facts = {"run": self.run, "study": STUDY, "operation": operation, "step": step}
        question = Question(payload=payload, **facts)
        for field, value in changes.items():  # unchecked, as whoever writes bytes by hand
            object.__setattr__(question, field, value)
        reply = self.sessions[name].handle(question.sign(key or self.coordinator, evidence))
        return code_of(reply)


def code_of(reply):
    told = refused(reply)
    return reply if told is None else told.code


def confirm_all(folder, parties):
    """Have everybody know everybody: fingerprints were compared."""
    prints = {name: fingerprint(folder / f"local/{name}.key.pub") for name in parties}
    lines = "".join(f'{name} = "{one}"\n' for name, one in prints.items())
    for name in parties:
        local = folder / f"local/{name}.toml"
        local.write_text(f"{local.read_text()}\n[peers]\n{lines}")


def name_keys(folder, parties=("main", "branch-1", "branch-2")):
    """Give everybody a signing key, and say in study and local files whose is whose."""
    study = folder / "study.toml"
    asking = generate_key(folder / "coordinator.key").read_text().strip()
    for name in parties:
        line = generate_key(folder / f"local/{name}.key", comment=name).read_text().strip()
        named = f'[[party]]\nname = "{name}"\n'
        study.write_text(study.read_text().replace(named, f'{named}key = "{line}"\n'))
        local = folder / f"local/{name}.toml"
        own = f'key_path = "{name}.key"\ncoordinator = "{asking}"\n'
        local.write_text(own + local.read_text())
    confirm_all(folder, parties)
