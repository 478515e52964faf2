from __future__ import annotations

import json
import operator
import secrets
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _evoq
from ._error import Error
from ._job import fill, text_of
from ._source import to_path

Messages = Sequence[Mapping[str, Any]]
# A text, tokens, or the messages of a chat.
Prompt = str | Sequence[int] | Messages
OnText = Callable[[str], Any]


@dataclass(frozen=True)
class Generated:
    """A text that a language model wrote: ``str(generated)`` is it."""

    text: str
    #: Without the one that ended it.
    tokens: list[int]
    #: Why it ended: ``"end"`` (of the model), ``"stop"``, ``"length"``, ``"context"``,
    #: ``"cancelled"``.
    ended: str
    #: Tokens of the prompt that were run: without those that the cache had.
    prompt_tokens: int
    prompt_ms: float
    #: Of all tokens behind the first.
    decode_ms: float
    #: Of ``decode_ms``, what passed outside of the models.
    host_ms: float
    #: Tokens of a draft model, and those that were kept.
    drafted: int
    accepted: int

    def __str__(self) -> str:
        return self.text

    @property
    def tokens_per_s(self) -> float:
        """Behind the first token; 0 where there are none."""
        behind = len(self.tokens) - 1
        return 1e3 * behind / self.decode_ms if behind > 0 and self.decode_ms > 0 else 0.0


def tokens_of(tokens: Iterable[Any]) -> list[int]:
    try:
        return [operator.index(token) for token in tokens]
    except TypeError:
        raise Error(f"{tokens!r:.100} is no prompt: expected str, tokens or messages") from None


def _options(name: str, options: Mapping[str, Any]) -> _evoq.GenerateOptions:
    if options.get("seed") == -1:
        options = {**options, "seed": secrets.randbits(63)}
    return fill(_evoq.GenerateOptions(), name, options)


