"""Every promise that is offered, audited: its exact ratio, its noise, its theorem, its price."""

from confrere.assurance.noise_law import noise_audit
from confrere.assurance.table import COMPARED, ROWS, AuditCase, RowAudit, audit_row, sides_of
from confrere.assurance.theorems import theorem_audit

__all__ = [
    "COMPARED",
    "ROWS",
    "AuditCase",
    "RowAudit",
    "audit_row",
    "noise_audit",
    "sides_of",
    "theorem_audit",
]
