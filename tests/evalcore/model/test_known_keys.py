"""No key changes by the way a backend is built: what was answered once is found again."""

from __future__ import annotations

import json

from tests.evalcore.model.known_keys import KNOWN, keys


def test_requests_prompts_and_answers_are_those_of_the_engine_before():
    known, found = json.loads(KNOWN.read_text()), keys()
    assert {name for name in known if found.get(name) != known[name]} == set()
    assert len(known) > 150
