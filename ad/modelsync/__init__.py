"""The agent's exchange of statistics with the parameter server: deltas out, the model back.

Imports ad.streams, ad.analysis and protocol.
"""
