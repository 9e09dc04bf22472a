"""Messages between ranks: how many, and how many bytes, of each rank to each other.

May import trace.
It begins in ``counting.count_messages``, which reads streams; ``matrixfiles.write`` writes what was counted.
"""
