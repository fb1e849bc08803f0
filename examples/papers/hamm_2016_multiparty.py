"""Hamm, Cao and Belkin (2016), Learning Privately from Multiparty Data: vote, soft and avg."""

import pandas as pd

from confrere import Ledger, PublicSchema
from confrere.catalogue import find_method

people, public = pd.read_csv("people.csv"), pd.read_csv("branch.csv")  # labels of it are not used
schema = PublicSchema.from_toml("schema.toml")
ledger = Ledger("budget.ledger")
ledger.open_account("devices", epsilon=3.0, unit="party")
devices = people.index % 400  # who has which row
for name in ("vote", "soft", "avg"):
    rows = {} if name == "avg" else {"auxiliary": public.drop(columns="diabetes")}
    model = find_method(name).make(epsilon=1.0, schema=schema, budget=ledger["devices"])
    print(name, model.fit(people, party=devices, **rows).guarantee_)
