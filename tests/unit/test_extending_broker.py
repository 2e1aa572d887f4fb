"""The broker that `docs/extending/broker.md` adds passes the suite of all brokers."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from broker_suite import BrokerSuite, UnboundBroker

from towpath.contracts.site import BrokerKind
from towpath.mesh.home import Home

PAGE = Path(__file__).parents[2] / "docs" / "extending" / "broker.md"


@pytest.fixture(scope="module")
def page() -> Iterator[ModuleType]:
    """The page's code; its name is on the wire."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    module = ModuleType("examplemq")
    name = str.__new__(BrokerKind, "examplemq")
    name._value_, name._name_ = "examplemq", "EXAMPLEMQ"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module.__name__, module)
        patch.setitem(BrokerKind._value2member_map_, "examplemq", name)
        exec(compile(code, str(PAGE), "exec"), module.__dict__)
        yield module


class TestBrokerOfThePage(BrokerSuite):
    """The suite, for `examplemq`."""

    @pytest.fixture
    def broker(self, page: ModuleType, tmp_path: Path) -> UnboundBroker:
        return UnboundBroker(
            BrokerKind("examplemq"), page.ExampleMqBroker, "examplemq", Home(tmp_path / "mesh")
        )
