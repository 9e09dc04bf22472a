"""Rules by which columns of statistics tables merge, as the compiled loops know them; loads none of these."""

MOMENTS_WIDTH = 7
"""Number of values of moments: n, mean, M2, M3, M4, minimum, maximum."""

RULE_MOMENTS = 0
RULE_ADD = 1
RULE_MIN = 2
RULE_MAX = 3
