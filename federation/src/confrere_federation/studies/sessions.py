"""A study between machines: what a party approves, the two sides of its run, and what it signs.

Both sides take everything from their own copy of the study: its hash names the run, its protocol
says which question follows, its keys say who may answer. What may carry the messages is in
:mod:`~confrere_federation.parties.federation`. A party signs what it can compute itself from what
everybody signed, and a card that says what the study says: a signature is under every word.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.errors import ConfrereError, GrantRefused, OperationRefused, StudyError
from confrere.files import write_new
from confrere.kernel.guarantee import exact
from confrere.ledger import ChargeApproval, Decision, Ledger, LedgerReader, Receipt
from confrere.model import Encoder
from confrere.release import Card, Release, read_private_key, sign_sums, verify_signature
from confrere.release.folder import SIGNATURES, SUMS, add_file, read_folder, sums_of, write_folder
from confrere.release.signing import PrivateKey, PublicKey, public_line, read_public_key
from confrere_federation.engines.carrier import Carrier
from confrere_federation.parties.answers import Answers, Journal
from confrere_federation.parties.federation import PartySession, RunSteps, SignedFederation
from confrere_federation.parties.messages import PartyError, terms
from confrere_federation.parties.party import Grant, LocalParty, run_name
from confrere_federation.studies.running import (
    Given,
    Learned,
    Made,
    approval_of,
    auxiliary_rows,
    budget_of,
    check_data,
    described,
    local_party,
    made_of,
    make_plan,
    price_of,
    protocol_of,
    read_rows,
    reader_for,
    requests_of,
    save_made,
    trusted_by,
)
from confrere_federation.studies.study_file import (
    Local,
    Study,
    check_peers,
    standing_refusal,
    trust_of,
)

#: Relative agreement of a released model with the one that a party computes from the answers.
AGREEMENT = 1e-6

#: What a card says of the moment and the machine that made it; the rest follows from the study.
_OF_THE_MOMENT = ("release_id", "created", "implementation", "files")
_VERSION = re.compile(r"[A-Za-z0-9.+_-]{1,40}")


def accept_releases(
    study: Study,
    files: Mapping[str, bytes],
    found: tuple[Learned, ...] | None,
    out: Path,
    key: PrivateKey,
    local: LocalParty,
) -> bytes:
    """Compare releases with what the signed answers give here, keep them and sign one's own."""
    releases: dict[str, dict[str, bytes]] = {}
    for path, content in files.items():
        name, _, file = path.partition("/")
        releases.setdefault(name, {})[file] = content
    wanted = [study.id] if found is None else [learned.name for learned in found]
    if sorted(releases) != sorted(wanted):
        raise _unlike()
    signatures: dict[str, str] = {}
    for name, inside in releases.items():
        with tempfile.TemporaryDirectory() as aside:
            place = write_folder(Path(aside) / "release", inside, {})
            release = reader_for(study)(place)
        own = next((one for one in found or () if one.name == name), None)
        _compare_release(study, release, own, local)
        paid = _paid_by(release, local.name) if own is None else own.receipts.get(local.name, ())
        for receipt in paid:
            local.books.ledger.note_model(receipt, digest=release.model.digest())
        signature = sign_sums(sums_of(inside), key) if paid else None
        if signature is not None:
            signatures[name] = signature.decode()
        target = out / name
        if not target.exists():
            write_folder(target, inside, {} if signature is None else {local.name: signature})
        elif (target / SUMS).read_bytes() != sums_of(inside):
            raise OperationRefused("another release lies where this one should go.", "release")
    return json.dumps(signatures).encode()


