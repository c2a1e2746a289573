"""The bound on a request's body is the one of the settings, through the whole node, at its own port."""

from __future__ import annotations

import http.client
import json
from pathlib import Path

import pytest

from tests.start.world import free_port, running, said, write_settings


@pytest.mark.parametrize("bound", [None, 200_000])
def test_a_body_may_have_what_the_settings_say(ran: Path, capsys: pytest.CaptureFixture[str], bound: int | None):
    port = free_port()
    file = write_settings(ran, listen=f"127.0.0.1:{port}")
    if bound:
        text = file.read_text()
        file.write_text(text.replace("[api]\n", f"[api]\nmax_body_bytes = {bound}\n"))
    key = json.loads(said(capsys, ["config", "key", "--json", "--config", str(file)]).out)["api_key"]
    limit = bound or 1024 * 1024  # the default that the documentation names

    def post(size: int) -> tuple[int, str]:
        body = json.dumps({"model": "gnus", "messages": [{"role": "user", "content": "what is two plus two?"}]})
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        connection.request("POST", "/v1/chat/completions", body + " " * (size - len(body)), headers)
        response = connection.getresponse()
        said_back = response.read().decode()
        connection.close()
        return response.status, said_back

    with running(file):
        status, text = post(limit)
        assert (status, "4" in text) == (200, True)
        status, text = post(limit + 1)
        assert status == 413
        assert str(limit) in text
