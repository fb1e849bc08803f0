"""Du, Li and Li (2018), Multiparty Learning for Logistic Regression: Laplace, OFPA and OFAA."""

import pandas as pd

from confrere import Ledger, PublicSchema
from confrere.catalogue import find_method

people = pd.read_csv("people.csv")
schema = PublicSchema.from_toml("schema.toml")
ledger = Ledger("budget.ledger")
ledger.open_account("people", epsilon=3.0)
hospitals = people.index % 3  # who has which row
for name in ("Laplace", "OFPA", "OFAA"):
    model = find_method(name).make(epsilon=1.0, schema=schema, budget=ledger["people"])
    print(name, model.fit(people, party=hospitals).guarantee_)
