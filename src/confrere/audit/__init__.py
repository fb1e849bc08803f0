"""Does the promise hold? Lower bounds on epsilon by sampling, and exact ratios of densities."""

from confrere.audit.estimator import audit
from confrere.audit.events import attainable
from confrere.audit.exact import ExactAudit, exact_audit
from confrere.audit.function import audit_function
from confrere.audit.pairs import Case, Pair, hardest_case, worst_pairs
from confrere.audit.result import AuditResult

__all__ = [
    "AuditResult",
    "Case",
    "ExactAudit",
    "Pair",
    "attainable",
    "audit",
    "audit_function",
    "exact_audit",
    "hardest_case",
    "worst_pairs",
]
