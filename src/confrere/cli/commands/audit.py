"""audit: try to refute promises, on made-up data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn

from confrere.assurance.audited import AUDITED, IN_TABLE, Audited, Fault, audit_all
from confrere.audit import audit as sampled
from confrere.audit import exact_audit, hardest_case
from confrere.catalogue import find_method
from confrere.cli.app import Answer, ExitCode, Option, command, console
from confrere.extras import installed, research
from confrere.views import Table


@command("audit")
def audit(
    method: Annotated[
        str | None, "A method that spends something: plr, ...; facts; or total."
    ] = None,
    *,
    every: Annotated[
        bool,
        Option("All of them, and with confrere-research what papers claim and is false.", "--all"),
    ] = False,
    epsilon: Annotated[float, Option("The claim to test.", min=0.01, max=10)] = 1.0,
    runs: Annotated[
        int | None, Option("Runs per data set; by default what suits.", min=200)
    ] = None,
    exact: Annotated[bool, "By ratios of densities."] = False,
    whole_fits: Annotated[bool, "Call fit for every run: slow, hears everything."] = False,
) -> Answer:
    """Bound epsilon from below on made-up neighbours; exit code 5 if a guarantee is refuted.

    Everything is done for the method, or with --all for every one: exact ratios, noise read back,
    theorems worked out again and costs added up, in every row of the table in docs/audit.md;
    events by the ten thousands, the lattice that releases are stepped to, and whole fits.

    The settings and neighbours are those under which a method tells most. Nobody's data are used
    and nothing is charged. A guarantee that is not refuted may still be false: the proofs say why
    it is not.
    """
    if every == (method is not None):
        raise typer.BadParameter("name a method, or give --all.")
    if every:
        if exact or whole_fits:
            raise typer.BadParameter("--exact and --whole-fits are for one method.")
        return _audit_lines([*IN_TABLE, *_faults()], epsilon, runs)
    if method not in IN_TABLE:
        raise typer.BadParameter(f"there is {', '.join(IN_TABLE)}.", param_hint="'METHOD'")
    if not exact and not whole_fits:
        return _audit_lines([method], epsilon, runs)
    if method not in AUDITED:
        raise typer.BadParameter("--exact and --whole-fits are for fits.")
    case = hardest_case(find_method(method).make(epsilon=epsilon))
    if exact:
        found = exact_audit(case.estimator, case.pairs)
        data = {"epsilon": found.epsilon, "claimed": found.claimed, "refuted": found.refuted}
        text = f"epsilon >= {found.epsilon:.4f} (claimed {found.claimed:g}), {found.where}"
        return _answer(text, data)
    result = sampled(case.estimator, case.pairs, runs=runs, whole_fits=True)
    text = f"{result}; if the guarantee holds, expect at most {result.attainable:.3f}"
    return _answer(text, result.to_dict())


def _answer(text: str, data: Mapping[str, object]) -> Answer:
    if data["refuted"]:
        return Answer(
            f"REFUTED: {text}", data, exit_code=ExitCode.VERIFICATION, error_code="Refuted"
        )
    return Answer(f"not refuted: {text}", data)


def _faults() -> dict[str, Fault]:
    return dict(research("as_printed.faults").FAULTS) if installed("confrere_research") else {}


def _audit_lines(names: list[str], epsilon: float, runs: int | None) -> Answer:
    faults = _faults() if len(names) > 1 else {}
    found: list[Audited] = []
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), console=console(), transient=True
    ) as bar:
        task = bar.add_task("")
        for name in names:
            bar.update(task, description=f"{name} ({len(found) + 1} of {len(names)})")
            found += audit_all([name], faults=faults, epsilon=epsilon, runs=runs)
    rows = [
        (
            line.name,
            f"{line.claimed:g}",
            f"{line.found:.3f}",
            "" if line.exact is None else f"{line.exact:.4f}",
            "" if line.whole is None else f"{line.whole:.3f}",
            "" if not line.sound else f"{len(line.rows)}" if line.fault is None else "BROKEN",
            f"{line.seconds:.1f}",
        )
        for line in found
    ]
    columns = ("guarantee", "claimed", "found", "exactly", "whole fits", "rows", "s")
    table = Table(columns, rows, title="Audits")
    wrong = [line.name for line in found if line.sound and line.refuted]
    missed = [line.name for line in found if not line.sound and not line.refuted]
    data = {"audits": found, "refuted": wrong, "missed": missed}
    if wrong or missed:
        parts = [f"REFUTED: {', '.join(wrong)}"] if wrong else []
        parts += [f"{line.name}: {line.fault}" for line in found if line.fault is not None]
        parts += [f"false, and not found out: {', '.join(missed)}"] if missed else []
        return Answer(
            "; ".join(parts), data, [table], exit_code=ExitCode.VERIFICATION, error_code="Refuted"
        )
    if len(names) == 1:
        return Answer(f"not refuted: {names[0]}, in {len(found[0].rows)} rows", data, [table])
    told = "no guarantee of the library is refuted"
    return Answer(f"{told}; every false claim of a paper is" if faults else told, data, [table])
