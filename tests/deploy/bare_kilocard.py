"""`kilocard`, where no package but those that are named can be imported; at its end it tells which it used.

python bare_kilocard.py NAMES REPORT ARGUMENTS…: names as a JSON list, the report a file for another one.
"""

from __future__ import annotations

import atexit
import json
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

there, report = set(json.loads(sys.argv[1])), Path(sys.argv[2])
owners = {
    top: {re.sub(r"[-_.]+", "-", it).lower() for it in own} for top, own in packages_distributions().items()
}


class Absent:
    """Comes before all other finders, and knows what is not there."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        own = owners.get(name.partition(".")[0])
        if own and not own & there:
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)


@atexit.register
def tell() -> None:
    tops = {name.partition(".")[0] for name in sys.modules}
    used = set().union(*(owners.get(top, set()) for top in tops))
    report.write_text(json.dumps(sorted(used & there)), encoding="utf-8")


sys.meta_path.insert(0, Absent())  # type: ignore[arg-type]
sys.argv[:] = ["kilocard", *sys.argv[3:]]

from kilocard.cli import main  # noqa: E402 (from here on packages are missing)

main()
