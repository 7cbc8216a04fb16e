"""docs/hybrid.md: what it does with the service ends with weights that were learned."""

from __future__ import annotations

import json
import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "hybrid.md").read_text(encoding="utf-8")


def test_the_service_has_learned_before_the_export(url, capsys):
    block = re.search(r"## With the service\n\n```python\n(.*?)```", PAGE, re.DOTALL)[1]
    assert block.count("http://localhost:8000") == 1
    exec(block.replace("http://localhost:8000", url), {})
    pipeline = json.loads(capsys.readouterr().out)
    processor = pipeline["phase_results_processors"][0]["normalization-processor"]
    words, meaning = processor["combination"]["parameters"]["weights"]
    assert pipeline["description"].startswith("shop_000002")
    assert meaning > 0.5 > words, "the click was on what only the second sub-query found"
