"""Forged and changed releases: some with sums that fit, or made with this library; all refused.

A forger here has no party's key, but everything else: genuine releases, the library, patience to
redo every hash. What gives a forgery away is that every part follows from the others, and the
receipts from the ledger.
"""

import contextlib
import hashlib
import io
import json
import os
import shutil
import warnings
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from confrere.errors import InvalidRelease, ReleaseError, SignatureError
from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger, Receipt
from confrere.model import Facts, Linear, read_model
from confrere.model.model_json import model_document, npz_bytes
from confrere.model.strict_json import json_bytes
from confrere.release import (
    CardNotes,
    Release,
    generate_key,
    load_release,
    read_folder,
    sign_sums,
    verify_release,
)
from confrere.release import release as release_module
from confrere.release.signing import sign_bytes

STUDY = b'schema = 1\n[study]\nid = "diabetes"\n'
OLDER = b'schema = 1\n[study]\nid = "diabetes-pilot"\n'
PRICE = Guarantee(
    1.0,
    1e-6,
    theorem="docs/proofs/gaussian.md",
    public=("number of records", "label set"),
    assumptions=("each person is in at most one record",),
)


def model(*coef: float):
    return Linear(
        coef=np.array(coef),
        intercept=0.5,
        classes=("no", "yes"),
        features=("age", "bmi"),
        facts=Facts(n_samples=100, data_norm=2.0),
    )


@dataclass
class World:
    """Genuine releases, and what an honest partner knows."""

    place: Path
    ledger: Ledger
    public: Path
    new: Path
    old: Path
    receipts: dict[str, Receipt]

    @property
    def own(self):
        return load_release(self.new)


def charged(ledger, study, learned, **more: Any):
    named = None if study is None else ("diabetes", hashlib.sha256(study).hexdigest())
    receipt = ledger.charge("checkups", PRICE, purpose="diabetes", study=named, **more)
    if learned is not None:
        ledger.mark_released(receipt, digest=learned.digest())
    return receipt


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    place = tmp_path_factory.mktemp("makers")
    public = generate_key(place / "key", "main")
    ledger = Ledger(place / "checkups.ledger")
    ledger.open_account(
        "checkups", epsilon=20.0, delta=1e-3, unit="record", neighbours="replace-one"
    )
    folders, receipts = {}, {}
    for name, study, learned in (("old", OLDER, model(3.0, 1.0)), ("new", STUDY, model(1.0, -2.0))):
        receipts[name] = charged(ledger, study, learned)
        (place / f"{name}.toml").write_bytes(study)
        release = Release("plr", learned, PRICE, receipts[name])
        notes = CardNotes(title=name, study_sha256=hashlib.sha256(study).hexdigest())
        folders[name] = release.describe(notes, ledger=ledger).save(
            place / name, sign_with=place / "key", party="main", study=place / f"{name}.toml"
        )
    receipts["failed"] = charged(ledger, STUDY, None)
    ledger._store.mark(receipts["failed"], code="SolverError")
    receipts["open"] = charged(ledger, STUDY, None)
    receipts["nameless"] = charged(ledger, STUDY, None)
    ledger.mark_released(receipts["nameless"])
    receipts["seeded"] = charged(ledger, STUDY, model(1.0, -2.0), simulated=True)
    receipts["no study"] = charged(ledger, None, model(1.0, -2.0))
    return World(place, ledger, public, folders["new"], folders["old"], receipts)


@pytest.fixture
def received(world, tmp_path):
    return shutil.copytree(world.new, tmp_path / "received")


def verify(world, folder, *known: str):
    """Ask with what an honest partner has at hand."""
    verify_release(
        folder,
        require_signature_from={"main": world.public} if "key" in known else None,
        ledgers=[Ledger(world.ledger.path)] if "ledger" in known else [],
        study=STUDY if "study" in known else None,
        release_id=load_release(world.new).release_id if "id" in known else None,
    )


def test_the_genuine_release_is_verified(world, received):
    verify(world, received)
    verify(world, received, "key", "ledger", "study", "id")


def redo(folder):
    """Redo the card's digests and the sums; the signature has to go."""
    card = json.loads((folder / "card.json").read_bytes())
    card["files"] = {
        name: digest(folder, name)
        for name in ("model.json", "model.npz", "study.toml")
        if (folder / name).exists()
    }
    (folder / "card.json").write_bytes(json_bytes(card))
    redo_sums(folder)


