"""The queues of all streams at a moment, and why each head waits.

queues  the widget, and the same as text
scene   what it shows
svg     the same as SVG
ledger  the life of every command as columns, and what streams hold at a moment
words   why a command waits, in words
"""
