"""Certificates that end soon are said so in time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from cryptography import x509

#: How many days before its end a certificate is spoken of.
WARNING_DAYS = 30


def expiry_warnings(
    certificates: Mapping[str, x509.Certificate], now: datetime | None = None
) -> list[str]:
    """Return a line for every certificate that has ended, or will within :data:`WARNING_DAYS`.

    Parameters
    ----------
    certificates : mapping of name to certificate
    now : datetime, optional
        With a time zone; the present by default.
    """
    present = now or datetime.now(UTC)
    found = []
    for name, certificate in certificates.items():
        end = certificate.not_valid_after_utc
        if end <= present:
            found.append(f"the certificate of {name} has ended on {end:%d %B %Y}; make a new one.")
        elif end - present <= timedelta(days=WARNING_DAYS):
            days = (end - present).days
            found.append(f"the certificate of {name} ends in {days} days, on {end:%d %B %Y}.")
    return found
