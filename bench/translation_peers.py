#!/usr/bin/env python3
"""Models that read one text and write another in evoq and in CTranslate2, in turn in one run.

    bench/translation_peers.py [--evoq build/release/bin/evoq] [--threads N] [--rounds N]
                               [--folder DIR] [--only NAME] [--source N] [--tokens N] [--beams N]

The shapes of Marian's opus-mt models and of t5-small with random weights, in int8 with dynamic
scales of the data (evoq: int8-dynamic): a text of --source tokens is read and --tokens are written,
whatever they are, greedily or with --beams. Each round measures both once; printed are tokens per
second from the beginning of the text that is read to the last token: the fastest round and, in
brackets, the median, and the ratio of the medians. Needs from PyPI: torch, transformers,
ctranslate2.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARIAN = {
    **{"vocab_size": 58101, "d_model": 512, "encoder_layers": 6, "decoder_layers": 6},
    **{"encoder_attention_heads": 8, "decoder_attention_heads": 8, "encoder_ffn_dim": 2048},
    **{"decoder_ffn_dim": 2048, "max_position_embeddings": 512, "activation_function": "swish"},
    **{"scale_embedding": True, "pad_token_id": 58100, "eos_token_id": 0},
}
T5 = {
    **{"vocab_size": 32128, "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6},
    **{"num_decoder_layers": 6, "num_heads": 8, "pad_token_id": 0, "eos_token_id": 1},
}
# name: model_type, settings, the token that the decoder begins with
MODELS = {"marian": ("marian", MARIAN, 58100), "t5-small": ("t5", T5, 0)}


class Pieces:
    """What CTranslate2's converter asks of a tokenizer: token N is called tN."""

    bos_token, unk_token, additional_special_tokens = None, "t2", []

    def __init__(self, config):
        self.names = [f"t{i}" for i in range(config.vocab_size)]
        self.names[config.pad_token_id] = self.pad_token = "<pad>"
        self.eos_token = self.names[config.eos_token_id]

    def get_vocab(self):
        return {name: i for i, name in enumerate(self.names)}

    def convert_ids_to_tokens(self, i):
        return self.names[i]


def write_models(name):
    """The .etm, and CTranslate2's folder."""
    import torch
    from ctranslate2.converters import TransformersConverter
    from transformers import AutoConfig, AutoModelForSeq2SeqLM, GenerationConfig

    kind, settings, start = MODELS[name]
    folder, etm, theirs = (options.folder / (name + end) for end in ("", ".etm", ".ct2"))
    torch.manual_seed(1)
    config = AutoConfig.for_model(kind, **settings)
    model = AutoModelForSeq2SeqLM.from_config(config).eval()
    model.generation_config = GenerationConfig(
        decoder_start_token_id=start,
        eos_token_id=config.eos_token_id,
        pad_token_id=config.pad_token_id,
    )
    model.save_pretrained(folder)
    evoq("quantize", folder, "--scheme", "int8-dynamic", "-o", etm)
    converter = TransformersConverter(str(folder))
    converter.load_tokenizer = lambda *_, **__: Pieces(config)
    converter.convert(str(theirs), quantization="int8", force=True)
    return etm, theirs


def evoq(*arguments):
    done = subprocess.run([options.evoq, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"translation_peers.py: evoq {arguments[0]}: {done.stderr.strip()}")


def main():
    import ctranslate2

    for name in MODELS:
        if options.only and options.only != name:
            continue
        etm, theirs = write_models(name)
        translator = ctranslate2.Translator(
            str(theirs), device="cpu", compute_type="int8", intra_threads=options.threads
        )
        figures = {"evoq": [], "CTranslate2": []}
        for number in range(options.rounds):
            source = [3 + (7919 * (i + 37 * number)) % 30000 for i in range(options.source)]
            figures["evoq"].append(of_evoq(etm, source))
            figures["CTranslate2"].append(of_theirs(translator, source))
        print_row(name, figures)


def of_evoq(etm, source):
    report = options.folder / "report.json"
    prompt = ",".join(map(str, source))
    words = ["generate", etm, "--prompt-tokens", prompt, "--max-tokens", options.tokens]
    words += ["--ignore-end", "--beams", options.beams, "--threads", options.threads]
    evoq(*words, "--json", report)
    found = json.loads(report.read_text())
    text = found["texts"][0]
    if len(text["tokens"]) != options.tokens:
        raise SystemExit(f"translation_peers.py: {len(text['tokens'])} tokens")
    return 1e3 * options.tokens / (text["prompt_ms"] + text["decode_ms"])


def of_theirs(translator, source):
    words = [[f"t{i}" for i in source]]
    how = {"beam_size": options.beams, "max_decoding_length": options.tokens}
    how |= {"min_decoding_length": options.tokens, "return_end_token": True}
    begin = time.perf_counter()
    out = translator.translate_batch(words, **how)
    took = time.perf_counter() - begin
    if len(out[0].hypotheses[0]) != options.tokens:
        raise SystemExit(f"translation_peers.py: {len(out[0].hypotheses[0])} tokens")
    return options.tokens / took


def print_row(name, figures):
    parts = [f"{k} {max(v):.1f} [{statistics.median(v):.1f}]" for k, v in figures.items()]
    own, other = (statistics.median(v) for v in figures.values())
    what = f"{name}, {options.source} read, {options.tokens} written, {options.beams} beams"
    print(f"{what}: {', '.join(parts)} tokens per second; evoq {own / other:.2f} x", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--evoq", default=str(ROOT / "build/release/bin/evoq"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--only", choices=MODELS)
    parser.add_argument("--source", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--beams", type=int, default=1)
    options = parser.parse_args()
    if options.folder is None:
        kept = tempfile.TemporaryDirectory()
        options.folder = pathlib.Path(kept.name)
    main()
