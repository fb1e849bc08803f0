"""Clear fits of statsmodels and lifelines, and diffprivlib's, for ``bench_outcomes``.

A program of its own, in an environment of theirs: ``python outcome_fits.py`` reads jobs from
standard input, one JSON object per line, and answers each with a line. It imports nothing of this
project.
"""

import json
import sys
import warnings

import numpy as np
import pandas as pd
import statsmodels.api as sm
from diffprivlib.models import LinearRegression
from lifelines import CoxPHFitter
from lifelines.utils import concordance_index
from sklearn.metrics import d2_tweedie_score, r2_score


def amounts(job, t):
    clear = sm.OLS(t["y"], sm.add_constant(t["X"])).fit()
    predicted = clear.predict(sm.add_constant(t["Z"], has_constant="add"))
    told = {"clear": r2_score(t["z"], predicted), "coef": clear.params.tolist()}
    for epsilon in job["epsilons"]:
        other = LinearRegression(
            epsilon=epsilon, bounds_X=tuple(t["bounds"]), bounds_y=tuple(job["ends"]),
            random_state=job["seed"],
        ).fit(t["X"], t["y"])  # fmt: skip
        told[f"diffprivlib {epsilon:g}"] = r2_score(t["z"], other.predict(t["Z"]))
    return told


def counts(job, t):  # noqa: ARG001
    clear = sm.GLM(t["y"], sm.add_constant(t["X"]), family=sm.families.Poisson()).fit(tol=1e-13)
    predicted = clear.predict(sm.add_constant(t["Z"], has_constant="add"))
    score = d2_tweedie_score(t["z"], np.maximum(predicted, 1e-12), power=1)
    return {"clear": score, "coef": clear.params.tolist()}


def times(job, t):
    names = [f"x{j}" for j in range(t["X"].shape[1])]
    rows = pd.DataFrame(t["X"], columns=names).assign(T=np.abs(t["y"]), E=t["y"] > 0)
    clear = CoxPHFitter().fit(rows, "T", "E")
    risk = clear.predict_partial_hazard(pd.DataFrame(t["Z"], columns=names))
    told = {"clear": concordance_index(np.abs(t["z"]), -risk, t["z"] > 0)}
    # The piecewise-exponential likelihood is Poisson's, of one row a person and piece.
    ends = np.array(job["ends"])
    begins = np.append(0.0, ends[:-1])
    spent = np.clip(np.abs(t["y"])[:, None] - begins, 0, ends - begins)
    who, piece = np.nonzero(spent)
    met = (t["y"][who] > begins[piece]) & (t["y"][who] <= ends[piece])
    rows = np.hstack([t["X"][who], np.eye(len(ends))[piece]])
    offset = np.log(spent[who, piece] / ends[-1])
    family = sm.families.Poisson()
    told["coef"] = sm.GLM(met, rows, family=family, offset=offset).fit(tol=1e-13).params.tolist()
    return told


def main():
    warnings.filterwarnings("ignore")
    fits = {"amounts": amounts, "counts": counts, "times": times}
    for line in sys.stdin:
        job = json.loads(line)
        print(json.dumps(fits[job["kind"]](job, np.load(job["rows"]))), flush=True)


if __name__ == "__main__":
    main()
