"""A cluster's folder holds keys: nobody else may have made it."""

import os
import stat

import pytest

from gpulayer_nb.errors import ClusterError
from gpulayer_nb.records.cluster_folder import ClusterFolder


def test_all_of_it_is_open_to_its_owner_alone(tmp_path):
    folder = ClusterFolder.create("one", tmp_path / "root")
    try:
        for part in (tmp_path / "root", folder.path, folder.logs, folder.engine_file.parent, folder.blobs):
            assert stat.S_IMODE(part.stat().st_mode) == 0o700
    finally:
        os.rmdir(folder.blobs)


def test_a_folder_that_others_can_write_to_is_refused(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(ClusterError, match=r"drwxrwxrwx.*Next: remove it"):
        ClusterFolder.create("one", root)


def test_a_link_that_was_laid_there_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "root").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ClusterError, match="has to be a folder of yours"):
        ClusterFolder.create("one", tmp_path / "root")
