"""The set-up's own modules, which run before there is an environment."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "setup"))
