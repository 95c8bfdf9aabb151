"""Probes, and metrics for Prometheus."""

import asyncio
import re
import subprocess

from trimtab.collector.http import metrics

from .asking import say, serving


def test_probes_and_metrics(collector, hello, frame, clock):
    say(collector, hello(1), frame(1))
    collector.tick()

    async def scenario():
        async with serving(collector) as ask:
            await ask("GET", "/livez")
            _, ready = await ask("GET", "/readyz")
            assert ready == {"ready": True, "nodes": 1, "store": "ok"}
            _, text = await ask("GET", "/metrics")
            scores = re.findall(rb'trimtab_node_score{node="node1"} (\S+)', text)
            assert [float(score) > 0.9 for score in scores] == [True]
            assert b'trimtab_nodes{state="joining"} 1.0\n' in text
            assert b'dimension="gpu"' not in text  # no reading is no series
            clock.now += 10
            response, _ = await ask("GET", "/readyz")
            assert response.status == 503

    asyncio.run(scenario())


async def scraped(collector):
    async with serving(collector) as ask:
        _, text = await ask("GET", "/metrics")
        _, text = await ask("GET", "/metrics")
    return text.decode()


def test_requests_are_counted_by_route_and_status(collector):
    text = asyncio.run(scraped(collector))
    assert (
        'trimtab_http_requests_total{method="GET",route="/metrics",status="200"} 1.0'
        in text
    )
    name = "trimtab_http_request_duration_seconds"
    assert f'{name}_count{{route="/metrics"}} 1.0' in text
    assert f'{name}_sum{{route="/metrics"}} 0.0' in text


def test_events_and_drains_are_counted(collector, hello):
    say(collector, hello(1), hello(1))
    collector.drain(0, until_unix_s=None, reason="x", by=None)
    text = asyncio.run(scraped(collector))
    assert 'trimtab_events_total{kind="enrolled"} 1.0' in text
    assert 'trimtab_events_total{kind="clone"} 0.0' in text
    assert 'trimtab_nodes_admin{admin="draining"} 1.0' in text
    assert 'trimtab_nodes_admin{admin="active"} 0.0' in text


def test_past_a_limit_nodes_have_no_series_and_are_counted(
    collector, hello, frame, clock, monkeypatch
):
    monkeypatch.setattr(metrics, "MOST_NODES", 2)
    for n in (3, 1, 2):
        say(collector, hello(n), frame(1))
        clock.now += 0.01
    collector.tick()
    text = asyncio.run(scraped(collector))
    assert "trimtab_nodes_without_series 1.0" in text
    assert 'trimtab_node_score{node="node3"}' in text
    assert 'trimtab_node_score{node="node2"}' not in text


def test_promtool_accepts_what_there_can_be(collector, hello, frame, need):
    promtool = need("promtool")
    say(collector, hello(1), frame(1))
    collector.tick()
    collector.drain(0, until_unix_s=None, reason="x", by=None)
    done = subprocess.run(
        [promtool, "check", "metrics"],
        input=asyncio.run(scraped(collector)).encode(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
