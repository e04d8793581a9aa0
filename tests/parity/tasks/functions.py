"""Functions that the task files of this folder name; both engines import them."""

import re

import datasets
from lm_eval.api.filter import Filter


def numbered(dataset):
    def number(doc, row):
        return {"question": f"{row}: {doc['question'].strip()}", "length": len(doc["question"])}

    return dataset.map(number, with_indices=True).filter(lambda doc: doc["length"] > 30)


def question(doc):
    return f"{doc['passage'][:200]}\nIs it so that {doc['question']}?"


def verdict(doc):
    return int(doc["label"])


def verdicts(doc):
    return ["no", "yes"] if len(doc["question"]) % 2 else ["nope", "yes indeed"]


def short_question(doc):
    return f"Q: {doc['question']}?"


def inline_samples():
    return [
        {"question": f"What is {n} and {n}?", "answer": f"{n} twice is {2 * n}. #### {2 * n}"}
        for n in (2, 3, 5, 7, 11)
    ]


def pieces(doc, results):
    text = results[0]
    return {
        "words": len(text.split()),
        "spread": (len(text), len(doc["answer"])),
        **({"rare": 1.0} if "#" in text else {}),
    }


def ratio(items):
    return sum(said for said, _ in items) / sum(wanted for _, wanted in items)


def spread_of_choices(doc, results):
    lls = [loglikelihood for loglikelihood, _ in results]
    return {"spread": max(lls) - min(lls), "greedy": sum(flag for _, flag in results)}


def overlap(references, predictions, **options):
    wanted = set(references[0].lower().split())
    said = set(predictions[0].lower().split())
    return len(wanted & said) / max(1, len(wanted)) * options.get("weight", 1)


def overlaps(references, predictions):
    return {
        "said_all": float(references[0] in predictions[0]),
        "length_ratio": len(predictions[0]) / max(1, len(references[0])),
    }


def half(items):
    return sum(items) / len(items) / 2


def mean_gold_likelihood(items):
    return sum(lls[gold] for gold, lls in items) / len(items)


class LastNumber(Filter):
    def __init__(self, fallback="none", **options):
        self.fallback = fallback

    def apply(self, resps, docs):
        def last(text):
            found = re.findall(r"-?\d+", text)
            return found[-1] if found else self.fallback

        return [[last(text) for text in of_request] for of_request in resps]


def with_question_mark(resps, docs):
    return [
        [f"{text}?" if doc["question"].endswith("?") else text for text in of_request]
        for of_request, doc in zip(resps, docs, strict=False)
    ]


def made_here(rows=12, first=0, **options):
    words = ["Straße", "naïve", "日本語", "café", "река", "tree"]
    table = {
        "text": [f"Word {first + row} is {words[row % 6]}" for row in range(rows)],
        "choices": [[words[row % 6], words[(row + 1) % 6] * 2, "x"] for row in range(rows)],
        "label": [row % 3 for row in range(rows)],
    }
    return {"train": datasets.Dataset.from_dict(table), "test": datasets.Dataset.from_dict(table)}
