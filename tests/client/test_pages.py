"""A list longer than one answer is whole; each page is asked for in turn."""

import json
from collections.abc import Callable

from trimtab.client import Client

from .conftest import Stray


def test_a_list_of_several_pages_is_followed_to_its_end(
    stray: Callable[..., Stray],
) -> None:
    summary = {"node": "n", "id": "0" * 32, "state": "lost", "admin": "active"}
    server = stray(
        200, "application/json", json.dumps({"nodes": [summary], "next": "more"})
    )
    with Client(server.url) as client:
        assert len(client.nodes(limit=3, sort="-score")) == 3
    assert server.asked == [
        "GET /v1/nodes?sort=-score&limit=3",
        "GET /v1/nodes?sort=-score&limit=2&cursor=more",
        "GET /v1/nodes?sort=-score&limit=1&cursor=more",
    ]
