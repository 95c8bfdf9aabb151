"""What `trimtab --help` says of each command, with examples."""

from typing import NamedTuple

from trimtab.client import DEFAULT_URL


class Help(NamedTuple):
    """How a command is told of."""

    line: str
    about: str
    examples: str | None = None


ABOUT = f"""\
Which nodes have room, and where a task should go and why. Asks a collector's
HTTP API at --url, else TRIMTAB_URL, else {DEFAULT_URL}. Where it wants a
token: TRIMTAB_TOKEN, or --token-file. Of https with a private authority:
TRIMTAB_CA, or --cacert. "–" always means: no reading.
"""
EXAMPLES = """\
examples:
  trimtab nodes
  trimtab node web-3
  trimtab route class=batch memory_mib=2000 labels.gpu=a100 avoid=n1,n2
  echo '{"latency_budget_ms": 50}' | trimtab route --task -
  trimtab explain 1d7026e931ba2ce2
  trimtab drain web-3 --deadline 10m --reason "new disk"
  trimtab undrain web-3
  trimtab events --follow
  trimtab nodes --json | jq -r '.nodes[] | select(.state == "lost").node'

exit status:
  0  answered
  1  answered with no: no node fits the task, no such node or decision
  2  not answered: wrong usage, no collector there, refused, no room for output
"""
COMMANDS = {
    "nodes": Help(
        "every node, worst first",
        """\
Every node, the one to look at first on top: in use and lost, saturated,
stale, strained, unknown, joining, healthy, sleeping; then those that were
taken out on purpose. Within a state the least score comes first. Score and
headrooms run from 1, idle, to 0, at or past the knee where work slows sharply.

Of --state, --site, --limiting and --admin any given value will do; all of
--label are needed. Each may be repeated. Deleted nodes are shown by
--admin tombstoned alone.
""",
        """\
examples:
  trimtab nodes --state lost,stale
  trimtab nodes --site fra --label gpu=a100 --sort=-gpu --limit 5
  trimtab nodes --admin draining,drained
""",
    ),
    "node": Help(
        "all that is known of one",
        "All that is known of one.",
    ),
    "route": Help(
        "where a task should go, and why",
        """\
Ask where a task should go, and see why. The answer is a lease: it counts as
work sent to the node until its outcome is told or it expires.

A task is KEY=VALUE words, all optional, or JSON by --task: class
(interactive, streaming, batch, training), latency_budget_ms, cpu, memory_mib,
gpus, gpu_memory_mib, duration_s, labels.NAME, avoid, failover_from, from,
sticky, data, data_mib, egress_mib.
""",
    ),
    "explain": Help(
        "why a task went there",
        "A decision, again.",
    ),
    "drain": Help(
        "take a node out",
        """\
Take a node out: it gets no new tasks but those that stick to it, until its
work is done or the deadline has come, then none at all. Asked for again, the
newer deadline and reason count.
""",
        """\
examples:
  trimtab drain web-3
  trimtab drain web-3 --deadline 1h30m --reason "kernel update"
""",
    ),
    "undrain": Help(
        "put a node back",
        """\
Put a node back that was drained or deleted. A deleted one is named by its id
or by its name as 'trimtab nodes --admin tombstoned' shows them.
""",
    ),
    "forget": Help(
        "delete a node",
        """\
Delete a node: it is in no list any more, and its agent is refused until
'trimtab undrain' lets it back. For hosts that are gone for good.
""",
    ),
    "events": Help(
        "what happened",
        """\
What happened in the fleet, oldest first: changes of state with the reason,
drains, new nodes, clones. A line of kind gap says that some are no longer kept.
""",
        """\
examples:
  trimtab events
  trimtab events --follow
  trimtab events --after 1200 --json | jq -r 'select(.kind == "state").reason'
""",
    ),
}
