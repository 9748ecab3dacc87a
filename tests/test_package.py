"""The package from outside: what importing it costs, which names it has."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import gpulayer_nb

HEAVY = ("torch", "numpy", "matplotlib", "ipyparallel", "IPython", "ipywidgets", "anywidget", "zmq", "psutil", "cloudpickle")

PUBLIC_NAMES = [
    "CSVLogger",
    "Callback",
    "ClusterError",
    "DataModule",
    "EarlyStopping",
    "GpuLayerError",
    "LearningRateMonitor",
    "Logger",
    "ModelCheckpoint",
    "Module",
    "PlanError",
    "Run",
    "RunFailed",
    "RunStopped",
    "ShippingError",
    "TensorBoardLogger",
    "Trainer",
    "UsageError",
    "__version__",
    "compare",
    "launch",
    "load_ipython_extension",
    "rank_zero_first",
    "rank_zero_only",
    "runs",
]


def loaded_after(code: str, names: tuple[str, ...]) -> list[str]:
    """Which of the modules a new interpreter has loaded after running the code."""
    report = f"{code}\nimport sys; print([name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found: list[str] = eval(done.stdout.splitlines()[-1])
    return found


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_after("import gpulayer_nb", HEAVY) == []


def test_importing_the_package_loads_no_other_module_of_ours() -> None:
    code = (
        "import gpulayer_nb, sys; ours = [name for name in sys.modules if name.startswith('gpulayer_nb.')]; assert not ours, ours"
    )
    assert loaded_after(code, ()) == []


def test_the_command_line_loads_nothing_heavy_before_a_command_is_chosen() -> None:
    assert loaded_after("from gpulayer_nb.cli import parser; parser()", HEAVY) == []


def test_no_module_of_the_kernel_side_loads_torch_when_imported() -> None:
    """A notebook that only looks at runs, or a cell that brings its own torch, must not wait for it."""
    code = """
import importlib, pkgutil, gpulayer_nb
for part in ("magics", "api", "client", "ui", "export", "shipping", "worker", "records", "plan"):
    package = importlib.import_module("gpulayer_nb." + part)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
"""
    assert loaded_after(code, ("torch",)) == []


def test_the_public_names_are_these_and_no_others() -> None:
    assert sorted(gpulayer_nb.__all__) == PUBLIC_NAMES
    assert dir(gpulayer_nb) == PUBLIC_NAMES


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_every_public_name_can_be_had(name: str) -> None:
    assert getattr(gpulayer_nb, name) is not None


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'gpulayer_nb' has no attribute 'Trainr'"):
        _ = gpulayer_nb.Trainr


def test_the_version_is_the_one_installed() -> None:
    assert gpulayer_nb.__version__ == version("gpulayer-nb")
