import pytest

from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.addresses import choose_address, endpoint, is_loopback, plain

INTERFACES = {"lo": ["127.0.0.1", "::1"], "eth0": ["10.0.0.5", "fd00::5"], "docker0": ["172.17.0.1"]}


def test_the_address_towards_the_controller_is_taken_with_its_interface():
    assert choose_address(None, "10.0.0.5", "10.0.0.6", INTERFACES) == ("10.0.0.5", "eth0")
    assert choose_address(None, "fd00::5", "fd00::6", INTERFACES) == ("fd00::5", "eth0")
    assert choose_address("172.17.0.1", "10.0.0.5", "10.0.0.6", INTERFACES) == ("172.17.0.1", "docker0")


def test_loopback_will_do_only_if_the_controller_is_there_too():
    assert choose_address(None, "127.0.0.1", "127.0.0.1", INTERFACES) == ("127.0.0.1", "lo")
    with pytest.raises(UsageError, match=r"127\.0\.0\.1 is a loopback address.*eth0 10\.0\.0\.5 fd00::5, docker0 172\.17\.0\.1"):
        choose_address("127.0.0.1", None, "10.0.0.6", INTERFACES)


@pytest.mark.parametrize("address", ["10.0.0.99", "127.0.1.1", "head"])
def test_an_address_of_no_interface_is_refused_with_those_there_are(address):
    with pytest.raises(
        UsageError, match=rf"{address} is no address of this machine\. It has the interfaces lo .*, eth0 10\.0\.0\.5"
    ):
        choose_address(address, "10.0.0.5", "10.0.0.6", INTERFACES)


def test_no_way_to_the_controller_is_said_as_such():
    with pytest.raises(UsageError, match=r"no way to the controller at 10\.1\.0\.1"):
        choose_address(None, None, "10.1.0.1", INTERFACES)


def test_what_is_loopback():
    assert [is_loopback(a) for a in ("127.0.1.1", "::1", "localhost", "10.0.0.1", "head")] == [True, True, True, False, False]


def test_addresses_are_written_one_way_and_in_brackets_before_a_port():
    written = ("[FD00:0::5]", "fd00::5", "10.0.0.5", "head", "*")
    assert [plain(address) for address in written] == ["fd00::5", "fd00::5", "10.0.0.5", "head", "*"]
    assert [endpoint("fd00::5", 10101), endpoint("10.0.0.5", 10101), endpoint("head", 1)] == [
        "[fd00::5]:10101", "10.0.0.5:10101", "head:1",
    ]  # fmt: skip
