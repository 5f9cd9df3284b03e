"""What every widget draws with: scenes, SVG, colours, pages and scripts."""
