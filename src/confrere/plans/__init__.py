"""Every algorithm as a public plan: what it costs, what it does, what an auditor may ask."""

from confrere.plans.base_plan import LabelledTable, Plan, PublicFacts, Term

__all__ = ["LabelledTable", "Plan", "PublicFacts", "Term"]
