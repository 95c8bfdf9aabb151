"""What an operator is told to do about a connection that fails."""

import socket
import ssl

import pytest

from trimtab.agent.trouble import hint, plain
from trimtab.wire import Malformed


@pytest.mark.parametrize(
    ("exc", "tls", "says"),
    [
        (ConnectionRefusedError(111, "Connection refused"), False, "beyond loopback"),
        (socket.gaierror(-2, "Name or service not known"), False, "DNS"),
        (Malformed("message", "an array", 72), False, "HTTP port"),
        (Malformed("message", "an array", 21), False, "tls = true"),
        (OSError("no welcome within 10 s"), False, "tls = true"),
        (OSError("the collector closed the connection"), False, "tls = true"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version"), True, "= false"),
        (OSError("no welcome within 10 s"), True, ""),
        (OSError(113, "No route to host"), False, ""),
    ],
)
def test_each_failure_names_what_to_look_at(exc, tls, says):
    found = hint(plain(exc), exc, tls=tls)
    assert says in found
    assert bool(found) == bool(says)


def test_a_certificate_that_is_not_trusted_names_the_setting():
    exc = ssl.SSLCertVerificationError(1, "certificate verify failed")
    exc.verify_message = "self-signed certificate"
    text = plain(exc)
    assert text == "CERTIFICATE_VERIFY_FAILED: self-signed certificate"
    assert "tls_ca" in hint(text, exc, tls=True)
