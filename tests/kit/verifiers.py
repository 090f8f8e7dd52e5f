"""The verifier of the pages, a program in JavaScript, run by Node or by Chromium."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from stream_dp.services.monitor import render

VERIFIER = Path(render.__file__).parent / "verifier.mjs"
Asked = tuple[Path, dict[str, str]]  # a file, and the options `key` and `head`
_VERDICT = """async ({ verify, recordsOf }, bytes, file, options) => {
  try {
    const { code, ...verdict } = await verify(() => recordsOf(bytes, file), options);
    return [code, verdict];
  } catch (error) { return [error.code ?? -1, error.code ? error.message : error.stack]; }
}"""
_NODE = f"""
import {{ readFileSync }} from "node:fs";
const [, program, ...asked] = process.argv.slice(1);
const verifier = await import(program), verdict = {_VERDICT};
for (const text of asked) {{
  const [file, options] = JSON.parse(text);
  const bytes = new Uint8Array(readFileSync(file));
  console.log(JSON.stringify(await verdict(verifier, bytes, file, options)));
}}
"""
_PAGE = f"""async ([program, asked]) => {{
  const url = URL.createObjectURL(new Blob([program], {{ type: "text/javascript" }}));
  const verifier = await import(url), verdict = {_VERDICT}, answers = [];
  for (const [text, file, options] of asked) {{
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    answers.push(await verdict(verifier, bytes, file, options));
  }}
  return answers;
}}"""


def verdicts(asked: Sequence[Asked]) -> list[tuple[int, Any]]:
    """The exit code and the verdict on each file, by Node, or else by Chromium.

    A verdict is the JSON of `stream-dp verify --all --json`, or the line of an error.
    """
    if which("node"):
        texts = [json.dumps([str(path), options]) for path, options in asked]
        command = ["node", "--input-type=module", "-e", _NODE, "verdicts", str(VERIFIER), *texts]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return [(code, verdict) for code, verdict in map(json.loads, done.stdout.splitlines())]
    return _by_chromium(asked)


def _by_chromium(asked: Sequence[Asked]) -> list[tuple[int, Any]]:
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = which("chromium")
    if chromium is None:
        pytest.skip("neither node nor chromium is installed; tests/tools can, as root")
    files = [(base64.b64encode(path.read_bytes()).decode(), str(path), how) for path, how in asked]
    with playwright.sync_playwright() as started:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = started.chromium.launch(executable_path=chromium, args=options, timeout=600_000)
        page = browser.new_page()
        page.goto(VERIFIER.as_uri())  # a secure context, which WebCrypto asks for
        answers = page.evaluate(_PAGE, [VERIFIER.read_text("utf-8"), files])
        browser.close()
    return [(code, verdict) for code, verdict in answers]
