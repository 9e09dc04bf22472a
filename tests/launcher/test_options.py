"""What does not go together is refused before there is a run."""

from __future__ import annotations

import pytest

from chimbuko.core.config import AnalysisConfig
from chimbuko.core.errors import ConfigError
from chimbuko.launcher.options import AnalysisOptions, HostOptions, RunOptions
from chimbuko.launcher.services.choices import ServiceChoices


@pytest.mark.parametrize("parts", [0, 17])
def test_a_server_has_some_parts_and_not_too_many(parts: int) -> None:
    with pytest.raises(ConfigError, match=f"a server of {parts} parts is not possible; give 1 to 16"):
        AnalysisOptions(config=AnalysisConfig(server_parts=parts))


def test_agents_that_share_need_something_to_share() -> None:
    with pytest.raises(ConfigError, match="--agents goes with --trace: of a live run each node has an agent"):
        HostOptions(agents=2)
    assert HostOptions(trace=("*.bp",), agents=2).agents == 2


def test_each_part_of_a_server_has_a_port() -> None:
    analysis, services = (
        AnalysisOptions(config=AnalysisConfig(server_parts=3)),
        ServiceChoices(metrics="65534"),
    )
    with pytest.raises(ConfigError, match="--metrics 65534: 3 parts of the server need as many ports"):
        HostOptions(analysis=analysis, services=services)
    with pytest.raises(ConfigError, match="give a lower one"):
        RunOptions(command=("true",), analysis=analysis, services=services)
    assert RunOptions(command=("true",), services=services).services is services
