"""
A main hospital helps its branches
==================================

The main hospital releases once; every branch learns near that release, at the same price as alone.
The patients are **simulated**: sizes and importances are the published ones of a main hospital and
sixteen branches, and nobody in it exists. Everything is seeded, hence free and good for studying
only.
"""

import math

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from confrere import PrivateLogisticRegression, TransferClassifier
from confrere.demo import ruijin_like

world = ruijin_like(seed=0)
print(world)

# Raw tables, and a schema that says what everybody may know. Rows of length one, weighted
# by the doctors' importances; models without a source start from the declared base rate.
settings = {"epsilon": 1.0, "schema": world.schema.encoder(rows="unit", weighted=True)}
rate = world.schema.outcome.base_rate
start = {"prior_intercept": math.log(rate / (1 - rate))}
main = PrivateLogisticRegression(**settings, **start, random_state=0)
main.fit(world.main.X, world.main.y)

# %%
# A seeded release is refused as a source by everything but a simulation; the fits below are one.
source = main.to_release()
names, alone, near = [], [], []
for name, branch in world.branches.items():
    half = np.arange(len(branch.y)) % 2
    train, test = branch.X.filter(half == 0), branch.X.filter(half == 1)
    scores = {"alone": [], "near": []}
    for seed in range(5):
        models = {
            "alone": PrivateLogisticRegression(**settings, **start, random_state=seed),
            "near": TransferClassifier(source=source, **settings, random_state=seed),
        }
        for kind, model in models.items():
            model.fit(train, branch.y[half == 0])
            found = model.decision_function(test)
            scores[kind].append(roc_auc_score(branch.y[half == 1], found))
    names.append(name.removeprefix("simulated "))
    alone.append(np.mean(scores["alone"]))
    near.append(np.mean(scores["near"]))

print(f"mean AUC of the branches: alone {np.mean(alone):.3f}, near main {np.mean(near):.3f}")

# %%
order = np.argsort(near)
places = np.arange(len(names))
figure, axes = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
axes.hlines(places, np.array(alone)[order], np.array(near)[order], color="0.8", linewidth=2)
axes.plot(np.array(alone)[order], places, "s", color="#e69f00", label="the branch alone")
axes.plot(np.array(near)[order], places, "o", color="#0072b2", label="near the main release")
axes.set_yticks(places, [names[place] for place in order])
axes.set_xlabel("AUC on simulated patients kept aside, mean of 5 seeds, epsilon = 1")
axes.legend(frameon=False)
plt.show()
