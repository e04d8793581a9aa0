"""Parts of the Pile."""

from __future__ import annotations

from datasets import Dataset

from evalcore.task.transforms.pile import pubmed_abstracts


def test_only_the_abstracts_of_pubmed_are_kept_in_their_order() -> None:
    parts = ["PubMed Abstracts", "PubMed Central", "Github", "PubMed Abstracts"]
    rows = [{"text": str(n), "meta": {"pile_set_name": part}} for n, part in enumerate(parts)]
    assert list(pubmed_abstracts(Dataset.from_list(rows))["text"]) == ["0", "3"]
