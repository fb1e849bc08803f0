"""Does the promise hold? Lower bounds on epsilon by sampling, and exact ratios of densities."""

from confrere.audit.estimator import audit
from confrere.audit.exact import ExactAudit, exact_audit
from confrere.audit.function import audit_function
from confrere.audit.pairs import Pair, worst_pairs
from confrere.audit.result import AuditResult

__all__ = [
    "AuditResult",
    "ExactAudit",
    "Pair",
    "audit",
    "audit_function",
    "exact_audit",
    "worst_pairs",
]
