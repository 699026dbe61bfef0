"""``python -m flowcontrol``: the command line."""

import sys

from flowcontrol.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
