#!/bin/sh
# Give a user of Kafka the password in a file, at once and for good: password.sh USER FILE.
#
#   BOOTSTRAP      host:port                    ADMIN_CONFIG   client settings of an administrator
#   KAFKA_CONFIGS  the tool; kafka-configs.sh
set -eu

[ $# -eq 2 ] || { echo "usage: $0 USER FILE" >&2; exit 2; }
given=$(mktemp)
trap 'rm -f "$given"' EXIT
printf 'SCRAM-SHA-512=password=%s\n' "$(cat "$2")" > "$given"
${KAFKA_CONFIGS:-kafka-configs.sh} --bootstrap-server "$BOOTSTRAP" \
    --command-config "$ADMIN_CONFIG" \
    --alter --entity-type users --entity-name "$1" --add-config-file "$given"
