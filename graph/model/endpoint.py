"""One call of an OpenAI-compatible endpoint through langchain-openai; no failure raises out of here.

Structured output is requested here but not parsed by the library, which raises outside its wrapper and loses the tokens
of failed replies.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from graph.model.budget import estimate_tokens
from graph.model.prompts import ModelQuestion
from kb.numbers import parse_bounded_count, parse_seconds

# Not known to every endpoint; omitted after an endpoint rejects one.
OPTIONAL_PARAMETERS = ("response_format", "temperature", "max_completion_tokens")
MAX_OUTPUT_TOKENS = 4_000  # of one answer, where the site sets none; what a model thinks before it answers counts
RETRY_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 3600.0
MAX_REPORTED_TOKENS = 1_000_000_000
SAMPLING_TEMPERATURE = 0.7  # For every sample but the first.

# OpenAI and Azure (code), llama.cpp (type).
_CONTEXT_LENGTH_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})
# Wording of servers without a code (vLLM, Ollama, gateways to other providers), mostly with the token limit.
_CONTEXT_LENGTH_PATTERN = re.compile(
    r"(?:context (?:length|size|window)|maximum (?:model|prompt) length)(?:\D{0,40}?(\d{3,8}))?|prompt is too long", re.IGNORECASE
)
_NO_JSON_SCHEMA_PATTERN = re.compile(r"json[_ ]schema|grammar", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A reply. `by` is the model that the endpoint names, which may be a dated version of the requested one."""

    text: str
    tokens_in: int
    tokens_out: int
    by: str = ""


@dataclass(frozen=True, slots=True)
class EndpointFailure:
    """Why there is no reply.

    `provider` marks a failure of the provider, which is likely to repeat, and `again` one that is worth a retry after
    `wait` seconds.
    """

    why: str
    provider: bool = True
    again: bool = False
    wait: float = RETRY_PAUSE_SECONDS
    tokens_in: int = 0
    tokens_out: int = 0


class ChatEndpoint(Protocol):
    """An endpoint or a wrapper of one."""

    @property
    def model(self) -> str: ...

    async def ask(self, question: ModelQuestion, name: str, schema: Mapping[str, Any]) -> ModelReply | EndpointFailure: ...

    async def aclose(self) -> None: ...


