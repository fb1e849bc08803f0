"""What leaves an organisation: noised arrays, public facts, and the card that describes them."""

from confrere.release.card import Card
from confrere.release.describe import build_card
from confrere.release.keys import fingerprint, generate_key, read_private_key, read_public_key
from confrere.release.loading import load_release
from confrere.release.model import Release
from confrere.release.notes import Adversary, Approval, CardNotes, Curator, Utility
from confrere.release.page import card_page
from confrere.release.pricing import Spending
from confrere.release.risk import detection_bound, shown
from confrere.release.saving import sign_release
from confrere.release.schema import card_schema
from confrere.release.sshsig import NAMESPACE, sign_sums, verify_signature
from confrere.release.verifying import VerifiedFolder, read_folder

__all__ = [
    "NAMESPACE",
    "Adversary",
    "Approval",
    "Card",
    "CardNotes",
    "Curator",
    "Release",
    "Spending",
    "Utility",
    "VerifiedFolder",
    "build_card",
    "card_page",
    "card_schema",
    "detection_bound",
    "fingerprint",
    "generate_key",
    "load_release",
    "read_folder",
    "read_private_key",
    "read_public_key",
    "shown",
    "sign_release",
    "sign_sums",
    "verify_signature",
]
