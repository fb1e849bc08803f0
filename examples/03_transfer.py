"""
A main hospital helps its branches
==================================

The main hospital releases once. Where the records of a branch are expected to add something, it
learns near that release, at the price of learning alone; elsewhere the release is its model, free.
The patients are **simulated**: sizes and importances are the published ones of a main hospital and
sixteen branches, and nobody in it exists. Everything is seeded, hence free and good for studying
only.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from confrere import PrivateLogisticRegression, TransferClassifier
from confrere.demo import ruijin_like

world = ruijin_like(seed=0)
print(world)

# Raw tables, and a schema that says what everybody may know: bounds, the doctors' importances
# and signs, the base rate.
settings = {"epsilon": 1.0, "schema": world.schema}
main = PrivateLogisticRegression(**settings, random_state=0)
main.fit(world.main.X, world.main.y)

# %%
# A seeded release is refused as a source by everything but a simulation; the fits below are one.
source = main.to_release()
names, alone, near, paid = [], [], [], 0
for name, branch in world.branches.items():
    half = np.arange(len(branch.y)) % 2
    train, test = branch.X.filter(half == 0), branch.X.filter(half == 1)
    model = TransferClassifier(source=source, **settings, random_state=0)
    model.fit(train, branch.y[half == 0])
    near.append(roc_auc_score(branch.y[half == 1], model.decision_function(test)))
    paid += model.to_release() is not source
    scores = []
    for seed in range(5):
        model = PrivateLogisticRegression(**settings, random_state=seed)
        model.fit(train, branch.y[half == 0])
        scores.append(roc_auc_score(branch.y[half == 1], model.decision_function(test)))
    names.append(name.removeprefix("simulated "))
    alone.append(np.mean(scores))

print(f"mean AUC of the branches: alone {np.mean(alone):.3f}, with main {np.mean(near):.3f}")
print(f"{paid} of {len(names)} branches would pay for it; alone, all do")

# %%
order = np.argsort(near)
places = np.arange(len(names))
figure, axes = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
axes.hlines(places, np.array(alone)[order], np.array(near)[order], color="0.8", linewidth=2)
axes.plot(np.array(alone)[order], places, "s", color="#e69f00", label="the branch alone")
axes.plot(np.array(near)[order], places, "o", color="#0072b2", label="with the main release")
axes.set_yticks(places, [names[place] for place in order])
axes.set_xlabel("AUC on simulated patients kept aside, epsilon = 1 (alone: mean of 5 seeds)")
axes.legend(frameon=False)
plt.show()