class OpenAIEndpoint:
    """An endpoint. `seconds` bounds a whole call with its retries and slow answers."""

    def __init__(
        self,
        url: str,
        key: str,
        model: str,
        *,
        seconds: float = 30.0,
        tries: int = 2,
        max_output_tokens: int = MAX_OUTPUT_TOKENS,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.model = model
        self._url = url or "https://api.openai.com/v1"
        self._key = key or "none"
        self._seconds = seconds
        self._tries = tries
        self._max_output_tokens = max_output_tokens
        self._pause = pause
        self._rejected_parameters: set[str] = set()
        self._client: Any = None
        self._http: Any = None
        self._client_lock = asyncio.Lock()

    async def aclose(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def ask(self, question: ModelQuestion, name: str, schema: Mapping[str, Any]) -> ModelReply | EndpointFailure:
        """Return one reply, of the asked shape if the endpoint supports shapes; the caller validates it."""
        await self._open_client()
        started_at = time.monotonic()
        failure = EndpointFailure("no answer")
        try:
            async with asyncio.timeout(self._seconds):
                for tries_left in range(self._tries - 1, -1, -1):
                    answer = await self._send_once(question, name, schema)
                    if isinstance(answer, ModelReply) or not answer.again or not tries_left:
                        return answer
                    failure = answer
                    if time.monotonic() - started_at + answer.wait >= self._seconds:
                        return answer
                    await self._pause(answer.wait)
        except TimeoutError:
            return EndpointFailure(f"the model gave no whole answer within {self._seconds:g} s", tokens_in=estimate_tokens(question.size))
        return failure

    async def _send_once(self, question: ModelQuestion, name: str, schema: Mapping[str, Any]) -> ModelReply | EndpointFailure:
        import openai

        try:
            message = await self._client.ainvoke(
                [("system", question.system), ("user", question.user)], **self._build_options(question, name, schema)
            )
        except openai.BadRequestError as error:
            return self._handle_bad_request(error)
        except openai.OpenAIError as error:
            return classify_error(error, self.model)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            # A broken body surfaces as one of these behind two libraries (JSONDecodeError is a ValueError).
            return EndpointFailure("the model's endpoint answered with something that is not a chat completion", again=True)
        return parse_reply(message, question)

    def _build_options(self, question: ModelQuestion, name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        shape = {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}
        options = {
            "temperature": SAMPLING_TEMPERATURE if question.sample else 0,
            "max_completion_tokens": self._max_output_tokens,
            "response_format": shape,
        }
        # In the body instead of typed parameters, so that neither library parses the reply.
        return {"extra_body": {key: value for key, value in options.items() if key not in self._rejected_parameters}}

    def _handle_bad_request(self, error: Any) -> EndpointFailure:
        """Stop sending a parameter that the endpoint rejects by name.

        Context overflow is tested first, since its message names parameters too.
        """
        if context_overflow := find_context_overflow(error):
            return context_overflow
        error_text = str(error)
        for parameter in OPTIONAL_PARAMETERS:
            is_named = parameter in error_text or (parameter == "response_format" and _NO_JSON_SCHEMA_PATTERN.search(error_text))
            if is_named and parameter not in self._rejected_parameters:
                self._rejected_parameters.add(parameter)
                return EndpointFailure(f"the model's endpoint does not know {parameter}", provider=False, again=True, wait=0.0)
        return EndpointFailure(f"the model's endpoint refuses the question ({error_text[:160]})", provider=False)

    async def _open_client(self) -> None:
        """Build the client in a thread: its libraries take seconds to import."""
        async with self._client_lock:
            if self._client is None:
                self._client, self._http = await asyncio.to_thread(self._build_client)

    def _build_client(self) -> tuple[Any, Any]:
        import openai
        from langchain_openai import ChatOpenAI
        from pydantic import SecretStr

        # An HTTP client of its own: the library shares one between all clients, and so between event loops.
        http = openai.DefaultAsyncHttpxClient(timeout=self._seconds)
        client = ChatOpenAI(
            model=self.model,
            base_url=self._url,
            api_key=SecretStr(self._key),
            timeout=self._seconds,
            max_retries=0,
            http_async_client=http,
            use_responses_api=False,
        )
        return client, http


def parse_reply(message: Any, question: ModelQuestion) -> ModelReply | EndpointFailure:
    """Return text and cost, or a failure if it was cut off, refused or empty."""
    text = message.content if isinstance(message.content, str) else ""
    usage = message.usage_metadata or {}
    tokens_in = parse_bounded_count(usage.get("input_tokens"), MAX_REPORTED_TOKENS) or estimate_tokens(question.size)
    tokens_out = parse_bounded_count(usage.get("output_tokens"), MAX_REPORTED_TOKENS) or estimate_tokens(len(text))
    reason = message.response_metadata.get("finish_reason")
    problem = ""
    if reason == "length":
        problem = f"the model's answer was cut off after {tokens_out} tokens"
    elif reason == "content_filter" or message.additional_kwargs.get("refusal"):
        problem = "the model refused to answer"
    elif not text.strip():
        problem = "the model's answer was empty"
    if problem:
        return EndpointFailure(problem, provider=False, tokens_in=tokens_in, tokens_out=tokens_out)
    return ModelReply(text, tokens_in, tokens_out, str(message.response_metadata.get("model_name") or ""))


def classify_error(error: Exception, model: str) -> EndpointFailure:
    import openai

    match error:
        case openai.APITimeoutError():
            return EndpointFailure("the model's endpoint did not answer in time", again=True)
        case openai.APIConnectionError():
            return EndpointFailure("the model's endpoint cannot be reached", again=True)
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            return EndpointFailure("the model's endpoint refuses our key")
        case openai.NotFoundError():
            return EndpointFailure(f"the model's endpoint does not know the model {model}")
        case openai.RateLimitError(code="insufficient_quota"):
            return EndpointFailure("the model account's quota is used up")
        case openai.RateLimitError():
            return EndpointFailure("the model's endpoint says that we ask too often", again=True, wait=_parse_retry_after(error))
        case openai.APIStatusError():
            return find_context_overflow(error) or _classify_status_error(error)
    return EndpointFailure(f"the model's endpoint failed ({type(error).__name__})", again=True)


def find_context_overflow(error: Any) -> EndpointFailure | None:
    """Return a failure if question and answer exceed the model's window."""
    body = error.body if isinstance(error.body, Mapping) else {}
    limits = _CONTEXT_LENGTH_PATTERN.findall(str(body.get("message") or error))
    if not limits and not _CONTEXT_LENGTH_CODES & {str(body.get("code")), str(body.get("type"))}:
        return None
    stated_limits = [limit for limit in limits if limit]
    token_limit = str(body.get("n_ctx") or (stated_limits[0] if stated_limits else ""))
    window = f"the model's window of {token_limit} tokens" if token_limit.isdecimal() else "the model's window"
    return EndpointFailure(f"the question is longer than {window}: set RACKMEDIC_MODEL_CONTEXT to what the server has", provider=False)


def _classify_status_error(error: Any) -> EndpointFailure:
    """Classify a failure by its status. 503 is worth a longer wait: llama.cpp answers it while it loads its model."""
    status: int = error.status_code
    if status != 503:
        return EndpointFailure(f"the model's endpoint failed with status {status}", again=status >= 500)
    loading = "loading model" in str(error).lower()
    problem = "the model's server is still loading the model" if loading else "the model's endpoint is busy or not ready (status 503)"
    return EndpointFailure(problem, again=True, wait=_parse_retry_after(error))


def _parse_retry_after(error: Any) -> float:
    raw = str(error.response.headers.get("retry-after", ""))
    seconds = parse_seconds(raw, MAX_PAUSE_SECONDS)
    return RETRY_PAUSE_SECONDS if seconds is None else seconds
