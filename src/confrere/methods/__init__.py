"""Every algorithm as a public plan: what it costs, what it does, what an auditor may ask."""

from confrere.methods.plan import LabelledTable, Plan, PublicFacts, Term

__all__ = ["LabelledTable", "Plan", "PublicFacts", "Term"]
