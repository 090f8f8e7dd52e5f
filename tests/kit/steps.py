"""The steps of a releaser at which crash tests kill it."""

# In the order of a run; on any log.
STEPS = (
    "owned",
    "begun",
    "recovered",
    "read",
    "dead-letters",
    "cut",
    "drawn",
    "closed",
    "refused",
    "snapshot",
    "commit",
    "committed",
    "witnessed",
    "publish",
    "published",
    "cleaned",
)
# On Kafka a transaction is open after each of these; by the step before it.
OPEN_TRANSACTIONS = {
    "owned": "genesis open",
    "commit": "journal open",
    "publish": "release open",
}
