"""A coordinator that wants more than was agreed: refused before any spend, whatever it tries.

It holds the pinned key, sees every answer, and may send any bytes. It may ask what the approvals
contain, once; it may not choose relation, unit, ridge, frame, cap, centre or question, nor make a
party sign what the answers do not give.
"""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from confrere.data.frame import Frame
from confrere.errors import ApprovalRefused, LedgerTampered, SignatureError
from confrere.methods.asking import Size
from confrere.methods.average import Averaging
from confrere_federation.parties.federation import Round, packed
from confrere_federation.parties.messages import (
    PartyError,
    Payload,
    Question,
    SignedAnswer,
    join_parts,
    split_parts,
)
from confrere_federation.parties.party import SignedApproval, run_name
from confrere_federation.parties.requests import request_for
from tests.wire.signed_run import COLUMNS, STUDY, Loopback, Organisations, code_of
from tests.wire.summers import ROUNDS, Summers
from tests.world import each

PLAN = Averaging(frame=Frame(COLUMNS), epsilon=1.0, rounds=2)


class Recorder(Loopback):
    """Keeps the questions of an honest run, by operation and step."""

    def exchange(self, questions, timeout):
        for content in questions.values():
            question = Question.decode(split_parts(content)[0])
            self.kept[question.operation, question.step] = content
        if self.stop in self.kept:
            raise KeyboardInterrupt
        return super().exchange(questions, timeout)


@pytest.fixture
def there(tmp_path):
    return Organisations(tmp_path, plan=PLAN)


def up_to(there, operation, step):
    """Run honestly until a question, which is not sent, and return it with its evidence."""
    carrier = Recorder(there.sessions)
    carrier.kept, carrier.stop = {}, (operation, step)
    with pytest.raises(KeyboardInterrupt):
        there.learn(there.federation(carrier=carrier))
    body, _, *evidence = split_parts(carrier.kept[operation, step])
    return Question.decode(body), evidence


def asked(there, question, evidence=(), **changes):
    """Ask party a, as the coordinator, with some of a question changed."""
    facts = {name: getattr(question, name) for name in ("run", "study", "operation", "step")}
    facts |= {"payload": question.payload} | changes
    content = Question(**facts).sign(there.coordinator, evidence)
    return code_of(there.sessions["a"].handle(content))


def with_values(payload, **values):
    return Payload(dict(payload.values) | values, payload.arrays)


def with_arrays(payload, **arrays):
    kept = {n: a for n, a in (dict(payload.arrays) | arrays).items() if a is not None}
    return Payload(payload.values, kept)


