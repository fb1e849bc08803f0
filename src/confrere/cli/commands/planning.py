"""plan: what an epsilon would bring, from public sizes alone."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from confrere.cli.envelope import Answer, Option, command
from confrere.data.schema import PublicSchema
from confrere.planning import choose, plan_schema, plan_votes
from confrere.planning import plan as planned
from confrere.planning.forecast import DECAY
from confrere.views import Table

_EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)


@command("plan")
def plan(
    *,
    records: Annotated[int, Option("Records of each party.", min=1, max=10**9)],
    features: Annotated[int, Option("Encoded columns.", min=1, max=10**5)],
    epsilon: Annotated[float, Option("What each spends.", min=1e-3, max=1e3)] = 1.0,
    parties: Annotated[int, Option("Averaged models.", min=1, max=10**5)] = 1,
    delta: Annotated[float, Option("Allowed besides; 0 is pure.", min=0.0, max=0.1)] = 0.0,
    groups: Annotated[int, Option("Groups of features.", min=1, max=1000)] = 1,
    auc: Annotated[
        float, Option("The best model's, from the literature.", min=0.501, max=0.999)
    ] = 0.85,
    base_rate: Annotated[
        float, Option("Share of positive records, about.", min=0.001, max=0.999)
    ] = 0.5,
    decay: Annotated[
        float, Option("Columns: 0 unrelated, 0.5 a questionnaire, 1 an image.", min=0, max=3)
    ] = DECAY,
    auxiliary: Annotated[
        int | None, Option("Public rows, where small parties vote.", min=1, max=10**8)
    ] = None,
    classes: Annotated[int, Option("Of those who vote.", min=2, max=1000)] = 2,
    schema: Annotated[Path | None, "What lines and curves by this schema would bring."] = None,
    picture: Annotated[Path | None, "Draw it into this file."] = None,
) -> Answer:
    """Say what to expect of a private model before any data are touched; spends nothing."""
    found = planned(
        n=records,
        d=features,
        epsilon=epsilon,
        delta=delta,
        parties=parties,
        groups=groups,
        auc=auc,
        base_rate=base_rate,
        decay=decay,
    )
    by_epsilon = {"by_epsilon": found, **({"by_epsilon_pure": found.pure()} if delta else {})}
    areas = {
        name: {f"{e:g}": one.resized(records, e).expected_auc() for e in _EPSILONS}
        for name, one in by_epsilon.items()
    }
    laws = (f"delta {delta:g}", "pure") if delta else ("",)
    table = Table(
        ("", *(f"epsilon {e:g}" for e in _EPSILONS)),
        [
            (law, *(f"{one:.3f}" for one in each.values()))
            for law, each in zip(laws, areas.values(), strict=True)
        ],
        title="Expected AUC",
    )
    told: list[object] = [str(found), table]
    chosen: dict[str, Any] = {}
    if parties > 1:
        choice = choose(
            sizes=[records] * parties,
            d=features,
            epsilon=epsilon,
            delta=delta,
            auc=auc,
            base_rate=base_rate,
            decay=decay,
        )
        told.append(str(choice))
        chosen = {
            "choose": choice.best.way,
            "settings": dict(choice.settings),
            "ways": {one.way: {"auc": one.auc, "noise": one.noise} for one in choice.expected},
        }
    if auxiliary is not None:
        votes = plan_votes(
            parties=parties, auxiliary=auxiliary, d=features, epsilon=epsilon, n_classes=classes
        )
        told.append(str(votes))
        chosen["votes"] = {
            "sensitivity": votes.sensitivity,
            "privacy_term": votes.privacy_term(),
            "sampling_term": votes.sampling_term(),
            "shrinking_term": votes.shrinking_term,
            "cells": votes.cells,
            "cell_noise": votes.cell_noise,
        }
    if schema is not None:
        by_schema = plan_schema(PublicSchema.from_toml(schema), n=records, epsilon=epsilon, auc=auc)
        told.append(str(by_schema))
        chosen["schema"] = {
            "used": asdict(by_schema.used),
            "expected": [asdict(one) for one in by_schema.expected],
            "ball": by_schema.ball,
        }
    if picture is not None:
        found.plot().figure.savefig(picture, dpi=150)
    return Answer(
        "" if picture is None else f"drawn in {picture}",
        {
            "epsilon": epsilon,
            "expected_auc": found.expected_auc(),
            "auc_without_noise": found.auc_without_noise(),
            "margin": found.margin,
            "margin_spread": found.margin_spread,
            "excess": found.excess(),
            **areas,
            **chosen,
        },
        told,
    )
