"""
What privacy costs
==================

One organisation, one private logistic regression: accuracy against epsilon, beside the model
without noise. Every point is a simulation (seeded), which is why it may be repeated for free.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from confrere import PrivateLogisticRegression

X, y = make_classification(n_samples=6000, n_features=15, n_informative=8, random_state=0)
train, test = slice(0, 3000), slice(3000, 6000)
ceiling = LogisticRegression().fit(X[train], y[train])
best = roc_auc_score(y[test], ceiling.decision_function(X[test]))

epsilons = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0]
figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
for purpose, colour in (("inference", "#0072b2"), ("prediction", "#d55e00")):
    scores = np.array(
        [
            [
                roc_auc_score(
                    y[test],
                    PrivateLogisticRegression(
                        epsilon=epsilon, data_norm=5.0, purpose=purpose, random_state=seed
                    )
                    .fit(X[train], y[train])
                    .decision_function(X[test]),
                )
                for seed in range(8)
            ]
            for epsilon in epsilons
        ]
    )
    axes.errorbar(
        epsilons,
        scores.mean(axis=1),
        yerr=scores.std(axis=1),
        color=colour,
        marker="o",
        capsize=3,
        label=f"for {purpose}",
    )
axes.axhline(best, color="0.4", linestyle="--", label="not private")
axes.set_xscale("log")
axes.set_xticks(epsilons, [str(epsilon) for epsilon in epsilons])
axes.minorticks_off()
axes.set_xlabel("epsilon per record")
axes.set_ylabel("test AUC")
axes.legend(frameon=False)
plt.show()
