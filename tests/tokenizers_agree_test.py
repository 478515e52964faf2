#!/usr/bin/env python3
"""evoq's tokenizers give the numbers that Hugging Face's tokenizers and SentencePiece give, and the
same text back, on strings of all scripts.

The tokenizers are trained here: each model kind with each step around it. Skips (77) without the
packages tokenizers and sentencepiece.

    tokenizers_agree_test.py [--strings N] [--only NAME]
"""

import argparse
import collections
import io
import json
import os
import random
import sys
import tempfile
import unicodedata

import agree

agree.need("tokenizers", "sentencepiece")
import sentencepiece
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    processors,
    trainers,
)
from tokenizers import pre_tokenizers as pre

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# The first code points of blocks whose characters the strings are made of.
BLOCKS = [0x20, 0x20, 0x20, 0x20, 0xA0, 0x100, 0x250, 0x300, 0x370, 0x400, 0x530, 0x590, 0x600]
BLOCKS += [0x900, 0x980, 0xB80, 0xE00, 0xF00, 0x10A0, 0x1100, 0x1200, 0x13A0, 0x1780, 0x1800]
BLOCKS += [0x1E00, 0x1F00, 0x2000, 0x2070, 0x20A0, 0x2100, 0x2190, 0x2200, 0x2460, 0x2500]
BLOCKS += [0x3000, 0x3040, 0x30A0, 0x3100, 0x3130, 0x3200, 0x3300, 0x4E00, 0x6C00, 0xA000, 0xAC00]
BLOCKS += [0xF900, 0xFB00, 0xFE20, 0xFF00, 0x10300, 0x10400, 0x12000, 0x1D400, 0x1D7CE, 0x1F300]
BLOCKS += [0x1F600, 0x20000]
PHRASES = ["don't", "WE'LL", "it's", "  ", "      ", "\n\n", "\r\n", "\t", "1234567890", "3.14"]
PHRASES += ["\U0001f468\u200d\U0001f469\u200d\U0001f467", "e\u0301\u0323", "\u1100\u1161\u11a8"]
PHRASES += [
    "<s>",
    "</s>",
    "<|end|>",
    "[MASK]",
    "<0x0A>",
    "\u2581",
    "\u2581\u2581",
    "\ufb01",
    "\u00bd",
]
PHRASES += [
    "\u0130",
    "\u03a3\u03c2",
    "\u1e9e",
    "\x00",
    "\x07",
    "\x85",
    "\u00a0",
    "\u3000",
    "\u180e",
]
PHRASES += [
    "\u200b",
    "\ufeff",
    "\u202e",
    "'S",
    "\u017f",
    "cafe\u0301",
    "\u0e33",
    "\uff21\uff22",
    "...",
]


def assigned(code):
    return unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co")


def make_strings(count, words, seed):
    """Random strings: words, phrases that are known to be hard, characters of all blocks."""
    rng = random.Random(seed)
    strings = ["", " ", "  a", "a  ", "\n", "\u2581", "a" * 300, " " * 300, "\u0301" * 5]
    while len(strings) < count:
        parts = []
        for _ in range(rng.choice((1, 2, 3, 5, 12))):
            kind = rng.random()
            if kind < 0.3:
                parts.append(rng.choice((" ", " ", "")) + rng.choice(words))
            elif kind < 0.5:
                parts.append(rng.choice(PHRASES))
            elif kind < 0.8:
                block = rng.choice(BLOCKS)
                codes = (block + rng.randrange(96) for _ in range(rng.randrange(1, 8)))
                parts.append("".join(chr(c) for c in codes if assigned(c)))
            else:
                codes = (rng.randrange(0x30000) for _ in range(rng.randrange(1, 4)))
                parts.append("".join(chr(c) for c in codes if assigned(c)))
        strings.append("".join(parts))
    return strings[:count]


