"""A release: noised arrays and public facts with their card; saved as a folder, and verified.

The folder needs nothing of ours to be checked and used. It is verified whole, then parsed, then
every part is made again from the others. A folder whose sums are right can still be forged, by
whoever can redo them. So nothing in it is believed because it is written there: the README is every
release's, arrays follow from the model, the card's price from its receipts, and the receipts from
the ledger, if it is at hand.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from scipy.linalg import block_diag
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.schema import PublicSchema
from confrere.errors import (
    InvalidParameter,
    InvalidRelease,
    LedgerError,
    SimulatedRelease,
    UncappedRelease,
)
from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Entry, Ledger, Receipt
from confrere.methods.geometry import curvature_of, expected_of, factors_of
from confrere.model import Linear, Model
from confrere.model.model_json import check_npz, model_document, npz_bytes, read_document
from confrere.model.onnx_graph import onnx_bytes
from confrere.model.strict_json import canonical_bytes, json_bytes, read_json
from confrere.model.summary import Scorecard, Summary, scorecard, summarised, titles_of
from confrere.release.additions import SignedAddition, check_addition, read_additions
from confrere.release.card import Card, CardNotes, Quality, build_card, prior_spend, processing
from confrere.release.folder import (
    REHEARSAL,
    SIGNATURES,
    VerifiedFolder,
    add_file,
    check_party,
    read_folder,
    sha256,
    sums_of,
    write_folder,
)
from confrere.release.signing import NAMESPACE, PrivateKey, PublicKey, sign_sums
from confrere.release.spending import Paid, Spending, receipts_for_facts, schema_of
from confrere.views import Pairs, Panel, Shown, Word, cost, share, shown, shown_down

_KIND = re.compile(r"[a-z][a-z0-9_-]{0,63}")


@dataclass(frozen=True, eq=False)
class Release(Shown):
    """What leaves an organisation."""

    kind: str  #: The method that made it, by its name in the catalogue: "plr", "pst-f", ..
    model: Model  #: What was learned: noised numbers and public facts only
    guarantee: Guarantee  #: What the mechanism proves
    receipt: Receipt | None  #: What the ledger recorded; without one the card says "unrecorded"
    #: Where several organisations' data are in it (an average, a transfer): what each one paid;
    #: several receipts together where it answered several times.
    parties: Mapping[str, Paid] = field(default_factory=dict)
    quality: Quality | None = None  #: What was asked of the same records, with the fit
    _card: Card | None = field(default=None, repr=False)

    #: Whether noise was seeded: then it is a :class:`Simulated`.
    simulated: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or not _KIND.fullmatch(self.kind):
            raise InvalidParameter("kind must be lower-case letters, digits, '_' or '-'.")
        if not isinstance(self.model, Model):
            raise InvalidParameter("model must be a confrere.model.Linear or Stack.")
        self.model.require_plain()
        object.__setattr__(self, "parties", self.spending.parties)
        self._check_facts()
        if self.spending.simulated and not self.simulated:
            raise InvalidParameter("a receipt says that noise was seeded: make it a Simulated.")
        if self._card is not None and self._card.release_id != self.release_id:
            raise InvalidRelease("the card belongs to another release; build one for this.")

    def _check_facts(self) -> None:
        """Refuse a model whose schema was paid for, without the receipts for that."""
        facts = receipts_for_facts(schema_of(self.model.encoder))
        if any(one not in self.spending.receipts() for one in facts):
            raise InvalidParameter(
                "parties: facts of the schema were paid for, and count in the total; give their "
                "receipts: confrere.release.spending.with_facts."
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> Release:
        """Return itself: nothing in it changes, and an estimator's clone keeps its source."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Let workers of the same organisation have it; what leaves is never pickled."""
        parts = (self.kind, self.model, self.guarantee, self.receipt, dict(self.parties))
        return (type(self), (*parts, self.quality, self._card))

    @override
    def view(self, additions: Sequence[SignedAddition] = ()) -> Panel:
        return release_view(self, additions)

    def terms(self, additions: Sequence[SignedAddition] = ()) -> Summary | None:
        """Return the table of a linear model: of its last intervals, if there are any."""
        told = sorted((one.addition for one in additions), key=lambda one: one.created)
        with_it = () if self.quality is None else (self.quality,)
        for quality in (*(one.quality for one in reversed(told)), *with_it):
            if quality.terms:
                return Summary(tuple(quality.terms), quality.note, titles=titles_of(self.model))
        return summarised(self.model) if isinstance(self.model, Linear) else None

    @property
    def spending(self) -> Spending:
        """What was promised and what was paid."""
        return Spending(self.guarantee, self.receipt, self.parties)

    def scorecard(self, *, doubling: float = 20.0, level: float = 600.0) -> Scorecard:
        """Return points per bin of every column, to add by hand."""
        return scorecard(self.model, doubling, level)

    def digests(self) -> dict[str, str]:
        """Return what every receipt is for, by its hash: the model, or what was asked beside."""
        model, beside = self.model.digest(), self.quality and self.quality.digest()
        told = {one.hash: beside or model for one in self.spending.receipts()}
        return told | ({self.receipt.hash: model} if self.receipt else {})

    @property
    def release_id(self) -> str:
        """The content's own name: equal content, equal id."""
        content = {
            "kind": self.kind,
            "model": self.model.to_dict(),
            "simulated": self.simulated,
            **self.spending.to_dict(),
        }
        return hashlib.sha256(canonical_bytes(content)).hexdigest()[:32]

    @property
    def card(self) -> Card:
        """The card; the one of :meth:`describe`, or one that says what the library knows."""
        if self._card is None:
            object.__setattr__(self, "_card", build_card(self))
        assert self._card is not None
        return self._card

    def describe(self, notes: CardNotes | None = None, *, ledger: Ledger | None = None) -> Release:
        """Return the same release with a card that says more; see :func:`build_card`."""
        return replace(self, _card=build_card(self, notes, ledger=ledger))

    def to_onnx(self) -> bytes:
        """Return model and encoder as a graph for any ONNX runtime; equal models, equal bytes."""
        return onnx_bytes(self.model)

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        sign_with: PrivateKey | None = None,
        party: str | None = None,
        overwrite: bool = False,
        allow_uncapped: bool = False,
        study: str | os.PathLike[str] | bytes | None = None,
    ) -> Path:
        """Write the release as a folder, whole or not at all.

        Parameters
        ----------
        folder : path
            Where; made here.
        sign_with : path or Ed25519 private key, optional
            Sign ``SHA256SUMS`` as ``party``; other parties add theirs with :func:`sign_release`.
        party : str, optional
            Who signs: the signature's file name.
        overwrite : bool, default=False
            Replace an earlier release; anything else is never replaced.
        allow_uncapped : bool, default=False
            Write what was paid for on an account without a cap, or in a ledger that does not last;
            the card says so.
        study : path or bytes, optional
            The study file; the same bytes go along and their hash into the card.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        SimulatedRelease
            If the noise was seeded, always; see :meth:`Simulated.rehearse`.
        UncappedRelease
            If nothing caps what is spent on the same data and ``allow_uncapped`` is false.
        """
        if self.simulated or self.card.simulated:
            raise SimulatedRelease(
                "the noise was seeded (random_state), so this protects nobody: fit again without a "
                "seed to release it; rehearse(folder) writes what is only to be looked at."
            )
        if self.spending.uncapped and not allow_uncapped:
            raise UncappedRelease(
                "it was paid for on an account without a cap, or in a ledger that goes with its "
                "process, so nothing limits what is spent on the same data: fit with "
                "budget=ledger[account], of an account with a cap, or give allow_uncapped=True, "
                "which the card says."
            )
        if (sign_with is None) != (party is None):
            raise InvalidParameter("sign_with and party go together: a key, and whose it is.")
        files = self._files(study)
        signatures = {}
        if sign_with is not None and party is not None:
            signatures[check_party(party)] = sign_sums(sums_of(files), sign_with)
        return write_folder(folder, files, signatures, overwrite=overwrite)

    def _files(self, study: str | os.PathLike[str] | bytes | None) -> dict[str, bytes]:
        added = study if isinstance(study, bytes | None) else Path(study).read_bytes()
        card = self.card if added is None else _with_study(self.card, sha256(added))
        return release_files(self.model, card, study=added)


