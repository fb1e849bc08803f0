"""Every algorithm as a public plan: what it costs, what it does, what an auditor may ask."""

from confrere.plans.base_plan import Plan, PublicFacts, Table, Term

__all__ = ["Plan", "PublicFacts", "Table", "Term"]
