"""A log in a file, and the modules whose failed assertions pytest explains, beside the tests."""

import pytest

from stream_dp.log.sqlite import SqliteLog

pytest.register_assert_rewrite("contents", "contract", "contract_owners", "contract_reading")


@pytest.fixture
def log(tmp_path):
    log = SqliteLog(tmp_path / "log.db")
    yield log
    log.close()
