"""``python -m confrere.cli``."""

from confrere.cli import main

main()
