#!/bin/sh
# Run a command until it ends with a code that another start cannot cure: again.sh COMMAND...
# For service managers that start again after any failure or after none. 0, 2, 3 and 4 are final;
# anything else, a kill among it, is tried again after AGAIN_SECONDS. SIGTERM is passed on.
# For those that cannot be kept from starting again, such as Kubernetes: with AGAIN_HOLD=FILE it makes
# that file after a final code, and waits for SIGTERM. With --json among the words it writes JSON too.
child='' stopping='' json=''
trap 'stopping=1; [ -z "$child" ] || kill -TERM "$child" 2> /dev/null' TERM INT
for word; do [ "$word" != --json ] || json=1; done
[ -z "$AGAIN_HOLD" ] || rm -f "$AGAIN_HOLD"

tell() { # LEVEL EVENT MESSAGE
    if [ -n "$json" ]; then
        printf '{"time": "%s", "level": "%s", "event": "%s", "message": "%s"}\n' \
            "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$@" >&2
    else
        echo "$3" >&2
    fi
}

# A signal may come before the child's number is known.
started() { # PID
    child=$1
    [ -z "$stopping" ] || kill -TERM "$child" 2> /dev/null
}

pause() { # SECONDS, or until a signal
    sleep "$1" &
    started $!
    wait "$child"
}

while :; do
    "$@" &
    started $!
    while :; do
        wait "$child"
        code=$?
        kill -0 "$child" 2> /dev/null || break
    done
    [ -z "$stopping" ] || exit "$code"
    case $code in
    0 | 2 | 3 | 4)
        [ -n "$AGAIN_HOLD" ] || exit "$code"
        tell error held "ended with code $code; waits for a person"
        : > "$AGAIN_HOLD"
        while [ -z "$stopping" ]; do pause 3600; done
        exit "$code"
        ;;
    esac
    tell warning restarting "ended with code $code; starting again"
    pause "${AGAIN_SECONDS:-10}"
    [ -z "$stopping" ] || exit "$code"
done
