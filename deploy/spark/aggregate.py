"""What `spark-submit` starts: the aggregator, with the words of `stream-dp aggregate`."""

import sys

from stream_dp.services.commands.cli import main

if __name__ == "__main__":
    sys.exit(main(["aggregate", *sys.argv[1:]]))
