#!/bin/sh
# Start the broker of server.properties; at the first start, make its storage and its users.
# SECRETS holds a file for each user, with the password in it and nothing else.
set -eu

properties=${PROPERTIES:-/etc/stream-dp/server.properties}
secrets=${SECRETS:-/run/secrets}
storage=${KAFKA_STORAGE:-/opt/kafka/bin/kafka-storage.sh}
server=${KAFKA_SERVER:-/opt/kafka/bin/kafka-server-start.sh}
data=$(sed -n 's/^log\.dirs=//p' "$properties" | tail -n 1)

if [ ! -e "$data/meta.properties" ]; then
    set -- --cluster-id "${CLUSTER_ID:-$($storage random-uuid)}"
    for user in admin producer releaser analyst monitor operator worker; do
        # The last two are of studies with batch releases.
        case $user in operator | worker) [ -e "$secrets/$user" ] || continue ;; esac
        password=$(cat "$secrets/$user")
        set -- "$@" --add-scram "SCRAM-SHA-512=[name=$user,password=$password]"
    done
    $storage format --config "$properties" "$@"
fi
exec $server "$properties"
