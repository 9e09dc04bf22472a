"""How columns of statistics tables merge, as the compiled loops know it; itself it loads none of them."""

MOMENTS_WIDTH = 7
"""n, mean, M2, M3, M4, minimum, maximum."""

RULE_MOMENTS = 0
RULE_ADD = 1
RULE_MIN = 2
RULE_MAX = 3