def corpus():
    """Text to train on: words of many lengths, and characters of all blocks."""
    rng = random.Random(1)
    path = os.path.join(agree.DATA, "text")
    text = ""
    if os.path.isdir(path):
        for name in sorted(os.listdir(path)):
            if name.endswith(".txt"):
                text += open(os.path.join(path, name), encoding="utf-8", errors="ignore").read(
                    200000
                )
    lines = text[:400000].split("\n")
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    vocabulary = ["".join(rng.choices(letters, k=rng.randrange(1, 9))) for _ in range(400)]
    for _ in range(1500):
        lines.append(" ".join(rng.choices(vocabulary, k=12)))
    lines += make_strings(3000, vocabulary, 2)
    return [line for line in lines if line.strip()], vocabulary


LINES, WORDS = corpus()


def common(characters):
    """The lines without what is none of the most frequent characters."""
    counts = collections.Counter("".join(LINES))
    kept = {c for c, _ in counts.most_common(characters)} - {"<"}  # no special pieces
    return ["".join(c for c in line if c in kept) for line in LINES]


def train(model, trainer, lines=None, **steps):
    tokenizer = Tokenizer(model)
    for name, step in steps.items():
        setattr(tokenizer, name, step)
    tokenizer.train_from_iterator(lines or LINES, trainer)
    return tokenizer


def byte_level(**model):
    return train(
        models.BPE(**model),
        trainers.BpeTrainer(
            vocab_size=900,
            show_progress=False,
            special_tokens=["<|end|>", "<s>"],
            initial_alphabet=pre.ByteLevel.alphabet(),
        ),
        pre_tokenizer=pre.ByteLevel(add_prefix_space=False),
        decoder=decoders.ByteLevel(),
        post_processor=processors.ByteLevel(),
    )


def split_by(pattern, behavior="isolated", invert=False, digits=False, **model):
    steps = [pre.Split(Regex(pattern), behavior, invert)]
    if digits:
        steps.insert(0, pre.Digits(individual_digits=True))
    steps.append(pre.ByteLevel(add_prefix_space=False, use_regex=False))
    tokenizer = byte_level(**model)
    tokenizer.pre_tokenizer = pre.Sequence(steps)
    return tokenizer


def llama2():
    """Byte fallback with merges, as Llama 2 and Gemma have it."""
    tokenizer = train(
        models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True),
        trainers.BpeTrainer(
            vocab_size=1500,
            show_progress=False,
            special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)],
            limit_alphabet=200,
        ),
        normalizer=normalizers.Sequence(
            [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
        ),
        decoder=decoders.Sequence(
            [
                decoders.Replace("\u2581", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ]
        ),
        post_processor=processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)]),
    )
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [t for t in state["added_tokens"] if t["id"] < 3]
    return Tokenizer.from_str(json.dumps(state))


def unigram(byte_fallback=False, **steps):
    steps.setdefault("pre_tokenizer", pre.Metaspace())
    steps.setdefault("decoder", decoders.Metaspace())
    special = ["<unk>", "<s>", "</s>"]
    tokenizer = train(
        models.Unigram(),
        trainers.UnigramTrainer(
            vocab_size=800, show_progress=False, special_tokens=special, unk_token="<unk>"
        ),
        common(300),
        **steps,
    )
    state = json.loads(tokenizer.to_str())
    # Scores whose sums are exact: the peer reads other digits of some.
    vocab = [[piece, round(score * 64) / 64] for piece, score in state["model"]["vocab"]]
    if byte_fallback:
        vocab += [[f"<0x{b:02X}>", 0.0] for b in range(256)]
    state["model"] |= {"byte_fallback": byte_fallback, "vocab": vocab}
    return Tokenizer.from_str(json.dumps(state))


def bert(**options):
    return train(
        models.WordPiece(unk_token="[UNK]"),
        trainers.WordPieceTrainer(
            vocab_size=1200,
            show_progress=False,
            special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"],
            limit_alphabet=500,
        ),
        normalizer=normalizers.BertNormalizer(**options),
        pre_tokenizer=pre.BertPreTokenizer(),
        decoder=decoders.WordPiece(),
        post_processor=processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1)),
    )