class LanguageModel:
    """A language model and a sequence of tokens whose keys and values it keeps: what the next
    prompt has in common with them is not run again, so a conversation costs what is new of it.

    path: an .etm, a folder of Hugging Face's, a GGUF file, llama2.c's .bin.
    threads: of each run; 0: one per physical core.
    context: tokens that a sequence may have; 0: what the model was made for, at most 4096.
    sequences: how many ``generate_many`` runs at the same time, and the most beams.
    tokenizer: its file or folder, where the model carries none.
    draft: a smaller model of the same tokens: it drafts several, which the model checks at once.
    Greedy text stays the same.
    kv_cache: what keys and values are kept in, 'float32', 'float16' or 'int8'; '': as the model has
    it (docs/llm.md).

    The GIL is free while the model runs. Any number of Python threads may use it: a call waits
    until another thread's has ended. Ctrl-C stops between two runs of the model; the model works
    on.

    >>> model = evoq.LanguageModel("qwen2.etm")
    >>> for text in model.stream("Once upon a time", max_tokens=64, temperature=0.8):
    ...     print(text, end="", flush=True)
    """

    def __init__(
        self,
        path: Any,
        *,
        threads: int = 0,
        context: int = 0,
        sequences: int = 1,
        tokenizer: Any = None,
        draft: Any = None,
        kv_cache: str = "",
    ) -> None:
        self._model = _evoq.LanguageModel.load(
            to_path(path),
            threads,
            context,
            sequences,
            "" if tokenizer is None else text_of(tokenizer),
            "" if draft is None else text_of(draft),
            kv_cache,
        )
        self._lock = threading.RLock()

    @property
    def threads(self) -> int:
        return self._model.threads

    @property
    def vocabulary(self) -> int:
        """All tokens are below."""
        return self._model.vocabulary

    @property
    def context(self) -> int:
        """Tokens that a sequence may have."""
        return self._model.context

    @property
    def sequences(self) -> int:
        return self._model.sequences

    @property
    def cache_bytes(self) -> int:
        """Of all sequences' keys and values, and of the draft's."""
        return self._model.cache_bytes

    @property
    def ends(self) -> list[int]:
        """Tokens that end a text."""
        return self._model.ends

    @property
    def has_tokenizer(self) -> bool:
        """Without one there are tokens and no text."""
        return self._model.has_tokenizer

    @property
    def has_chat_template(self) -> bool:
        return self._model.has_chat_template

    @property
    def tokens(self) -> list[int]:
        """The kept sequence."""
        with self._lock:
            return self._model.tokens

    def __repr__(self) -> str:
        return f"evoq.LanguageModel({self.vocabulary} tokens, context {self.context})"

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        """Text to tokens, with what the tokenizer puts around a text. Special pieces that stand in
        it (``<|im_end|>``) are those tokens."""
        return self._model.encode(text, add_special)

    def decode(self, tokens: Iterable[int], *, special: bool = False) -> str:
        """Tokens to text, with special pieces or without. What is no character is U+FFFD."""
        return self._model.decode(tokens_of(tokens), special)

    def chat_prompt(
        self,
        messages: Messages,
        *,
        tools: Sequence[Any] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The text that the model's chat template makes of messages (``{"role": ..., "content":
        ...}``). It is to be encoded with ``add_special=False``: the template writes what begins it.

        tools: what the model may call. variables: what else the template asks for.
        """
        if isinstance(messages, (str, Mapping)) or not all(
            isinstance(message, Mapping) for message in messages
        ):
            raise Error(f"a chat: {messages!r:.100}, expected a list of messages")
        given = {
            "messages": [dict(message) for message in messages],
            "add_generation_prompt": add_generation_prompt,
            **({} if tools is None else {"tools": list(tools)}),
            **variables,
        }
        try:
            text = json.dumps(given, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise Error(f"a chat: {error}") from None
        return self._model.chat(text)

    def _tokens(self, prompt: Prompt, add_special: bool) -> list[int]:
        if isinstance(prompt, str):
            return self._model.encode(prompt, add_special)
        if not isinstance(prompt, Mapping) and hasattr(prompt, "__iter__"):
            prompt = list(prompt)
            if prompt and all(isinstance(message, Mapping) for message in prompt):
                return self._model.encode(self.chat_prompt(prompt), False)
            return tokens_of(prompt)
        raise Error(f"{prompt!r:.100} is no prompt: expected str, tokens or messages")

    def _source(
        self,
        prompt: Prompt,
        languages: tuple[str | None, str | None],
        options: _evoq.GenerateOptions,
        add_special: bool,
    ) -> list[int]:
        """What is read of a prompt in a language, and what the text begins with."""
        if not any(languages):
            return self._tokens(prompt, add_special)
        if not isinstance(prompt, str):
            raise Error(f"{prompt!r:.100} in a language: expected str")
        source, target = (name or "" for name in languages)
        tokens, options.begin = self._model.encode_source(prompt, source, target, add_special)
        return tokens

    def stream(
        self,
        prompt: Prompt,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repeat_penalty: float | None = None,
        presence_penalty: float | None = None,
        frequency_penalty: float | None = None,
        logit_bias: Mapping[int, float] | None = None,
        seed: int | None = None,
        min_tokens: int | None = None,
        stop: Sequence[str] = (),
        stop_tokens: Sequence[int] = (),
        grammar: str | None = None,
        json_schema: Any = None,
        ignore_end: bool = False,
        beams: int | None = None,
        length_penalty: float | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        add_special: bool = True,
    ) -> Generator[str, None, Generated]:
        """Pieces of text as their characters are complete: ``for text in model.stream(...)``. Its
        value, as of ``yield from``, is the Generated. Nothing runs before the first piece is asked
        for, and nothing runs on where the loop is left.

        The prompt and the options are those of ``generate``.
        Raises evoq.Error ('usage') also where the model has begun something else meanwhile.
        """
        options = _options(
            "stream",
            {
                "max_tokens": max_tokens,
                "temperature": temperature,
                "top_k": top_k,
                "top_p": top_p,
                "min_p": min_p,
                "repeat_penalty": repeat_penalty,
                "presence_penalty": presence_penalty,
                "frequency_penalty": frequency_penalty,
                "logit_bias": logit_bias,
                "seed": seed,
                "min_tokens": min_tokens,
                "stop": stop,
                "stop_tokens": stop_tokens,
                "grammar": grammar,
                "json_schema": json_schema,
                "ignore_end": ignore_end,
                "beams": beams,
                "length_penalty": length_penalty,
            },
        )
        languages = source_language, target_language
        return self._pieces(self._source(prompt, languages, options, add_special), options)

    def _pieces(
        self, tokens: list[int], options: _evoq.GenerateOptions
    ) -> Generator[str, None, Generated]:
        with self._lock:
            text = self._model.begin(tokens, options)
        while (piece := self._step(text)) is not None:
            if piece:
                yield piece
        with self._lock:
            piece, found = text.finish()
        if piece:
            yield piece
        return Generated(**found)

    def _step(self, text: _evoq.Text) -> str | None:
        with self._lock:
            return text.step()

    def generate(
        self,
        prompt: Prompt,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repeat_penalty: float | None = None,
        presence_penalty: float | None = None,
        frequency_penalty: float | None = None,
        logit_bias: Mapping[int, float] | None = None,
        seed: int | None = None,
        min_tokens: int | None = None,
        stop: Sequence[str] = (),
        stop_tokens: Sequence[int] = (),
        grammar: str | None = None,
        json_schema: Any = None,
        ignore_end: bool = False,
        beams: int | None = None,
        length_penalty: float | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        add_special: bool = True,
        on_text: OnText | None = None,
    ) -> Generated:
        """The text with which the model continues.

        prompt: a str, tokens, or the messages of a chat. add_special: with what the tokenizer puts
        around a text; not for one of ``chat_prompt``.
        max_tokens: the most tokens of the text, 128 without it.
        temperature: 0, as without it: always the likeliest token. Else tokens are drawn, the same
        for the same seed, anew each time for -1: from the top_k likeliest, from the likeliest that
        together have the share top_p, from those of at least min_p times the likeliest one's.
        repeat_penalty: above 1 makes tokens less likely that are among the last 64.
        presence_penalty, frequency_penalty: taken off the logits of tokens that the text has,
        once or for each time; logit_bias: added to those of tokens.
        stop, stop_tokens: texts and tokens that end it; they are not part of it. min_tokens: before
        so many, none comes that would. ignore_end: goes on behind the model's end tokens.
        grammar: in llama.cpp's GBNF; the text is of it. json_schema: of a JSON text, a dict or a
        str (docs/generate.md).
        beams: beam search, by which so many texts are followed and the likeliest is taken; at most
        ``sequences``, and not of ``generate_many``. length_penalty: the power of the length that
        scores of beams are divided by.
        source_language, target_language: of models that translate, by their names: "fra_Latn",
        "fr_XX", "fr".
        on_text: called with each piece of text as it comes; False ends the text.

        Raises evoq.Error: 'usage' for options out of range, for a prompt that the context does not
        hold, and for text where there is no tokenizer.
        """
        options = _options(
            "generate",
            {
                "max_tokens": max_tokens,
                "temperature": temperature,
                "top_k": top_k,
                "top_p": top_p,
                "min_p": min_p,
                "repeat_penalty": repeat_penalty,
                "presence_penalty": presence_penalty,
                "frequency_penalty": frequency_penalty,
                "logit_bias": logit_bias,
                "seed": seed,
                "min_tokens": min_tokens,
                "stop": stop,
                "stop_tokens": stop_tokens,
                "grammar": grammar,
                "json_schema": json_schema,
                "ignore_end": ignore_end,
                "beams": beams,
                "length_penalty": length_penalty,
            },
        )
        languages = source_language, target_language
        tokens = self._source(prompt, languages, options, add_special)
        hear = on_text or (lambda piece: None)
        with self._lock:
            text = self._model.begin(tokens, options)
            while (piece := text.step()) is not None:
                if piece and hear(piece) is False:
                    break
            piece, found = text.finish()
            if piece:
                hear(piece)
        return Generated(**found)

    def chat(
        self,
        messages: Messages,
        *,
        tools: Sequence[Any] | None = None,
        variables: Mapping[str, Any] | None = None,
        on_text: OnText | None = None,
        **options: Any,
    ) -> Generated:
        """The model's answer to messages (``{"role": "user", "content": ...}``): ``generate`` of
        their ``chat_prompt``.

        tools: what the model may call. variables: what else the template asks for. options: those
        of ``generate``.

        >>> messages = [{"role": "user", "content": "Why is the sky blue?"}]
        >>> answer = model.chat(messages, max_tokens=200)
        >>> messages.append({"role": "assistant", "content": answer.text})
        """
        text = self.chat_prompt(messages, tools=tools, **(variables or {}))
        return self.generate(text, add_special=False, on_text=on_text, **options)

    def generate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        add_special: bool = True,
        on_text: Callable[[int, str], Any] | None = None,
        **options: Any,
    ) -> list[Generated]:
        """The texts of several prompts, ``sequences`` at a time; each is what ``generate`` alone
        gives (docs/generate.md). Takes no draft, and the kept sequence is empty afterwards.

        options: those of ``generate``, for all; but with a ``seed`` text i draws as ``generate``
        does with ``seed + i``, and without one, or with -1, each call draws anew. on_text: called
        with a prompt's number and a piece of its text; False ends that text.
        """
        given = [self._tokens(prompt, add_special) for prompt in prompts]
        if options.get("seed") in (None, -1):
            options["seed"] = secrets.randbits(63)
        with self._lock:
            found = self._model.generate_many(given, _options("generate_many", options), on_text)
        return [Generated(**one) for one in found]

    def logits(self, tokens: str | Iterable[int], *, last: int | None = None) -> np.ndarray:
        """What the model makes of tokens, float32 [last, vocabulary]: row i is the logits behind
        token ``len(tokens) - last + i``. Without `last` of all of them.

        The kept sequence becomes these tokens: only what is new, and what is asked for, is run.

        >>> rows = model.logits(tokens)                     # how likely a text is
        >>> token = model.logits(tokens, last=1)[0].argmax()  # sampling of your own
        """
        given = self.encode(tokens) if isinstance(tokens, str) else tokens_of(tokens)
        with self._lock:
            return self._model.logits(given, len(given) if last is None else operator.index(last))

    def forget(self) -> None:
        """The kept sequence becomes empty."""
        with self._lock:
            self._model.forget()

    def save(self, path: Any) -> None:
        """Writes the kept sequence with its keys and values to a file."""
        with self._lock:
            self._model.save(text_of(path))

    def restore(self, path: Any) -> None:
        """Takes the kept sequence from a file that ``save`` wrote.

        Raises evoq.Error ('invalid input') for a file of another model.
        """
        with self._lock:
            self._model.restore(text_of(path))
