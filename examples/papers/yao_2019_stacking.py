"""Yao et al. (2019), Privacy-preserving Stacking: PLR, PST-S, PST-F on a CSV file of your own."""

import pandas as pd

from confrere import Ledger, PublicSchema
from confrere.catalogue import find_method

people = pd.read_csv("people.csv")
schema = PublicSchema.from_toml("schema.toml")  # public: bounds, lists of values, importances
ledger = Ledger("budget.ledger")
ledger.open_account("people", epsilon=3.0)
for name in ("PLR", "PST-S", "PST-F(W)"):
    model = find_method(name).make(epsilon=1.0, schema=schema, budget=ledger["people"])
    print(name, model.fit(people).guarantee_, model.risk(people.head(3)).round(3))
