#!/bin/sh
# Run a command until it ends with a code that another start cannot cure: again.sh COMMAND...
# For service managers that start again after any failure or after none. 0, 2, 3 and 4 are final;
# anything else, a kill among it, is tried again after AGAIN_SECONDS. SIGTERM is passed on.
child='' stopping=''
trap 'stopping=1; [ -z "$child" ] || kill -TERM "$child" 2> /dev/null' TERM INT

while :; do
    "$@" &
    child=$!
    while :; do
        wait "$child"
        code=$?
        kill -0 "$child" 2> /dev/null || break
    done
    case $code in 0 | 2 | 3 | 4) exit "$code" ;; esac
    [ -z "$stopping" ] || exit "$code"
    echo "ended with code $code; starting again" >&2
    sleep "${AGAIN_SECONDS:-10}" &
    child=$!
    wait "$child"
    [ -z "$stopping" ] || exit "$code"
done
