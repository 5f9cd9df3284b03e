"""How every widget is laid out on a page: the rules that the style sheet of colours does not have."""

from __future__ import annotations

from typing import Final

__all__ = ("LAYOUT",)

LAYOUT: Final = """
.atops{background:var(--page);color:var(--ink);font:13px/1.4 system-ui,sans-serif;padding:6px 8px;position:relative;
border:1px solid var(--grid);border-radius:4px;box-sizing:border-box;max-width:100%}
.atops *{box-sizing:border-box}
.atops-bar{display:flex;flex-wrap:wrap;gap:4px;align-items:center;margin-bottom:4px}
.atops-title{font-weight:600;margin-right:6px}
.atops button,.atops select{font:inherit;color:var(--ink);background:var(--band);border:1px solid var(--line);
border-radius:4px;padding:1px 8px;min-height:24px;cursor:pointer}
.atops button[aria-pressed=true]{background:var(--ink);color:var(--page)}
.atops button:disabled,.atops input:disabled{opacity:.5;cursor:default}
.atops :focus-visible{outline:2px solid var(--select);outline-offset:1px}
.atops canvas{display:block;width:100%;touch-action:pan-y}
.atops-note{color:var(--quiet);margin-left:auto}
.atops-say{margin:4px 0 0;min-height:2.8em;overflow-wrap:anywhere}
.atops-legend{display:flex;flex-wrap:wrap;gap:2px 14px;margin:4px 0 0;padding:0;list-style:none}
.atops-legend li{display:flex;align-items:center;gap:5px}
.atops details{margin-top:4px}
.atops pre{overflow:auto;max-height:30em;margin:4px 0;font:12px/1.35 ui-monospace,monospace;color:var(--ink);
background:var(--band);padding:6px}
"""
