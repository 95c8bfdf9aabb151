import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from trimtab.agent.errors import Unsupported
from trimtab.agent.probes import tcp_info
from trimtab.agent.probes.tcp_info import LEAST_BYTES, TcpInfo

linux = pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO of Linux")


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        closing(socket.create_connection(server.getsockname())) as client,
    ):
        yield client


def test_the_fields_are_where_linux_put_them() -> None:
    words = [0] * 24
    words[15], words[16], words[23] = 1500, 750, 7
    assert tcp_info.parse(bytes(8) + struct.pack("=24I", *words)) == TcpInfo(
        1500, 750, 7
    )


def test_later_kernels_append_and_are_read_the_same() -> None:
    assert tcp_info.parse(bytes(256)) == TcpInfo(0, 0, 0)


@pytest.mark.parametrize("size", [0, 8, LEAST_BYTES - 1])
def test_a_shorter_answer_is_unsupported_not_zero(size: int) -> None:
    with pytest.raises(Unsupported, match=str(size)):
        tcp_info.parse(bytes(size))


@linux
def test_a_real_connection_has_a_round_trip(connection: socket.socket) -> None:
    found = tcp_info.read(connection)
    assert 0 < found.rtt_us < 1_000_000
    assert found.rttvar_us > 0
    assert found.retransmits == 0


@linux
def test_a_socket_that_is_not_tcp_is_unsupported() -> None:
    first, second = socket.socketpair()
    with first, second, pytest.raises(Unsupported):
        tcp_info.read(first)


@linux
def test_a_closed_socket_is_an_error(connection: socket.socket) -> None:
    connection.close()
    with pytest.raises(OSError, match="descriptor"):
        tcp_info.read(connection)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(None, 5, None), (5, 5, 0), (5, 9, 4), (9, 2, None)],
)
def test_retransmits_are_of_one_connection_and_interval(
    before: int | None, after: int, expected: int | None
) -> None:
    assert tcp_info.retransmitted(before, after) == expected
