"""TLS: certificates that change while it serves, and clients' certificates."""

import socket
import ssl
import subprocess
import threading

import pytest

from trimtab.collector.settings import Settings
from trimtab.collector.tls import BadTls, Certificates, tls_context


def certify(folder, name, ca=None):
    """Make a certificate of that name, signed by the authority or by itself."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    signed = ["-CA", ca[0], "-CAkey", ca[1]] if ca else []
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"),
            *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", f"/CN={name}"),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert),
            *signed,
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


def serial(context, client=None):
    """Return the serial of the certificate a client of this context meets."""
    ours, theirs = socket.socketpair()
    client = client or ssl.create_default_context()
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    failures = []

    def serve():
        try:
            with context.wrap_socket(theirs, server_side=True) as served:
                served.recv(1)
        except OSError as exc:
            failures.append(exc)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(ours) as connection:
            found = connection.getpeercert(binary_form=True)
            connection.send(b"x")
    finally:
        thread.join(5)
    if failures:
        raise failures[0]
    return found


@pytest.fixture
def settings(tmp_path):
    cert, key = certify(tmp_path, "first")
    return Settings(state_dir=tmp_path, tls_cert=cert, tls_key=key)


@pytest.fixture
def context(settings):
    return tls_context(settings)


def test_a_new_certificate_is_used_from_the_next_handshake_on(
    settings, context, tmp_path
):
    certificates = Certificates(settings, context)
    before = serial(context)
    assert not certificates.changed()
    cert, key = certify(tmp_path, "second")
    cert.replace(settings.tls_cert)
    key.replace(settings.tls_key)
    assert certificates.changed()
    certificates.reload()
    assert serial(context) != before
    assert not certificates.changed()


@pytest.mark.parametrize("content", ["", "no PEM at all"])
def test_a_new_certificate_that_is_no_good_leaves_the_old_one_in_use(
    settings, context, content
):
    certificates = Certificates(settings, context)
    before = serial(context)
    settings.tls_cert.write_text(content)
    with pytest.raises(BadTls, match="no PEM"):
        certificates.reload()
    assert serial(context) == before
    assert not certificates.changed()  # told once, not every few seconds


def test_a_certificate_that_went_away_is_told_by_its_setting(settings, context):
    certificates = Certificates(settings, context)
    settings.tls_key.unlink()
    with pytest.raises(BadTls, match=r"tls_key = .*No such file"):
        certificates.reload()


def test_with_an_authority_for_clients_only_their_certificates_are_let_in(
    settings, tmp_path
):
    ca = certify(tmp_path, "authority")
    cert, key = certify(tmp_path, "client", ca)
    context = tls_context(settings.model_copy(update={"tls_client_ca": ca[0]}))
    client = ssl.create_default_context()
    client.load_cert_chain(cert, key)
    assert serial(context, client)
    with pytest.raises(ssl.SSLError):
        serial(context)


def test_an_authority_that_cannot_be_read_is_told_by_its_setting(settings, tmp_path):
    broken = settings.model_copy(update={"tls_client_ca": tmp_path / "none.pem"})
    with pytest.raises(BadTls, match=r"tls_client_ca = .*No such file"):
        tls_context(broken)
