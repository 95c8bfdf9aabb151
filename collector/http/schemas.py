"""The shapes of what the API takes and answers, as JSON Schema 2020-12."""

from typing import Any

from trimtab.balancer import Admin as AdminName
from trimtab.balancer import State as StateName
from trimtab.wire import GpuState

from ..events import Kind
from ..health import DIMENSIONS
from ..readings import READINGS
from ..rollup import SERIES
from . import forecast, intent, route
from .events import GAP, MOST_IDENT

Schema = dict[str, Any]


def made(required: Schema, optional: Schema | None = None) -> Schema:
    """Return the schema of an object of these members and no others."""
    return {
        "type": "object",
        "properties": required | (optional or {}),
        "required": list(required),
        "additionalProperties": False,
    }


def maybe(kind: str, **limits: object) -> Schema:
    """Return the schema of a value that may be null."""
    return {"type": [kind, "null"], **limits}


def ref(name: str) -> Schema:
    """Return a reference to one of SCHEMAS."""
    return {"$ref": f"#/components/schemas/{name}"}


SIGNED = ("clock.offset_ms",)
AT_LEAST_0: Schema = {"minimum": 0}
SHARE: Schema = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": TEXT}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}

_DRAIN = made(
    {
        "since": NUMBER,
        "until": maybe("number"),
        "reason": TEXT,
        "by": maybe("string"),
    }
)
_NODE: Schema = {
    "node": {"type": "string", "description": "name, unique in the fleet"},
    "id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
    "clone_of": maybe("string"),
    "state": {"enum": [str(state) for state in StateName]},
    "admin": {"enum": [str(admin) for admin in AdminName]},
    "drain": {"anyOf": [_DRAIN, {"type": "null"}]},
    "score": {**SHARE, "description": "least headroom read; null: nothing read"},
    "confidence": SHARE,
    "limiting": {"enum": [*DIMENSIONS, None]},
    "headroom": made(dict.fromkeys(DIMENSIONS, SHARE)),
    "age_ms": maybe("integer", minimum=0),
    "signals": made(
        {
            name: {"type": ["number", "null"], **({} if name in SIGNED else AT_LEAST_0)}
            for name in READINGS
        }
    ),
    "address": maybe("string"),
    "site": maybe("string"),
    "zone": maybe("string"),
    "operator": maybe("string"),
    "labels": {"type": "object", "additionalProperties": TEXT},
}
_LINK = made(
    {
        "to": TEXT,
        "method": maybe("string"),
        "rtt_us": maybe("integer", minimum=0),
        "rtt_min_us": maybe("integer", minimum=0),
        "rtt_p95_us": maybe("integer", minimum=0),
        "jitter_us": maybe("integer", minimum=0),
        "loss": SHARE,
        "retransmits": maybe("integer", minimum=0),
    }
)
_HOLE = made(
    {
        "signal": TEXT,
        "state": {"enum": ["unsupported", "error", "stale"]},
        "age_ms": maybe("integer", minimum=0),
        "to": maybe("string"),
    }
)
_MIB = maybe("integer", minimum=0)
_MIG = made({"instance": COUNT, "slices": COUNT, "free_mib": _MIB, "used_mib": _MIB})
_GPU = made(
    {
        "device": COUNT,
        "uuid": maybe("string"),
        "name": maybe("string"),
        "memory_mib": _MIB,
        "health": {"enum": ["ok", "lowered", "zero", None]},
        "reasons": TEXTS,
        "xid": maybe("integer", minimum=0),
        "free_mib": _MIB,
        "used_mib": _MIB,
        "reserved_mib": _MIB,
        "busy": SHARE,
        "effective": {**SHARE, "description": "an upper bound of useful work"},
        "method": {"enum": ["gpm", "power", "busy_only", None]},
        "pseudo_high": maybe("boolean"),
        "clock": SHARE,
        "throttle": maybe("integer", minimum=0),
        "power_w": maybe("number", minimum=0),
        "temperature_c": maybe("integer"),
        "mig": {"type": "array", "items": _MIG},
    }
)
_GPUS = made(
    {
        "state": {"enum": [state.name.lower() for state in GpuState]},
        "age_ms": maybe("integer", minimum=0),
        "stranding": {**SHARE, "description": "free memory no single task can use"},
        "mig_stranding": SHARE,
        "restarts": COUNT,
        "devices": {"type": "array", "items": _GPU},
    }
)
_DETAILS: Schema = {
    "state_for_s": NUMBER,
    "interval_ms": COUNT,
    "stale_after_ms": COUNT,
    "agent_version": TEXT,
    "first_seen": NUMBER,
    "last_seen": NUMBER,
    "gaps": COUNT,
    "links": {"type": "array", "items": _LINK},
    "holes": {"type": "array", "items": _HOLE},
    "gpus": {"anyOf": [_GPUS, {"type": "null"}]},
    "mode": {"enum": ["standard", "edge"]},
    "cpu_quota": maybe("number", minimum=0),
    "memory_limit_mib": maybe("integer", minimum=0),
    "cpus": maybe("integer", minimum=0),
    "memory_mib": maybe("integer", minimum=0),
    "groups": TEXTS,
    "holds": TEXTS,
    "resources": {"type": "object", "additionalProperties": COUNT},
    "price": maybe("number"),
    "slots": maybe("integer", minimum=0),
    "speed": maybe("number"),
}
_COLUMN: Schema = {"type": "array", "items": {"type": ["number", "null"]}}
_HISTORY = made(
    {
        "node": TEXT,
        "step_s": COUNT,
        "time": {"type": "array", "items": COUNT, "description": "Unix seconds"},
        "samples": {"type": "array", "items": COUNT},
        "series": made(
            dict.fromkeys(
                SERIES, made({"mean": _COLUMN, "min": _COLUMN, "max": _COLUMN})
            )
        ),
    }
)


