"""
Importances buy accuracy
========================

The same budget, shared among groups of features: important groups get more of it, hence less
noise. The picture is drawn from ``low_level_`` of a fitted model.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score

from confrere import FeatureStackingClassifier

X, y = make_classification(
    n_samples=4000, n_features=30, n_informative=6, n_redundant=0, shuffle=False, random_state=1
)
train, test = slice(0, None, 2), slice(1, None, 2)
expert = np.r_[np.full(6, 5.0), np.full(24, 1.0)]

for name, importance in (("uniform", None), ("importances", expert)):
    scores = []
    for seed in range(5):
        model = FeatureStackingClassifier(
            epsilon=0.5, data_norm=7.0, importance=importance, random_state=seed
        )
        model.fit(X[train], y[train])
        scores.append(roc_auc_score(y[test], model.decision_function(X[test])))
    print(f"{name:12s} AUC {np.mean(scores):.3f} ± {np.std(scores):.3f}")

# %%
# What each group is worth, costs and suffers.
groups = model.low_level_
figure, axes = plt.subplots(1, 3, figsize=(6.4, 2.6), sharey=True, layout="constrained")
for ax, fact in zip(axes, ("importance", "epsilon", "noise"), strict=True):
    ax.barh([group.name for group in groups], [getattr(group, fact) for group in groups])
    ax.set_xlabel(fact)
plt.show()
