"""GET /metrics: Prometheus text, of bounded cardinality.

Routes are named by their template. A node has one series a number, up to
MOST_NODES nodes: of a larger fleet, those that enrolled first; how many are
left out is a metric of its own, and all of them are in /v1/nodes.
"""

from collections import Counter
from collections.abc import Iterator

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector as Source

from trimtab.wire import VERSION, Reason

from ..core import COLLECTOR, Collector
from ..health import DIMENSIONS
from ..states import Admin, State
from .access import TRAFFIC, Traffic
from .events import STREAMS, Streams
from .listing import SILENT
from .node_json import number
from .parameters import only

MOST_NODES = 1000


async def metrics(request: web.Request) -> web.Response:
    """Answer what is true now."""
    only(request)
    registry = CollectorRegistry(auto_describe=False)
    app = request.app
    registry.register(_Now(app[COLLECTOR], app[TRAFFIC], app[STREAMS]))
    return web.Response(
        body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
    )


class _Now(Source):
    def __init__(
        self, collector: Collector, traffic: Traffic, streams: Streams
    ) -> None:
        self._collector = collector
        self._traffic = traffic
        self._streams = streams

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily(
            "trimtab_build", "This collector.", value={"version": VERSION}
        )
        yield from self._fleet()
        yield from self._nodes()
        yield from self._intake()
        yield from self._router()
        yield from self._events()
        yield from self._http()

    def _fleet(self) -> Iterator[Metric]:
        fleet = self._collector.fleet
        states = GaugeMetricFamily("trimtab_nodes", "Nodes by state.", labels=["state"])
        held = fleet.state[fleet.rows()]
        for state in State:
            count = int((held == state).sum())
            states.add_metric([state.name.lower()], count)
        yield states
        intents = GaugeMetricFamily(
            "trimtab_nodes_admin",
            "Nodes by what the operator wants of them.",
            labels=["admin"],
        )
        wanted = fleet.admin[fleet.rows()]
        for admin in Admin:
            intents.add_metric([admin.name.lower()], int((wanted == admin).sum()))
        yield intents

    def _nodes(self) -> Iterator[Metric]:
        fleet = self._collector.fleet
        now = self._collector.clock.monotonic()
        score = GaugeMetricFamily(
            "trimtab_node_score", "Headroom 0-1, the least read.", labels=["node"]
        )
        headroom = GaugeMetricFamily(
            "trimtab_node_headroom",
            "Headroom 0-1 of one dimension.",
            labels=["node", "dimension"],
        )
        age = GaugeMetricFamily(
            "trimtab_node_age_seconds", "Age of the newest reading.", labels=["node"]
        )
        gaps = CounterMetricFamily(
            "trimtab_node_gaps",
            "Samples that the agent had to drop, in this run of it.",
            labels=["node"],
        )
        rows = [r for r in fleet.rows() if fleet.admin[r] != Admin.TOMBSTONED]
        rows.sort(key=lambda row: fleet.nodes[row].first_seen)
        yield GaugeMetricFamily(
            "trimtab_nodes_without_series",
            f"Nodes left out here, past the first {MOST_NODES}.",
            value=max(0, len(rows) - MOST_NODES),
        )
        for row in rows[:MOST_NODES]:
            node = fleet.nodes[row]
            if fleet.state[row] in SILENT:
                continue
            # A series that is missing is "no reading"; 0 would be a lie.
            if (value := number(fleet.score[row])) is not None:
                score.add_metric([node.name], value)
            for index, dimension in enumerate(DIMENSIONS):
                if (value := number(fleet.headroom[row, index])) is not None:
                    headroom.add_metric([node.name, dimension], value)
            if (sampled_at := number(fleet.sampled_at[row])) is not None:
                age.add_metric([node.name], round(now - sampled_at, 3))
            gaps.add_metric([node.name], node.gaps)
        yield from (score, headroom, age, gaps)

    def _intake(self) -> Iterator[Metric]:
        counts = self._collector.intake.counts
        yield CounterMetricFamily(
            "trimtab_frames", "Frames that arrived.", value=counts.frames
        )
        yield CounterMetricFamily(
            "trimtab_frames_repeated",
            "Frames that had been counted before.",
            value=counts.repeated,
        )
        yield CounterMetricFamily(
            "trimtab_connections", "Connections of agents.", value=counts.connections
        )
        refused = CounterMetricFamily(
            "trimtab_refused", "Conversations refused.", labels=["reason"]
        )
        for reason in Reason:
            refused.add_metric([reason.name.lower()], counts.refused[reason])
        yield refused
        yield CounterMetricFamily(
            "trimtab_samples_lost",
            "Samples lost to history while commits failed for long.",
            value=self._collector.fleet.rollups.lost_samples,
        )
        yield GaugeMetricFamily(
            "trimtab_store_failing",
            "1 while commits fail: history waits in memory.",
            value=float(self._collector.committer.failure is not None),
        )

    def _router(self) -> Iterator[Metric]:
        counts = self._collector.decided.counts
        decided = CounterMetricFamily(
            "trimtab_decisions", "Routing decisions by mode.", labels=["mode"]
        )
        for mode, count in counts.items():
            decided.add_metric([mode], count)
        yield decided
        yield GaugeMetricFamily(
            "trimtab_leases",
            "Decisions without an outcome that have not expired.",
            value=self._collector.router.open_leases,
        )

    def _events(self) -> Iterator[Metric]:
        happened = CounterMetricFamily(
            "trimtab_events", "Events by kind.", labels=["kind"]
        )
        for kind, count in self._collector.events.counts.items():
            happened.add_metric([str(kind)], count)
        yield happened
        yield GaugeMetricFamily(
            "trimtab_event_streams",
            "Requests that follow the events now.",
            value=self._streams.open,
        )

    def _http(self) -> Iterator[Metric]:
        labels = ["method", "route", "status"]
        requests = CounterMetricFamily(
            "trimtab_http_requests",
            "HTTP requests answered; status 499: the client went first.",
            labels=labels,
        )
        by_route: Counter[str] = Counter()
        for (method, route, status), count in self._traffic.requests.items():
            requests.add_metric([method, route, str(status)], count)
            by_route[route] += count
        yield requests
        durations = SummaryMetricFamily(
            "trimtab_http_request_duration_seconds",
            "Time to answer HTTP requests, for events the time they were followed.",
            labels=["route"],
        )
        for route, elapsed_s in self._traffic.seconds.items():
            durations.add_metric([route], by_route[route], elapsed_s)
        yield durations
