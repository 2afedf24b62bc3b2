# SPDX-License-Identifier: Apache-2.0
"""Packaging. `pip install .` builds the C programs with `make programs` and packs them; `make wheel` adds the lab kernel.

The sources of the C programs lie beside the Python that uses them. In a checkout the top-level folders are parts of the package
`dc_gym` through symlinks; a source distribution has them in their places.
"""

import subprocess
import sys
from pathlib import Path

from setuptools import find_namespace_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

HERE = Path(__file__).parent


class BuildWithPrograms(build_py):
    """Builds dc_gym/bin first. An editable installation leaves that to `make setup`."""

    def run(self) -> None:
        if not self.editable_mode:
            try:
                subprocess.run(["make", "programs", f"PYTHON={sys.executable}"], cwd=HERE, check=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise SystemExit(
                    f"dc-gym: building its C programs failed ({error}): `scripts/packages.sh` installs what they need on Debian"
                    " and Ubuntu; a wheel made by `make wheel` needs none of them"
                ) from None
        super().run()


class OfOnePlatform(Distribution):
    """The programs are of one platform."""

    def has_ext_modules(self) -> bool:
        return True


class WheelOfAnyPython(bdist_wheel):
    """No program depends on the version of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    packages=find_namespace_packages(include=["dc_gym", "dc_gym.*"]),  # folders of data alone are packages, too
    package_data={"dc_gym": ["bin/*", "bundle/**/*"]},
    include_package_data=True,  # of what MANIFEST.in names
    distclass=OfOnePlatform,
    cmdclass={"build_py": BuildWithPrograms, "bdist_wheel": WheelOfAnyPython},
)
