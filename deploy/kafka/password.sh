#!/bin/sh
# Set the password of a Kafka user to the content of a file: password.sh USER FILE.
#
#   BOOTSTRAP      host:port                    ADMIN_CONFIG   client settings of an administrator
#   KAFKA_CONFIGS  the tool; kafka-configs.sh
set -eu

[ $# -eq 2 ] || { echo "usage: $0 USER FILE" >&2; exit 2; }
settings=$(mktemp)
trap 'rm -f "$settings"' EXIT
printf 'SCRAM-SHA-512=password=%s\n' "$(cat "$2")" > "$settings"
${KAFKA_CONFIGS:-kafka-configs.sh} --bootstrap-server "$BOOTSTRAP" \
    --command-config "$ADMIN_CONFIG" \
    --alter --entity-type users --entity-name "$1" --add-config-file "$settings"
