"""
Importances buy accuracy
========================

The same budget, shared among groups of features: important groups get more of it, hence less
noise. The picture is what ``plot_groups`` draws of a fitted model.
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
model.plot_groups()
plt.show()
