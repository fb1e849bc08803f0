"""Intervals of odds ratios: how often they cover the truth, and how wide they are.

``python -m benchmarks intervals`` fills docs/proofs/intervals.md. Covariates are real rows, drawn
with replacement; outcomes are drawn from a logistic model, linear in raw columns, that was fitted
to the real ones: so the truth is known. Tables of ``CONFIRMING`` were looked at once.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from scipy import special

from benchmarks import prior_tables
from benchmarks.measured import fill, markdown, read_record, write_record
from confrere import PrivateLogisticRegression, PublicSchema
from confrere.assurance.inference import ASKED
from confrere.evaluation import infer
from confrere.model.summary import effects

CHOOSING = ("light chains", "churn", "loans", "credit default")
CONFIRMING = ("health insurance", "mortgages", "attrition", "Pima", "BRFSS 2022")
DRAWS = 200
SIZES = (5_000, 20_000)
EPSILONS = (1.0, 3.0)


class World:
    """Real covariates with outcomes of a known model."""

    def __init__(self, name: str) -> None:
        rows, labels, schema = prior_tables.TABLES[name][0]()
        self.schema: PublicSchema = schema
        outcome = schema.outcome
        if labels is None:
            labels = outcome.encode(rows[outcome.column])
        self.columns = rows[list(schema.columns)].reset_index(drop=True)
        encoder = schema.encoder(form="straight")
        encoded = np.column_stack(
            [encoder.standardised(self.columns).toarray(), np.ones(len(rows))]
        )
        self.rows = encoded
        self.theta = clear(encoded, np.asarray(labels) == outcome.labels[1])
        terms = effects(encoder)
        self.contrasts = np.array([np.append(one.moved, one.constant) for one in terms])
        self.names = [one.term for one in terms]
        self.truth = self.contrasts @ self.theta

    def drawn(self, n: int, seed: int) -> tuple[pd.DataFrame, Any]:
        """Return a table, and how wide intervals of maximum likelihood are on it."""
        rng = np.random.default_rng(seed)
        at = rng.integers(0, len(self.columns), n)
        p = special.expit(self.rows[at] @ self.theta)
        outcome = self.schema.outcome
        assert outcome is not None
        no, yes = (
            outcome.names if not outcome.negative else (outcome.negative[0], outcome.positive[0])
        )
        label = np.where(rng.random(n) < p, yes, no)
        table = self.columns.iloc[at].reset_index(drop=True).assign(**{outcome.column: label})
        seen = (self.rows[at].T * (p * (1 - p))) @ self.rows[at]
        error = np.einsum("ij,jk,ik->i", self.contrasts, np.linalg.pinv(seen), self.contrasts)
        return table, np.sqrt(error)


def clear(rows: Any, yes: Any) -> Any:
    """Return a fit with hardly any ridge."""
    theta, ridge = np.zeros(rows.shape[1]), 1e-2 * np.eye(rows.shape[1])
    for _ in range(60):
        p = special.expit(rows @ theta)
        curved = (rows.T * (p * (1 - p))) @ rows + ridge
        step = np.linalg.solve(curved, rows.T @ (yes - p) - ridge @ theta)
        theta = theta + step * min(1.0, 2.0 / max(float(np.abs(rows @ step).max()), 1e-12))
    return theta


@lru_cache(maxsize=1)
def world(name: str) -> World:
    """Return a world, made once."""
    return World(name)


def measured(name: str, n: int, epsilon: float, draws: int) -> dict[str, Any]:
    """Return what was printed of a table's terms, and how often it was true."""
    made = world(name)
    inside, shown, wide = [], [], []
    for seed in range(draws):
        table, error = made.drawn(n, seed)
        settings: dict[str, Any] = {"schema": made.schema, "purpose": "inference"}
        fit = PrivateLogisticRegression((1 - ASKED) * epsilon, random_state=seed, **settings)
        found = infer(fit.fit(table), table, epsilon=ASKED * epsilon, random_state=seed)
        low, high = (np.array(found.columns()[end]) for end in ("low", "high"))
        told = np.isfinite(low)
        shown.append(told)
        inside.append(np.where(told, (low <= made.truth) & (made.truth <= high), math.nan))
        wide.append((high - low) / (2 * 1.96 * error))
    counts = np.sum(shown, axis=0)
    hits = np.nansum(inside, axis=0)
    covered = hits.sum() / max(counts.sum(), 1)
    each = {
        term: round(float(h / c), 3)
        for term, h, c in zip(made.names, hits, counts, strict=True)
        if c >= draws / 4
    }
    few = sorted(each, key=lambda one: each[one])[:2]
    width = np.nanmedian(wide) if counts.sum() else 0.0
    return {
        "draws": draws,
        "printed": round(float(np.mean(shown)), 3),
        "covered": round(float(covered), 4) if counts.sum() else None,
        "width": round(float(width), 2),
        "worst": {term: each[term] for term in few},
    }


def main() -> None:
    record: dict[str, Any] = {}
    for name in (*CHOOSING, *CONFIRMING):
        record[name] = {
            f"{n} {epsilon:g}": measured(name, n, epsilon, DRAWS)
            for n in SIZES
            for epsilon in EPSILONS
        }
    write_record("intervals", record)
    table = table_of(read_record("intervals"))
    fill("proofs/intervals.md", "intervals", table)
    Console().print(table, markup=False)


def table_of(record: dict[str, Any]) -> str:
    rows = []
    for name, cells in record.items():
        for cell, found in cells.items():
            n, epsilon = cell.split()
            worst = ", ".join(f"{term} {share:.2f}" for term, share in found["worst"].items())
            covered = "refused" if found["covered"] is None else f"{found['covered']:.3f}"
            told = f"{found['printed']:.2f}", covered, f"{found['width']:.1f}", worst
            rows.append((name, f"{int(n):,}", epsilon, str(found["draws"]), *told))
    head = ("table", "records", "epsilon", "draws", "printed", "coverage", "width", "worst")
    return markdown(head, rows)