def redo_sums(folder):
    names = sorted(p.name for p in folder.iterdir() if p.is_file() and p.name != "SHA256SUMS")
    lines = [f"{digest(folder, name)}  {name}\n" for name in names]
    (folder / "SHA256SUMS").write_text("".join(lines))
    shutil.rmtree(folder / "signatures", ignore_errors=True)


def digest(folder, name):
    return hashlib.sha256((folder / name).read_bytes()).hexdigest()


def in_file(name, change):
    def forge(_, folder):
        (folder / name).write_bytes(change((folder / name).read_bytes()))
        redo(folder)

    return forge


def in_card(*path: str | int, to):
    def forge(_, folder):
        card = json.loads((folder / "card.json").read_bytes())
        place = card
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to
        (folder / "card.json").write_bytes(json_bytes(card))
        redo_sums(folder)

    return forge


def in_model(**changes: Any):
    """Another model.json with test vectors that fit it, the rest left alone."""

    def forge(_, folder):
        found = json.loads((folder / "model.json").read_bytes())
        other = read_model({**found["model"], **changes})
        (folder / "model.json").write_bytes(model_document(other, found["kind"]))
        redo(folder)

    return forge


def everywhere(learned):
    """Another model in both files, under the same card."""

    def forge(_, folder):
        (folder / "model.json").write_bytes(model_document(learned, "plr"))
        (folder / "model.npz").write_bytes(npz_bytes(learned.arrays()))
        redo(folder)

    return forge


def from_old(*names: str, sums=True):
    def forge(world, folder):
        for name in names:
            shutil.copy(world.old / name, folder / name)
        if sums and "card.json" not in names:
            redo(folder)
        elif sums:
            redo_sums(folder)

    return forge


def archive(method=zipfile.ZIP_STORED, twice=False):
    """Pack the same members again, another way."""

    def change(content):
        with zipfile.ZipFile(io.BytesIO(content)) as given:
            members = {name: given.read(name) for name in given.namelist()}
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", method) as made, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, member in [*members.items(), *(list(members.items())[:1] * twice)]:
                made.writestr(zipfile.ZipInfo(name), member, compress_type=method)
        return packed.getvalue()

    return change


def saved(**arrays: Any):
    def change(_):
        packed = io.BytesIO()
        np.savez(packed, **arrays)
        return packed.getvalue()

    return change


COEF, INTERCEPT = np.array([[1.0, -2.0]]), np.array([0.5])


def in_json(old, new):
    """Another text in model.json."""
    return in_file("model.json", lambda c: c.replace(old, new, 1))


def in_npz(**changes):
    return {name.replace("_", " "): in_file("model.npz", one) for name, one in changes.items()}