def words_of(pre_tokenizer, normalizer=None, **model):
    """A model of characters: what is compared are the steps before it."""
    steps = {"pre_tokenizer": pre_tokenizer}
    if normalizer is not None:
        steps["normalizer"] = normalizer
    # Training takes what stands before and behind pieces from the trainer.
    affixes = {key: text for key, text in model.items() if key.endswith("fix")}
    return train(
        models.BPE(unk_token="<unk>", **model),
        trainers.BpeTrainer(
            vocab_size=6000, show_progress=False, special_tokens=["<unk>", "<s>"], **affixes
        ),
        **steps,
    )


def word_level():
    """Whole words, and what Roberta puts around them, as one of several processors."""
    return train(
        models.WordLevel(unk_token="<unk>"),
        trainers.WordLevelTrainer(vocab_size=2000, special_tokens=["<unk>", "<s>", "</s>"]),
        pre_tokenizer=pre.Whitespace(),
        post_processor=processors.Sequence(
            [processors.ByteLevel(), processors.RobertaProcessing(("</s>", 2), ("<s>", 1))]
        ),
    )


def fields_of(message):
    """Numbers and bytes of a protobuf message's strings and messages; others are passed over."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 2:
            size = varint()
            yield key >> 3, message[at : at + size]
            at += size
        elif key & 7 == 0:
            varint()
        else:
            at += 4 if key & 7 == 5 else 8


def sentencepiece_model(**options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for line in common(600) if "\0" not in line),
        model_writer=model,
        character_coverage=0.98,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def precompiled():
    """SentencePiece's table of normal forms in a tokenizer.json, as XLM-RoBERTa and T5 have it."""
    model = sentencepiece_model(model_type="unigram", vocab_size=1000)
    spec = dict(fields_of(model))[3]  # normalizer_spec
    table = dict(fields_of(spec))[2]  # precompiled_charsmap
    return unigram(normalizer=normalizers.Precompiled(table))


def with_added(tokenizer):
    tokenizer.add_tokens(
        [
            AddedToken("don", single_word=True),
            AddedToken("12", lstrip=True, normalized=False),
            AddedToken("caf\u00e9", normalized=True),
            AddedToken("\U0001f468\u200d", rstrip=True),
        ]
    )
    tokenizer.add_special_tokens([AddedToken("<|end|>", lstrip=True, rstrip=True)])
    return tokenizer


def gpt2_files():
    folder = os.path.join(agree.DATA, "llm")
    vocab, merges = (os.path.join(folder, f"gpt2_{n}") for n in ("vocab.json", "merges.txt"))
    if not os.path.exists(vocab):
        return None
    tokenizer = Tokenizer(models.BPE.from_file(vocab, merges))
    tokenizer.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer, vocab


CLIP = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)


def word_ends(tokenizer, folder, config):
    """Files of a vocabulary and merges with </w>, as transformers' classes read them."""
    os.makedirs(folder)
    tokenizer.model.save(folder)
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    return tokenizer, folder


