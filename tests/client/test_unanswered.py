"""Why no answer came: each reason comes with what to do about it."""

import errno
import os
import ssl
from collections.abc import Callable

import pytest
from urllib3.connection import HTTPConnection
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, SSLError

from trimtab.client import Client, NoCollector, WrongServer
from trimtab.client.unanswered import unanswered

from .conftest import Certify, Collector, Secure, Stray, start_collector


@pytest.mark.parametrize(
    "host", ["nowhere.invalid", "double..dot", "x" * 64 + ".example"]
)
def test_a_name_without_an_address_is_the_thing_to_check(host: str) -> None:
    with pytest.raises(NoCollector) as caught:
        Client(f"http://{host}").ready()
    text = str(caught.value)
    assert f"the name '{host}' has no address: check it in --url" in text
    assert "start one" not in text


@pytest.mark.parametrize(
    ("url", "number", "advice"),
    [
        ("http://127.0.0.1:7767", errno.ECONNREFUSED, "start one with"),
        ("http://[::1]:7767", errno.ECONNREFUSED, "start one with"),
        ("http://localhost:7767", errno.ECONNREFUSED, "start one with"),
        ("http://10.0.0.1:7767", errno.ECONNREFUSED, "unless its http_listen"),
        # Debian gives a host's own name 127.0.1.1, where nobody listens.
        ("http://fleet.example:7767", errno.ECONNREFUSED, "unless its http_listen"),
        ("http://10.0.0.1:7767", errno.EHOSTUNREACH, "no firewall is in the way"),
        ("http://10.0.0.1:7767", errno.ENETUNREACH, "no firewall is in the way"),
    ],
)
def test_no_connection_comes_with_where_to_look(
    url: str, number: int, advice: str
) -> None:
    failed = NewConnectionError(HTTPConnection("unused"), "as urllib3 has it")
    failed.__cause__ = OSError(number, os.strerror(number))
    text = unanswered("GET /", url, failed)
    assert text.startswith(f"no collector answers at {url} ({os.strerror(number)}): ")
    assert advice in text


def test_a_host_that_does_not_answer_at_all_may_be_down() -> None:
    text = unanswered("GET /", "http://10.0.0.1:7767", ConnectTimeoutError())
    assert "(no connection in time): check the address, that the host is up" in text


def test_plain_http_to_a_port_that_speaks_tls_is_told_to_try_https(
    secure: Secure,
) -> None:
    url = secure.collector.url
    with pytest.raises(NoCollector, match=f"speak TLS\\? Try {url};"):
        Client(url.replace("https:", "http:")).nodes()


def test_so_is_it_where_a_server_answers_that_in_words_of_its_own(
    stray: Callable[..., Stray],
) -> None:
    server = stray(400, "text/html", "<h1>The plain HTTP request was sent to …</h1>")
    https = server.url.replace("http:", "https:")
    with pytest.raises(WrongServer, match=f"Does it speak TLS\\? Try {https}$"):
        Client(server.url).nodes()


def test_tls_to_a_port_that_speaks_plain_http_is_told_to_try_http(
    collector: Collector,
) -> None:
    https = collector.url.replace("http:", "https:")
    with pytest.raises(NoCollector, match=f"plain HTTP: try {collector.url}$"):
        Client(https).nodes()


def test_tls_to_the_port_of_frames_is_no_better(collector: Collector) -> None:
    with pytest.raises(NoCollector, match=r"TLS could not be set up|plain HTTP\?"):
        Client(f"https://{collector.frames}").nodes()


def test_a_private_authority_is_trusted_when_it_is_named(
    secure: Secure, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, cert = secure.collector.url, secure.certificate.cert
    with pytest.raises(NoCollector) as caught:
        Client(url).nodes()
    for name in ("not trusted", "--cacert", "TRIMTAB_CA", "SSL_CERT_FILE"):
        assert name in str(caught.value)
    with Client(url, ca_file=cert) as client:
        assert client.nodes() == ()
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    with Client(url) as client:
        assert client.nodes() == ()


def test_another_authority_does_not_do(secure: Secure, certify: Certify) -> None:
    with pytest.raises(NoCollector, match="its certificate is not trusted"):
        Client(secure.collector.url, ca_file=certify("IP:127.0.0.1").cert).nodes()


def test_a_certificate_for_another_name_is_told_apart(
    tmp_path_factory: pytest.TempPathFactory, certify: Certify
) -> None:
    certificate = certify("DNS:fleet.example")
    collector, child = start_collector(tmp_path_factory.mktemp("name"), certificate)
    try:
        with pytest.raises(NoCollector, match="Ask by a name that the certificate"):
            Client(collector.url, ca_file=certificate.cert).nodes()
    finally:
        child.stop(0)


@pytest.mark.parametrize("code", [9, 10])  # not yet valid, expired
def test_a_certificate_out_of_its_time_is_told_apart(code: int) -> None:
    cause = ssl.SSLCertVerificationError(1, "as OpenSSL has it")
    cause.verify_code, cause.verify_message = code, "so it is"
    text = unanswered("GET /", "https://fleet.example", SSLError(cause))
    assert "not trusted: so it is. Renew the collector's tls_cert" in text
