"""The wheel has a program in it: it is for one platform, and for every Python of it."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformTag(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + os.environ["PLIMSOLL_WHEEL_PLATFORM"]
