"""Stream counters: prefix sums of a stream, their factorizations and exact costs."""