class Simulated(Release):
    """What seeded noise made: it protects nobody, and nothing saves it as a release."""

    simulated = True

    def rehearse(self, folder: str | os.PathLike[str], *, study: bytes | None = None) -> Path:
        """Write what a release would be, as a folder that only :func:`load_rehearsal` reads."""
        return write_folder(folder, self._files(study), {})


def release_files(
    model: Model,  # What was learned
    card: Card,  # What is said about it; its ``files`` are filled in
    *,
    study: bytes | None,  # The study file
) -> dict[str, bytes]:
    """Return every file of a release but sums and signatures: all follow from model and card."""
    files = {
        "model.npz": npz_bytes(model.arrays()),
        "model.json": model_document(model, card.product.kind),
    }
    if study is not None:
        files["study.toml"] = study
    card = card.changed(files={name: sha256(files[name]) for name in sorted(files)})
    files["README.md"] = README
    files[REHEARSAL if card.simulated else "card.json"] = json_bytes(card.to_dict())
    return files


def sign_release(
    folder: str | os.PathLike[str],
    key: PrivateKey,
    party: str,
    *,
    require_signature_from: dict[str, PublicKey] | None = None,
) -> Path:
    """Add a party's signature to a release that is whole.

    Parameters
    ----------
    folder : path
        The release; it is verified first.
    key : path or Ed25519 private key
        The party's own.
    party : str
        The signature's file name; an existing one is not replaced.
    require_signature_from : mapping of str to public key, optional
        Who must have signed before.

    Returns
    -------
    Path
        The signature's file.
    """
    check_party(party)
    files = read_folder(folder, require_signature_from=require_signature_from).files
    place = Path(folder).absolute() / SIGNATURES / f"{party}.sig"
    return add_file(place, sign_sums(sums_of(files), key))