EDITED = {
    "model.npz does not hold": {
        "weights with the other sign": in_model(coef=[-1.0, 2.0]),
        "one weight a little larger": in_model(coef=[1.0, -2.000001]),
        "another intercept": in_model(intercept=-0.5),
        "model.json of an older release": from_old("model.json"),
    },
    "another release": {
        "labels exchanged": in_model(classes=["yes", "no"]),
        "columns exchanged": in_model(features=["bmi", "age"]),
        "other facts": in_model(facts={"n_samples": 100_000, "data_norm": 2.0}),
        "the model of an older release": everywhere(model(3.0, 1.0)),
    },
    "about another model": {
        "another declared norm": in_model(facts={"n_samples": 100, "data_norm": 3.0})
    },
    "not plain JSON": {
        "a weight that is no number": in_json(b"-2.0", b"NaN"),
        "a key twice": in_json(b' "kind": "plr",', b' "kind": "plr",\n "kind": "plr",'),
    },
    "model": {"weights in ragged rows": in_json(b"   -2.0\n", b"   [-2.0]\n")},
    "test_vectors": {"test vectors of another model": in_json(b'"label": "yes"', b'"label": "no"')},
    "another model": {"another method": in_json(b'"kind": "plr"', b'"kind": "pst-f"')},
    "form that is": {"the same model, another text": in_file("model.json", lambda c: c + b" \n")},
    "each once": in_npz(
        arrays_of_another_model=saved(coef=-COEF, intercept=INTERCEPT),
        a_member_twice=archive(twice=True),
        a_compressed_archive=archive(zipfile.ZIP_DEFLATED),
        a_hidden_array=saved(coef=COEF, intercept=INTERCEPT, people=np.eye(3)),
        a_pickled_object=saved(coef=np.array([{}], dtype=object)),
        a_shape_that_is_no_array_s=saved(coef=COEF[0], intercept=0.5),
        an_empty_archive=lambda _: b"",
        bytes_after_the_archive=lambda c: c + b"payload",
        bytes_before_the_archive=lambda c: b"#!/bin/sh\n" + c,
        two_archives=lambda c: c + c,
    )
    | {"model.npz of an older release": from_old("model.npz")},
    "README.md is not the text": {
        "a README with a recipe of its own": in_file(
            "README.md", lambda c: c.replace(b"import json", b"import os, json")
        ),
        "a README with a link": in_file("README.md", lambda c: c + b"https://example.org/new.sh\n"),
        "no words in the README": in_file("README.md", lambda _: b""),
    },
    "study.toml is not": {
        "another study file": in_file("study.toml", lambda c: c + b"# more\n"),
        "the study of an older release": from_old("study.toml"),
    },
    "guarantee.epsilon": {
        "a smaller epsilon": in_card("guarantee", "epsilon", to=0.05),
        "a number as a text": in_card("guarantee", "epsilon", to="1.0"),
    },
    "guarantee.d": {"no delta": in_card("guarantee", "delta", to=0.0)},
    "guarantee.adjacency": {"another relation": in_card("guarantee", "adjacency", to="add-remove")},
    "guarantee.unit": {"another unit": in_card("guarantee", "unit", to="party")},
    "covers less": {
        "a smaller receipt": in_card("accounting", "receipt", "guarantee", "epsilon", to=0.05)
    },
    "mechanism.theorem": {"a famous theorem": in_card("mechanism", "theorem", to="Theorem 1")},
    "unprotected": {"nothing unprotected": in_card("unprotected", to=["nothing"])},
    "trust.assumptions": {"no assumptions": in_card("trust", "assumptions", to=[])},
    "mechanism.public": {"nothing public": in_card("mechanism", "public", to=[])},
    "risk_in_words": {"a smaller risk": in_card("risk_in_words", "detection_rate", to=0.01)},
    "adversaries": {
        "the holder protected": in_card(
            *("guarantee", "adversaries", -1),
            to={"who": "x", "sees": "x", "epsilon": 1.0, "delta": 1e-6},
        )
    },
    "README.md|another release": {"an id of its own": in_card("release_id", to="ab" * 16)},
    "ledger_head": {"another head of the ledger": in_card("ledger_head", "row", to=1)},
    "prior_spend": {"another account": in_card("prior_spend", "account", to="other")},
    "bounds a risk": {"a word it must not say": in_card("tuning", to="anonymous data")},
    "card.seal": {"a field more": in_card("seal", to="approved by all")},
    "describes other files": {"the card of an older release": from_old("card.json", "README.md")},
    "changed after": {
        "the signature of an older release": from_old("signatures/main.sig", sums=False),
        "the sums of an older release": from_old("SHA256SUMS", sums=False),
    },
}


@pytest.mark.parametrize(
    ("name", "reason"), [(name, reason) for reason, forged in EDITED.items() for name in forged]
)
def test_an_edited_release_is_refused(world, received, name, reason):
    EDITED[reason][name](world, received)
    with pytest.raises((InvalidRelease, SignatureError), match=reason):
        load_release(received)


def places(value, prefix=()):
    yield prefix
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from places(item, (*prefix, key))


SIMPLE = [None, True, 0, -1, 2**62, 1e308, 5e-324, 0.5, "", "text", "x" * 3000]
NESTED = [[], [[]], [1, "t"], {}, {"": {}}, [[1.0], [2.0, 3.0]], {"schema": {"features": [1]}}]
JUNK = st.sampled_from([*SIMPLE, *NESTED])


