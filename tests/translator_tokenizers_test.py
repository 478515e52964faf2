#!/usr/bin/env python3
"""Tokenizers of models that read one text and write another, whose folders have SentencePiece's
files and other numbers for the pieces: Marian's (source.spm, target.spm, vocab.json), M2M-100's
(sentencepiece.bpe.model, vocab.json) and T5's (spiece.model) beside sentencepiece, on strings of
all scripts; and texts in and out of a whole model, with its languages. Skips (77) without the
packages tokenizers and sentencepiece."""

import json
import pathlib
import sys
import tempfile

import agree

agree.need("numpy", "sentencepiece", "tokenizers")
import random_weights
import sentencepiece
import tiny_lms as lms
import tokenizers_agree_test as strings_of

failures = []


def check(what, good, found=""):
    print(f"{'ok  ' if good else 'FAIL'} {what} {found if not good else ''}", flush=True)
    if not good:
        failures.append(what)


def write(folder, name, what):
    pathlib.Path(folder).mkdir(exist_ok=True)
    path = pathlib.Path(folder) / name
    path.write_bytes(what) if isinstance(what, bytes) else path.write_text(json.dumps(what))


def pieces_of(model):
    return [model.id_to_piece(i) for i in range(model.get_piece_size())]


def loaded(model):
    return sentencepiece.SentencePieceProcessor(model_proto=model)


def lines(folder, path, texts, *options):
    return strings_of.run_lines(folder, path, texts, *options)


def marian(work, texts):
    model = strings_of.sentencepiece_model(model_type="unigram", vocab_size=400)
    source = loaded(model)
    folder = f"{work}/marian"
    write(folder, "source.spm", model)
    write(folder, "target.spm", model)
    # Other numbers than the file's, and not all of its pieces.
    kept = [p for i, p in enumerate(pieces_of(source)) if i % 7 and p not in ("<unk>", "</s>")]
    vocabulary = ["</s>", "<unk>", *reversed(kept), ">>deu<<", ">>fra<<", "<pad>"]
    numbers = {piece: i for i, piece in enumerate(vocabulary)}
    write(folder, "vocab.json", numbers)

    def encode(text):
        language = []
        for name in (">>deu<<", ">>fra<<"):
            if text.startswith(name):
                language, text = [numbers[name]], text[len(name) :]
        found = source.encode(text, out_type=str)
        return [*language, *(numbers.get(piece, 1) for piece in found), 0]

    texts = [*texts, ">>deu<<Hello there", ">>fra<< Hello  there"]
    wanted = [encode(text) for text in texts]
    got = lines(work, f"{folder}/source.spm", texts)
    check("marian, numbers", got == wanted, first_apart(texts, got, wanted))
    known = [ids[:-1] for ids in wanted if 1 not in ids and not set(ids) & {numbers[">>deu<<"]}]
    known = [ids for ids in known if numbers[">>fra<<"] not in ids]
    wanted = [source.decode_pieces([vocabulary[i] for i in ids]) for ids in known]
    got = lines(work, folder, known, "--decode")
    check("marian, texts", got == wanted, first_apart(known, got, wanted))
    return folder, numbers


def m2m(work, texts):
    model = strings_of.sentencepiece_model(model_type="bpe", vocab_size=400)
    source = loaded(model)
    folder = f"{work}/m2m"
    write(folder, "sentencepiece.bpe.model", model)
    kept = [p for p in pieces_of(source) if p not in ("<unk>", "<s>", "</s>")]
    numbers = {p: i for i, p in enumerate(["<s>", "<pad>", "</s>", "<unk>", *kept])}
    write(folder, "vocab.json", numbers)
    languages = ["__de__", "__en__", "__fr__"]
    write(folder, "special_tokens_map.json", {"additional_special_tokens": languages})
    write(folder, "tokenizer_config.json", {"src_lang": "fr"})
    own = len(numbers) + 2
    wanted = [
        [own, *(numbers.get(p, 3) for p in source.encode(text, out_type=str)), 2] for text in texts
    ]
    got = lines(work, folder, texts)
    check("m2m, numbers", got == wanted, first_apart(texts, got, wanted))


def t5(work, texts):
    model = strings_of.sentencepiece_model(
        model_type="unigram", vocab_size=400, pad_id=0, eos_id=1, unk_id=2, bos_id=-1
    )
    source = loaded(model)
    folder = f"{work}/t5"
    write(folder, "spiece.model", model)
    wanted = [[*source.encode(text), 1] for text in texts]
    got = lines(work, f"{folder}/spiece.model", texts)
    check("t5, numbers", got == wanted, first_apart(texts, got, wanted))
    size = source.get_piece_size()
    got = lines(work, folder, ["<extra_id_0>", "<extra_id_99>"])
    check("t5, extra pieces", got == [[size + 99, 1], [size, 1]], got)


def first_apart(texts, got, wanted):
    return next(([t, g, w] for t, g, w in zip(texts, got, wanted) if g != w), "")