def _with_study(card: Card, digest: str) -> Card:
    if card.study_sha256 not in (None, digest):
        raise InvalidParameter("study: it is not the file whose hash the card holds.")
    return card.changed(study_sha256=digest)


@dataclass(frozen=True)
class Verified:
    """A release and what is known about it."""

    release: Release  #: What was released
    #: Party's file name -> fingerprint of the key in it; who that is, only you can know.
    signers: Mapping[str, str]
    checked: tuple[str, ...]  #: What was found to be right, in words
    additions: tuple[SignedAddition, ...] = ()  #: What was measured later, by whom


def load_release(
    folder: str | os.PathLike[str], *, require_signature_from: Mapping[str, PublicKey] | None = None
) -> Release:
    """Read a release after every file was verified.

    Parameters
    ----------
    folder : path
        What :meth:`Release.save` wrote.
    require_signature_from : mapping of str to public key, optional
        Party -> its ``.pub`` file, or the line in it. Each must have signed. Without it, a folder
        is only known to be whole and consistent, not to come from anybody.

    Raises
    ------
    InvalidRelease
        If a file was changed, is missing, unlisted, too large or not what the others make of it.
    SignatureError
        If a signature is missing or wrong.
    SimulatedRelease
        If the noise was seeded.
    """
    whole = read_folder(folder, require_signature_from=require_signature_from)
    return _consistent(whole)


def load_rehearsal(
    folder: str | os.PathLike[str], *, require_signature_from: Mapping[str, PublicKey] | None = None
) -> Release:
    """Read what was rehearsed or released, to look at it or to rehearse what comes after it."""
    whole = read_folder(folder, require_signature_from=require_signature_from)
    return _consistent(whole, rehearsal=REHEARSAL in whole.files)


def verify_release(
    folder: str | os.PathLike[str],
    *,
    require_signature_from: Mapping[str, PublicKey] | None = None,
    ledgers: Sequence[Ledger] = (),
    study: bytes | None = None,
    release_id: str | None = None,
) -> Verified:
    """Load a release and compare it with what is known from elsewhere.

    Parameters
    ----------
    folder, require_signature_from
        As in :func:`load_release`.
    ledgers : sequence of Ledger, optional
        Ledgers that were charged; each must have, word for word, a charge that the card names.
    study : bytes, optional
        The study file that it must be of.
    release_id : str, optional
        The id that it must have, as told by its makers on another way: an old release that is
        sent again is genuine in every other respect.

    Raises
    ------
    InvalidRelease
        Also if a ledger, the study or the id says otherwise.
    """
    whole = read_folder(folder, require_signature_from=require_signature_from)
    release = _consistent(whole)
    checked = [
        "every file is the one that SHA256SUMS lists",
        "the arrays are those of the model, and the README is every release's",
        "the card fits its receipts",
        *(f"{party} signed it" for party in require_signature_from or ()),
    ]
    if release_id is not None:
        if release.release_id != release_id:
            raise InvalidRelease("it is another release than the one named: a replay, or a mix-up.")
        checked.append("it is the release that was named")
    if study is not None:
        if release.card.study_sha256 != sha256(study):
            raise InvalidRelease("the release is of another study, or of another version of it.")
        checked.append("it is of this study")
    additions = read_additions(whole, require_signature_from)
    for one in additions:
        whose = "" if one.known else f" with a key that you did not name, {one.signer}"
        checked.append(f"{one.addition.party} measured its quality and signed that{whose}")
    for ledger in ledgers:
        measured = _check_additions(release, additions, ledger)
        if not measured or _own_receipts(release, ledger):
            _check_ledger(release, ledger)
    if ledgers:
        checked.append("the ledger has its charge, word for word, and the chain is whole")
    return Verified(release, whole.signers, tuple(checked), additions)


