#!/usr/bin/env python3
"""Writes tests/golden/speech.json: the settings of a tiny Whisper, its tensors' sizes, and what
transformers computes and writes with weights of tests/random_weights.py for a sound that is made
here: features, logits, the language, greedy texts and texts of beams. Needs torch and transformers
from PyPI; those that wrote the file were 2.15 and 5.24.

    tests/golden/speech.py
"""

import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
from language_models import plain, rounded
from transformers import GenerationConfig, WhisperConfig, WhisperFeatureExtractor
from transformers import WhisperForConditionalGeneration as Whisper

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import random_weights
import speech_goldens_test as ours

FILE = HERE / "speech.json"
CONFIG = {
    **{"vocab_size": ours.VOCABULARY, "num_mel_bins": ours.BINS, "d_model": 32},
    **{"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4},
    **{"decoder_attention_heads": 4, "encoder_ffn_dim": 40, "decoder_ffn_dim": 48},
    **{"max_source_positions": 50, "max_target_positions": 40, "pad_token_id": ours.END},
    **{"bos_token_id": ours.END, "eos_token_id": ours.END, "decoder_start_token_id": ours.START},
}
GENERATION = {
    **{"decoder_start_token_id": ours.START, "eos_token_id": ours.END, "pad_token_id": ours.END},
    **{"suppress_tokens": [3, 17], "begin_suppress_tokens": [5, ours.END]},
    **{"no_repeat_ngram_size": 2},
}


def filled(model):
    sizes, seen = {}, set()
    with torch.no_grad():
        for name, x in model.state_dict().items():
            if not x.is_floating_point() or x.data_ptr() in seen:
                continue
            seen.add(x.data_ptr())
            around = float(x.flatten()[0].round()) if x.ndim == 1 else 0.0
            sizes[name] = [list(x.shape), around]
            x.copy_(torch.tensor(ours.weight(name, tuple(x.shape), around)))
    return sizes


def main():
    torch.set_num_threads(1)
    config = WhisperConfig(**CONFIG)
    model = Whisper._from_config(config, attn_implementation="eager").eval().float()
    tensors = filled(model)
    model.generation_config = GenerationConfig(**GENERATION)
    extractor = WhisperFeatureExtractor(feature_size=ours.BINS, chunk_length=1)
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        written = json.loads((pathlib.Path(folder) / "config.json").read_text())
    out = {"config": plain(written), "generation": GENERATION, "tensors": tensors}
    out |= {"features": [], "logits": [], "languages": [], "greedy": [], "beams": []}
    ids = random_weights.tokens("ids", 8, 3, ours.VOCABULARY)
    for samples in ours.SOUNDS:
        sound = ours.sound(samples).astype(np.float32) / 32768
        features = extractor(sound, sampling_rate=16000, return_tensors="np").input_features[0]
        out["features"].append(rounded(features.T[:: ours.EVERY_FRAME].astype(np.float64)))
        heard = torch.tensor(features[None])
        with torch.no_grad():
            logits = model(input_features=heard, decoder_input_ids=torch.tensor(ids[None])).logits
            first = model(
                input_features=heard, decoder_input_ids=torch.tensor([[ours.START]])
            ).logits[0, 0]
        out["logits"].append(rounded(logits[0, ::3].double().numpy()))
        language = max(ours.LANGUAGES, key=lambda i: float(first[i]))
        out["languages"].append(language)
        begin = [ours.START, language, ours.TRANSCRIBE, ours.PLAIN]
        for kind, beams in (("greedy", 1), ("beams", 3)):
            out[kind].append(written_by(model, heard, begin, beams))
        print(language, out["greedy"][-1], out["beams"][-1])
    FILE.write_text(json.dumps(out) + "\n")


def written_by(model, heard, begin, beams):
    """By the rules of any model that writes, without those of Whisper's own generate."""
    from transformers import GenerationMixin

    with torch.no_grad():
        ids = GenerationMixin.generate(
            model,
            heard,
            decoder_input_ids=torch.tensor([begin]),
            max_new_tokens=ours.MOST,
            do_sample=False,
            num_beams=beams,
        )[0].tolist()[len(begin) :]
    return ids[: ids.index(ours.END)] if ours.END in ids else ids


if __name__ == "__main__":
    main()
