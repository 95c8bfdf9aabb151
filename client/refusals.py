"""What to do about a 401 or 403.

RFC 6750, 3.1: 401 is for a token that is missing or not known, 403 with the
error insufficient_scope for one that is known. A collector's other 403 keeps
names that are not this host's out of one without tokens.
"""

from http import HTTPStatus

_GIVE = "give it in TRIMTAB_TOKEN or by --token-file"


def refusal(status: int, detail: str, challenge: str, *, token_given: bool) -> str:
    """Return the collector's words with what they mean for whoever asked.

    `challenge` is the WWW-Authenticate header, empty if there was none.
    """
    if status == HTTPStatus.UNAUTHORIZED:
        if not token_given:
            return f"no token was given: {detail}, and {_GIVE}"
        return (
            "the token from TRIMTAB_TOKEN or --token-file is not known there; it may "
            f"be revoked, expired or another collector's: {detail}, and {_GIVE}"
        )
    if status == HTTPStatus.FORBIDDEN:
        if "insufficient_scope" in challenge:
            return f"the token given lacks the scope: {detail}, and {_GIVE}"
        return (
            f"{detail}. On its own host set --url or TRIMTAB_URL to a loopback "
            "address; from elsewhere make a token there with 'trimtab-collector "
            f"token create --scope read', and {_GIVE}"
        )
    return detail