@pytest.mark.parametrize("name", ["model.json", "card.json"])
@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_is_written_there_the_answer_is_a_refusal(world, tmp_path_factory, name, data):
    """No raw error of a parser, a shape or a sum, and nothing that runs for ever."""
    folder = shutil.copytree(world.new, tmp_path_factory.mktemp("junk") / "received")
    document = json.loads((folder / name).read_bytes())
    *above, last = data.draw(st.sampled_from(list(places(document))[1:]))
    place = document
    for key in above:
        place = place[key]
    before = json_bytes(document)
    if data.draw(st.booleans()):
        place[last] = data.draw(JUNK)
    else:
        del place[last]
    (folder / name).write_bytes(json_bytes(document))
    (redo if name == "model.json" else redo_sums)(folder)
    # A card has words of its makers that may be others; a model has none.
    expected = contextlib.suppress(ReleaseError)
    if name == "model.json" and json_bytes(document) != before:
        expected = pytest.raises(ReleaseError)
    with expected:
        load_release(folder)


def test_a_price_for_billions_of_rows_is_refused_at_once(world, received):
    in_card("guarantee", "max_rows_per_unit", to=2**62)(world, received)
    with pytest.raises(InvalidRelease, match="nothing is promised"):
        load_release(received)


def made(world, folder, receipt, **changes: Any):
    """A release that is consistent with itself in every way, of a receipt as the forger likes."""
    parts: dict[str, Any] = {"kind": "plr", "model": model(1.0, -2.0)}
    notes = {"study_sha256": hashlib.sha256(STUDY).hexdigest(), **changes.pop("notes", {})}
    guarantee = PRICE if receipt is None else receipt.guarantee
    parts |= {"guarantee": guarantee, "receipt": receipt, **changes}
    return Release(**parts).describe(CardNotes(**notes)).save(folder / "forged")


def of_receipt(**changes: Any):
    def forge(world, folder):
        return made(world, folder, replace(world.receipts["new"], **changes))

    return forge


def of_price(**changes: Any):
    return of_receipt(guarantee=replace(PRICE, **changes))


def of_charge(name, **changes: Any):
    def forge(world, folder):
        return made(world, folder, world.receipts[name], **changes)

    return forge


def of_budget(**changes: Any):
    def forge(world, folder):
        card = world.own.card
        budget = {**card.prior_spend.model_dump(), **changes}
        other = card.changed(prior_spend=budget)
        return replace(world.own, _card=other).save(
            folder / "forged", study=world.place / "new.toml"
        )

    return forge


def of_party(**changes: Any):
    """One of two receipts of a release by several parties."""

    def forge(world, folder):
        other = replace(world.receipts["old"], **changes)
        parties = {"main": world.receipts["new"], "branch": other}
        return made(world, folder, None, parties=parties)

    return forge


MADE = {
    "epsilon .05 for a row of epsilon 1": (of_price(epsilon=0.05), "guarantee.epsilon"),
    "delta 0 for a row of delta 1e-6": (of_price(delta=0.0), "guarantee.delta"),
    "another relation": (of_price(neighbours="add-remove"), "guarantee.neighbours"),
    "parties for a row of records": (of_price(unit="party"), "guarantee.unit"),
    "another theorem": (of_price(theorem="docs/proofs/other.md"), "guarantee.theorem"),
    "fewer public facts": (of_price(public=()), "guarantee.public"),
    "fewer assumptions": (of_price(assumptions=()), "guarantee.assumptions"),
    "another purpose": (of_receipt(purpose="a test"), "purpose"),
    "another account": (of_receipt(account="nobody"), "account"),
    "another time": (of_receipt(time="2020-01-01T00:00:00+00:00"), "time"),
    "no study in the receipt": (of_receipt(study=None, study_sha256=None), "study, study_sha256"),
    "another study in the receipt": (
        of_receipt(study="other", study_sha256="ab" * 32),
        "study, study_sha256",
    ),
    "another hash": (of_receipt(hash="ab" * 32), "hash"),
    "a row that is not there": (of_receipt(row=999), "no charge in row 999"),
    "a row that is no charge": (of_receipt(row=1), "no charge in row 1"),
    "another ledger": (of_receipt(ledger_id="ab" * 16), "no charge of this release"),
    "no receipt at all": (lambda w, f: made(w, f, None), "no charge of this release"),
    "a charge of another model": (
        of_charge("old", notes={"study_sha256": hashlib.sha256(OLDER).hexdigest()}),
        "another model",
    ),
    "a charge that names no model": (of_charge("nameless"), "does not name what was released"),
    "a charge that failed": (of_charge("failed"), "failed"),
    "a charge that never ended": (of_charge("open"), "open"),
    "a second model for one charge": (of_charge("new", model=model(5.0, 5.0)), "another model"),
    "a study that was not paid for": (of_charge("no study"), "another study"),
    "another study than paid for": (
        of_charge("new", notes={"study_sha256": "cd" * 32}),
        "another study",
    ),
    "no study where one was paid for": (
        of_charge("new", notes={"study_sha256": None}),
        "another study",
    ),
    "less spent before": (of_budget(before=0.0), "prior_spend"),
    "a larger cap": (of_budget(cap=1000.0, left=998.0), "prior_spend"),
    "no cap": (of_budget(cap=None, left=None), "prior_spend"),
    "a party's receipt changed": (of_party(purpose="a test"), "purpose"),
    "a model that the parties did not make": (
        lambda w, f: made(w, f, None, model=model(9.0, 9.0), parties={"main": w.receipts["new"]}),
        "another model",
    ),
    "a party's receipt of another row": (of_party(row=999), "row 999"),
}