def _check_additions(
    release: Release, additions: Sequence[SignedAddition], ledger: Ledger
) -> list[Receipt]:
    """Compare evaluations with the ledger that paid for them; return those that it has."""
    own = [one.addition for one in additions if one.addition.receipt.ledger_id == ledger.ledger_id]
    entries = {entry.row: entry for entry in ledger.entries()} if own else {}
    for addition in own:
        entry = entries.get(addition.receipt.row)
        if entry is None:
            raise InvalidRelease("the ledger has no charge of an evaluation; do not rely on it.")
        check_receipt(addition.paid, entry)
        digest = release.model.digest()
        check_addition(addition, entry.digest, entry.origin.model, digest)
    return [addition.paid for addition in own]


def _consistent(folder: VerifiedFolder, *, rehearsal: bool = False) -> Release:
    """Return the release if every part of the folder follows from the others."""
    files = folder.files
    described = REHEARSAL if REHEARSAL in files else "card.json"
    if described not in files:
        raise InvalidRelease("it is a table of a cohort, and no model; confrere verify checks it.")
    card = Card.from_dict(read_json(files[described], described))
    if not (rehearsal is card.simulated is (REHEARSAL in files)):
        raise SimulatedRelease(
            "it is a rehearsal, whose noise was seeded: it protects nobody and proves nothing. Ask "
            "for a real release; confrere.release.load_rehearsal is for looking at it."
        )
    if json_bytes(card.to_dict()) != files[described]:
        raise InvalidRelease("card.json is not in the form that is written; ask for it again.")
    about = files.keys() - {described, "README.md"}
    if card.files != {name: sha256(files[name]) for name in about}:
        raise InvalidRelease("card.json describes other files; ask for the whole folder again.")
    kind, model = read_document(files["model.json"])
    check_npz(files["model.npz"], model.arrays())
    if "study.toml" in files and card.study_sha256 != sha256(files["study.toml"]):
        raise InvalidRelease("study.toml is not the study that card.json names; do not use it.")
    said = processing(model)
    told = [*card.post_processing[:1], *card.preprocessing[: len(said) - 1]]
    if card.product.kind != kind or told != said:
        raise InvalidRelease("card.json is about another model than model.json; do not use it.")
    if files["README.md"] != README:
        raise InvalidRelease("README.md is not the text of every release; do not use it.")
    spending = card.spending
    try:
        return (Simulated if card.simulated else Release)(
            kind=kind,
            model=model,
            guarantee=spending.guarantee,
            receipt=spending.receipt,
            parties=spending.parties,
            quality=card.quality,
            _card=card,
        )
    except InvalidParameter as error:
        raise InvalidRelease(f"the parts do not fit: {error} Ask for the folder again.") from error


def _check_ledger(release: Release, ledger: Ledger) -> None:
    """Refuse a release of which the ledger says something else, or nothing."""
    entries = {entry.row: entry for entry in ledger.entries()}
    own = _own_receipts(release, ledger)
    if not own:
        raise InvalidRelease("the ledger has no charge of this release.")
    facts = _check_facts(schema_of(release.model.encoder), entries, ledger)
    own_model = [receipt for receipt in own if receipt.row not in facts]
    for receipt in own:
        entry = entries.get(receipt.row)
        if entry is None:
            raise InvalidRelease(f"the ledger has no charge in row {receipt.row}; do not use it.")
        check_receipt(receipt, entry)
        # In a transfer the sources' receipts are of what they released before, for whatever study;
        # so are those of facts.
        if release.receipt in (None, receipt) and receipt in own_model:
            _check_study(release.card, entry)
        try:
            ledger.verify(head=receipt.hash)
        except LedgerError as error:
            raise InvalidRelease(f"the ledger is not whole: {error}") from error
    for receipt in own_model:
        if release.receipt is None or receipt in release.spending.charges():
            _check_digest(release.digests()[receipt.hash], entries[receipt.row])
    if release.receipt in own:
        budget = release.card.prior_spend
        if budget is not None and budget.model_dump() != prior_spend(ledger, release.spending):
            raise InvalidRelease("card.json: prior_spend is not the ledger's; do not use it.")


