"""The makers of generated pages can be imported as MkDocs imports them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "hooks"))
