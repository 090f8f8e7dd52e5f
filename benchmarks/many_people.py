"""Many people: `python benchmarks/many_people.py [1000000 10000000]`.

Simulated people with 12 columns of 2 to 15 values, where each column repeats an earlier one for
three people in five. Fits them as `mixture` under add_remove and draws as many rows, in a process
of its own for each number. Prints CPU seconds with compilation, and the peak of memory in MiB.
"""

from __future__ import annotations

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from numpy.typing import NDArray
from people import RHO
from result_file import record

from stream_dp.batch.data.domain import Column
from stream_dp.batch.people.people_synthesizer import fit_people
from stream_dp.batch.people.people_table import People, PeopleDomain
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import PeopleRelease

COLUMNS = 12


def simulated(people: int, sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
    rng = np.random.default_rng(3)
    codes = np.empty((people, COLUMNS), np.uint8)
    for c, size in enumerate(sizes):
        drawn = rng.integers(0, size, people, np.uint8)
        if c:
            earlier = codes[:, rng.integers(0, c)] % np.uint8(size)
            drawn = np.where(rng.random(people, np.float32) < 0.6, earlier, drawn)
        codes[:, c] = drawn
    return codes


def costs(people: int) -> tuple[float, float, float, float]:
    """CPU seconds and MiB of the fit, and of the fit with its rows."""
    sizes = np.random.default_rng(3).integers(2, 16, COLUMNS)
    columns = tuple(Column(f"c{i}", tuple(range(n))) for i, n in enumerate(sizes.tolist()))
    domain = PeopleDomain(columns, moves=True, replaced=False)
    true = People(domain, simulated(people, sizes))
    names = tuple(c.name for c in columns)
    release = PeopleRelease(name="p", kind="mixture", attributes=names, rho=RHO, every=1)
    began = time.process_time()
    fit = fit_people(true, release, FitContext(SeededNoise(1)))
    fitted = time.process_time() - began, _peak()
    fit.sample(1)
    return *fitted, time.process_time() - began, _peak()


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("people", nargs="*", type=int, default=[10**6, 10**7])
    print("    people  fit CPU s   MiB  with rows CPU s   MiB")
    for people in parser.parse_args().people:
        with ProcessPoolExecutor(1) as pool:
            cells = pool.submit(costs, people).result()
        record("people-many", f"{people:,}", *cells)
        print(f"{people:>10,} {cells[0]:10.1f} {cells[1]:5.0f} {cells[2]:16.1f} {cells[3]:5.0f}")


if __name__ == "__main__":
    main()