def whole_model(work, folder, numbers):
    """Prompts as texts are prompts as tokens; languages stand where they are to."""
    config = {
        **{"model_type": "marian", "vocab_size": len(numbers), "d_model": 16},
        **{"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2},
        **{"decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24},
        **{"max_position_embeddings": 64, "pad_token_id": numbers["<pad>"], "eos_token_id": 0},
        **{"decoder_start_token_id": numbers["<pad>"], "forced_eos_token_id": 0},
        **{"bad_words_ids": [[numbers["<pad>"]]]},
    }
    shapes = {"model.shared.weight": (len(numbers), 16)}
    for stack, attentions in (("encoder", ["self"]), ("decoder", ["self", "encoder"])):
        block = f"model.{stack}.layers.0."
        for name in attentions:
            for matrix in ("q_proj", "k_proj", "v_proj", "out_proj"):
                shapes[f"{block}{name}_attn.{matrix}.weight"] = (16, 16)
                shapes[f"{block}{name}_attn.{matrix}.bias"] = (16,)
            for part in ("weight", "bias"):
                shapes[f"{block}{name}_attn_layer_norm.{part}"] = (16,)
        for name, shape in (("fc1", (24, 16)), ("fc2", (16, 24))):
            shapes[f"{block}{name}.weight"] = shape
            shapes[f"{block}{name}.bias"] = shape[:1]
        for part in ("weight", "bias"):
            shapes[f"{block}final_layer_norm.{part}"] = (16,)
    tensors = {
        name: random_weights.weight(name, shape, 1.0 if name.endswith("norm.weight") else 0.0)
        for name, shape in shapes.items()
    }
    model = f"{work}/model"
    lms.write_folder(model, config, tensors)
    for name in ("source.spm", "target.spm", "vocab.json"):
        write(model, name, (pathlib.Path(folder) / name).read_bytes())
    etm = f"{work}/model.etm"
    agree.evoq("quantize", model, "--scheme", "int8-dynamic", "-o", etm)
    text = "the weights of a model"
    tokens = lines(work, folder, [text])[0]

    def written(*words):
        report = f"{work}/report.json"
        agree.evoq("generate", etm, "--max-tokens", 12, *words, "--json", report)
        with open(report, encoding="utf-8") as file:
            return json.load(file)["texts"]

    plain = written("--prompt", text)
    same = written("--prompt-tokens", ",".join(map(str, tokens)))
    check("a prompt is its tokens", plain[0]["tokens"] == same[0]["tokens"], (plain, same))
    decoded = lines(work, folder, [plain[0]["tokens"]], "--decode")[0]
    check("a text is that of its tokens", plain[0]["text"] == decoded, (plain, decoded))
    fra = written("--prompt", text, "--target-language", "fra")
    there = written("--prompt", f">>fra<<{text}")
    check("a language before the text", fra[0]["tokens"] == there[0]["tokens"], (fra, there))
    three = written("--prompt", text, "--prompt", text[4:], "--prompt", text[:9], "--parallel", 3)
    alone = [written("--prompt", t)[0]["tokens"] for t in (text, text[4:], text[:9])]
    check("several at a time", [t["tokens"] for t in three] == alone, (three, alone))
    for words, part in (
        (["--target-language", "xyz"], "knows no language 'xyz'"),
        (["--source-language", "fra"], "knows no language 'fra'"),
        (["--draft", etm], "no model that reads one text"),
        (["--prompt-cache", f"{work}/cache"], "no prompt is kept"),
        (["--beams", 2, "--temperature", 1], "they take no temperature"),
        (["--beams", 2, "--parallel", 2], "--beams takes one prompt at a time"),
        (["--length-penalty", 2], "--length-penalty needs --beams"),
        (["--length-penalty", "x", "--beams", 2], "--length-penalty x, expected a number"),
        (["--chat"], "chat template"),
        (["--prompt-tokens", "1,2", "--target-language", "fra"], "are of --prompt"),
    ):
        try:
            written("--prompt", text, *words)
            found = "nothing was refused"
        except RuntimeError as error:
            found = str(error)
        check(f"refused: {' '.join(map(str, words[:2]))}", part in found, found)
    try:
        agree.evoq("perplexity", etm, "--text", agree.ROOT / "README.md")
        found = "nothing was refused"
    except RuntimeError as error:
        found = str(error)
    check("refused: perplexity", "is not measured with one text" in found, found)


def main():
    texts = [s for s in strings_of.make_strings(800, strings_of.WORDS, 3) if "\0" not in s]
    # Special pieces in a text are those pieces, which sentencepiece does not look for.
    texts = [s for s in texts if "<" not in s]
    with tempfile.TemporaryDirectory() as work:
        folder, numbers = marian(work, texts)
        m2m(work, texts)
        t5(work, texts)
        whole_model(work, folder, numbers)
    if failures:
        print(f"{len(failures)} failed: {', '.join(failures)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
