"""The queues of all streams at a moment, and why each head waits.

queues  the widget
scene   what it shows
svg     the same as SVG
text    the same as text
ledger  the life of every command as columns
state   what streams hold at a moment, and how much was queued over time
layout  where tokens stand
words   why a command waits, in words
"""
