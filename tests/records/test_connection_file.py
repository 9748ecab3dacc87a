"""Where a controller is dialled: what ipyparallel's files mean."""

import pytest

from gpulayer_nb.records.connection_file import controller_address, is_ipv6, read_if_whole, url_of, with_address


@pytest.mark.parametrize(
    ("interface", "location", "dialled", "six"),
    [
        ("tcp://10.0.0.5", "head", "tcp://10.0.0.5", False),
        ("tcp://[fd00::5]", "10.0.0.5", "tcp://[fd00::5]", True),
        ("tcp://*", "10.0.0.5", "tcp://10.0.0.5", False),
        ("tcp://0.0.0.0", "head", "tcp://head", False),
        ("tcp://*", "fd00::5", "tcp://[fd00::5]", True),
    ],
)
def test_every_address_is_none_to_dial(interface, location, dialled, six):
    info = {"interface": interface, "location": location, "registration": 10101}
    assert url_of(info, "registration") == f"{dialled}:10101"
    assert with_address(info) == {**info, "interface": dialled}
    assert is_ipv6(info) is six
    assert controller_address(with_address(info)) == controller_address(info)


def test_a_file_that_is_half_written_or_not_there_is_none(tmp_path):
    path = tmp_path / "file.json"
    assert read_if_whole(path) is None
    path.write_text('{"interface": "tcp')
    assert read_if_whole(path) is None
    path.write_text("{}")
    assert read_if_whole(path) == {}
