#!/usr/bin/env python3
"""Folders of adapters between evoq and PEFT, on a real language model (stories260K of the data
folder): what `evoq train --lora` writes gives PEFT the perplexity that evoq measures, and what PEFT
writes gives evoq the one that PEFT has; so does the base alone. Skips (77) without numpy, torch,
transformers, peft and the data folder."""

import math
import pathlib
import sys
import tempfile

import agree

agree.need("numpy", "torch", "transformers", "peft")
agree.need_data()
import numpy as np
import peft
import torch
import train_lora_test as lora
import transformers

BOUND = 1e-4  # of the perplexity


def beside(model, tokens):
    """The perplexity in windows, as `evoq eval --text` has them."""
    count = (len(tokens) - 1) // lora.WINDOW
    total = 0.0
    with torch.no_grad():
        for i in range(count):
            at = i * lora.WINDOW
            part = torch.from_numpy(tokens[at : at + lora.WINDOW + 1]).long()
            scores = model(input_ids=part[None, :-1]).logits[0].double()
            total += torch.nn.functional.cross_entropy(scores, part[1:], reduction="sum").item()
    return math.exp(total / (count * lora.WINDOW))


def loaded(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder / "hf", dtype=torch.float32)


def close(ours, theirs, what):
    assert abs(ours - theirs) < BOUND * theirs, f"{what}: evoq {ours}, PEFT {theirs}"
    return abs(ours - theirs) / theirs


def main():
    text = lora.TEXT.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="evoq_peft_") as name:
        folder = pathlib.Path(name)
        (folder / "train.txt").write_text(text[: lora.CHARACTERS], encoding="utf-8")
        (folder / "held.txt").write_text(text[60000:66000], encoding="utf-8")
        lora.write_folder(folder / "hf")
        base = lora.perplexity(folder, folder / "hf", "--tokens", folder / "held.npy")
        tokens = np.load(folder / "held.npy").reshape(-1)
        worst = close(base, beside(loaded(folder), tokens), "the base")

        # Ours, read by PEFT.
        command = [*lora.COMMAND[2:], "--data", folder / "train.txt", "--lora", lora.LORA]
        agree.evoq("train", folder / "hf", *command, "-o", folder / "adapter")
        ours = lora.perplexity(folder, folder / "adapter")
        model = peft.PeftModel.from_pretrained(loaded(folder), folder / "adapter").eval()
        worst = max(worst, close(ours, beside(model, tokens), "adapters of evoq"))
        assert ours < 0.95 * base, (base, ours)

        # PEFT's, read by us: B is drawn at random, so that the adapters change what comes out.
        torch.manual_seed(3)
        config = peft.LoraConfig(
            r=6,
            lora_alpha=9,
            target_modules=["k_proj", "o_proj", "gate_proj", "down_proj"],
            init_lora_weights=False,
            task_type="CAUSAL_LM",
            base_model_name_or_path=str(folder / "hf"),
        )
        model = peft.get_peft_model(loaded(folder), config).eval()
        model.save_pretrained(folder / "theirs")
        theirs = beside(model, tokens)
        assert abs(theirs - base) > 0.05 * base, (base, theirs)
        worst = max(worst, close(lora.perplexity(folder, folder / "theirs"), theirs, "PEFT's"))
    print(
        f"peft {peft.__version__}: perplexity {base:.2f}, with adapters of evoq {ours:.2f}, of "
        f"PEFT {theirs:.2f}; apart by {worst:.1e}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
