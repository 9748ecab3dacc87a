"""A real Jupyter server with our extension, strict about who may do what; folders of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pytest_jupyter.jupyter_server import *  # noqa: F403  its fixtures are used by name


@pytest.fixture
def jp_server_config(tmp_path: Path) -> dict[str, Any]:
    return {"ServerApp": {"jpserver_extensions": {"gpulayer_nb": True}, "allow_unauthenticated_access": False}}


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, folder in (("XDG_RUNTIME_DIR", "runtime"), ("GPULAYER_HOME", "home"), ("IPYTHONDIR", "ipython")):
        (tmp_path / folder).mkdir()
        monkeypatch.setenv(name, str(tmp_path / folder))
