"""The cluster grid: blocks and threads of one launch, step by step."""
