"""`python -m gpulayer_nb` is the command `gpulayer`."""

import sys

from gpulayer_nb.cli import main

if __name__ == "__main__":
    sys.exit(main())
