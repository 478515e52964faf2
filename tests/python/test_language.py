"""Language models from Python: what they write, what they keep, who stops them."""

import gc
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import evoq
import numpy as np
import pytest
from models import EVOQ, ROOT

import tiny_lms  # models.py says where it is

MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("llm") / "llama"
    tiny_lms.write_with_tokenizer(str(path))
    return path


@pytest.fixture
def model(folder):
    return evoq.LanguageModel(folder, threads=1)


def most(tokens):
    return {"max_tokens": tokens, "ignore_end": True}


def test_perplexity_of_a_text(folder, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the hen and the cat ate a hat on the hill " * 20)
    plain = evoq.perplexity(folder, text, window=32, limit=2, threads=1)
    narrow = evoq.perplexity(folder, text, window=32, limit=2, threads=1, kv_cache="int8")
    assert plain["samples"] == 2 and plain["perplexity"] > 1
    assert 0 < abs(narrow["perplexity"] / plain["perplexity"] - 1) < 0.02


def test_forms_of_texts(model, folder):
    grammar = 'root ::= ("the " | "a ") ("hen" | "cat")'
    texts = {f"{a} {b}" for a in ("the", "a") for b in ("hen", "cat")}
    assert model.generate("oh", grammar=grammar).text in texts
    assert "".join(model.stream("oh", grammar=grammar, temperature=2)) in texts
    assert {t.text for t in model.generate_many(["oh", "what"], grammar=grammar)} <= texts
    assert evoq.generate(folder, "oh", grammar=grammar, threads=1)["texts"][0]["text"] in texts
    for option in ({"grammar": "root ="}, {"json_schema": {"type": "x"}}, {"json_schema": "{"}):
        with pytest.raises(evoq.Error, match="grammar|schema"):
            model.generate("oh", **option)


def test_facts(folder):
    model = evoq.LanguageModel(folder, threads=1, context=40, sequences=3)
    assert (model.threads, model.vocabulary, model.context, model.sequences) == (1, 48, 40, 3)
    assert model.cache_bytes == 3 * 3 * 2 * 2 * 40 * 8 * 4  # sequences, layers, kinds, heads
    assert model.ends == [2] and model.has_tokenizer and model.has_chat_template
    assert model.tokens == [] and repr(model) == "evoq.LanguageModel(48 tokens, context 40)"


def test_text_and_tokens(model):
    assert model.encode("the <s>") == [23, 36, 3, 1]
    assert model.decode(np.array([23, 36, 3, 1])) == "the "
    assert model.decode([1, 37], special=True) == "<s>th"
    assert model.chat_prompt(MESSAGES) == "<s>user hi"
    with pytest.raises(evoq.Error, match="48"):
        model.decode([48])


def test_generate_is_the_command(folder, model, tmp_path):
    words = ["--prompt", "the hat", "--max-tokens", "9", "--ignore-end", "--threads", "1"]
    path = tmp_path / "told.json"
    for extra in ({}, {"temperature": 1.5, "seed": 3, "top_k": 30, "top_p": 0.9, "min_p": 0.01}):
        options = [f"--{name.replace('_', '-')}={value}" for name, value in extra.items()]
        command = [EVOQ, "generate", folder, *words, *options, "--json", path]
        subprocess.run(command, check=True, capture_output=True)
        [theirs] = json.loads(path.read_text())["texts"]
        heard = []
        mine = model.generate("the hat", **most(9), **extra, on_text=heard.append)
        assert (mine.tokens, mine.text) == (theirs["tokens"], theirs["text"])
        assert "".join(heard) == str(mine) == mine.text and len(heard) > 3
        assert mine.ended == "length" and 0 <= mine.host_ms < mine.decode_ms
        assert mine.tokens_per_s == pytest.approx(1e3 * 8 / mine.decode_ms)
        report = evoq.generate(folder, "the hat", **most(9), **extra, threads=1)
        assert report["texts"][0]["tokens"] == mine.tokens and report.text == mine.text + "\n"


def test_penalties_biases_and_what_ends_a_text(folder, model, tmp_path):
    plain = model.generate("the hat", **most(9))
    first = plain.tokens[0]
    path = tmp_path / "told.json"

    def both(*words, **options):
        """What the class writes and what the command does, which are the same."""
        command = [EVOQ, "generate", folder, "--prompt", "the hat", "--max-tokens", "9", *words]
        subprocess.run(
            [*command, "--threads", "1", "--json", path], check=True, capture_output=True
        )
        [theirs] = json.loads(path.read_text())["texts"]
        mine = model.generate("the hat", max_tokens=9, **options)
        assert (mine.tokens, mine.ended) == (theirs["tokens"], theirs["ended"])
        report = evoq.generate(folder, "the hat", max_tokens=9, **options, threads=1)
        assert report["texts"][0]["tokens"] == mine.tokens
        assert "".join(model.stream("the hat", max_tokens=9, **options)) == mine.text
        return mine

    ignored = {"ignore_end": True}
    banned = both("--ignore-end", f"--logit-bias={first}=-100", logit_bias={first: -100}, **ignored)
    assert first not in banned.tokens
    once = both("--ignore-end", "--presence-penalty=100", presence_penalty=100, **ignored)
    assert len(set(once.tokens)) == 9
    often = both("--ignore-end", "--frequency-penalty=100", frequency_penalty=100, **ignored)
    assert often.tokens == once.tokens
    ended = both(f"--stop-tokens={first}", stop_tokens=[first])
    assert ended.tokens == [] and ended.ended == "end"
    later = both(f"--stop-tokens={first}", "--min-tokens=3", stop_tokens=[first], min_tokens=3)
    assert len(later.tokens) >= 3 and first not in later.tokens
    wrong = [EVOQ, "generate", folder, "--prompt", "a", "--logit-bias=7:2"]
    failed = subprocess.run(wrong, capture_output=True, text=True)
    assert failed.returncode == 2 and "--logit-bias 7:2, expected TOKEN=NUMBER" in failed.stderr
    with pytest.raises(evoq.Error, match="logit_bias"):
        model.generate("a", logit_bias={"x": 1})


def test_generate_the_verb(folder, model):
    many = evoq.generate(folder, ["a hen", "the cat"], **most(4), parallel=2, threads=1)
    assert [text["ended"] for text in many["texts"]] == ["length"] * 2
    assert many.text.startswith("--- 1\n") and "\n--- 2\n" in many.text
    assert many["cache_bytes"] == 2 * model.cache_bytes
    [drafted] = evoq.generate(folder, "the hen", **most(9), draft=folder, threads=1)["texts"]
    assert drafted["drafted"] > 0
    assert drafted["tokens"] == model.generate("the hen", **most(9)).tokens
    tokens = evoq.generate(folder, [5, 6, np.int64(7)], **most(3), repeat_penalty=1.5, threads=1)
    assert tokens["texts"][0]["prompt_tokens"] == 3
    lists = evoq.generate(folder, [[5, 6, 7], [8]], **most(3), threads=1)
    assert [text["prompt_tokens"] for text in lists["texts"]] == [3, 1]
    chat = evoq.generate(folder, "hi", chat=True, system="th", max_tokens=3, threads=1)
    told = [{"role": "system", "content": "th"}, *MESSAGES]
    assert chat["texts"][0]["tokens"] == model.chat(told, max_tokens=3).tokens
    with pytest.raises(evoq.Error, match="no option 'speed'"):
        evoq.generate(folder, "a", speed=1)
    stages = []
    evoq.generate(folder, "a", **most(5), progress=lambda *told: stages.append(told))
    assert [stage for stage, _ in stages] == sorted((s for s, _ in stages), reverse=True)
    assert {"loading", "generating"} == {stage for stage, _ in stages} and stages[-1][1] <= 1


def test_a_stream_is_the_text(model):
    whole = model.generate("the cat", **most(8))
    pieces = model.stream("the cat", **most(8))
    assert "".join(pieces) == whole.text

    def written():
        return (yield from model.stream("the cat", **most(8)))

    pieces = written()
    with pytest.raises(StopIteration) as end:
        while True:
            next(pieces)
    assert end.value.value.tokens == whole.tokens and end.value.value.prompt_tokens == 1
    model.forget()
    stream = model.stream("the cat", **most(8))
    assert model.tokens == []  # nothing has run yet
    assert next(stream) and len(model.tokens) >= 6
    stream.close()
    assert model.generate("the cat", **most(8)).text == whole.text
    # A model that begins something else gives up what is under way.
    stream = model.stream("the cat", **most(8))
    next(stream)
    model.generate("a", **most(2))
    with pytest.raises(evoq.Error, match="has begun something else") as error:
        next(stream)
    assert error.value.code == "usage"


def test_a_stream_keeps_its_model(folder):
    stream = evoq.LanguageModel(folder, threads=1).stream("the", **most(6))
    next(stream)
    gc.collect()
    assert "".join(stream)


def test_a_prompt_runs_only_what_is_new(model):
    first = model.generate([5, 6, 7, 8], **most(4))
    assert first.prompt_tokens == 4 and model.tokens == [5, 6, 7, 8, *first.tokens[:-1]]
    second = model.generate([5, 6, 7, 8, *first.tokens, 9], **most(2))
    assert second.prompt_tokens == 2
    model.forget()
    assert model.tokens == [] and model.generate([5, 6, 7, 8], **most(4)).tokens == first.tokens


def test_stops(model):
    whole = model.generate("the", **most(12))
    middle = whole.text[6]
    stopped = model.generate("the", **most(12), stop=[middle])
    assert stopped.ended == "stop" and stopped.text == whole.text[: whole.text.index(middle)]
    heard = []
    ended = model.generate("the", **most(12), on_text=lambda text: heard.append(text) or False)
    assert ended.ended == "cancelled" and ended.text == heard[0] and len(heard) == 1


def test_chats(model):
    answer = model.chat(MESSAGES, **most(5))
    told = [*MESSAGES, {"role": "assistant", "content": answer.text}]
    assert answer.tokens == model.generate("<s>user hi", add_special=False, **most(5)).tokens
    assert answer.tokens == model.generate(MESSAGES, **most(5)).tokens
    assert "".join(model.stream(MESSAGES, **most(5))) == answer.text
    assert model.chat_prompt(told) == f"<s>user hi<s>assistant {answer.text}"
    for wrong in ([{"role": object()}], [{"role": float("nan")}]):
        with pytest.raises(evoq.Error, match="a chat: "):
            model.chat(wrong)


def begun_by_s(folder):
    """The folder's tokenizer puts <s> before a text."""
    path = folder / "tokenizer.json"
    file = json.loads(path.read_text())
    parts = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    file["post_processor"] = {
        "type": "TemplateProcessing",
        "single": parts,
        "pair": parts,
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    }
    path.write_text(json.dumps(file))


def test_variables_of_a_template(tmp_path):
    folder = tmp_path / "llama"
    tiny_lms.write_with_tokenizer(str(folder))
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    config["chat_template"] = (
        "{{ mood }}{% for t in tools %}[{{ t.name }}]{% endfor %}"
        "{{ messages[0].content }}{% if add_generation_prompt %}!{% endif %}"
    )
    path.write_text(json.dumps(config))
    begun_by_s(folder)
    model = evoq.LanguageModel(folder, threads=1)
    tools = [{"name": "add"}]
    assert model.chat_prompt(MESSAGES, tools=tools, mood="ü") == "ü[add]hi!"
    plain = model.chat_prompt(MESSAGES, tools=tools, mood="", add_generation_prompt=False)
    assert plain == "[add]hi"
    both = model.chat_prompt(MESSAGES, tools=({"name": name} for name in ("add", "sub")), mood="")
    assert both == "[add][sub]hi!"
    # The template writes what begins a chat, the tokenizer what begins a text.
    assert model.encode("hi") == [1, *model.encode("hi", add_special=False)]
    chat = model.chat(MESSAGES, tools=tools, variables={"mood": "a"}, **most(3))
    count = len(model.encode("a[add]hi!", add_special=False))
    assert chat.prompt_tokens == count
    model.forget()
    assert chat.tokens == model.generate("a[add]hi!", add_special=False, **most(3)).tokens
    model.forget()
    assert model.generate("a[add]hi!", **most(3)).prompt_tokens == count + 1
    model.forget()
    told = [{"role": "user", "content": "a", "name": "b"}]
    assert model.generate(told, **most(1)).prompt_tokens == 1
    assert model.generate_many(["a", "a"], add_special=False)[1].prompt_tokens == 1


def test_beams_find_the_likeliest_text(folder):
    """With a beam for each token: not the text that begins with the likeliest token."""
    model = evoq.LanguageModel(folder, threads=1, sequences=48)
    single = evoq.LanguageModel(folder, threads=1)

    def logprobs(tokens):
        row = single.logits(tokens, last=1)[0].astype(np.float64)
        return row - np.log(np.exp(row).sum())

    others = 0
    for first in range(4, 12):
        prompt = [1, first]
        sums = logprobs(prompt)[:, None] + np.stack([logprobs([*prompt, a]) for a in range(48)])
        likeliest = [int(i) for i in np.unravel_index(sums.argmax(), sums.shape)]
        assert model.generate(prompt, beams=48, **most(2)).tokens == likeliest
        others += model.generate(prompt, **most(2)).tokens != likeliest
    assert others > 0
    # A power far below 0 makes short texts best, one far above long ones.
    for write in (model.generate, lambda *a, **o: returned(model.stream(*a, **o))):
        for penalty, length in ((-20, 0), (20, 3)):
            text = write("the", beams=48, max_tokens=3, length_penalty=penalty)
            assert len(text.tokens) == length
    with pytest.raises(evoq.Error, match="49 beams, expected 1 to the 48 sequences"):
        model.generate("the", beams=49)


def returned(pieces):
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            return end.value


def write_translator(folder):
    """A T5 of random weights: words "w5" to "w39", "</s>" behind each text, the languages __en__,
    which stands before it, __fr__ and __de__."""
    special = ["<pad>", "</s>", "__en__", "__fr__", "__de__"]
    config = {"model_type": "t5", "vocab_size": 40, "d_model": 16, "d_kv": 8, "d_ff": 24}
    config |= {"num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0}
    square, random = (16, 16), np.random.default_rng(1)
    shapes = {"shared": (40, 16)}
    for stack, parts in (("encoder", ["Self"]), ("decoder", ["Self", "EncDec"])):
        for i, part in enumerate(parts):
            at = f"{stack}.block.0.layer.{i}"
            shapes |= {f"{at}.{part}Attention.{name}": square for name in "qkvo"}
            shapes[f"{at}.layer_norm"] = (16,)
        at = f"{stack}.block.0.layer.{len(parts)}"
        shapes |= {f"{at}.DenseReluDense.wi": (24, 16), f"{at}.DenseReluDense.wo": (16, 24)}
        shapes |= {f"{at}.layer_norm": (16,), f"{stack}.final_layer_norm": (16,)}
        bias = "SelfAttention.relative_attention_bias"
        shapes[f"{stack}.block.0.layer.0.{bias}"] = (32, 2)
    tensors = {
        f"{name}.weight": random.uniform(-0.6, 0.6, shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    tiny_lms.write_folder(str(folder), config, tensors)
    put = [{"SpecialToken": {"id": piece, "type_id": 0}} for piece in ("__en__", "</s>")]
    around = [put[0], {"Sequence": {"id": "A", "type_id": 0}}, put[1]]
    flags = ("single_word", "lstrip", "rstrip", "normalized")
    added = [
        {"id": i, "content": piece, "special": True, **dict.fromkeys(flags, False)}
        for i, piece in enumerate(special)
    ]
    pieces = special + [f"w{i}" for i in range(5, 40)]
    file = {
        "added_tokens": added,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": around,
            "pair": around,
            "special_tokens": {
                p: {"id": p, "ids": [special.index(p)], "tokens": [p]} for p in ("__en__", "</s>")
            },
        },
        "model": {
            "type": "WordLevel",
            "vocab": {piece: i for i, piece in enumerate(pieces)},
            "unk_token": "w5",
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(file))


def test_texts_in_a_language(model, tmp_path):
    write_translator(tmp_path / "t5")
    translator = evoq.LanguageModel(tmp_path / "t5", threads=1)
    english = translator.generate([2, 5, 6, 1], **most(8)).tokens
    french = translator.generate([3, 5, 6, 1], **most(8)).tokens
    assert english != french and french[0] != 4
    for write in (translator.generate, lambda *a, **o: returned(translator.stream(*a, **o))):
        assert write("w5 w6", **most(8)).tokens == english
        assert write("w5 w6", source_language="fr", **most(8)).tokens == french
        both = {"source_language": "fr", "target_language": "de"}
        assert write("w5 w6", **both, **most(8)).tokens[0] == 4, "it begins with the language"
    for prompt, option, said in (
        ("w5", {"target_language": "xx"}, "knows no language 'xx'"),
        ("w5", {"source_language": "fr", "add_special": False}, "puts none at a text"),
        ([5], {"source_language": "fr"}, "in a language: expected str"),
    ):
        with pytest.raises(evoq.Error, match=said):
            translator.generate(prompt, **option)
    with pytest.raises(evoq.Error, match="models that read one text and write another"):
        model.generate("the", target_language="fr")


def test_many_are_those_of_each(folder, model):
    three = evoq.LanguageModel(folder, threads=1, sequences=2)
    prompts = ["the cat", [5, 6, 7], MESSAGES]
    heard = {}
    texts = three.generate_many(
        prompts,
        **most(7),
        on_text=lambda number, text: heard.__setitem__(number, heard.get(number, "") + text),
    )
    assert [t.tokens for t in texts] == [model.generate(p, **most(7)).tokens for p in prompts]
    assert [heard[i] for i in range(3)] == [text.text for text in texts]
    assert three.tokens == []
    ended = three.generate_many(prompts, **most(7), on_text=lambda number, text: number != 1)
    assert [text.ended for text in ended] == ["length", "cancelled", "length"]

    class Stop(Exception):
        pass

    def stop(number, text):
        raise Stop

    with pytest.raises(Stop):
        three.generate_many(prompts, on_text=stop)
    assert three.generate_many(prompts, **most(7))[0].tokens == texts[0].tokens
    with pytest.raises(evoq.Error, match="no option 'speed'"):
        three.generate_many(prompts, speed=1)


def test_many_draw_each_for_itself(folder, model):
    three = evoq.LanguageModel(folder, threads=1, sequences=2)
    same = ["the cat"] * 3

    def drawn(**seed):
        return [t.tokens for t in three.generate_many(same, **most(9), temperature=1.5, **seed)]

    alone = [
        model.generate("the cat", **most(9), temperature=1.5, seed=s).tokens for s in (7, 8, 9)
    ]
    assert drawn(seed=7) == alone
    texts = drawn() + drawn(seed=None) + drawn(seed=-1)
    assert len(set(map(tuple, texts))) == 9
    options = {**most(9), "temperature": 1.5, "seed": -1}
    assert len({tuple(model.generate("the cat", **options).tokens) for _ in range(6)}) > 2


def test_logits(folder, model):
    config, tensors = tiny_lms.config_of("llama"), None
    tensors = tiny_lms.tensors_of(config, 1)
    ids = [1, 5, 30, 9, 3, 22, 8]
    exact = tiny_lms.logits(config, tensors, ids)
    rows = model.logits(ids)
    assert rows.shape == (7, 48) and rows.dtype == np.float32
    assert np.abs(rows - exact).max() < 1e-4 * np.abs(exact).max()
    last = model.logits(ids, last=2)
    kept = last.copy()
    model.generate("the", **most(3))
    assert np.array_equal(last, kept) and np.abs(last - exact[-2:]).max() < 1e-3
    assert model.logits("the").shape == (2, 48)
    # A text of one's own sampling: each token runs once.
    tokens = list(ids)
    for _ in range(5):
        tokens.append(int(model.logits(tokens, last=1)[0].argmax()))
    assert tokens[7:] == model.generate(ids, **most(5)).tokens
    with pytest.raises(evoq.Error, match="the logits of 9 tokens, expected of 1 to 7"):
        model.logits(ids, last=9)


def test_caches_and_drafts(folder, model, tmp_path):
    text = model.generate("the cat", **most(9))
    model.save(tmp_path / "cache")
    drafting = evoq.LanguageModel(str(folder), threads=1, draft=folder, tokenizer=folder)
    assert drafting.cache_bytes == 2 * model.cache_bytes
    drafting.restore(tmp_path / "cache")
    again = drafting.generate("the cat", **most(9))
    assert again.prompt_tokens == 1 and again.tokens == text.tokens
    assert again.drafted > 0 and again.accepted <= again.drafted
    (tmp_path / "cache").write_bytes(b"no cache")
    with pytest.raises(evoq.Error, match="cache"):
        model.restore(tmp_path / "cache")


def test_what_is_refused(folder, model, tmp_path):
    for call, sentence in (
        (lambda: evoq.LanguageModel(tmp_path / "none"), "none"),
        (lambda: evoq.LanguageModel(folder, threads=1025), "1025 threads"),
        (lambda: evoq.LanguageModel(folder, kv_cache="int5"), "a cache of 'int5'"),
        (lambda: evoq.LanguageModel(3), "a model is int"),
        (lambda: model.generate("a", temperature=-1), "temperature"),
        (lambda: model.generate("a", max_tokens="many"), "max_tokens='many'"),
        (lambda: model.generate([48]), "token 48, expected 0 to 47"),
        (lambda: model.generate([5] * 65), "the context is full"),
        (lambda: model.generate([]), "a prompt of no tokens"),
        (lambda: model.generate(None), "None is no prompt"),
        (lambda: model.generate([0.5]), "no prompt"),
        (lambda: model.chat({"role": "user"}), "a chat"),
    ):
        with pytest.raises(evoq.Error, match=re.escape(sentence)):
            call()


def test_threads_wait_for_each_other(model):
    expected = {prompt: model.generate(prompt, **most(10)).tokens for prompt in ("the cat", "a")}
    found, begun, go_on = {}, threading.Event(), threading.Event()

    def hear(text):
        begun.set()
        go_on.wait()

    def write(prompt, on_text=None):
        found[prompt] = model.generate(prompt, **most(10), on_text=on_text).tokens

    first = threading.Thread(target=write, args=("the cat", hear))
    first.start()
    begun.wait()
    second = threading.Thread(target=write, args=("a",))
    second.start()
    second.join(0.2)
    waited = second.is_alive() and not found
    tokens = model.encode("the")  # waits for none
    go_on.set()
    first.join()
    second.join()
    assert waited and found == expected and tokens == [23, 36]


def test_the_gil_is_free_while_the_model_runs(tmp_path, request):
    folder = tmp_path / "llama"
    tiny_lms.write_with_tokenizer(str(folder), max_position_embeddings=30000)
    model = evoq.LanguageModel(folder, threads=1, context=3000)
    model.logits([5, 6])
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)  # who waits for the GIL gets it at once, where it can be had
    request.addfinalizer(lambda: sys.setswitchinterval(interval))
    for call in (
        lambda: model.logits([5] * 2000, last=1),
        lambda: model.generate([6] * 2000, **most(1)),
        lambda: model.generate_many([[7] * 2000], **most(1)),
    ):
        thread = threading.Thread(target=call)
        begun, here = time.monotonic(), set()  # milliseconds in which this thread ran
        thread.start()
        while thread.is_alive():
            here.add(int(1e3 * (time.monotonic() - begun)))
        thread.join()
        assert len(here) > 5, (len(here), max(here))  # with the GIL held: 1 or 2


@pytest.mark.parametrize(
    "call",
    [
        "model.generate('the', on_text=say, **forever)",
        "for text in model.stream('the', **forever): say(text)",
        "model.generate_many(['the', 'a'], on_text=lambda _, text: say(text), **forever)",
        "evoq.generate(folder, 'the', context=30000, progress=heard, **forever)",
    ],
)
def test_an_interrupt_stops_a_text(call, tmp_path):
    folder = tmp_path / "llama"
    tiny_lms.write_with_tokenizer(str(folder), max_position_embeddings=30000)
    program = (
        "import evoq, signal, sys\n"
        # A shell starts what runs in the background with Ctrl-C ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"folder = {str(folder)!r}\n"
        "forever = dict(max_tokens=29000, ignore_end=True)\n"
        "model = evoq.LanguageModel(folder, threads=1, context=30000)\n"
        "said = False\n"
        "def say(text):\n"
        "    global said\n"
        "    if not said: print('begun', flush=True)\n"
        "    said = True\n"
        "def heard(stage, done): done and say('')\n"
        f"try: {call}\n"
        "except KeyboardInterrupt:\n"
        "    model.generate('a', max_tokens=2)\n"
        "    sys.exit(42)\n"
    )
    program = program.replace("try: for", "try:\n  for")
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(evoq.__file__))}
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 42


def test_the_pages_snippet(folder, monkeypatch, capsys):
    """docs/generate.md's lines for Python, on a small model."""
    page = open(os.path.join(ROOT, "docs/generate.md"), encoding="utf-8").read()
    [snippet] = [part.split("```")[0] for part in page.split("```python\n")[1:]]
    made = evoq.LanguageModel
    monkeypatch.setattr(evoq, "LanguageModel", lambda path, **options: made(folder, **options))
    monkeypatch.setattr(made, "generate", _short(made.generate))
    monkeypatch.setattr(made, "stream", _short(made.stream))
    exec(snippet, {})
    assert capsys.readouterr().out.strip()


def _short(write):
    return lambda *arguments, **options: write(*arguments, **{**options, "max_tokens": 3})
