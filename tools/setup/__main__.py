"""Make the book's environment: `python3 tools/setup [--box cpu|gpu|book] [--again]`, from the Makefile."""

import sys

# The other files are written for the Python that is asked for here; this one any Python can read.
if sys.version_info < (3, 11):  # noqa: UP036
    this = sys.version.split()[0]
    sys.exit("set-up: Python 3.11 or newer is needed, this is " + this + ": make PYTHON=/path/of/one")

import environment

sys.exit(environment.main())
