"""A task that is a class: each document is asked in two ways."""

from functools import partial

from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask


def share(key, items):
    return sum(item[key] for item in items) / len(items)


class AskedTwice(ConfigurableTask):
    VERSION = 4
    DATASET_PATH = "openai/gsm8k"
    DATASET_NAME = "main"

    def __init__(self, config=None):
        super().__init__(config={"metadata": {"version": self.VERSION}})

    def has_training_docs(self):
        return True

    def has_validation_docs(self):
        return False

    def has_test_docs(self):
        return True

    def training_docs(self):
        return self.dataset["train"]

    def test_docs(self):
        return self.dataset["test"]

    def doc_to_text(self, doc, doc_to_text=None):
        return f"Title: arithmetic\n\nQuestion: {doc['question']}\n\nAnswer:"

    def doc_to_target(self, doc, doc_to_target=None):
        return " " + doc["answer"].split("####")[-1].strip()

    def construct_requests(self, doc, ctx, chat_template=None, apply_chat_template=False, **kwargs):
        return [
            Instance(
                request_type="generate_until",
                doc=doc,
                arguments=(ctx, {"until": ["\n"]}),
                idx=0,
                **kwargs,
            ),
            Instance(
                request_type="loglikelihood", doc=doc, arguments=(ctx, " unknown"), idx=1, **kwargs
            ),
        ]

    def process_results(self, doc, results):
        text, (loglikelihood, is_greedy) = results
        right = float(self.doc_to_target(doc).strip() in text)
        both = {"right": right, "sure": loglikelihood, "greedy": float(is_greedy)}
        return {"right": right, "share_sure": both, "share_greedy": both}

    def aggregation(self):
        return {
            "right": lambda items: sum(items) / len(items),
            "share_sure": partial(share, "sure"),
            "share_greedy": partial(share, "greedy"),
        }

    def higher_is_better(self):
        return {"right": True, "share_sure": False, "share_greedy": True}
