"""Models at work: run, generate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from . import _evoq
from ._job import text_of
from ._language import tokens_of
from ._verb import Progress, Report, run_verb, tool


def run(
    model: Any,
    inputs: Mapping[str, Any],
    *,
    output_dir: Any = None,
    topk: int | None = None,
    labels: Any = None,
    threads: int | None = None,
    **options: Any,
) -> Report:
    """Runs a model once on files: ``outputs`` with name, type, shape and range; with topk ``top``.
    (On arrays: evoq.load.)

    inputs: paths of .npy, .jpg or .png files by input. output_dir: write each output there as
    NAME.npy.
    """
    files = [f"{name}={text_of(path)}" for name, path in inputs.items()]
    return tool(
        "run",
        model,
        input=files,
        output_dir=output_dir,
        topk=topk,
        labels=labels,
        threads=threads,
        **options,
    )


def generate(
    model: Any,
    prompt: str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]],
    *,
    max_tokens: int | None = None,
    temperature: float | None = None,
    seed: int | None = None,
    stop: Sequence[str] = (),
    chat: bool = False,
    system: str | None = None,
    tokenizer: Any = None,
    draft: Any = None,
    context: int | None = None,
    parallel: int | None = None,
    prompt_cache: Any = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Loads a language model and writes a text with it. (To keep it loaded: evoq.LanguageModel.)

    prompt: a text or tokens, or a list of them, of which `parallel` run at the same time.
    chat: a text is a user's message, system one before it. tokenizer: its file or folder, where the
    model carries none. draft: a smaller model of the same tokens. prompt_cache: a file that keeps
    the keys and values of one prompt. Further options as `evoq generate` has: top_k, top_p, min_p,
    repeat_penalty, presence_penalty, frequency_penalty, logit_bias, min_tokens, stop_tokens,
    grammar, json_schema, ignore_end, plain, beams, length_penalty; of a model that reads one text
    and writes another source_language and target_language; of one that hears, with the prompt [],
    audio (a WAV file), language and task.
    Returns ``texts`` by prompt with ``text``, ``tokens``, ``ended``, ``prompt_tokens_per_s``,
    ``tokens_per_s``, ...
    """
    one = isinstance(prompt, str) or all(isinstance(token, Integral) for token in prompt)
    prompts = [prompt] if one else list(prompt)
    if "audio" in options and not prompt:
        prompts = []
    job = _evoq.GenerateJob()
    job.prompt = [text for text in prompts if isinstance(text, str)]
    job.prompt_tokens = [tokens_of(tokens) for tokens in prompts if not isinstance(tokens, str)]
    report = run_verb(
        "generate",
        job,
        progress,
        {"model": model, "draft": draft},
        max_tokens=max_tokens,
        temperature=temperature,
        seed=seed,
        stop=stop,
        chat=chat,
        system=system,
        tokenizer=tokenizer,
        context=context,
        parallel=parallel,
        prompt_cache=prompt_cache,
        threads=threads,
        **options,
    )
    texts = [text["text"] or " ".join(map(str, text["tokens"])) for text in report["texts"]]
    report.text = "".join(
        f"{text}\n" if len(texts) == 1 else f"--- {number}\n{text}\n"
        for number, text in enumerate(texts, 1)
    )
    return report
