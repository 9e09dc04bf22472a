"""Unit costs with round numbers."""

from __future__ import annotations

from chimbuko.plan.loads import READERS, PartCosts, UnitCosts, Units

COSTS = UnitCosts(
    {
        READERS: PartCosts(Units(second=0.005, step=2e-3, row=1e-7), Units(second=80e6, rank=20e6)),
        "broker": PartCosts(
            Units(second=0.005, message=100e-6, step=2e-6), Units(second=10e6, rank=5e3), Units(second=0.001)
        ),
        "server": PartCosts(
            Units(second=0.02, message=40e-6, step=20e-6), Units(second=60e6, rank=3e3), Units(second=0.005)
        ),
        "writer": PartCosts(
            Units(second=0.01, step=10e-6, finding=1.5e-3), Units(second=70e6), Units(second=0.5)
        ),
        "dashboard": PartCosts(Units(second=0.01, step=10e-6), Units(second=70e6, rank=4e3)),
        "serve": PartCosts(Units(second=0.005, step=3e-6), Units(second=70e6)),
    },
    Units(message=7e3, step=170.0),
    Units(step=300.0),
    Units(finding=12e3),
)
