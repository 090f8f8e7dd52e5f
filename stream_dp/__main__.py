"""The command line as a module: `python -m stream_dp COMMAND`."""

import sys

from .services.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
