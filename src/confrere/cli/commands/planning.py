"""plan: what an epsilon would bring, from public sizes alone."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from confrere.cli.envelope import Answer, command
from confrere.cli.views import listing
from confrere.planning import choose, plan_schema, plan_votes
from confrere.planning import plan as planned
from confrere.planning.forecast import DECAY
from confrere.schema import PublicSchema

_EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)


@command("plan")
def plan(
    records: Annotated[int, typer.Option(min=1, max=10**9, help="Records of each party.")],
    features: Annotated[int, typer.Option(min=1, max=10**5, help="Encoded columns.")],
    epsilon: Annotated[float, typer.Option(min=1e-3, max=1e3, help="What each spends.")] = 1.0,
    parties: Annotated[int, typer.Option(min=1, max=10**5, help="Averaged models.")] = 1,
    delta: Annotated[
        float, typer.Option(min=0.0, max=0.1, help="Allowed besides; 0 is pure.")
    ] = 0.0,
    groups: Annotated[int, typer.Option(min=1, max=1000, help="Groups of features.")] = 1,
    auc: Annotated[
        float, typer.Option(min=0.501, max=0.999, help="The best model's, from the literature.")
    ] = 0.85,
    base_rate: Annotated[
        float, typer.Option(min=0.001, max=0.999, help="Share of positive records, about.")
    ] = 0.5,
    decay: Annotated[
        float,
        typer.Option(min=0, max=3, help="Columns: 0 unrelated, 0.5 a questionnaire, 1 an image."),
    ] = DECAY,
    auxiliary: Annotated[
        int | None, typer.Option(min=1, max=10**8, help="Public rows, where small parties vote.")
    ] = None,
    classes: Annotated[int, typer.Option(min=2, max=1000, help="Of those who vote.")] = 2,
    schema: Annotated[
        Path | None, typer.Option(help="What lines and curves by this schema would bring.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw it into this file.")] = None,
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
    others = {e: found.resized(records, e).expected_auc() for e in _EPSILONS}
    table = listing("Expected AUC", "", *(f"epsilon {e:g}" for e in others))
    table.add_row(f"delta {delta:g}" if delta else "", *(f"{one:.3f}" for one in others.values()))
    pure: dict[str, Any] = {}
    if delta:
        alone = {e: found.pure().resized(records, e).expected_auc() for e in _EPSILONS}
        table.add_row("pure", *(f"{one:.3f}" for one in alone.values()))
        pure = {"by_epsilon_pure": {f"{e:g}": one for e, one in alone.items()}}
    told: list[Any] = [str(found), table]
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
        by_schema = plan_schema(
            PublicSchema.from_toml(schema), n=records, epsilon=epsilon, delta=delta, auc=auc
        )
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
            "by_epsilon": {f"{e:g}": value for e, value in others.items()},
            **pure,
            **chosen,
        },
        told,
    )
