"""Files of engines, below which code of jobs can write."""

from __future__ import annotations

from pathlib import Path

import pytest

from towpath.agent.engine_process import _check_links
from towpath.contracts.errors import TowpathError
from towpath.contracts.site import EngineSpec
from towpath.engines.setup import SETUP_FILE, EngineSetup, renew_password


def test_engines_when_one_cannot_be_told_its_password_then_the_others_are(tmp_path: Path) -> None:
    setup = EngineSetup(
        site="jfk", nats_url="nats://127.0.0.1", user="jfk.engine", password="former", spec=EngineSpec()
    )
    whole = setup.save(tmp_path / "whole")
    for number, content in enumerate((b"{}", b"\xff", b'{"site": 1}')):
        (tmp_path / f"broken-{number}").mkdir()
        (tmp_path / f"broken-{number}" / SETUP_FILE).write_bytes(content)

    renew_password(tmp_path, "new")

    assert EngineSetup.load(whole).password == "new"


@pytest.mark.parametrize("linked", ["engine/jobs", "engine/jobs/counts"])
def test_directory_of_a_job_when_a_link_leads_elsewhere_then_is_refused(tmp_path: Path, linked: str) -> None:
    directory, elsewhere = tmp_path / "site/engine/jobs/counts", tmp_path / "home"
    elsewhere.mkdir()
    _check_links(directory, below=tmp_path / "site")  # There need be none yet.
    link = tmp_path / "site" / linked
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)

    with pytest.raises(TowpathError, match="there is a link"):
        _check_links(directory, below=tmp_path / "site")