def _check_facts(
    schema: PublicSchema | None, entries: Mapping[int, Entry], ledger: Ledger
) -> set[int]:
    """Compare facts with the rows that paid for them; return those rows."""
    rows: set[int] = set()
    if schema is None:
        return rows
    for paid in schema.paid:
        for receipt in receipts_for_facts(replace(schema, paid=(paid,))):
            if receipt.ledger_id != ledger.ledger_id:
                continue
            rows.add(receipt.row)
            entry = entries.get(receipt.row)
            # A party's row of a run names nothing: what was learned is of all of them together.
            digest = None if entry is None or entry.origin.run else entry.digest
            if digest is not None and paid.digest(schema) not in ("", digest):
                raise InvalidRelease(
                    f"row {receipt.row} of the ledger paid for other facts than the schema has."
                )
    return rows


def _own_receipts(release: Release, ledger: Ledger) -> list[Receipt]:
    return [one for one in release.spending.receipts() if one.ledger_id == ledger.ledger_id]


def check_receipt(receipt: Receipt, entry: Entry) -> None:
    """Compare a receipt with the row of the ledger, word for word."""
    promised, paid = receipt.guarantee.to_dict(), entry.guarantee.to_dict()
    differing = [f"guarantee.{name}" for name in paid if promised[name] != paid[name]]
    names = sorted(set(Receipt.__dataclass_fields__) - {"ledger_id", "guarantee"})
    differing += [name for name in names if getattr(receipt, name) != getattr(entry, name)]
    if differing:
        raise InvalidRelease(
            f"the receipt is not what row {receipt.row} of the ledger says: "
            f"{', '.join(differing)}; do not use it."
        )
    if entry.state != "released":
        raise InvalidRelease(
            f"row {receipt.row} of the ledger does not say that this was released ({entry.state})."
        )


def _check_study(card: Card, entry: Entry) -> None:
    if entry.study_sha256 != card.study_sha256:
        raise InvalidRelease(
            f"row {entry.row} of the ledger was paid for another study than the card names."
        )


def _check_digest(digest: str, entry: Entry) -> None:
    """One charge, one model: a receipt cannot stand behind another one.

    A row of a run names the party's own answer, and further rows name the models that were made
    of it together with others.
    """
    if entry.origin.run:
        if digest not in entry.models:
            raise InvalidRelease(
                f"row {entry.row} of the ledger paid for an answer of which another model was made."
            )
        return
    if entry.digest is None:
        raise InvalidRelease(f"row {entry.row} of the ledger does not name what was released.")
    # An encoder that stood before the estimator became part of the model when it was released.
    if digest not in (entry.digest, *entry.models):
        raise InvalidRelease(f"row {entry.row} of the ledger paid for another model than this.")


# --- what people read -----------------------------------------------------------------------------

#: Deviations on either side of a curve.
BAND = 2.0

_WIDE, _HIGH, _LEFT, _TOP, _BOTTOM = 150.0, 74.0, 24.0, 6.0, 14.0


