"""An MCP server that manages resources: list them, plan a new one, create what was planned.

Nothing is created without a plan: `plan_resource` says what would happen and gives a token,
`create_resource` takes that token, once.

    python mcp_orchestrator_server.py            over stdio, for a client that starts it
    python mcp_orchestrator_server.py --http     over streamable HTTP; prints its address first
"""

from __future__ import annotations

import hashlib
import socket
import sys
from typing import Literal

from mcp.server.fastmcp import FastMCP
from pydantic import BaseModel

server = FastMCP("orchestrator", log_level="CRITICAL")

Kind = Literal["database", "bucket", "queue"]
PRICES: dict[Kind, float] = {"database": 15.0, "bucket": 2.5, "queue": 1.0}


class Resource(BaseModel):
    """Something that runs and costs."""

    name: str
    kind: Kind
    region: str


class Plan(BaseModel):
    """What `create_resource` would do."""

    resource: Resource
    monthly_price: float
    confirmation_token: str


resources = [Resource(name="orders", kind="database", region="europe-north1")]
plans: dict[str, Plan] = {}


@server.tool()
def list_resources() -> list[Resource]:
    """List every resource."""
    return resources


@server.tool()
def plan_resource(name: str, kind: Kind, region: str = "europe-north1") -> Plan:
    """Plan a new resource. Nothing is created: the token in the plan does that."""
    if any(resource.name == name for resource in resources):
        raise ValueError(f"There is a resource called {name!r} already.")
    resource = Resource(name=name, kind=kind, region=region)
    token = hashlib.sha256(resource.model_dump_json().encode()).hexdigest()[:8]
    plans[token] = Plan(resource=resource, monthly_price=PRICES[kind], confirmation_token=token)
    return plans[token]


@server.tool()
def create_resource(confirmation_token: str) -> Resource:
    """Create what was planned. The token comes from `plan_resource`, and holds once."""
    if (plan := plans.pop(confirmation_token, None)) is None:
        raise ValueError("No plan has this token. Ask plan_resource for a new one.")
    resources.append(plan.resource)
    return plan.resource


def serve_http() -> None:
    """Serve on a free port of this machine."""
    import uvicorn

    door = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{door.getsockname()[1]}/mcp", flush=True)
    app = uvicorn.Config(server.streamable_http_app(), log_level="error")
    uvicorn.Server(app).run(sockets=[door])


if __name__ == "__main__":
    serve_http() if "--http" in sys.argv else server.run()
