#!/bin/sh
# Access lists of one study for seven kinds of users: acls.sh [confidential|public|both].
# One cluster: both, the default. Two clusters: run it on each, with its own side.
#
#   BOOTSTRAP     host:port                     ADMIN_CONFIG   client settings of an administrator
#   PREFIX        of the confidential topics    PUBLIC_PREFIX  of the public one; PREFIX if unset
#   REPORTS       the topic of reports, if it has a name of its own; PREFIX.reports if unset
#   PRODUCERS, RELEASER, ANALYSTS, MONITOR,
#   OPERATORS, WORKERS, AGGREGATORS             principals, several with spaces between them
#   BATCHES       yes: the study has batch releases, with operators and workers of their jobs
#   PARTS         yes: periods are closed in parts, by aggregators; operators announce markers
#   OPERATED      yes: operators have a monitor, which reads what is confidential and closes periods
#   ESTIMATES     yes: answers have a topic, estimates = true below [run]
#   KAFKA_ACLS    the tool; kafka-acls.sh
#
# What is not granted is refused: topics are made by an administrator (stream-dp topics), and
# no one but the releaser may so much as describe a confidential topic that is not theirs.
# Repeating the script is harmless. A user who is no longer named keeps what it was granted.
set -eu

side=${1:-both}
private=$PREFIX
reports=${REPORTS:-$private.reports}
public=${PUBLIC_PREFIX:-$PREFIX}
producers=${PRODUCERS:-User:producer}
releaser=${RELEASER:-User:releaser}
analysts=${ANALYSTS:-User:analyst}
monitor=${MONITOR:-User:monitor}
operators=${OPERATORS:-User:operator}
workers=${WORKERS:-User:worker}
aggregators=${AGGREGATORS:-User:aggregator}

case $side in
    confidential | public | both) ;;
    *) echo "usage: $0 [confidential|public|both]" >&2; exit 2 ;;
esac

# grant "PRINCIPALS" "OPERATIONS" RESOURCE...
grant() {
    who=$1 what=$2
    shift 2
    for operation in $what; do set -- "$@" --operation "$operation"; done
    for principal in $who; do set -- "$@" --allow-principal "$principal"; done
    ${KAFKA_ACLS:-kafka-acls.sh} --bootstrap-server "$BOOTSTRAP" \
        --command-config "$ADMIN_CONFIG" --add "$@" > /dev/null
    echo "$who: $what"
}

if [ "$side" != public ]; then
    grant "$producers $releaser" "Read Write Describe" --topic "$private.study"
    grant "$releaser" "DescribeConfigs" --topic "$private.study"
    grant "$producers" "Write Describe" --topic "$reports"
    grant "$producers" "Describe" --group "$private.reader"
    grant "$releaser" "Read Describe DescribeConfigs" --topic "$reports"
    grant "$releaser" "Read Write Describe DescribeConfigs" \
        --topic "$private.journal" --topic "$private.dead-letters" --topic "$private.heartbeats"
    grant "$releaser" "Read Write Describe DescribeConfigs" --topic "$private.clock"
    grant "$releaser" "Write Describe" --transactional-id "$private.releaser"
    grant "$releaser" "Describe" --group "$private.reader"
    grant "$releaser" "Read" --group "$private.releaser"
fi
if [ "$side" != public ] && [ "${BATCHES:-no}" = yes ]; then
    grant "$releaser" "Read Describe DescribeConfigs" --topic "$private.groups"
    grant "$releaser" "Read Write Describe DescribeConfigs" \
        --topic "$private.jobs" --topic "$private.results"
    grant "$releaser" "Read Describe DescribeConfigs" --topic "$private.transcripts"
    grant "$workers" "Read Describe" --topic "$private.jobs" --topic "$private.study"
    grant "$workers" "Read Write Describe" --topic "$private.transcripts" \
        --topic "$private.results" --topic "$private.heartbeats"
    grant "$operators" "Read Write Describe" \
        --topic "$private.groups" --topic "$private.jobs" --topic "$private.study"
    grant "$operators" "Describe" --topic "$reports"
    grant "$operators" "Read Describe" --topic "$private.journal" \
        --topic "$private.transcripts" --topic "$private.results" --topic "$private.heartbeats"
    grant "$operators" "Write Describe" --transactional-id "$private.groups"
    grant "$workers $operators" "Describe" --group "$private.reader"
fi
if [ "$side" != public ] && [ "${PARTS:-no}" = yes ]; then
    grant "$releaser" "Read Describe DescribeConfigs" \
        --topic "$private.closes" --topic "$private.manifests"
    grant "$releaser" "Read Write Describe DescribeConfigs" --topic "$private.orders"
    grant "$aggregators" "DescribeConfigs" --topic "$reports"
    grant "$aggregators" "Read Describe" --topic "$private.study" \
        --topic "$reports" --topic "$private.journal" --topic "$private.orders"
    if [ "${BATCHES:-no}" = yes ]; then
        grant "$aggregators" "Read Describe" --topic "$private.groups"
    fi
    grant "$aggregators" "Read Write Describe" \
        --topic "$private.manifests" --topic "$private.heartbeats"
    grant "$aggregators" "Write Describe" --topic "$private.dead-letters"
    grant "$aggregators" "Describe" --group "$private.reader"
    grant "$operators $producers" "Write Describe" --topic "$private.closes"
    grant "$operators" "Read Write Describe" --topic "$private.study"
    grant "$operators" "Write Describe" --topic "$reports"
    grant "$operators" "Describe" --group "$private.reader"
fi
if [ "$side" != public ] && [ "${OPERATED:-no}" = yes ]; then
    grant "$operators" "Read Write Describe" \
        --topic "$private.study" --topic "$reports"
    grant "$operators" "Read Describe" --topic "$private.journal" \
        --topic "$private.dead-letters" --topic "$private.heartbeats"
    grant "$operators" "Describe" --group "$private.reader"
fi
if [ "$side" != confidential ]; then
    if [ "${OPERATED:-no}" = yes ] || [ "${BATCHES:-no}" = yes ]; then
        grant "$operators" "Read Describe" --topic "$public.releases"
        grant "$operators" "Describe" --group "$public.reader"
    fi
    grant "$releaser" "Read Write Describe DescribeConfigs" --topic "$public.releases"
    grant "$releaser" "Write Describe" --transactional-id "$public.publisher"
    grant "$analysts" "Read Describe" --topic "$public.releases"
    if [ "${ESTIMATES:-no}" = yes ]; then
        grant "$releaser" "Read Write Describe DescribeConfigs" --topic "$public.estimates"
        grant "$analysts" "Read Describe" --topic "$public.estimates"
    fi
    grant "$releaser $analysts" "Describe" --group "$public.reader"
    grant "$releaser" "Read" --group "$public.publisher"
fi
grant "$monitor" "Describe" --cluster
