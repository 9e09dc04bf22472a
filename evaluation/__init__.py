"""How well the detectors find what is known to be abnormal: precision and recall against known truth.

Run: python -m evaluation        (make detection)
"""
