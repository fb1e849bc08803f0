"""What people may add to a card: words, names and measured quality; never a privacy number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Curator:
    """Who answers for a release."""

    name: str
    contact: str | None = None


@dataclass(frozen=True)
class Approval:
    """Who agreed to a release, and when (``YYYY-MM-DD``)."""

    name: str
    role: str
    date: str


@dataclass(frozen=True)
class Adversary:
    """Somebody who sees something; ``protected=False`` is printed NOT PROTECTED."""

    who: str
    sees: str
    protected: bool


@dataclass(frozen=True)
class Utility:
    """One measure of quality, beside what no privacy and what no data would give.

    A score computed on private data is itself a release: ``basis`` says why this one is not, or
    that it was paid for.
    """

    metric: str
    value: float
    measured_on: str
    basis: Literal["public data", "synthetic data", "charged to the ledger"]
    non_private: float | None = None
    zero_data: float | None = None


@dataclass(frozen=True)
class CardNotes:
    """Everything on a card that a ledger does not know.

    Parameters
    ----------
    title, purpose : str, optional
        What was made, and what for.
    not_for : tuple of str
        What it must not be used for.
    curators : tuple of Curator
        Who answers for it.
    unit_detail : str, optional
        What a record is, for a reader: "one patient".
    max_rows_per_unit : int, default=1
        Records of one unit at most; the price is multiplied by it.
    parties_per_unit : int, default=1
        Organisations in whose data one unit may be; their prices are added.
    across_parties : str, optional
        Why that number is right.
    adversaries : tuple of Adversary
        Who else sees what.
    trust : str, optional
        Who has to be trusted with what.
    unprotected, preprocessing, post_processing : tuple of str
        In words, after what the library itself knows.
    tuning : str, optional
        How parameters were chosen, and who paid.
    utility : tuple of Utility
        Quality.
    justification : str, optional
        Why this epsilon.
    approvals : tuple of Approval
        Who agreed.
    study_sha256 : str, optional
        The study file's hash.
    replaces : str, optional
        ``release_id`` of the release that this one replaces.
    """

    title: str | None = None
    purpose: str | None = None
    not_for: tuple[str, ...] = ()
    curators: tuple[Curator, ...] = ()
    unit_detail: str | None = None
    max_rows_per_unit: int = 1
    parties_per_unit: int = 1
    across_parties: str | None = None
    adversaries: tuple[Adversary, ...] = ()
    trust: str | None = None
    unprotected: tuple[str, ...] = ()
    preprocessing: tuple[str, ...] = ()
    tuning: str | None = None
    post_processing: tuple[str, ...] = ()
    utility: tuple[Utility, ...] = ()
    justification: str | None = None
    approvals: tuple[Approval, ...] = ()
    study_sha256: str | None = None
    replaces: str | None = None
