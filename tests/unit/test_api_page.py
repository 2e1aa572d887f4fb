"""The live page's files: public, of the right types, and nothing but them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
from api_trial import Trial, running_api

from towpath.api.handlers.page import FOLDER

FILES = sorted(path.name for path in FOLDER.iterdir() if path.is_file())
OURS = [name for name in FILES if name.endswith(".js") and not name.startswith("uPlot")]


@pytest.fixture
async def trial() -> AsyncIterator[Trial]:
    async with running_api() as started:
        yield started


async def test_page_when_opened_without_a_token_then_comes_and_forbids_what_is_from_elsewhere(
    trial: Trial,
) -> None:
    async with trial.client.get("/") as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        assert "default-src 'self'" in response.headers["Content-Security-Policy"]
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert "<h1>" in await response.text()


@pytest.mark.parametrize("name", FILES)
async def test_file_when_asked_for_by_name_then_comes_with_its_type(trial: Trial, name: str) -> None:
    async with trial.client.get(f"/page/{name}") as response:
        assert response.status == 200
        expected = {"js": "text/javascript", "css": "text/css", "html": "text/html", "svg": "image/svg+xml"}
        assert response.content_type == expected.get(name.rsplit(".", 1)[-1], "text/plain")


@pytest.mark.parametrize("name", ["..%2Fapp.py", "%2e%2e%2fsettings.py", "nothing.js", "..%5Capp.py"])
async def test_file_when_it_is_none_of_the_page_then_is_not_found(trial: Trial, name: str) -> None:
    async with trial.client.get(f"/page/{name}") as response:
        assert response.status == 404


@pytest.mark.parametrize("name", OURS)
def test_module_when_written_then_says_what_it_is_and_makes_no_markup_of_data(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert text.startswith("/**\n"), "a module begins with what it is"
    assert len(text.splitlines()) < 300
    assert re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text) is None
    assert re.search(r"https?://(?!www\.w3\.org/)", text) is None, "no internet"