def _upto(most: float, *, positive: bool = False) -> Schema:
    low = {"exclusiveMinimum": 0} if positive else {"minimum": 0}
    return {"type": ["number", "null"], "maximum": most, **low}


_DAY_S = 86_400
_AMOUNT_MIB = _upto(2**40)
_NAME: Schema = {"type": ["string", "null"], "minLength": 1, "maxLength": 255}
_NAMES: Schema = {
    "type": ["array", "null"],
    "items": {"type": "string", "minLength": 1, "maxLength": 255},
    "maxItems": 256,
}
_TASK: Schema = {
    "type": "object",
    "description": "null is the same as absent",
    "properties": {
        "class": {**maybe("string"), "examples": ["interactive", "batch"]},
        "latency_budget_ms": _upto(_DAY_S * 1000, positive=True),
        "from": _NAME,
        "cpu": _upto(2**20),
        "memory_mib": _AMOUNT_MIB,
        "gpus": maybe("integer", minimum=0, maximum=1024),
        "gpu_memory_mib": _AMOUNT_MIB,
        "data": _NAMES,
        "data_mib": _AMOUNT_MIB,
        "egress_mib": _AMOUNT_MIB,
        "duration_s": _upto(30 * _DAY_S, positive=True),
        "labels": {
            "type": ["object", "null"],
            "additionalProperties": TEXT,
            "maxProperties": 64,
        },
        "sticky": _NAME,
        "avoid": _NAMES,
        "failover_from": _NAME,
    },
    "additionalProperties": False,
}
_TASKS = made(
    {
        "tasks": {
            "type": "array",
            "maxItems": route.MOST_TASKS,
            "items": {
                "description": "a Task; what is none has a problem for an answer"
            },
        }
    }
)
_PROBLEM: Schema = {
    "type": "object",
    "properties": {
        "type": TEXT,
        "title": TEXT,
        "status": {"type": "integer"},
        "detail": TEXT,
        "request_id": {
            "type": "string",
            "description": "as in the header X-Request-Id and in the log",
        },
    },
    "required": ["type", "title", "status", "detail"],
}
_DECISION = made(
    {
        "decision": {"type": "string", "pattern": "^[0-9a-f]+$"},
        "node": TEXT,
        "address": maybe("string"),
        "score": SHARE,
        "expires_ms": COUNT,
        "alternatives": {
            "type": "array",
            "items": {"type": "object", "required": ["node", "address"]},
        },
        "why": {"type": "object", "required": ["mode", "candidates"]},
    }
)
_DECISIONS = made(
    {
        "decisions": {
            "type": "array",
            "description": "an answer for each task, in the order of the tasks",
            "items": {"anyOf": [ref("Decision"), made({"problem": ref("Problem")})]},
        }
    }
)
_MEASURE = _upto(route.MOST_MEASURE)
_OUTCOME = made(
    {
        "decision": TEXT,
        "outcome": {"enum": ["ok", "error", "timeout"]},
    },
    {
        **dict.fromkeys(route.MEASURES, _MEASURE),
        **dict.fromkeys(
            route.COUNTS, maybe("integer", minimum=0, maximum=route.MOST_MEASURE)
        ),
    },
)
_OUTCOMES: Schema = {
    "oneOf": [
        ref("Outcome"),
        {"type": "array", "items": ref("Outcome"), "maxItems": route.MOST_OUTCOMES},
    ]
}
_FORECAST = made(
    {
        "node": TEXT,
        "step_s": COUNT,
        "time": {"type": "array", "items": COUNT, "description": "Unix seconds"},
        "series": made(
            dict.fromkeys(
                forecast.SERIES,
                made({"expected": _COLUMN, "low": _COLUMN, "high": _COLUMN}),
            )
        ),
        "method": {
            **maybe("string"),
            "description": "what made it; null: nothing did, and no value is there",
        },
    }
)
_EVENT = made(
    {
        "id": {"type": "integer", "minimum": 0, "maximum": MOST_IDENT},
        "time": NUMBER,
        "kind": {"enum": [*map(str, Kind), GAP]},
        "node": maybe("string"),
        "node_id": maybe("string"),
        "reason": TEXT,
        "by": maybe("string"),
        "details": {
            "type": "object",
            "additionalProperties": {"type": ["string", "number", "null"]},
        },
    }
)

