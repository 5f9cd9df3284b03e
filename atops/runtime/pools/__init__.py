"""Stream-ordered memory pools: books, blocks and the rules of reuse."""
