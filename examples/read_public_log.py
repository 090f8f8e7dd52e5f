"""A public log in Arrow: python read_public_log.py sqlite:work-public.db

Every table has `.to_pandas()` where pandas is installed.
"""

from __future__ import annotations

import sys

import stream_dp


def show(source: str) -> None:
    public = stream_dp.open(sys.argv[1])
    for line in public.verify():
        print(line)
    print(public.release_table().select(["release", "period", "rows", "rho_spent"]).to_pylist())
    for release in public.study.releases:
        last = public.releases_of(release.name)[-1]
        print(f"\n{release.name}, {last.certificate.period}: {last.certificate.guarantee}")
        print(last.estimates.slice(0, 4).to_pylist())  # unbiased answers of this release
        print(public.panel(release.name).table().slice(0, 3).to_pylist())  # artificial people
        query = public.queries(release.name)[0]
        best = public.answer(release.name, query)  # from everything that was measured
        low, high = best.interval
        print(f"{query}: {best.value:.4f}, 95% interval {low:.4f} to {high:.4f}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: read_public_log.py PUBLIC, such as sqlite:work-public.db", file=sys.stderr)
        sys.exit(2)
    try:
        show(sys.argv[1])
    except (stream_dp.UserError, stream_dp.LogError) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