@pytest.mark.parametrize("name", MADE)
def test_a_release_that_the_ledger_does_not_know_is_refused(world, tmp_path, name):
    forge, reason = MADE[name]
    folder = forge(world, tmp_path)
    load_release(folder)  # consistent with itself
    with pytest.raises(InvalidRelease, match=reason):
        verify(world, folder, "ledger")


def test_a_seeded_receipt_does_not_become_a_real_one(world, tmp_path):
    seeded = world.receipts["seeded"]
    folder = made(world, tmp_path, replace(seeded, simulated=False))
    with pytest.raises(InvalidRelease, match="simulated"):
        verify(world, folder, "ledger")


@pytest.mark.parametrize(
    ("known", "reason"), [("study", "another study"), ("id", "a replay, or a mix-up")]
)
def test_an_old_release_sent_again_is_refused(world, known, reason):
    verify(world, world.old, "key", "ledger")
    with pytest.raises(InvalidRelease, match=reason):
        verify(world, world.old, "key", "ledger", known)


def unsigned(world, folder):
    shutil.rmtree(folder / "signatures")


def signed_by_another(world, folder):
    generate_key(folder.parent / "other")
    signature = sign_sums((folder / "SHA256SUMS").read_bytes(), folder.parent / "other")
    (folder / "signatures" / "main.sig").write_bytes(signature)


def signed_for_another_purpose(world, folder):
    sums = (folder / "SHA256SUMS").read_bytes()
    signature = sign_bytes(sums, world.place / "key", namespace="file")
    (folder / "signatures" / "main.sig").write_bytes(signature)


def signed_under_another_name(world, folder):
    (folder / "signatures" / "main.sig").rename(folder / "signatures" / "branch.sig")


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (unsigned, "main has not signed"),
        (signed_by_another, "do not trust"),
        (signed_for_another_purpose, "namespace"),
        (signed_under_another_name, "main has not signed"),
    ],
)
def test_a_release_without_its_makers_word_is_refused(world, received, forge, reason):
    forge(world, received)
    with pytest.raises(ReleaseError, match=reason):
        verify(world, received, "key")


