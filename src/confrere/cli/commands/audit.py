"""audit: try to refute a method's promise, on made-up data."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from confrere.audit import audit as sampled
from confrere.audit import exact_audit
from confrere.catalogue import CATALOGUE, find_method
from confrere.cli.answers import Answer, command
from confrere.cli.exits import ExitCode

#: Methods that fit by themselves; the others are made of them.
Auditable = StrEnum(  # type: ignore[misc]
    "Auditable",
    {name: name for name, method in CATALOGUE.items() if method.shape in ("alone", "together")},
)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    command(app, "audit")(audit)


def audit(
    method: Annotated[Auditable, typer.Argument(help="A method of the catalogue.")],
    epsilon: Annotated[float, typer.Option(min=0.01, max=10, help="The claim to test.")] = 1.0,
    runs: Annotated[
        int | None, typer.Option(min=200, help="Runs per data set; by default what suits.")
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="By ratios of densities (plr and pst-f).")
    ] = False,
    records: Annotated[
        Path | None, typer.Option(help="Keep finished runs here, to go on after a stop.")
    ] = None,
) -> Answer:
    """Bound a method's epsilon from below on made-up neighbours; exit code 5 if it is refuted.

    Nobody's data are used and nothing is charged. A promise that is not refuted may still be
    false: the proofs say why it is not.
    """
    estimator = find_method(str(method)).make(epsilon=epsilon)
    if exact:
        found = exact_audit(estimator)
        data: dict[str, Any] = {
            "epsilon": found.epsilon,
            "claimed": found.claimed,
            "refuted": found.refuted,
        }
        text = f"epsilon >= {found.epsilon:.4f} (claimed {found.claimed:g}), {found.where}"
        return _answer(text, data)
    result = sampled(estimator, runs=runs, records=records)
    return _answer(str(result), result.to_dict())


def _answer(text: str, data: dict[str, Any]) -> Answer:
    if data["refuted"]:
        return Answer(
            f"REFUTED: {text}", data, exit_code=ExitCode.VERIFICATION, error_code="Refuted"
        )
    return Answer(f"not refuted: {text}", data)
