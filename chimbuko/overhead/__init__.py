"""What tracing and analysis cost a program: it runs alone, traced, and analysed, again and again in turns.

May import follow and trace.
It begins in ``rounds.measure``; ``comparison`` has what follows from the times, and is pure.
"""
