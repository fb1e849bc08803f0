"""
A thousand parties of ten records
=================================

No party has enough rows for a private model of its own. Each trains on its ten rows and votes on
public unlabelled rows; noise goes on the one vector through which the votes enter the model. All
rows of a party are protected together. Every point is a simulation (seeded).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.tree import DecisionTreeClassifier

from confrere import MultipartyClassifier

X, y = make_classification(n_samples=16_000, n_features=10, n_informative=6, random_state=3)
private, auxiliary, test = slice(0, 10_000), slice(10_000, 13_000), slice(13_000, 16_000)
party = np.repeat(np.arange(1000), 10)

pooled = LogisticRegression().fit(X[private], y[private])
ceiling = accuracy_score(y[test], pooled.predict(X[test]))

epsilons = [0.1, 0.3, 1.0, 3.0]
figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
for method, colour in (("statistic", "#009e73"), ("soft", "#0072b2"), ("weights", "#e69f00")):
    # The votes are about unlabelled rows; the average of weights needs none.
    votes = {} if method == "weights" else {"auxiliary": X[auxiliary]}
    scores = []
    for epsilon in epsilons:
        tries = []
        for seed in range(5):
            model = MultipartyClassifier(
                method=method, epsilon=epsilon, data_norm=5.0, random_state=seed
            )
            model.fit(X[private], y[private], party=party, **votes)
            tries.append(accuracy_score(y[test], model.predict(X[test])))
        scores.append((np.mean(tries), np.std(tries)))
    means, deviations = np.transpose(scores)
    axes.errorbar(epsilons, means, deviations, color=colour, marker="o", capsize=3, label=method)
axes.axhline(ceiling, color="0.4", linestyle="--", label="not private, pooled")
axes.set_xscale("log")
axes.set_xticks(epsilons, [str(epsilon) for epsilon in epsilons])
axes.minorticks_off()
axes.set_xlabel("epsilon per party")
axes.set_ylabel("test accuracy")
axes.legend(frameon=False)
plt.show()

# %%
# Parties may train whatever they like: only their votes matter.
trees = MultipartyClassifier(
    epsilon=1.0,
    data_norm=5.0,
    local=DecisionTreeClassifier(max_depth=3, random_state=0),
    random_state=0,
)
trees.fit(X[private], y[private], party=party, auxiliary=X[auxiliary])
accuracy = accuracy_score(y[test], trees.predict(X[test]))
print(f"{trees.guarantee_}; accuracy with trees {accuracy:.3f}")
