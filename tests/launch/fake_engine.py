"""A stand-in for vLLM: the same shape of processes and endpoints, ready in a moment."""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WORKER = """
import mmap, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
shared = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4096)
print(flush=True)
time.sleep(600)
"""


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--model", default="fake-model")
    parser.add_argument("--say", default="")
    parser.add_argument("--exit", type=int, default=None, help="End with this code instead of serving.")
    parser.add_argument(
        "--warm-up-s", type=float, default=0.0, help="/health is fine, completions are not yet."
    )
    parser.add_argument("--drain-s", type=float, default=0.0, help="How long SIGTERM takes; -1 is for ever.")
    parser.add_argument("--workers", action="store_true", help="Children that do not listen to SIGTERM.")
    parser.add_argument("--count", default="", help="A file that gets one line a start.")
    parser.add_argument("--refuse", type=int, default=0, help="Answer completions with this status.")
    return parser.parse_args()


class Answers(BaseHTTPRequestHandler):
    given = None
    ready_at = 0.0

    def log_message(self, *_):
        pass

    def do_GET(self):
        pages = {
            "/health": "",
            "/version": json.dumps({"version": "9.9.9"}),
            "/v1/models": json.dumps(
                {"data": [{"id": self.given.model, "max_model_len": 64, "owned_by": "fakery"}]}
            ),
            "/metrics": 'vllm:num_requests_running{engine="0"} 3.0\n',
        }
        self.answer(200 if self.path in pages else 404, pages.get(self.path, "{}"))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.given.refuse:
            self.answer(self.given.refuse, json.dumps({"error": {"message": "no"}}))
        elif time.monotonic() < self.ready_at:
            self.answer(503, "{}")
        elif body["model"] != self.given.model:
            self.answer(404, "{}")
        else:
            self.answer(200, json.dumps({"choices": [{"text": " Paris"}]}))

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


def start_workers():
    shared = Path(f"/dev/shm/psm_{os.getpid()}")
    shared.write_bytes(bytes(4096))
    command = [sys.executable, "-S", "-c", WORKER, str(shared)]
    plain = subprocess.Popen(command, stdout=subprocess.PIPE)
    own_session = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    for worker in (plain, own_session):
        worker.stdout.readline()
    return plain, own_session


def main():
    given = options()
    print(given.say, flush=True)
    note(given, str(os.getpid()))
    if given.exit is not None:
        return given.exit
    held = start_workers() if given.workers else ()
    Path(os.environ["TMPDIR"], "left-over").touch()
    Answers.given, Answers.ready_at = given, time.monotonic() + given.warm_up_s
    server = ThreadingHTTPServer(("127.0.0.1", given.port), Answers)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=stop, args=(server, given)).start())
    note(given, "serving")
    server.serve_forever(poll_interval=0.05)
    del held
    return 0


def note(given, line):
    if given.count:
        with Path(given.count).open("a") as file:
            print(line, file=file)


def stop(server, given):
    note(given, "stopping")
    if given.drain_s >= 0:
        time.sleep(given.drain_s)
        server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
