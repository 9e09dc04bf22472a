"""Messages between ranks: how many, and how many bytes, of each rank to each other.

May import process, recorder, recorder.native and trace.
They are counted in streams (``counting.count_messages``), or while a program runs, by the recorder's library
(``preloaded.PreloadedCounting``, with a table of each rank in ``ranktables``); ``matrixfiles.write`` writes
what was counted.
"""