REASON: Schema = {
    "type": ["string", "null"],
    "maxLength": intent.REASON_CHARS,
    "description": "printable; shown with the node, and in events",
}

SCHEMAS: Schema = {
    "NodeSummary": made(_NODE),
    "Node": made(_NODE | _DETAILS),
    "NodeList": made(
        {
            "nodes": {"type": "array", "items": ref("NodeSummary")},
            "next": {
                **maybe("string"),
                "description": "the cursor of the next page; null: there is none",
            },
        }
    ),
    "History": _HISTORY,
    "Forecast": _FORECAST,
    "Drain": made(
        {},
        {
            "deadline_s": {
                "type": ["number", "null"],
                "minimum": 0,
                "maximum": intent.LONGEST_DRAIN_S,
                "description": "when sticky tasks end too; else once work is done",
            },
            "reason": REASON,
        },
    ),
    "Holds": made(
        {
            "holds": {
                "type": "array",
                "items": {"type": "string", "maxLength": 255},
                "maxItems": 256,
            }
        }
    ),
    "Task": _TASK,
    "Tasks": _TASKS,
    "Decision": _DECISION,
    "Decisions": _DECISIONS,
    "Outcome": _OUTCOME,
    "Outcomes": _OUTCOMES,
    "Closed": made({"closed": COUNT, "unknown": TEXTS}),
    "Event": _EVENT,
    "EventPage": made(
        {
            "events": {"type": "array", "items": ref("Event")},
            "next": {
                **COUNT,
                "description": "what to ask with as `after` for those that follow",
            },
        }
    ),
    "Ready": made({"ready": {"const": True}, "nodes": COUNT, "store": TEXT}),
    "Problem": _PROBLEM,
}
