"""plan and choose: what an epsilon would bring, and which way to take, from public facts alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from confrere.assurance.inference import ASKED, infer
from confrere.cli.app import Answer, Option, command
from confrere.cli.commands.schemas import read_schema
from confrere.errors import InvalidParameter
from confrere.estimators import PrivateLogisticRegression
from confrere.planning import BEST, ExpectedArea, plan_schema
from confrere.planning import choose as chosen_way
from confrere.planning import plan as planned
from confrere.views import Table

_EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)

_Auc = Annotated[float, Option("The best model's, from the literature.", min=0.501, max=0.999)]


def _told(area: ExpectedArea) -> dict[str, float]:
    return {"auc": area.auc, "low": area.low, "high": area.high, "kept": area.kept}


@command("plan")
def plan(
    *,
    records: Annotated[int, Option("Records of each party.", min=1, max=10**9)],
    features: Annotated[int, Option("Encoded columns.", min=1, max=10**5)],
    epsilon: Annotated[float, Option("What each spends.", min=1e-3, max=1e3)] = 1.0,
    parties: Annotated[int, Option("Averaged models.", min=1, max=10**5)] = 1,
    delta: Annotated[float, Option("Allowed besides; 0 is pure.", min=0.0, max=0.1)] = 0.0,
    auc: _Auc = BEST,
    base_rate: Annotated[
        float, Option("Share of positive records, about.", min=0.001, max=0.999)
    ] = 0.5,
    schema: Annotated[str | None, "What lines and curves by this schema would bring."] = None,
    odds_ratios: Annotated[
        bool, "With --schema: how far their intervals would reach, of a fit for inference."
    ] = False,
) -> Answer:
    """Say what to expect of a private model before any data are touched; spends nothing."""
    found = planned(
        n_samples=records,
        n_features=features,
        epsilon=epsilon,
        parties=parties,
        auc=auc,
        delta=delta,
        base_rate=base_rate,
    )
    by_epsilon = {"by_epsilon": found} | (
        {"by_epsilon_pure": replace(found, delta=0.0)} if delta else {}
    )
    areas = {
        name: {f"{e:g}": replace(one, epsilon=e).expected.auc for e in _EPSILONS}
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
    also: dict[str, object] = {}
    if odds_ratios and schema is None:
        raise InvalidParameter("--odds-ratios: give --schema too, which says what columns are.")
    if schema is not None:
        declared = read_schema(schema)
        by_schema = plan_schema(declared, n_samples=records, epsilon=epsilon, auc=auc)
        told.append(str(by_schema))
        also["schema"] = {
            "used": by_schema.used,
            "ball": by_schema.ball,
            "lines": _told(by_schema.lines),
            "curves": _told(by_schema.curves),
            "declared": by_schema.declared and _told(by_schema.declared),
        }
        if odds_ratios:
            fit = PrivateLogisticRegression((1 - ASKED) * epsilon, declared, purpose="inference")
            ahead = infer(fit, n_samples=records, epsilon=ASKED * epsilon)
            told.append(ahead)
            also["odds_ratios"] = ahead.quality()
    return Answer(
        "", {"epsilon": epsilon, "expected_auc": _told(found.expected), **(areas | also)}, told
    )


@command("choose")
def choose(
    sizes: Annotated[list[int], Option("Records of every party.", metavar="RECORDS...")],
    *,
    schema: Annotated[str | None, "What is declared about the columns."] = None,
    features: Annotated[int | None, Option("Encoded columns, without one.", min=1)] = None,
    epsilon: Annotated[float, Option("What each spends.", min=1e-3, max=1e3)] = 1.0,
    auc: _Auc = BEST,
    trust: Annotated[str, "The weakest that all parties' policies allow."] = "own noise",
) -> Answer:
    """Say how organisations should learn one model, with what to expect of every way."""
    if schema is None and features is None:
        raise InvalidParameter("--schema: give it, or with --features the number of columns.")
    declared = None if schema is None else read_schema(schema)
    found = chosen_way(
        n_samples=sizes, schema=declared, n_features=features, epsilon=epsilon, auc=auc, trust=trust
    )
    return Answer(
        "",
        {
            "choose": found.best.name,
            "settings": dict(found.best.settings),
            "ways": {
                way.name: _told(way.expected) | {"trust": str(way.trust)} for way in found.ways
            },
            "said": list(found.said),
        },
        [str(found)],
    )
