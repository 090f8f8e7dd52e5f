"""The modules whose failed assertions pytest explains, beside the tests."""

import pytest

pytest.register_assert_rewrite("contents", "contract", "contract_owners", "contract_reading")
