"""Guo et al. (2018), Privacy-preserving Transfer Learning: a branch starts from a main hospital."""

import pandas as pd

from confrere import Ledger, PublicSchema
from confrere.catalogue import find_method

main, branch = pd.read_csv("people.csv"), pd.read_csv("branch.csv")
schema = PublicSchema.from_toml("schema.toml")
ledger = Ledger("budget.ledger")
for account in ("main", "branch"):
    ledger.open_account(account, epsilon=2.0)
for source, target in (("PLR", "SimComb"), ("PST-F(W)", "PPTL-FS(W)")):
    learned = find_method(source).make(schema=schema, budget=ledger["main"]).fit(main)
    near = {"source": learned.to_release(), "schema": schema, "budget": ledger["branch"]}
    print(target, find_method(target).make(**near).fit(branch).guarantee_)
