"""A local Hub: serves folders of models and data sets on 127.0.0.1 as the Hub's clients expect.

The unmodified huggingface_hub, transformers and datasets clients use it through HF_ENDPOINT. It
reads folders, takes no uploads, knows no tokens, and can be told to fail (faults.py).

Known gaps against the real Hub: a revision is one commit without history; a commit is a digest of
its content, and every date is the same; names are matched with their case.
"""
