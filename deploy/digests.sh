#!/bin/sh
# Prints the digest that each image's tag has now, of all images that compose.yaml and Containerfile
# take from others, as lines for the file .env beside compose.yaml:
#     ./digests.sh >> .env
# Keep that file: images are the same until these lines are made again. Needs docker with buildx.
set -eu
cd "$(dirname "$0")"
sed -nE 's/.*[ "]([a-z0-9\/-]+:[a-z0-9.-]+)@\$\{([A-Z]+_DIGEST).*/\2 \1/p' compose.yaml Containerfile \
    | sort -u \
    | while read -r name image; do
        digest=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$image")
        case $digest in
            sha256:*) echo "$name=$digest" ;;
            *) echo "digests.sh: $image: no digest in '$digest'" >&2 && exit 1 ;;
        esac
    done
