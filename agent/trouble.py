"""What an operator can do about a connection that fails, from how it failed."""

import errno

# The first byte of HTTP's answer, of TLS's alert; neither begins a message.
_HTTP_ANSWER = "got 72"
_TLS_ALERT = "got 21"
# What becomes of a plain hello where TLS is expected.
_SILENCE = ("no welcome", "closed the connection", "nothing heard")


def hint(failure: str, exc: BaseException | None, *, tls: bool) -> str:
    """Return a hint to append to a failure before any welcome; empty without."""
    kind = type(exc).__name__
    number = getattr(exc, "errno", None)
    if "CERTIFICATE_VERIFY_FAILED" in failure:
        return "; is tls_ca the authority that signed it, and the name the right one?"
    if kind == "gaierror" or "Name or service not known" in failure:
        return "; is the name right, and does DNS work here?"
    if number == errno.ECONNREFUSED or "refused" in failure.lower():
        return "; does trimtab-collector run there, and listen beyond loopback?"
    if _HTTP_ANSWER in failure:
        return "; this looks like the HTTP port: frames go to another, 7766 by default"
    if _TLS_ALERT in failure or (not tls and any(s in failure for s in _SILENCE)):
        return "; does the collector speak TLS? Then set tls = true"
    if tls and ("WRONG_VERSION_NUMBER" in failure or kind == "SSLError"):
        return "; does the collector speak TLS? If not, set tls = false"
    return ""


def plain(exc: BaseException) -> str:
    """Return a failure in a few words, without an errno or a source line."""
    reason = getattr(exc, "verify_message", "") or ""
    if reason:
        return f"CERTIFICATE_VERIFY_FAILED: {reason}"
    text = getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
    return str(text).removesuffix(".")
