"""``python -m debias.cli``."""

from debias.cli import main

main()
