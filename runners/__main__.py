"""`python -m runners`: the site with its workers, as one process tree."""

import sys

from runners.supervisor import main

if __name__ == "__main__":
    sys.exit(main())
