"""Every promise that is offered, audited: its exact ratio, its noise, its theorem, its price."""

from confrere.assurance.table import COMPARED, ROWS, AuditCase, RowAudit, audit_row, sides_of

__all__ = ["COMPARED", "ROWS", "AuditCase", "RowAudit", "audit_row", "sides_of"]
