"""The rows of a mixture on several devices: nearly the same numbers as on one."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")

from households import model, workload
from kit.fork_server import run
from test_block_mixture import fit as table_fit

from stream_dp.batch.groups.hpd.adam import AdamSettings
from stream_dp.batch.groups.hpd.product_mixture import MeasuredQueries

DEVICES = 4


def fits():
    """Parameters after a few steps, of households and of a table, and the devices that had them."""
    family = model("alike", rows=8)
    queries = workload(family, 40)
    measured = MeasuredQueries(queries, np.linspace(50, 500, 40), np.ones(40))
    homes, _ = family.fit(family.init(5), measured, AdamSettings(5, 0.01))
    devices = {len(array.devices()) for array in homes.values()}
    numbers = {name: np.asarray(array).tolist() for name, array in homes.items()}
    return {"homes": numbers, "table": {n: p.tolist() for n, p in table_fit(100).items()}}, devices


def test_rows_on_several_devices_have_the_numbers_of_one():
    here, devices = fits()
    assert devices == {1}
    flags = os.environ.get("XLA_FLAGS", "")
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    done = run(
        __file__,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(folders),
            "XLA_FLAGS": f"{flags} --xla_force_host_platform_device_count={DEVICES}",
        },
    )
    assert done.returncode == 0, done.stderr
    there, devices = json.loads(done.stdout)
    assert devices == [DEVICES]
    for fitted, params in here.items():
        for name, values in params.items():
            np.testing.assert_allclose(there[fitted][name], values, rtol=1e-3, atol=1e-4)


if __name__ == "__main__":
    found, used = fits()
    print(json.dumps([found, sorted(used)]))
