"""Names that older releases and tutorials use, and what they are called now."""

from __future__ import annotations

_TASKS = {
    "hendrycksTest-": "mmlu_",
    "hendrycks_test": "mmlu",
    "truthfulqa_mc": "truthfulqa_mc1, truthfulqa_mc2",
    "math_": "hendrycks_math_",
    # Ours once, and lm-evaluation-harness's for other tasks than these.
    "leaderboard_gpqa": "gpqa_leaderboard",
    "bbq_generate": "bbq_written",
    "bbq": "bbq_cloze",
    "storycloze_2018": "storycloze_2018_validation",
    "global_mmlu_full_": "global_mmlu_full_mmlu_",
    "global_mmlu_": "global_mmlu_mmlu_",
}
"""The beginning or the whole of an old task name, and of the new one."""

_KEYS = {
    "template_aliases": "write the columns into doc_to_text, doc_to_target and doc_to_choice",
    "gold_alias": "doc_to_target says what is right",
    "delimiter": "it is called target_delimiter now",
    "dataset_args": "it is called dataset_kwargs now",
    "prompt": "it is called use_prompt now",
    "stop_sequences": "it stands in generation_kwargs now, as until",
    "formats": "this key is of a later release: say it by doc_to_text and doc_to_choice",
    "scorer": "this key is of a later release: say it by metric_list",
}


def renamed(task: str) -> str:
    """The end of a sentence that names the task's new name, or nothing."""
    for old, new in _TASKS.items():
        if task == old or (old.endswith(("-", "_")) and task.startswith(old)):
            return f" (an old name: write {new}{task[len(old) :]})"
    return ""


def replaced(key: str) -> str:
    """The end of a sentence that says what to write instead of an old key, or nothing."""
    return f" ({_KEYS[key]})" if key in _KEYS else ""
