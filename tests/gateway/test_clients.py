"""What clients of OpenAI's API get: the official one, curl, and the headers that tell who answered."""

import json
import subprocess
from collections.abc import Iterator
from urllib.request import urlopen

import openai
import pytest
from failing_engine import MODEL, ask

from kilocard.gateway.process import AtWork

SAID = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def client(gateway: AtWork) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="any", max_retries=0) as made:
        yield made


def test_the_official_client_streams_and_does_not(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model=MODEL, messages=SAID)  # type: ignore[arg-type]
    assert whole.choices[0].message.content == "hello"
    assert whole.usage is not None and whole.usage.completion_tokens == 4
    stream = client.chat.completions.create(model=MODEL, messages=SAID, max_tokens=3, stream=True)  # type: ignore[call-overload]
    chunks = list(stream)
    assert "".join(it.choices[0].delta.content for it in chunks if it.choices) == " t0 t1 t2"
    assert client.completions.create(model=MODEL, prompt="a").choices[0].text == "hello"
    texts = client.completions.create(model=MODEL, prompt="a", max_tokens=2, stream=True)
    assert "".join(it.choices[0].text for it in texts if it.choices) == " t0 t1"
    assert client.embeddings.create(model=MODEL, input="a").data[0].embedding == [0.5, 1.0]
    assert [model.id for model in client.models.list()] == [MODEL]


def test_the_official_client_understands_what_goes_wrong(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match=f"use {MODEL}"):
        client.completions.create(model="other", prompt="a")
    with pytest.raises(openai.BadRequestError, match="told to say 400"):
        client.completions.create(model=MODEL, prompt="a", extra_body={"fault": "400"})
    with pytest.raises(openai.InternalServerError):
        client.completions.create(model=MODEL, prompt="a", extra_body={"fault": "500"})
    with pytest.raises(openai.APIError, match="shutting down"):
        list(
            client.completions.create(
                model=MODEL, prompt="a", stream=True, extra_body={"fault": "error event"}
            )
        )


@pytest.mark.parametrize("is_stream", [True, False])
def test_headers_tell_who_answered_and_which_request(gateway: AtWork, is_stream: bool) -> None:
    one = ask(gateway, headers={"X-Request-Id": "mine-1"}, stream=is_stream)
    other = ask(gateway, stream=is_stream)
    assert one.headers["x-request-id"] == "mine-1" != other.headers["x-request-id"]
    assert int(other.headers["x-sequence"]) == int(one.headers["x-sequence"]) + 1
    ids = {row["id"]: row["node"] for row in gateway.replicas()}
    assert ids[one.headers["x-replica"]] == one.headers["x-node"]
    assert "x-model-version" in one.headers


def test_models_are_told_as_engines_tell_them_but_for_their_paths(gateway: AtWork) -> None:
    with urlopen(f"{gateway.url}/v1/models", timeout=10) as answer:
        [row] = json.load(answer)["data"]
    assert (row["id"], row["max_model_len"]) == (MODEL, 4096)
    assert "root" not in row


@pytest.mark.parametrize("options", [["--http1.1"], ["--http1.0"], ["-H", "Expect: 100-continue"]])
def test_curl_reads_a_stream_to_its_end(gateway: AtWork, options: list[str]) -> None:
    body = json.dumps({"model": MODEL, "prompt": "a", "stream": True, "max_tokens": 3})
    command = ["curl", "-sSN", "--fail", "--max-time", "30", *options, "-d", body]
    told = subprocess.check_output([*command, f"{gateway.url}/v1/completions"], text=True)
    assert told.count(" t") == 3
    assert told.endswith("data: [DONE]\n\n")
