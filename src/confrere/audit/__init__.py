"""Does the promise hold? Lower bounds on epsilon by sampling, and exact ratios of densities."""

from confrere.audit.bounds import attainable
from confrere.audit.cases import Case, hardest_case
from confrere.audit.estimator import audit
from confrere.audit.exact import ExactAudit, exact_audit
from confrere.audit.function import audit_function
from confrere.audit.pairs import Pair, worst_pairs
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