def clip_files(work):
    """CLIP's, whose class puts these steps around them, and spaces for </w>."""
    special = ["<|startoftext|>", "<|endoftext|>"]
    tokenizer = train(
        models.BPE(unk_token=special[1], end_of_word_suffix="</w>"),
        trainers.BpeTrainer(
            vocab_size=1500,
            show_progress=False,
            special_tokens=special,
            initial_alphabet=pre.ByteLevel.alphabet(),
            end_of_word_suffix="</w>",
        ),
        normalizer=normalizers.Sequence(
            [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
        ),
        pre_tokenizer=pre.Sequence(
            [pre.Split(Regex(CLIP), "removed", True), pre.ByteLevel(add_prefix_space=False)]
        ),
        decoder=decoders.ByteLevel(),
        post_processor=processors.RobertaProcessing((special[1], 1), (special[0], 0), False, False),
    )
    roles = {"bos_token": special[0], "eos_token": special[1], "unk_token": special[1]}
    config = {"tokenizer_class": "CLIPTokenizer", **roles}
    return word_ends(tokenizer, os.path.join(work, "clip"), config)


def gpt1_files(work):
    tokenizer = words_of(
        pre.BertPreTokenizer(),
        normalizers.BertNormalizer(lowercase=True),
        end_of_word_suffix="</w>",
    )
    tokenizer.decoder = decoders.BPEDecoder()
    config = {"tokenizer_class": "OpenAIGPTTokenizer", "unk_token": "<unk>", "bos_token": "<s>"}
    return word_ends(tokenizer, os.path.join(work, "gpt1"), config)


def with_decoder(tokenizer, decoder):
    tokenizer.decoder = decoder
    return tokenizer


def whitespace():
    return pre.Sequence([pre.Whitespace(), pre.Punctuation()])


KINDS = {
    "gpt2": byte_level,
    "llama3": lambda: split_by(LLAMA3, ignore_merges=True),
    "gpt4o": lambda: split_by(GPT4O),
    "qwen2": lambda: split_by(LLAMA3.replace("{1,3}", ""), digits=True),
    "inverted": lambda: split_by(LLAMA3, "removed", True),
    "contiguous": lambda: split_by(r"\s|[a-m]", "contiguous"),
    "previous": lambda: split_by(r"\s|[a-m]", "merged_with_previous"),
    "next": lambda: split_by(r"[\s\d]|\w(?=e)", "merged_with_next"),
    "llama2": llama2,
    "unigram": unigram,
    "unigram bytes": lambda: unigram(True, normalizer=normalizers.NFKC()),
    "metaspace first": lambda: unigram(pre_tokenizer=pre.Metaspace(prepend_scheme="first")),
    "metaspace never": lambda: unigram(
        pre_tokenizer=pre.Metaspace(prepend_scheme="never", split=False),
        decoder=decoders.Metaspace(prepend_scheme="never"),
    ),
    "precompiled": precompiled,
    "word level": word_level,
    "bert": bert,
    "bert cased": lambda: bert(lowercase=False, strip_accents=None, handle_chinese_chars=False),
    "whitespace": lambda: words_of(whitespace(), normalizers.NFC()),
    "whitespace split": lambda: words_of(pre.WhitespaceSplit(), normalizers.NFD()),
    "digits": lambda: words_of(pre.Digits(), normalizers.NFKD()),
    "punctuation": lambda: words_of(pre.Punctuation("merged_with_previous"), fuse_unk=True),
    "accents": lambda: words_of(
        pre.ByteLevel(add_prefix_space=True),
        normalizers.Sequence(
            [
                normalizers.NFD(),
                normalizers.StripAccents(),
                normalizers.Lowercase(),
                normalizers.Strip(),
                normalizers.Replace(Regex(r"[\s]{2,}"), " "),
            ]
        ),
    ),
    "prefix": lambda: words_of(pre.Whitespace(), continuing_subword_prefix="##"),
    "suffix": lambda: words_of(pre.Whitespace(), end_of_word_suffix="</w>"),
    "word ends": lambda: with_decoder(
        words_of(pre.Whitespace(), end_of_word_suffix="</w>"), decoders.BPEDecoder()
    ),
    "scripts": lambda: words_of(pre.UnicodeScripts()),
    "added": lambda: with_added(split_by(LLAMA3)),
    "added llama2": lambda: with_added(llama2()),
    "added lowercase": lambda: with_added(bert()),
}


def sentencepieces(folder):
    """SentencePiece models of both kinds with their options."""
    rows = {
        "sp bpe": {"model_type": "bpe", "byte_fallback": True, "split_digits": True},
        "sp bpe identity": {
            "model_type": "bpe",
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
        },
        "sp bpe plain": {"model_type": "bpe", "add_dummy_prefix": False},
        "sp unigram": {"model_type": "unigram"},
        "sp unigram cf": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc_cf"},
        "sp unigram bytes": {
            "model_type": "unigram",
            "byte_fallback": True,
            "user_defined_symbols": ["<|user|>", "don't", "\u00bd"],
        },
        "sp bpe symbols": {
            "model_type": "bpe",
            "user_defined_symbols": ["<|user|>", "don't", "ab"],
            "control_symbols": ["<c>"],
        },
    }
    for name, options in rows.items():
        size = 1300 if options.get("byte_fallback") else 1000
        path = os.path.join(folder, name.replace(" ", "_") + ".model")
        with open(path, "wb") as file:
            file.write(sentencepiece_model(vocab_size=size, **options))
        yield name, path, sentencepiece.SentencePieceProcessor(model_file=path)


def run_lines(folder, tokenizer, values, *options):
    path = os.path.join(folder, "lines")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(value) + "\n" for value in values)
    out = agree.evoq("tokenize", tokenizer, "--lines", path, *options)
    return [json.loads(line) for line in out.splitlines()]


