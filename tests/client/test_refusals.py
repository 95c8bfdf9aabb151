"""What a 401 and a 403 mean for whoever asked."""

import pytest

from trimtab.client.refusals import refusal

NARROW = 'Bearer error="insufficient_scope", scope="route"'


@pytest.mark.parametrize(
    ("status", "challenge", "token_given", "starts", "ends"),
    [
        (401, "Bearer", False, "no token was given: why", "TRIMTAB_TOKEN or by"),
        (401, "Bearer", True, "the token from TRIMTAB_TOKEN or --token-file is", "by"),
        (403, NARROW, True, "the token given lacks the scope: why, and give", "by"),
        (403, "", False, "why. On its own host set --url", "TRIMTAB_TOKEN or by"),
        (403, "", True, "why. On its own host set --url", "TRIMTAB_TOKEN or by"),
    ],
)
def test_each_refusal_says_what_is_wrong_and_where_the_token_goes(
    status: int, challenge: str, token_given: bool, starts: str, ends: str
) -> None:
    text = refusal(status, "why", challenge, token_given=token_given)
    assert text.startswith(starts)
    assert text.endswith(f"{ends} --token-file")


@pytest.mark.parametrize("status", [400, 404, 409, 500, 503])
def test_other_failures_keep_the_collectors_words(status: int) -> None:
    assert refusal(status, "why", "", token_given=True) == "why"