@dataclass(frozen=True, eq=False)
class BentColumn:
    """What one number does to the log odds of the second class, around its mean over the knots."""

    column: str  #: Its name
    places: Floats  #: The knots, on the scale that hats are on
    values: Floats  #: Log odds there
    deviations: Floats | None  #: Of the noise in them; None where public facts do not tell
    ends: tuple[float, float]  #: The first and the last knot as raw values

    @property
    def picture(self) -> Markup:
        """The curve with its band as one SVG, without script or style of its own."""
        spread = np.zeros_like(self.values) if self.deviations is None else BAND * self.deviations
        low, high = float(np.min(self.values - spread)), float(np.max(self.values + spread))
        low, high = min(low, -0.1), max(high, 0.1)
        first, last = float(self.places[0]), float(self.places[-1])
        x = _LEFT + (self.places - first) / (last - first) * (_WIDE - _LEFT - 4)

        def y(value: Floats | float) -> Floats:
            inside = _HIGH - _TOP - _BOTTOM
            return np.asarray(_TOP + (high - np.asarray(value)) / (high - low) * inside)

        def points(xs: Floats, ys: Floats) -> str:
            return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(xs, ys, strict=True))

        around = np.concatenate([y(self.values - spread), y(self.values + spread)[::-1]])
        band = points(np.concatenate([x, x[::-1]]), around)
        zero = f"{float(y(0.0)):.1f}"
        return Markup(
            '<svg class="curve" viewBox="0 0 {wide:g} {high:g}" role="img" aria-label="{label}">'
            '<polygon class="band" points="{band}"/>'
            '<line class="zero" x1="{left:g}" x2="{right:g}" y1="{zero}" y2="{zero}"/>'
            '<polyline class="line" points="{line}"/>'
            '<text x="{text:g}" y="{top:g}" text-anchor="end">{most}</text>'
            '<text x="{text:g}" y="{bottom:g}" text-anchor="end">{least}</text>'
            '<text x="{left:g}" y="{under:g}">{begin}</text>'
            '<text x="{right:g}" y="{under:g}" text-anchor="end">{end}</text></svg>'
        ).format(
            wide=_WIDE,
            high=_HIGH,
            label=f"{self.column}: log odds from {self.values[0]:+.2f} to {self.values[-1]:+.2f}",
            band=band,
            line=points(x, y(self.values)),
            zero=zero,
            left=_LEFT,
            right=_WIDE - 4,
            text=_LEFT - 2,
            top=_TOP + 5,
            bottom=_HIGH - _BOTTOM,
            under=_HIGH - 4,
            most=f"{high:+.1f}",
            least=f"{low:+.1f}",
            begin=f"{self.ends[0]:g}",
            end=f"{self.ends[1]:g}",
        )


def bent_columns(release: Release) -> tuple[BentColumn, ...]:
    """Return the curves of a linear model of two classes, in the order of its columns."""
    return tuple(_bent(release))


def _bent(release: Release) -> Iterator[BentColumn]:
    model = release.model
    if not isinstance(model, Linear) or model.encoder is None or len(model.coef) != 1:
        return
    if model.encoder.form == "standardised":
        return
    encoder, start = model.encoder.transformer(), 0
    for place, (told, block) in enumerate((one.told, one.block) for one in encoder.columns):
        hats = slice(start, start + block.smooth)
        start += block.size
        if not block.smooth:
            continue
        around = np.eye(block.smooth) - 1 / block.smooth
        values = around @ (model.coef[0, hats] / encoder.norm)
        noise = _noise_in(release, place, block.smooth)
        deviations = None
        if noise is not None:
            part = noise[: block.smooth, : block.smooth]
            deviations = np.sqrt(np.diagonal(around @ part @ around))
        knots = np.array(told["knots"])
        raw = np.expm1(knots) + told["clip"][0] if told["log"] else knots
        yield BentColumn(told["column"], knots, values, deviations, (float(raw[0]), float(raw[-1])))


def _noise_in(release: Release, place: int, hats: int) -> Floats | None:
    """Return the covariance of the noise in one curve's hats; near a prior nobody knows it."""
    facts, encoder = release.model.facts, release.model.encoder
    if facts.ridges is None or facts.noises is None or facts.n_samples is None or encoder is None:
        return None
    if facts.prior is not None or release.kind != "plr":
        return None
    factors, turns = factors_of(encoder.transformer().blocks())
    found = [
        (noise * np.eye(one.size), ridge * one.kernel[0, 0] * np.linalg.inv(one.kernel))
        for one, noise, ridge in zip(factors, facts.noises, facts.ridges, strict=True)
    ]
    of_block = iter(found[:-1])
    for turn in turns[: place + 1]:
        mine = [next(of_block)]
        if len(mine[0][0]) < len(turn):
            mine.append(next(of_block))
    noise, ridge = (block_diag(*parts) for parts in zip(*mine, found[-1], strict=True))
    # About half of the records lie where a capped loss is straight.
    seen = facts.n_samples * curvature_of(encoder.schema) / 2 * _even_squares(turn, hats)
    moved = np.linalg.inv(seen + ridge)
    return np.asarray(turn.T @ (moved @ noise @ moved.T)[:-1, :-1] @ turn)


