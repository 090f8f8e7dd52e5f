"""A file that `send` refuses, in many processes that end as programs do.

`python -m kit.refusals STUDY FILE COUNT` prints how many processes ended with each code. A thread
that still reads aborts a process that ends, now and then.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter

from stream_dp.services.commands.cli import main


def codes(study: str, file: str, count: int) -> dict[str, int]:
    """How many copies of this process end with each code, after the refusal of the file."""
    command = ["send", study, file]
    main(command)  # Imports, so that each copy takes no time for them.
    ended: Counter[str] = Counter()
    for _ in range(count):
        process = os.fork()
        if not process:
            sys.exit(main(command))
        _, status = os.waitpid(process, 0)
        ended[str(os.waitstatus_to_exitcode(status))] += 1
    return dict(ended)


if __name__ == "__main__":
    print(json.dumps(codes(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