# The peer's tables for these are Unicode 8's or 13's.
OLD_TABLES = {"bert", "bert cased", "punctuation", "accents", "added lowercase", "whitespace"}
OLD_TABLES |= {"whitespace split", "digits", "unigram bytes", "precompiled", "word level"}
OLD_TABLES |= {"word ends", "scripts", "CLIP's files", "GPT-1's files"}


def without_new_characters(text):
    """Without what is of another category since."""
    old, new = unicodedata.ucd_3_2_0.category, unicodedata.category
    return "".join(c for c in text if old(c) == new(c) or 0x1F300 <= ord(c) < 0x1F650)


failures = []


def compare(name, strings, ours, theirs, what):
    wrong = [(s, a, b) for s, a, b in zip(strings, ours, theirs, strict=True) if a != b]
    print(f"{name}: {what}: {len(strings) - len(wrong)} of {len(strings)} equal")
    for s, a, b in sorted(wrong, key=lambda row: len(row[0]))[:3]:
        print(f"  {ascii(s)[:300]}\n    evoq  {ascii(a)[:300]}\n    peer  {ascii(b)[:300]}")
    if wrong:
        failures.append(f"{name}: {what}")


def compare_all(folder, name, path, strings, encode, decode, *options):
    theirs = encode(strings)
    ours = run_lines(folder, path, strings)
    compare(name, strings, ours, theirs, "numbers")
    # A text with U+FFFD may be bytes that are no UTF-8, of which there are several readings.
    texts = decode(theirs)
    back = run_lines(folder, path, theirs, "--decode", *options)
    kept = [i for i, text in enumerate(texts) if "\ufffd" not in text]
    compare(
        name, [strings[i] for i in kept], [back[i] for i in kept], [texts[i] for i in kept], "texts"
    )


def main():
    parser = argparse.ArgumentParser()
    strings = 500 if agree.SANITIZED else 4000
    parser.add_argument("--strings", type=int, default=strings, help="strings of each tokenizer")
    parser.add_argument("--only")
    args = parser.parse_args()
    strings = make_strings(args.strings, WORDS, 3)
    with tempfile.TemporaryDirectory() as folder:
        rows = [(name, make) for name, make in KINDS.items() if args.only in (None, name)]
        made = [(name, make(), None) for name, make in rows]
        if args.only in (None, "gpt2 files") and gpt2_files() is not None:
            made.append(("gpt2 files", *gpt2_files()))
        for name, make in {"CLIP's files": clip_files, "GPT-1's files": gpt1_files}.items():
            if args.only in (None, name):
                made.append((name, *make(folder)))
        for name, tokenizer, path in made:
            if path is None:
                path = os.path.join(folder, "tokenizer.json")
                tokenizer.save(path)
            old = name in OLD_TABLES
            end = "</w>" if name == "CLIP's files" else None
            compare_all(
                folder,
                name,
                path,
                [without_new_characters(s) for s in strings] if old else strings,
                lambda texts, t=tokenizer: [e.ids for e in t.encode_batch(texts)],
                lambda ids, t=tokenizer, end=end: [
                    text if end is None else text.replace(end, " ").strip()
                    for text in t.decode_batch(ids, skip_special_tokens=False)
                ],
            )
        if args.only is None or args.only.startswith("sp"):
            for name, path, model in sentencepieces(folder):
                if args.only not in (None, name, "sp"):
                    continue
                texts = [s for s in strings if "\0" not in s]
                compare_all(
                    folder,
                    name,
                    path,
                    texts,
                    lambda texts, m=model: m.encode(texts, add_bos=True),
                    lambda ids, m=model: [m.decode(i) for i in ids],
                    "--plain",
                )
    if failures:
        print(f"{len(failures)} comparisons failed: {', '.join(failures)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
