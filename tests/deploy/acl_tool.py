"""`kafka-acls.sh --add` without Java: adds access lists as the administrator of a secured broker.

Takes the options that `acls.sh` gives. SECRETS is the folder with the administrator's password.
"""

from __future__ import annotations

import argparse
import os
import re
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


def main() -> None:
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