def keep_signatures(study: Study, name: str, reply: bytes, folders: Mapping[str, Path]) -> bool:
    """Put a party's signatures with releases; False if one is lacking, or is not its own."""
    key = next((str(party.key) for party in study.payers if party.name == name), None)
    try:
        signatures = json.loads(reply)
        for release, folder in folders.items():
            signature = signatures[release].encode()
            verify_signature(signature, (folder / SUMS).read_bytes(), [key] if key else [])
            place = folder / SIGNATURES / f"{name}.sig"
            if not place.exists():
                add_file(place, signature)
    except (ConfrereError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False
    return True


def share_signatures(study: Study, replies: Mapping[str, bytes], out: Path) -> None:
    """Keep what the others signed of the releases that are here."""
    for name, reply in replies.items():
        for folder in [one for one in out.iterdir() if (one / SUMS).is_file()]:
            keep_signatures(study, name, reply, {folder.name: folder})


def _compare_release(
    study: Study, release: Release, learned: Learned | None, local: LocalParty
) -> None:
    """Refuse a release that is not what everybody signed, or does not say what the study says.

    Where the coordinator adds the noise nobody can recompute it: its price, its meaning, its card
    and the party's own receipt are all that is compared.
    """
    if learned is None:
        rows = {entry.hash for entry in local.books.ledger.entries()}
        paid = [one.hash for one in _paid_by(release, local.name)]
        price = price_of(study)
        same = (
            release.kind == "multiparty"
            and bool(paid)
            and rows.issuperset(paid)
            and terms(release.guarantee) == terms(price)
            and release.model.classes == tuple(study.classes)
            and release.model.features == study.columns
        )
        close = True
    else:
        own_release = learned.release
        told = ("kind", "simulated", "guarantee", "receipt", "parties")
        same = all(getattr(release, name) == getattr(own_release, name) for name in told)
        given, here = released_numbers_of(release), released_numbers_of(own_release)
        length = float(np.linalg.norm(here))
        close = given.shape == here.shape and bool(
            np.linalg.norm(given - here) <= AGREEMENT * length
        )
        said = replace(own_release.model, encoder=release.model.encoder).to_dict()
        close = close and _alike(release.model.to_dict(), said, AGREEMENT * length)
    encoder = release.model.encoder
    own = Encoder.of(study.encoder()) if learned is None else learned.model.encoder
    meaning = (
        encoder is not None
        and own is not None
        and encoder.schema == own.schema
        and encoder.labels == own.labels
        and encoder.same_encoding(own)
    )
    if not (same and close and meaning):
        raise _unlike()
    described_by = learned or Learned(
        study.id,
        release.kind,
        release.model,
        release.guarantee,
        {name: _paid_by(release, name) for name in release.parties},
        seeded=release.simulated,
    )
    if not _same_words(release.card, described(study, described_by).card):
        raise _unlike()


def _same_words(card: Card, own: Card) -> bool:
    """Whether a card says what the party's own would: whom it protects, the price, what for.

    How many rows a unit has decides about the price, and is nobody's word but the study's.
    """
    given, here = card.to_dict(), own.to_dict()
    made, mine = given["implementation"], here["implementation"]
    known = made.keys() == mine.keys() and all(map(_VERSION.fullmatch, made.values()))
    rest = [name for name in here if name not in _OF_THE_MOMENT]
    return known and all(_alike(given[name], here[name], 0.0) for name in rest)


def _alike(one: Any, other: Any, near: float) -> bool:
    """Whether two documents say the same, numbers but for their last bits."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_alike(one[k], other[k], near) for k in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other, [near] * len(one)))
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= max(near, AGREEMENT * max(abs(one), abs(other)))
    return type(one) is type(other) and bool(one == other)


def _paid_by(release: Release, party: str) -> tuple[Receipt, ...]:
    found = release.parties.get(party, ())
    several = found if isinstance(found, tuple) else (found,)
    return tuple(one for one in several if isinstance(one, Receipt))


def _unlike() -> OperationRefused:
    return OperationRefused(
        "the release is not what the parties' answers give; it is not signed.", "release"
    )


def released_numbers_of(release: Release) -> NDArray[np.float64]:
    """Return all numbers of a release's model, one after the other."""
    arrays = release.model.arrays()
    return np.concatenate([np.ravel(arrays[name]) for name in sorted(arrays)])


_JOURNAL, _RELEASES = "journal", "releases"


def make_grant(
    study: Study,  # The party's own copy
    local: Local,  # Its local file, whose policy must allow it
    *,
    # ``approved_by``, ``reason``: who agrees, and why.
    approved_by: str,
    reason: str,
    justification: str | None = None,  # Why this epsilon
    # How many runs may be paid for: a second one only if the first cannot be finished.
    attempts: int = 1,
    days: float = 30.0,  # How long the grant is good for
    now: datetime | None = None,  # When it is approved
) -> Grant:
    """Return what a party would agree to: every question of the study, at its price.

    Raises OperationRefused if the party's policy does not allow the study. Raises BudgetExceeded if
    a limit does not cover one run.
    """
    _check_engine(study)
    party = study.party(local.party)
    if local.policy is None:
        raise StudyError(f"policy: {party.name} needs a local file that says what it allows.")
    local.policy.check(study, party.name)
    check_peers(study, local)
    price = price_of(study)
    given = Given(auxiliary=auxiliary_rows(study, None, {party.name: local}))
    requests = requests_of(study, given)[party.name]
    if not requests:
        raise StudyError(f"{party.name} is asked nothing: it uses the others' release as it is.")
    began = now or datetime.now(UTC)
    return Grant(
        party=party.name,
        account=budget_of(party, local, price).account,
        study_id=study.id,
        study_sha256=study.sha256,
        requests=requests,
        unit=study.promise.protects,
        relation=study.promise.relation,
        trust=str(trust_of(study)),
        epsilon_per_run=price.epsilon,
        delta_per_run=price.delta,
        epsilon=float(attempts * exact(price.epsilon)),
        delta=float(attempts * exact(price.delta)),
        attempts=attempts,
        expires=began + timedelta(days=days),
        approved_by=approved_by,
        reason=reason,
        approved_at=began,
        justification=justification,
    )


def party_session(
    study: Study,  # The party's own copy
    local: Local,
    *,
    grant: Path,  # What ``confrere approve`` wrote and the party's key signed
    out: Path,  # Where the release goes once it is checked
    # The party's, opened already if its file has a passphrase; by default ``local.key_path``.
    key: PrivateKey | None = None,
) -> PartySession[tuple[Learned, ...]]:
    """Return what answers for a party: its rows read, its account open, its grant checked.

    Raises GrantRefused, SignatureError if the grant is of another study, another version of this
    library, or signed by another.
    """
    _check_engine(study)
    party = study.party(local.party)
    if local.coordinator is None:
        raise StudyError(
            "coordinator: the local file must name the key whose questions are answered."
        )
    if local.policy is None:
        raise StudyError(f"policy: {party.name} needs a local file that says what it allows.")
    if key is None and local.key_path is None:
        raise StudyError("key_path: between machines a party signs what it sends; name its key.")
    local.policy.check(study, party.name)
    opened = read_private_key(key if key is not None else str(local.key_path))
    agreed = Grant.load(grant, opened.public_key())
    _compare(agreed, study, local)
    if local.ledger_path.is_file():
        LedgerReader.look(local.ledger_path).check_agreed(study.sha256, agreed.approval)
    given = Given(auxiliary=auxiliary_rows(study, None, {party.name: local}))
    rows, price = read_rows(study, local.table()), price_of(study)
    answering = local_party(study, price, local, rows, agreed.policy, agreed.expires)
    return PartySession(
        answering,
        agreed,
        protocol=protocol_of(study, given),
        parties=_keys(study),
        coordinator=local.coordinator,
        key=opened,
        accept=lambda files, found: accept_releases(study, files, found, out, opened, answering),
        share=lambda replies: share_signatures(study, replies, out),
    )


@dataclass(frozen=True)
class Finished:
    """How a run ended at the coordinator."""

    made: tuple[Made, ...]  #: The releases
    folders: Mapping[str, Path]  #: Where each of them lies, with the signatures of those who signed
    left_out: Mapping[str, str]  #: Parties whose answers were not used, and why
    unsigned: Mapping[str, str]  #: Parties that did not sign what they paid for, and why


class CoordinatorSession:
    """The whole of a study at the coordinator; started again on the same folder it goes on."""

    def __init__(
        self,
        study: Study,
        *,
        key: PrivateKey,  # The coordinator's: parties pin its public half
        folder: Path,  # Its files: the journal. A folder serves one run
        carrier: Carrier,  # How parties are reached
        out: Path,  # Where the releases go
        auxiliary: Path | None = None,  # Public rows that parties vote on, where the study does
        attempt: int = 1,  # Which run of the study: parties have agreed to so many and no more
        timeout: float | None = None,  # Seconds to wait for a round
        steps: RunSteps | None = None,  # Is told who was asked what, and how that ended
    ) -> None:
        _check_engine(study)
        self._study = study
        self._out = out
        self._timeout = timeout
        self._given = Given(
            auxiliary=auxiliary_rows(study, auxiliary, {}),
            # A coordinator that adds the noise draws it once and keeps it.
            kept=Answers(folder / _RELEASES)
            if study.method.shape == "votes" and study.trust == "coordinator"
            else None,
        )
        run = run_name(study.sha256, attempt)
        self._federation = SignedFederation(
            run=run,
            study=study.sha256,
            key=key,
            parties=_keys(study),
            carrier=carrier,
            journal=Journal(folder / _JOURNAL, run),
            simulated=study.simulated,
            steps=steps,
        )

    @property
    def left_out(self) -> Mapping[str, str]:
        """Parties whose answers were not used so far, and why."""
        return dict(self._federation.left_out)

    def run(self) -> Finished:
        """Ask, validate, keep, release, and have the release signed; or go on doing so."""
        study, given = self._study, self._given
        steps = protocol_of(study, given)(self._federation.parties())
        found = self._federation.run_protocol(
            steps, timeout=self._timeout, trusted=trusted_by(study, given)
        )
        taken = {name for learned in found for name in learned.receipts}
        left_out = {n: c for n, c in self._federation.left_out.items() if n not in taken}
        made = tuple(made_of(self._study, learned) for learned in found)
        folders = {one.name: self._saved(one) for one in made}
        return Finished(made, folders, left_out, self._hand_out(made, folders))

    def _hand_out(self, made: Sequence[Made], folders: Mapping[str, Path]) -> dict[str, str]:
        """Give everyone all releases; keep who signed, and return who did not, and why."""
        files = {name: read_folder(folder).files for name, folder in folders.items()}
        whole = {f"{n}/{f}": c for n, inside in files.items() for f, c in inside.items()}
        signing = {
            name: [one.name for one in made if name in one.receipts] for name in _keys(self._study)
        }
        # Who has signed has ended: nobody waits for them when this is started again.
        lacking = [
            name
            for name, theirs in signing.items()
            if not theirs or any(not _signature(folders[n], name).exists() for n in theirs)
        ]
        unsigned: dict[str, str] = {}
        known = {
            name: json.dumps({n: _signature(folders[n], name).read_text() for n in theirs}).encode()
            for name, theirs in signing.items()
            if name not in lacking
        }
        handed = self._federation.hand_out(whole, to=lacking, timeout=self._timeout, known=known)
        for name, reply in handed.items():
            own = {n: folders[n] for n in signing[name]}
            if isinstance(reply, PartyError):
                unsigned[name] = reply.code
            elif not keep_signatures(self._study, name, reply, own):
                unsigned[name] = "InvalidReply:signature"
        return unsigned

    def _saved(self, made: Made) -> Path:
        """Write the release, unless an earlier start of this run did."""
        place = self._out / made.name
        if not place.exists():
            return save_made(self._study, made, self._out, {})
        kept = reader_for(self._study)(place)
        if not np.array_equal(released_numbers_of(kept), released_numbers_of(made.release)):
            raise StudyError(f"out: {place.name} holds another release; give another folder.")
        return place.resolve()


def _signature(folder: Path, party: str) -> Path:
    return folder / SIGNATURES / f"{party}.sig"


def _check_engine(study: Study) -> None:
    if study.engine == "local":
        raise StudyError("federation.engine: 'local' runs in one process: use confrere fit.")
    lacking = [party.name for party in study.payers if party.key is None]
    if lacking:
        raise StudyError(
            f"party.key: {lacking[0]} has none; between machines everyone signs: give the line of "
            "its .pub file, made by confrere keys new."
        )


def _keys(study: Study) -> dict[str, str]:
    return {party.name: str(party.key) for party in study.payers}


def _compare(grant: Grant, study: Study, local: Local) -> None:
    """Refuse a grant that this study, or this version of the library, would not give again."""
    again = make_grant(
        study,
        local,
        approved_by=grant.approved_by,
        reason=grant.reason,
        justification=grant.justification,
        attempts=grant.attempts,
        now=grant.approved_at,
    )
    if grant.study_sha256 != study.sha256:
        raise GrantRefused("grant: it is for other bytes than this study's; approve it again.")
    # Which of its accounts pays is the party's own affair: another study may have opened one since.
    same = {"expires": grant.expires, "account": grant.account}
    if again.model_copy(update=same) != grant:
        raise GrantRefused(
            "grant: it does not say what this study asks for and costs now; approve it again."
        )


#: How the name of a grant ends that was taken back.
_WITHDRAWN = "-withdrawn"


def approve_study(
    study: Study,  # The party's own copy
    local: Local,  # Its local file, whose policy must allow it
    *,
    key: PrivateKey,  # The party's
    grant: Path,  # The file to write; one for the same study is not replaced
    # ``name``, ``reason``: who agrees, and why.
    name: str,
    reason: str,
    justification: str | None = None,  # Why this epsilon; by default what the study says
    # ``attempts``, ``days``: as for :func:`make_grant`.
    attempts: int = 1,
    days: float = 30.0,
) -> Grant:
    """Write what a party agrees to, signed by its key; an earlier study's grant is put aside."""
    why = justification or study.promise.justification
    said = approval_of(name=name, reason=reason, justification=why)
    opened = read_private_key(key)
    own = study.party(local.party).key
    # A key in a study may have a comment.
    if own is not None and public_line(opened.public_key()) != public_line(read_public_key(own)):
        raise StudyError(f"key_path: it is not the key that the study names for {local.party}.")
    make_plan(study, {local.party: local}).check()
    check_data(local)
    agreed = make_grant(
        study,
        local,
        approved_by=said.name,
        reason=said.reason,
        justification=said.justification,
        attempts=attempts,
        days=days,
    )
    _put_aside(grant, opened.public_key(), study)
    lift_refusal(study, local, agreed.approval)
    _write_grant(grant, agreed.document(opened, study.content))
    return agreed


def refuse_study(
    study: Study,
    local: Local,
    *,
    # ``name``, ``reason``: who refuses, and why.
    name: str,
    reason: str,
    # Where a grant may lie; others of this study beside it are put aside too.
    grant: Path | None = None,
) -> Decision:
    """Say no to a study in the party's ledger, and put aside what was granted for it.

    From then on nothing is charged and nothing answered for it: not by who holds an earlier grant,
    nor by a party that is running. :func:`approve_study` lifts it. The decision is "withdrawn" if
    the study had been granted or charged before.
    """
    party = study.party(local.party)
    said = approval_of(name=name, reason=reason)
    ledger = Ledger(local.ledger_path)
    granted = []
    if grant is not None and party.key is not None:
        places = dict.fromkeys([grant, *sorted(grant.parent.glob("grant*.json"))])
        found = {place: _granted(place, party.key) for place in places}
        granted = [p for p, g in found.items() if g and g.study_sha256 == study.sha256]
    charged = any(sha256 == study.sha256 for _, _, sha256 in ledger.by_study())
    # The row first: it is what stops, whatever becomes of the files.
    ledger.refuse(
        (study.id, study.sha256),
        name=said.name,
        reason=said.reason,
        withdrawn=bool(granted) or charged,
    )
    standing = ledger.refusal(study.sha256)
    assert standing is not None
    for place in granted:
        if not place.stem.endswith(_WITHDRAWN):
            place.rename(place.with_name(f"{place.stem}-{standing.row}{_WITHDRAWN}.json"))
    return standing


def lift_refusal(study: Study, local: Local, approval: ChargeApproval) -> None:
    """Say yes again in the party's ledger, where a no stands."""
    if standing_refusal(study, local) is not None:
        Ledger(local.ledger_path).agree_again((study.id, study.sha256), approval)


def _granted(path: Path, key: PublicKey) -> Grant | None:
    try:
        return Grant.load(path, key)
    except ConfrereError:
        return None


@dataclass(frozen=True)
class Earlier:
    """What a party agreed to before."""

    grant: Grant
    study: bytes | None  #: The study's own text, if the file has it as it was agreed to


def earlier_grants(folder: Path, key: PublicKey) -> Iterator[Earlier]:
    """Yield every grant in a folder that the key signed, the last one first."""
    found = []
    for path in folder.glob("grant*.json"):
        try:
            content = path.read_bytes()
            agreed = Grant.read(content, key)
            text = json.loads(content).get("study")
        except (OSError, ValueError, ConfrereError):
            continue
        known = text.encode("utf-8", "replace") if isinstance(text, str) else None
        if known is not None and hashlib.sha256(known).hexdigest() != agreed.study_sha256:
            known = None  # the signature is over the grant, which names the text by its hash
        found.append(Earlier(agreed, known))
    yield from sorted(found, key=lambda one: one.grant.approved_at, reverse=True)


def changed_facts(before: bytes, after: bytes) -> list[tuple[str, Any, Any]]:
    """Return every key in which two study files differ, with both values; None where it is not."""
    old, new = (dict(_flat(tomllib.loads(text.decode()))) for text in (before, after))
    keys = [*new, *(key for key in old if key not in new)]
    return [(key, old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)]


def _flat(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inside in value.items():
            yield from _flat(inside, f"{place}.{key}" if place else key)
    elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        for number, inside in enumerate(value):
            yield from _flat(inside, f"{place}.{inside.get('name', number)}")
    else:
        yield place, value


def _put_aside(path: Path, key: PublicKey, study: Study) -> None:
    """Keep what was agreed to before under another name; refuse if it is the same study's."""
    if not path.exists():
        return
    before = Grant.load(path, key)
    if before.study_sha256 == study.sha256 and before.expires > datetime.now(UTC):
        raise StudyError(f"grant: {path.name} is there already; give another file with --grant.")
    when = before.approved_at.astimezone(UTC).strftime("%Y%m%dT%H%M%S")
    aside = path.with_name(f"{path.stem}-{when}-{before.study_sha256[:8]}.json")
    path.rename(aside)


def _write_grant(path: Path, content: bytes) -> None:
    """Make a file unless it is there: of two who approve, one does."""
    try:
        write_new(path, content, mode=0o644)
    except FileExistsError:
        raise StudyError(f"grant: {path.name} is there already; nothing was written.") from None
    except OSError as error:
        raise StudyError(f"grant: {path.name} cannot be written ({error.strerror}).") from None
