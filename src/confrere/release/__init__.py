"""What leaves an organisation: noised arrays, public facts, and the card that describes them."""

from confrere.release.additions import SignedAddition, add_evaluation, read_additions
from confrere.release.card import (
    Adversary,
    Approval,
    Card,
    CardNotes,
    Curator,
    Utility,
    build_card,
    card_schema,
    quality_digest,
)
from confrere.release.folder import read_folder
from confrere.release.release import (
    Release,
    Simulated,
    card_page,
    load_rehearsal,
    load_release,
    sign_release,
    verify_release,
)
from confrere.release.signing import (
    NAMESPACE,
    fingerprint,
    generate_key,
    read_private_key,
    read_public_key,
    sign_sums,
    verify_signature,
)
from confrere.release.spending import Spending, detection_bound

__all__ = [
    "NAMESPACE",
    "Adversary",
    "Approval",
    "Card",
    "CardNotes",
    "Curator",
    "Release",
    "SignedAddition",
    "Simulated",
    "Spending",
    "Utility",
    "add_evaluation",
    "build_card",
    "card_page",
    "card_schema",
    "detection_bound",
    "fingerprint",
    "generate_key",
    "load_rehearsal",
    "load_release",
    "quality_digest",
    "read_additions",
    "read_folder",
    "read_private_key",
    "read_public_key",
    "sign_release",
    "sign_sums",
    "verify_release",
    "verify_signature",
]
