"""What Hypothesis is not to check of tests that take their fixtures once for all examples."""

from hypothesis import HealthCheck

# Their fixtures are not changed by an example; a loaded machine makes examples slowly.
SHARED = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)
