"""Models that vLLM computes, and evalcore reads: from token ids, so that both ask the same."""
