"""A board of any size from made-up answers: `python -m demo.generated --help`.

Models, questions and answers are invented by a seed. Every number is computed from answers by
question, as a real one is, so that ranges of ranks, comparisons and the analysis of questions have
something to find: families of models that answer alike, letters that some never learnt, questions
with a wrong key. `fill.py` tells the story.
"""
