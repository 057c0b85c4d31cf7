"""The command line as ``python -m debias.cli``."""

from debias.cli import main

if __name__ == "__main__":
    main()
