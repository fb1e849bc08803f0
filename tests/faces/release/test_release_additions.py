"""Quality that is measured later: signed, of one release and one charge, beside frozen bytes."""

import json
import shutil

import pytest

from confrere.errors import InvalidParameter, InvalidRelease, SignatureError, SimulatedRelease
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.ledger import Origin
from confrere.ledger import Ledger
from confrere.release import (
    add_evaluation,
    generate_key,
    load_release,
    quality_digest,
    read_additions,
    read_folder,
    verify_release,
)
from confrere.release.additions import ADDITION_NAMESPACE
from confrere.release.signing import sign_bytes

QUALITY = {
    "records": 500,
    "confidence": 0.95,
    "positive": "yes",
    "measures": [{"name": "accuracy", "value": 0.8, "low": 0.76, "high": 0.84}],
    "calibration": [
        {"from": 0.0, "to": 0.5, "records": 300.0, "value": 0.2, "low": 0.1, "high": 0.3}
    ],
}


@pytest.fixture
def books(tmp_path):
    own = Ledger(tmp_path / "branch.ledger")
    own.open_account("branch", epsilon=2.0)
    return own


@pytest.fixture
def folder(make_release, tmp_path):
    return make_release().save(tmp_path / "release")


@pytest.fixture
def key(tmp_path):
    generate_key(tmp_path / "branch.key", "branch")
    return tmp_path / "branch.key"


def paid(books, release, quality=QUALITY, model=None, **more):
    origin = Origin(model=model or release.model.digest())
    receipt = books.charge("branch", Guarantee(0.5), purpose="evaluate", origin=origin, **more)
    books.mark_released(receipt, digest=quality_digest(quality))
    return receipt


@pytest.fixture
def measured(folder, books, key):
    receipt = paid(books, load_release(folder))
    add_evaluation(folder, QUALITY, receipt, party="branch", key=key, measured_on="last year")
    return folder


def test_an_addition_is_its_partys_only_by_the_key_that_you_know(measured, key, tmp_path):
    whole = read_folder(measured)
    (one,) = read_additions(whole, {"branch": key.with_suffix(".key.pub")})
    assert one.known
    generate_key(tmp_path / "other", "x")
    with pytest.raises(SignatureError, match="another key"):
        read_additions(whole, {"branch": tmp_path / "other.pub"})


@pytest.mark.parametrize("change", [b"0.84", b"last year", b"branch"])
def test_a_changed_addition_is_refused(measured, change):
    (place,) = (measured / "additions").glob("*.json")
    content = place.read_bytes()
    assert change in content
    place.write_bytes(content.replace(change, change[::-1]))
    with pytest.raises(SignatureError, match="does not belong"):
        verify_release(measured)


def test_unsigned_strange_and_linked_files_are_refused(measured):
    (signature,) = (measured / "additions").glob("*.sig")
    kept = signature.read_bytes()
    signature.unlink()
    with pytest.raises(SignatureError, match="not signed"):
        verify_release(measured)
    signature.write_bytes(kept)
    (measured / "additions" / "notes.txt").write_text("hello")
    with pytest.raises(InvalidRelease, match="additions/"):
        load_release(measured)
    (measured / "additions" / "notes.txt").unlink()
    (measured / "additions" / "x.json").symlink_to("/etc/hostname")
    with pytest.raises(InvalidRelease, match="links"):
        load_release(measured)


def test_an_addition_of_another_release_is_refused(measured, make_release, tmp_path):
    other = make_release(kind="plr").save(tmp_path / "other")
    shutil.copytree(measured / "additions", other / "additions")
    with pytest.raises(InvalidRelease, match="about another release"):
        verify_release(other)


def test_a_signature_for_another_purpose_is_no_signature(measured, key):
    (place,) = (measured / "additions").glob("*.json")
    wrong = sign_bytes(place.read_bytes(), key, namespace="confrere-release")
    place.with_suffix(".sig").write_bytes(wrong)
    with pytest.raises(SignatureError, match=ADDITION_NAMESPACE):
        verify_release(measured)


@pytest.mark.parametrize("lie", ["better numbers", "another model", "another price"])
def test_a_signed_lie_is_found_by_the_ledger(folder, books, key, lie):
    better = json.loads(json.dumps(QUALITY))
    better["measures"][0]["value"] = 0.99
    release = load_release(folder)
    receipt = paid(books, release, model="0" * 64 if lie == "another model" else None)
    if lie == "another price":
        facts = receipt.to_dict()
        facts["guarantee"]["epsilon"] = 0.05
        receipt = type(receipt).from_dict(facts)
    told = better if lie == "better numbers" else QUALITY
    add_evaluation(folder, told, receipt, party="branch", key=key, measured_on="last year")
    verify_release(folder)
    with pytest.raises(InvalidRelease, match=r"another evaluation|another model|guarantee.epsilon"):
        verify_release(folder, ledgers=[books])


def test_what_is_wrong_is_refused_before_it_is_signed(folder, books, key):
    release = load_release(folder)
    seeded = paid(books, release, simulated=True)
    with pytest.raises(SimulatedRelease):
        add_evaluation(folder, QUALITY, seeded, party="b", key=key, measured_on="x")
    receipt = paid(books, release)
    with pytest.raises(InvalidParameter, match="party"):
        add_evaluation(folder, QUALITY, receipt, party="../b", key=key, measured_on="x")
    with pytest.raises(InvalidRelease, match="measured_on"):
        add_evaluation(folder, QUALITY, receipt, party="b", key=key, measured_on="anonymous rows")
    assert not (folder / "additions").exists()
    add_evaluation(folder, QUALITY, receipt, party="b", key=key, measured_on="x")
    with pytest.raises(InvalidParameter, match="exists already"):
        add_evaluation(folder, QUALITY, receipt, party="b", key=key, measured_on="x")
