"""`kafka-acls.sh --add`, mostly without Java: adds access lists to a secured broker.

Takes the options that `acls.sh` gives. SECRETS is the folder with the administrator's password.
KAFKAS_OWN is the command of Kafka itself. It gets the call if an option or an operation is new to
it, so that Kafka itself reads everything that the script can say.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from itertools import pairwise
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
}


def is_new(words: list[str]) -> bool:
    """Whether an option or an operation stands in no call before; remembers those of this call."""
    file = Path(os.environ["SECRETS"]).parent / "said-to-kafka"
    known = set(file.read_text().split()) if file.exists() else set()
    said = {word for word in words if word.startswith("--")}
    said |= {word for option, word in pairwise(words) if option == "--operation"}
    file.write_text("\n".join(known | said))
    return not said <= known


def main() -> None:
    if is_new(sys.argv[1:]):
        command = os.environ["KAFKAS_OWN"].split()
        os.execvp(command[0], [*command, *sys.argv[1:]])
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--command-config", required=True)
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--cluster", action="store_true")
    for name in (*RESOURCES, "operation", "allow_principal"):
        parser.add_argument(f"--{name.replace('_', '-')}", action="append", default=[])
    options = parser.parse_args()
    resources = [(t, name) for word, t in RESOURCES.items() for name in getattr(options, word)]
    if options.cluster:
        resources.append((ResourceType.BROKER, "kafka-cluster"))
    lists = [
        AclBinding(
            *(resource, name, ResourcePatternType.LITERAL, principal, "*"),
            AclOperation[re.sub(r"\B([A-Z])", r"_\1", operation).upper()],
            AclPermissionType.ALLOW,
        )
        for resource, name in resources
        for operation in options.operation
        for principal in options.allow_principal
    ]
    admin = AdminClient(
        {
            "bootstrap.servers": options.bootstrap_server,
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "sasl.password": Path(os.environ["SECRETS"], "admin").read_text(),
        }
    )
    for future in admin.create_acls(lists).values():
        future.result(60)


if __name__ == "__main__":
    main()
