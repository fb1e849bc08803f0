"""Does the promise hold? Lower bounds on epsilon by sampling, and exact ratios of densities."""

from confrere.assurance.audit.estimator import audit
from confrere.assurance.audit.exact import ExactAudit, exact_audit
from confrere.assurance.audit.function import audit_function
from confrere.assurance.audit.hard_cases import audit_cases, hardest_case
from confrere.assurance.audit.lattice import lattice_audit
from confrere.assurance.audit.pairs import Pair, worst_pairs

__all__ = [
    "ExactAudit",
    "Pair",
    "audit",
    "audit_cases",
    "audit_function",
    "exact_audit",
    "hardest_case",
    "lattice_audit",
    "worst_pairs",
]
