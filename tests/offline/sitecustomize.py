"""Cuts the network of every Python process that has this folder on its PYTHONPATH.

The kernel of a notebook is such a process: what pytest blocks in its own does not reach it. Only
the one file of pytest-recording is loaded: all of it would bring pytest along, into processes
that run pytest themselves. This machine stays reachable, for `FakeGemini`.
"""

import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

package = find_spec("pytest_recording")
assert package
assert package.origin
spec = spec_from_file_location("offline_network", Path(package.origin).with_name("network.py"))
assert spec
assert spec.loader
network = module_from_spec(spec)
sys.modules[spec.name] = network
spec.loader.exec_module(network)
network.block(allowed_hosts=["127.0.0.1"])