def test_one_changed_byte_in_any_file_is_refused(world, received):
    files = sorted(path for path in received.rglob("*") if path.is_file())
    assert len(files) == 7
    tried = 0
    for path in files:
        whole = path.read_bytes()
        step = max(1, len(whole) // 60)
        for position in [*range(0, len(whole), step), len(whole) - 1]:
            for flip in (0x01, 0x20):
                changed = bytearray(whole)
                changed[position] ^= flip
                path.write_bytes(changed)
                with pytest.raises((InvalidRelease, SignatureError)):
                    load_release(received)
                tried += 1
        for other in (whole[:-1], whole + b"\n", b""):
            path.write_bytes(other)
            with pytest.raises((InvalidRelease, SignatureError)):
                load_release(received)
        path.write_bytes(whole)
    assert tried > 600
    assert load_release(received, require_signature_from={"main": world.public})


@pytest.mark.parametrize("redone", [False, True])
@pytest.mark.parametrize(
    "name", ["README.md", "SHA256SUMS", "card.json", "model.json", "model.npz"]
)
def test_a_missing_file_is_refused_though_the_sums_miss_it_too(received, name, redone):
    if redone and name != "SHA256SUMS":
        (received / name).unlink()
        redo_sums(received)
    (received / name).unlink(missing_ok=True)
    with pytest.raises(InvalidRelease, match="missing"):
        load_release(received)


def put(*names):
    return [lambda folder, name=name: (folder / name).write_text("import os") for name in names]


def linked(name):
    def forge(folder):
        aside = folder.parent / Path(name).name
        (folder / name).rename(aside)
        (folder / name).symlink_to(aside)

    return forge


def grown(name):
    return lambda folder: (folder / name).write_bytes(
        (folder / name).read_bytes() + b"\n" * (1 << 20)
    )


def in_sums(change):
    def forge(folder):
        (folder.parent / "outside.txt").write_text("text")
        shutil.rmtree(folder / "signatures")
        (folder / "SHA256SUMS").write_text(change((folder / "SHA256SUMS").read_text()))

    return forge


def listed(line):
    """Another line among the sums, which are in order."""
    line = line.format(digest=hashlib.sha256(b"text").hexdigest())
    return in_sums(lambda sums: "\n".join(sorted([*sums.splitlines(), line])) + "\n")


UNLISTED = put("run.py", ".hidden", "model.pkl", "MODEL.NPZ", "card.json~")
ELSEWHERE = ["{digest}  ../outside.txt", "{digest}  /etc/hostname", "{digest}  sub/file", ""]
ELSEWHERE += ["{digest}  a..b", "{digest} *README.md", "\\{digest}  READ\\nME.md"]
ELSEWHERE += ["{digest}  README.md ", "README.md"]
#: What is wrong with a folder, even where the bytes are those of the release.
FOLDERS = {
    "remove them": UNLISTED,
    "remove them|plain file names": [lambda f, act=act: (act(f), redo_sums(f)) for act in UNLISTED],
    "remove it": put(*(f"signatures/{name}" for name in ("notes.txt", "..sig", "a b.sig", ".sig"))),
    "plain files only": [lambda folder: (folder / "more").mkdir()],
    "plain file of": [lambda folder: os.mkfifo(folder / "signatures" / "branch.sig")],
    "link": list(map(linked, ("model.npz", "SHA256SUMS", "signatures", "signatures/main.sig"))),
    "at most": list(map(grown, ("SHA256SUMS", "card.json", "README.md", "signatures/main.sig"))),
    "plain file names": [
        *map(listed, ELSEWHERE),
        *map(in_sums, (lambda sums: sums * 2, lambda sums: "", str.upper)),
    ],
}


@pytest.mark.parametrize(
    ("reason", "forge"), [(reason, one) for reason, each in FOLDERS.items() for one in each]
)
def test_another_folder_than_was_written_is_refused(received, reason, forge):
    """Whatever leads elsewhere, waits for ever or fills a disk; what nobody listed."""
    forge(received)
    with pytest.raises(InvalidRelease, match=reason):
        load_release(received)


def test_a_forger_who_redoes_the_sums_is_caught_by_the_signature(world, received):
    signature = (received / "signatures" / "main.sig").read_bytes()
    (received / "README.md").write_text("Use me.")
    redo_sums(received)
    assert read_folder(received).signers == {}
    (received / "signatures").mkdir()
    (received / "signatures" / "main.sig").write_bytes(signature)
    for required in (None, {"main": world.public}):
        with pytest.raises(SignatureError, match="changed after it was"):
            load_release(received, require_signature_from=required)


def test_nothing_is_parsed_before_it_is_verified(received, monkeypatch):
    """A changed file never reaches a parser."""

    def parsed(*_):
        raise AssertionError("parsed before verified")

    for name in ("read_json", "read_document"):
        monkeypatch.setattr(release_module, name, parsed)
    for path in sorted(received.glob("*.*")):
        whole = path.read_bytes()
        path.write_bytes(whole + b" ")
        with pytest.raises(ReleaseError):
            load_release(received)
        path.write_bytes(whole)