def _even_squares(turn: Floats, hats: int) -> Floats:
    """Return mean products of a curve's columns and the constant, by Simpson's rule."""
    knots = np.eye(hats, turn.shape[1])
    middles = (knots[1:] + knots[:-1]) / 2
    places = np.vstack([knots, knots[1:-1], np.repeat(middles, 4, axis=0)]) @ turn.T
    columns = np.hstack([places, np.ones((len(places), 1))])
    return np.asarray(columns.T @ columns / len(columns))


_ENVIRONMENT = Environment(
    loader=PackageLoader("confrere.release", "templates"),
    autoescape=select_autoescape(["html.j2"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters["shown"] = shown


#: The text of every release's ``README.md``, with a program that predicts from ``model.json``.
README = files("confrere.release").joinpath("templates", "README.md").read_bytes()


def card_page(
    release: Release | Card,  # What to describe; only a release has curves to draw
    additions: Sequence[SignedAddition] = (),  # What was measured later
) -> str:
    """Return one self-contained HTML page: no script, no network, made to be printed."""
    card = release if isinstance(release, Card) else release.card
    return _ENVIRONMENT.get_template("card.html.j2").render(
        card=card,
        model=None if isinstance(release, Card) else release.terms(additions),
        curves=() if isinstance(release, Card) else bent_columns(release),
        bar=_widths(card),
        left=_left(card),
        namespace=NAMESPACE,
        additions=additions,
    )


def release_view(release: Release, additions: Sequence[SignedAddition] = ()) -> Panel:
    """Return the promise, against whom it holds, what is not protected, budget and quality."""
    card, model = release.card, release.model
    promise, budget = card.guarantee, card.prior_spend
    against = [
        Word("NOT PROTECTED", "bad", f": {one.who} ({one.sees})")
        if one.epsilon is None
        else f"epsilon {shown(one.epsilon)}: {one.who} ({one.sees})"
        for one in promise.adversaries
    ]
    quality = [
        f"{one.metric}: {one.value:.3f}, measured on {one.measured_on} ({one.basis})"
        for one in card.utility
    ]
    quality += [
        f"{one.name} {one}, measured by {each.addition.party} on "
        f"{each.addition.quality.records} records"
        for each in additions
        for one in each.addition.quality.measures
    ]
    area = expected_of(model, experts=card.product.kind in ("plr", "collaborative"))
    columns = model.features if model.encoder is None else model.encoder.schema.columns
    hoped = f"; expected AUC {area}, if the best model has {area.best:g}" if area else ""
    told = {
        "status": Word(card.status, "good" if card.status == "released" else "bad"),
        "purpose": card.product.purpose,
        "privacy cost": f"epsilon {cost(promise.epsilon, promise.delta)}, {promise.unit_detail}",
        "in words": card.risk_in_words.text,
        "takes": f"{len(columns)} columns: {', '.join(columns[:8])}"
        + f" and {len(columns) - 8} more" * (len(columns) > 8),
        "gives": f"one of {', '.join(map(str, model.labels))}; " * bool(model.labels)
        + card.post_processing[0],
        "against": against,
        "not protected": card.unprotected,
        "budget": budget and share(budget.after, budget.cap, budget.before),
        "quality": quality or f"not measured: confrere evaluate{hoped}",
        "proof": card.mechanism.theorem,
    }
    note = f"{card.product.kind}, {card.created[:10]}, id {card.release_id}"
    found = release.terms(additions)
    parts = [Pairs(told), *([] if found is None else [found.table, found.note])]
    if found is not None and hasattr(model.link, "curves"):  # of the reference person
        parts.append(model.link.curves(found.lines[-1].coefficient))
    return Panel(f"Release: {card.product.title}", parts, note)


def _left(card: Card) -> str | None:
    """Return what is left of the budget; what can still be spent is rounded down."""
    budget = card.prior_spend
    return None if budget is None or budget.left is None else shown_down(budget.left)


def _widths(card: Card) -> dict[str, float] | None:
    """Return the widths of the budget's bar, in percent."""
    budget = card.prior_spend
    if budget is None or budget.cap is None:
        return None
    before = 100 * budget.before / budget.cap
    after = 100 * budget.after / budget.cap
    return {"before": min(before, 100.0), "now": max(0.0, min(after, 100.0) - before)}
