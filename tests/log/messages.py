"""Messages of tests, and their records."""

from stream_dp.log.message import START, build_message, message_records


def chain(*contents):
    """Messages with these heads and parts, one after the other."""
    messages, previous = [], START
    for index, (head, parts) in enumerate(contents):
        messages.append(build_message(index, previous, head, parts))
        previous = messages[-1].hash
    return messages


def as_records(sent, topic="t", time=None):
    return message_records(
        sent, topic, kind="test", source="tests", content="application/octet-stream", time=time
    )


def write(log, *groups):
    """A topic of its own with these records."""
    log.create({"t": 1})
    for group in groups:
        log.append(group)
