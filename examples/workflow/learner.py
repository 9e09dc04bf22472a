"""Learns, from what a simulation has written, how each cell follows from its neighbours.

learner.py FILE.csv
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from chimbuko.namespaces import Client

EPOCHS = 200
Array = npt.NDArray[np.float64]


def examples_of(rods: Array) -> tuple[Array, Array]:
    """Each cell with its neighbours, and what it became."""
    inside = [rods[:-1, :-2], rods[:-1, 1:-1], rods[:-1, 2:]]
    return np.stack([one.ravel() for one in inside], axis=1), rods[1:, 1:-1].ravel()


def gradient(inputs: Array, targets: Array, weights: Array) -> tuple[float, Array]:
    """The loss, and where it falls."""
    error = inputs @ weights - targets
    return float(np.mean(error**2)), 2.0 * inputs.T @ error / len(error)


def main() -> None:
    rods = np.loadtxt(sys.argv[1], delimiter=",")
    inputs, targets = examples_of(rods)
    # Without this the sum of neighbours is learned long before their difference.
    scale = np.linalg.inv(np.linalg.cholesky(inputs.T @ inputs / len(inputs))).T
    whitened, weights = inputs @ scale, np.zeros(3)
    with Client() as client:
        application = client.create("application")
        application.set_publish_frequency(20)
        for epoch in range(EPOCHS):
            loss, slope = gradient(whitened, targets, weights)
            weights -= 0.1 * slope
            application.update_all({"learn": {"epoch": epoch, "loss": loss}})
            application.commit_async()
        law = scale @ weights
        application.publish_tree({"learn": {"law": law}})
    print(f"a cell becomes {law[0]:.3f} left + {law[1]:.3f} itself + {law[2]:.3f} right")


if __name__ == "__main__":
    main()
