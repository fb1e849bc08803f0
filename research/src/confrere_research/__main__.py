"""``python -m confrere_research``: its own command line, in the manner of confrere's."""

import typer

from confrere.cli.app import COMMANDS, Group, runnable
from confrere_research import commands  # noqa: F401  they are in COMMANDS from then on

app = typer.Typer(cls=Group, no_args_is_help=True, pretty_exceptions_enable=False)
app.command("reproduce")(runnable(COMMANDS["reproduce"]))


@app.callback()
def papers() -> None:
    """Run what the papers behind confrere print, from written specifications."""


if __name__ == "__main__":
    app(prog_name="python -m confrere_research")
