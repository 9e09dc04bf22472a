"""The on-disk queue of one stream's findings: written by its process, read and shortened by its agent.

May import calls and protocol.
"""
