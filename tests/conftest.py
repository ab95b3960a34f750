"""Settings of all tests: laws are tried without a deadline, for a busy machine is no failure.

`make test` draws the same examples each time, so that it fails by what was changed and not by its
luck; `make hunt` draws new ones, and many more of them: what it finds is pinned with `@example`.
"""

import os

from hypothesis import settings

settings.register_profile("kilocard", deadline=None, derandomize=True)
settings.register_profile("hunt", deadline=None, max_examples=1_000, print_blob=True)
settings.load_profile("hunt" if os.environ.get("KILOCARD_HUNT") else "kilocard")