CHANGES = {
    "a larger epsilon": lambda p: with_values(p, epsilon=0.6),
    "a smaller epsilon": lambda p: with_values(p, epsilon=0.4),
    "all of it at once": lambda p: with_values(p, epsilon=1.0),
    "the account's whole cap": lambda p: with_values(p, epsilon=10.0),
    "label-only": lambda p: with_values(p, neighbours="label-only"),
    "add-remove": lambda p: with_values(p, neighbours="add-remove", declared=40),
    "a tiny ridge": lambda p: with_values(p, ridge=1e-9),
    "a ridge a millionth off": lambda p: with_values(p, ridge=p.values["ridge"] * (1 + 1e-6)),
    "a huge ridge": lambda p: with_values(p, ridge=1e9),
    "a ridge that follows n": lambda p: with_values(p, alpha=1e-6),
    "another cap": lambda p: with_values(p, loss={"cap": 1.0}),
    "a calibration": lambda p: with_values(p, calibration="printed"),
    "another frame": lambda p: with_values(p, frame=Frame(COLUMNS, data_norm=2.0).facts()),
    "no constant": lambda p: with_values(p, frame=Frame(COLUMNS, constant=0.0).facts()),
    "other scales": lambda p: with_arrays(p, feature_scale=np.array([1.0, 0.0, 0.0])),
    "a centre of its own": lambda p: with_arrays(p, centre=np.full(COLUMNS + 1, 3.0)),
    "a field more": lambda p: with_values(p, debug=True),
    "a field less": lambda p: Payload({k: v for k, v in p.values.items() if k != "ridge"}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_another_request_than_the_study_s_is_refused(there, change):
    question, evidence = up_to(there, "objective", 0)
    before = there.spent("a")
    code = asked(there, question, evidence, payload=change(question.payload))
    assert code in ("OperationRefused:request", "InvalidMessage"), code
    assert there.spent("a") == before == 0.0
    # The party is not spent by having been asked: the agreed question is still answered.
    assert isinstance(asked(there, question, evidence), bytes)
    assert there.spent("a") == 0.5


@pytest.mark.parametrize(
    "centre", [None, np.zeros(COLUMNS + 1), np.full(COLUMNS + 1, 1e5)], ids=["none", "zero", "far"]
)
def test_the_second_round_starts_from_what_was_signed(there, centre):
    question, evidence = up_to(there, "objective", 1)
    honest = question.payload.arrays["centre"]
    assert np.linalg.norm(honest) > 0
    spent = there.spent("a")
    changed = with_arrays(question.payload, centre=centre)
    assert asked(there, question, evidence, payload=changed) == "OperationRefused:request"
    nudged = honest + 1e-7
    changed = with_arrays(question.payload, centre=nudged)
    assert asked(there, question, evidence, payload=changed) == "OperationRefused:request"
    assert there.spent("a") == spent == 0.5
    # The last bits of a number, which another machine's library may round elsewhere, are free.
    changed = with_arrays(question.payload, centre=honest * (1 + 2e-16))
    assert isinstance(asked(there, question, evidence, payload=changed), bytes)


def test_new_runs_and_another_study_get_nothing(there):
    question, evidence = up_to(there, "objective", 0)
    for run in ("again", run_name(STUDY, 2), "r" * 64, run_name(STUDY)[:-1] + "7"):
        assert asked(there, question, evidence, run=run) == "OperationRefused:run"
    assert asked(there, question, evidence, study="6" * 64) == "OperationRefused:study"
    assert there.spent("a") == 0.0


def test_another_step_or_operation_gets_nothing(there):
    question, evidence = up_to(there, "objective", 0)
    others = ("output", "size", "errors", "ballot", "upload", "steal")
    for changes in each(step=(1, 2, -1), operation=others):
        assert asked(there, question, evidence, **changes).startswith("OperationRefused:")
    assert there.spent("a") == 0.0


def test_an_answer_is_given_once(there):
    question, evidence = up_to(there, "objective", 0)
    first = asked(there, question, evidence)
    for _ in range(5):
        assert asked(there, question, evidence) == first
    assert there.spent("a") == 0.5
    # Nor does a restarted party, with the same files, give another.
    there.sessions["a"] = there.session("a")
    assert asked(there, question, evidence) == first
    assert there.spent("a") == 0.5


def test_foreign_keys_ask_nothing(there):
    question, evidence = up_to(there, "objective", 0)
    stranger = Ed25519PrivateKey.generate()
    for key in (stranger, there.keys["a"], there.keys["b"]):
        reply = there.sessions["a"].handle(question.sign(key, evidence))
        assert code_of(reply) == "OperationRefused:signature"
    body, signature, *_ = split_parts(question.sign(there.coordinator, evidence))
    other = Question(question.run, STUDY, "objective", with_values(question.payload, cap=1.0))
    swapped = join_parts([other.encode(), signature, *evidence])
    assert code_of(there.sessions["a"].handle(swapped)) == "OperationRefused:signature"
    assert code_of(there.sessions["a"].handle(join_parts([body]))) == "InvalidMessage"
    assert there.spent("a") == 0.0


def test_evidence_is_what_the_parties_signed(there):
    question, evidence = up_to(there, "objective", 1)
    spent = there.spent("a")
    sizes, first = evidence
    body, signature, *answers = split_parts(first)
    stranger = Ed25519PrivateKey.generate()

    def refused(*records):
        code = asked(there, question, records)
        assert isinstance(code, str), "answered"
        return code

    # Too few, other, doubled, missing, re-ordered and foreign evidence.
    assert refused() in ("OperationRefused:step", "OperationRefused:request")
    assert refused(sizes) == "OperationRefused:step"
    assert refused(first) == "OperationRefused:step" or refused(first).endswith("evidence")
    assert refused(sizes, first, first) == "OperationRefused:evidence"
    assert refused(sizes, join_parts([body, signature])) == "OperationRefused:evidence"
    one = join_parts([body, signature, answers[0]])
    assert refused(sizes, one) == "OperationRefused:evidence"  # below the quorum
    # Two of three are the quorum, but then the centre is another.
    two = join_parts([body, signature, *answers[:2]])
    assert refused(sizes, two) == "OperationRefused:request"
    twice = join_parts([body, signature, answers[0], answers[0], answers[1]])
    assert refused(sizes, twice) == "InvalidMessage"
    forged = SignedAnswer.open(answers[1], there.public)
    lie = Payload(forged.payload.values, {"weights": np.full(COLUMNS + 1, 2.0)})
    resigned = SignedAnswer.sign(lie, stranger).encode()
    assert refused(sizes, join_parts([body, signature, answers[0], resigned, answers[2]])) == (
        "OperationRefused:signature"
    )
    # Answers of the first step do not pass for those of another.
    _, _, *counted = split_parts(sizes)
    assert refused(sizes, join_parts([body, signature, *counted])) == "InvalidMessage"
    assert there.spent("a") == spent


def test_a_member_of_another_run_is_no_evidence(there, tmp_path):
    question, evidence = up_to(there, "objective", 1)
    (tmp_path / "other").mkdir()
    other = Organisations(tmp_path / "other", plan=PLAN)
    _, foreign = up_to(other, "objective", 1)
    assert asked(there, question, foreign) == "OperationRefused:signature"
    assert asked(there, question, [*evidence[:1], *foreign[1:]]) == "OperationRefused:signature"


def test_a_grant_ends(there):
    question, evidence = up_to(there, "objective", 0)
    past = datetime.now(UTC) - timedelta(seconds=1)
    there.sessions["a"] = there.session("a", approval={"expires": past})
    assert asked(there, question, evidence) == "OperationRefused:expired"
    assert there.spent("a") == 0.0


class TestTheEnd:
    """What is signed is what the answers give."""

    def finish(self, there, weights, evidence, **changes):
        payload = packed("files", {"weights": weights.tobytes()})
        facts = {"run": there.run, "study": STUDY, "operation": "finish", "payload": payload}
        content = Question(**(facts | changes)).sign(there.coordinator, evidence)
        return code_of(there.sessions["a"].handle(content))

    @pytest.fixture
    def ended(self, there):
        federation = there.federation()
        outcome = there.learn(federation)
        return outcome, list(federation._steps)

    def test_another_model_is_not_signed(self, there, ended):
        outcome, evidence = ended
        changed = outcome.weights + 1e-3
        own = there.sessions["a"]
        nobodys = packed("parties", {})
        assert self.finish(there, changed, evidence) == "InternalError"
        last = self.finish(there, changed, evidence, step=1, payload=nobodys)
        assert last == "OperationRefused:step"  # no signatures of what is not here
        assert (own.finished, own.state) == (False, "asked")
        assert isinstance(self.finish(there, outcome.weights, evidence), bytes)
        assert (own.finished, own.state) == (False, "released")
        wrong = Payload({"parties": ["b"]}, nobodys.arrays)
        assert self.finish(there, changed, evidence, step=1, payload=wrong) == "InvalidMessage"
        reply = self.finish(there, changed, evidence, step=1, payload=nobodys)
        assert isinstance(reply, bytes)
        assert (own.finished, own.state) == (True, "released")

    def test_before_the_end_nothing_is_signed(self, there, ended):
        outcome, evidence = ended
        assert self.finish(there, outcome.weights, evidence[:-1]) == "OperationRefused:step"
        assert self.finish(there, outcome.weights, []) == "OperationRefused:step"
        assert not there.sessions["a"].finished

    def test_whose_answer_is_missing_does_not_sign(self, there, ended):
        outcome, evidence = ended
        body, signature, *answers = split_parts(evidence[-1])
        own = next(
            k for k, c in enumerate(answers) if SignedAnswer.open(c, there.public).party == "a"
        )
        del answers[own]
        without = [*evidence[:-1], join_parts([body, signature, *answers])]
        assert self.finish(there, outcome.weights, without) == "OperationRefused:left-out"


@pytest.mark.parametrize(
    ("lost", "code"),
    [(("a.answers", "a.ledger"), "FederationError"), (("a.ledger",), LedgerTampered.__name__)],
)
def test_restored_files_are_noticed(there, tmp_path, monkeypatch, lost, code):
    """A party whose files are of yesterday does not draw noise again for what others hold."""
    question, evidence = up_to(there, "objective", 1)
    for file in (file for name in lost for file in tmp_path.glob(f"{name}*")):
        file.unlink()
    # The party's own witness is lost as well: what others hold still speaks.
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("CONFRERE_WITNESS", str(tmp_path / "elsewhere"))
    there.sessions["a"] = there.session("a")
    assert asked(there, question, evidence) == code
    assert there.spent("a") == 0.0


@pytest.mark.parametrize("plan", [PLAN, ROUNDS], ids=["average", "sums"])
def test_who_asks_for_ever_fills_no_disk(tmp_path, plan):
    """Whatever is asked again, changed, or after the end: files stay as long as they were.

    So a journal is as long as what an approval lets be asked, with the answers to it.
    """
    kind = Summers if plan is ROUNDS else Organisations
    there = kind(tmp_path, plan=plan)
    carrier = Loopback(there.sessions)
    federation = there.federation(carrier=carrier)
    outcome = there.learn(federation)
    federation.hand_out({"weights": outcome.weights.tobytes()})
    before = {file: file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()}
    rng = np.random.default_rng(0)
    for _ in range(20):
        for name, content in carrier.sent:
            there.sessions[name].handle(content)
            body, _, *evidence = split_parts(content)
            question = Question.decode(body)
            step, values = int(rng.integers(0, 10**6)), {"n": int(rng.integers(0, 10**6))}
            for changes in each(step=(step,), run=("again",), payload=(Payload(values),)):
                facts = {n: getattr(question, n) for n in ("run", "study", "operation", "payload")}
                changed = Question(
                    **(facts | {"step": question.step, "roster": question.roster} | changes)
                )
                there.sessions[name].handle(changed.sign(there.coordinator, evidence))
    for name in there.names:
        there.sessions[name] = there.session(name)  # nor does who starts again, over and over
        there.learn(there.federation(carrier=Loopback(there.sessions)))
    after = {file: file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()}
    assert after == before


class TestGrants:
    """An approval is the party's word; nobody else can say it."""

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (b'"epsilon_per_run": 1.0', b'"epsilon_per_run": 9.0'),
            (b'"epsilon": 0.5', b'"epsilon": 0.6'),
            (b'"attempts": 1', b'"attempts": 9'),
            (b'"replace-one"', b'"label-only"'),
            (b'"unit": "record"', b'"unit": "party"'),
            (b'"party": "a"', b'"party": "b"'),
            (b"5555", b"5556"),
            (b"a test", b"A test"),
            (b'"expires": "2', b'"expires": "3'),
        ],
        ids=str,
    )
    def test_a_changed_one_is_refused(self, there, old, new):
        content = there.approval("a").document(there.keys["a"])
        assert old in content
        with pytest.raises(SignatureError):
            SignedApproval.read(content.replace(old, new, 1), there.public["a"])

    def test_another_s_signature_is_refused(self, there):
        content = there.approval("a").document(there.keys["b"])
        with pytest.raises(SignatureError):
            SignedApproval.read(content, there.public["a"])

    @pytest.mark.parametrize(
        "changes",
        [
            *each(epsilon_per_run=(0.9, 0.0), attempts=(0, 101), unit=("person",), requests=((),)),
            *each(delta_per_run=(-0.1, 1.0), epsilon=(2.0,)),
            *each(relation=("any",), study_sha256=("abc",), expires=(datetime(2030, 1, 1),)),
            *each(reason=("", "two\nlines")),
        ],
        ids=str,
    )
    def test_one_that_contradicts_itself_is_refused_without_a_value(self, there, changes):
        facts = there.approval("a").model_dump(mode="python")
        with pytest.raises(ValueError, match="validation error") as caught:
            SignedApproval(**(facts | changes))
        assert "input_value" not in str(caught.value)

    @pytest.mark.parametrize(
        "content",
        [b"", b"{}", b"[]", b'{"approval": {}}', b'{"approval": 1, "signature": 2}', b"\xff"],
    )
    def test_what_is_no_grant_is_refused(self, there, content):
        with pytest.raises((ApprovalRefused, SignatureError)):
            SignedApproval.read(content, there.public["a"])

    def test_so_many_attempts_and_no_more(self, there):
        twice = {"attempts": 2}
        there.sessions = {name: there.session(name, approval=twice) for name in there.names}
        assert there.approval("a", **twice).epsilon == 2.0
        for attempt in (1, 2):
            federation = there.federation(run=run_name(STUDY, attempt), journal=f"j{attempt}")
            there.learn(federation)
        assert there.spent("a") == 2.0
        third = there.federation(run=run_name(STUDY, 3), journal="j3")
        answers = third._asked(Round(request_for(Size()), tuple(there.names)))
        assert answers["a"] == PartyError("OperationRefused:run")
        assert there.spent("a") == 2.0
