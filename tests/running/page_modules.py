"""Run the page's modules without a browser, in the Node.js that Playwright brings."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from playwright._impl._driver import compute_driver_executable

from towpath.api.handlers.page import FOLDER

LIMIT_S = 60.0
"""Generous: a run takes a tenth of a second."""

DOCUMENT = Path(__file__).with_name("page_document.js")

PROGRAM = """{document}
const load = name => import(`{folder}/${{name}}.js`);
const found = await ({function})({arguments});
process.stdout.write(JSON.stringify(found ?? null), () => process.exit(0));
"""
"""It ends with the function: modules may still wait for something."""


def page_result(function: str, *arguments: Any) -> Any:
    """Return what a JavaScript function returns. Its first argument, `load(name)`, imports a module.

    Raises `AssertionError` with what Node.js says, if the function or a timer throws.
    """
    node, _ = compute_driver_executable()
    program = PROGRAM.format(
        document=DOCUMENT.read_text(encoding="utf-8"),
        folder=FOLDER.as_uri(),
        function=function,
        arguments=", ".join(["load", *map(json.dumps, arguments)]),
    )
    ended = subprocess.run(
        [node, "--no-warnings", "--input-type=module", "-"],
        input=program,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)
