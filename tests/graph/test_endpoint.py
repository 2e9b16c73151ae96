"""Model server refusals (context window, loading model, unsupported shapes) as one actionable sentence, in the wording
of OpenAI, Azure, vLLM, Ollama, llama.cpp and gateways.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from deploy.sandbox.model.server import SandboxModel, serve
from graph.model.endpoint import EndpointFailure, ModelReply, OpenAIEndpoint
from graph.model.prompts import build_question

SHAPE = {"type": "object", "properties": {"said": {"type": "string"}}, "required": ["said"], "additionalProperties": False}


@pytest.fixture
def sandbox() -> SandboxModel:
    return SandboxModel()


@pytest.fixture
async def url(sandbox: SandboxModel) -> AsyncIterator[str]:
    runner, address = await serve(sandbox)
    yield address
    await runner.cleanup()


@pytest.fixture
async def endpoint(url: str) -> AsyncIterator[OpenAIEndpoint]:
    opened = OpenAIEndpoint(url, "key", "some-model", seconds=10.0, pause=at_once)
    yield opened
    await opened.aclose()


async def at_once(seconds: float) -> None:
    """Pause without waiting."""


async def said(endpoint: OpenAIEndpoint) -> ModelReply | EndpointFailure:
    return await endpoint.ask(build_question("critique", {}, {"Findings": "0: Xid 79"}), "critique", SHAPE)


TOO_LONG: dict[str, tuple[int, dict[str, Any], str]] = {
    "openai": (
        400,
        {
            "message": "This model's maximum context length is 128000 tokens. However, your messages resulted in 134521 tokens.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        },
        " of 128000 tokens",
    ),
    "openai newer": (
        400,
        {
            "message": "Your input exceeds the context window of this model.",
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
        },
        "",
    ),
    "llama.cpp": (
        400,
        {
            "code": 400,
            "message": "request (9001 tokens) is too much",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 9001,
            "n_ctx": 8192,
        },
        " of 8192 tokens",
    ),
    "llama.cpp in its answer": (500, {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}, ""),
    "vllm and room for the answer": (
        400,
        {
            "message": "'max_tokens' or 'max_completion_tokens' is too large: 900. This model's maximum context length is 4096 tokens and your request "
            "has 3778 input tokens (900 > 4096 - 3778).",
            "type": "BadRequestError",
            "code": 400,
        },
        " of 4096 tokens",
    ),
    "vllm": (
        400,
        {
            "message": "The decoder prompt (length 25938) is longer than the maximum model length of 4096.",
            "type": "BadRequestError",
            "code": 400,
        },
        " of 4096 tokens",
    ),
    "another behind a gateway": (400, {"message": "prompt is too long: 213462 tokens > 200000 maximum", "type": None, "code": "400"}, ""),
}


@pytest.mark.parametrize("case", TOO_LONG, ids=lambda case: case.replace(" ", "_"))
async def test_a_question_that_is_too_long_names_the_window_and_the_setting(
    endpoint: OpenAIEndpoint, sandbox: SandboxModel, case: str
) -> None:
    status, error, window = TOO_LONG[case]
    sandbox.script.next.append({"status": status, "error": error})
    assert await said(endpoint) == EndpointFailure(
        f"the question is longer than the model's window{window}: set RACKMEDIC_MODEL_CONTEXT to what the server has", provider=False
    )
    assert len(sandbox.script.asked) == 1, "it would not be shorter the second time"


async def test_a_window_that_is_too_small_takes_no_parameter_from_the_next_question(
    endpoint: OpenAIEndpoint, sandbox: SandboxModel
) -> None:
    status, error, _ = TOO_LONG["vllm and room for the answer"]
    sandbox.script.next.append({"status": status, "error": error})
    await said(endpoint)
    assert isinstance(await said(endpoint), ModelReply)
    assert sandbox.script.asked[0].keys() == sandbox.script.asked[1].keys()


@pytest.mark.parametrize(
    "strange", [{"n_ctx": [1], "code": {}, "type": []}, {"message": ["context", "size"], "n_ctx": "many"}, {}, None, "no", 7]
)
async def test_a_refusal_of_any_form_is_a_sentence(endpoint: OpenAIEndpoint, sandbox: SandboxModel, strange: Any) -> None:
    sandbox.script.next.append({"status": 400, "error": strange})
    answer = await said(endpoint)
    assert isinstance(answer, EndpointFailure)
    assert answer.why.startswith("the model's endpoint refuses the question")


async def test_a_server_that_still_loads_its_model_is_asked_once_more(endpoint: OpenAIEndpoint, sandbox: SandboxModel) -> None:
    loading = {"status": 503, "error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
    sandbox.script.next.append(loading)
    assert isinstance(await said(endpoint), ModelReply)
    sandbox.script.next.extend([loading] * 2)
    assert await said(endpoint) == EndpointFailure("the model's server is still loading the model", again=True)


async def test_a_server_that_is_busy_says_so(endpoint: OpenAIEndpoint, sandbox: SandboxModel) -> None:
    sandbox.script.next.extend([{"status": 503, "error": {"message": "no slot available", "type": "unavailable_error", "code": 503}}] * 2)
    assert await said(endpoint) == EndpointFailure("the model's endpoint is busy or not ready (status 503)", again=True)


@pytest.mark.parametrize(
    "message", ["JSON schema error at #/properties/a: unrecognized type", "Failed to initialize samplers: failed to parse grammar"]
)
async def test_a_server_that_cannot_read_the_shape_is_asked_without(endpoint: OpenAIEndpoint, sandbox: SandboxModel, message: str) -> None:
    sandbox.script.next.append({"status": 400, "error": {"code": 400, "message": message, "type": "invalid_request_error"}})
    assert isinstance(await said(endpoint), ModelReply)
    assert ["response_format" in body for body in sandbox.script.asked] == [True, False]


async def test_the_first_answer_is_the_likeliest_and_further_ones_are_drawn(endpoint: OpenAIEndpoint, sandbox: SandboxModel) -> None:
    question = build_question("critique", {}, {"Findings": "0: Xid 79"})
    for sample in (0, 1, 2):
        await endpoint.ask(replace(question, sample=sample), "critique", SHAPE)
    assert [body["temperature"] for body in sandbox.script.asked] == [0, 0.7, 0.7]


async def test_an_answer_may_be_kept_short(url: str, sandbox: SandboxModel) -> None:
    endpoint = OpenAIEndpoint(url, "key", "some-model", max_output_tokens=60)
    await said(endpoint)
    await endpoint.aclose()
    assert sandbox.script.asked[0]["max_completion_tokens"] == 60
