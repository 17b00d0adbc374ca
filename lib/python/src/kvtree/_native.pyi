# SPDX-License-Identifier: LGPL-2.1-only
# Made by kvtree_build.py. cffi checks the arguments of each call.
from typing import Any

ffi: Any
lib: Any
