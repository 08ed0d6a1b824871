#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a sample model: safetensors shards with their index, a config and a
tokenizer, filled with bytes that do not compress.

    make_model.py DIR [MIB [SHARDS]]
"""
import json
import os
import random
import struct
import sys


def layer_tensors(layer, hidden):
    """Names and shapes of one decoder layer."""
    base = f"model.layers.{layer}."
    return [
        (base + "input_layernorm.weight", [hidden]),
        (base + "self_attn.q_proj.weight", [hidden, hidden]),
        (base + "self_attn.k_proj.weight", [hidden // 4, hidden]),
        (base + "self_attn.v_proj.weight", [hidden // 4, hidden]),
        (base + "self_attn.o_proj.weight", [hidden, hidden]),
        (base + "mlp.gate_proj.weight", [2 * hidden, hidden]),
        (base + "mlp.up_proj.weight", [2 * hidden, hidden]),
        (base + "mlp.down_proj.weight", [hidden, 2 * hidden]),
    ]


def tensor_bytes(shape):
    n = 2  # BF16
    for d in shape:
        n *= d
    return n


def write_shard(path, tensors, noise):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors:
        n = tensor_bytes(shape)
        header[name] = {"dtype": "BF16", "shape": shape,
                        "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        left, turn = at, 0
        while left:
            # Different in every place, cheap to make.
            cut = (turn * 4099 + len(path) * 31) % len(noise)
            piece = (struct.pack("<Q", turn) + noise[cut:] + noise[:cut])[:left]
            f.write(piece)
            left -= len(piece)
            turn += 1
    return at


def main():
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    out = sys.argv[1]
    mib = int(sys.argv[2]) if len(sys.argv) > 2 else 256
    shards = int(sys.argv[3]) if len(sys.argv) > 3 else 4
    hidden = 1024
    per_layer = sum(tensor_bytes(s) for _, s in layer_tensors(0, hidden))
    layers = max(shards, (mib << 20) // per_layer)
    rng = random.Random(20240607)
    noise = rng.randbytes(1 << 20)
    os.makedirs(out)
    weight_map, total = {}, 0
    for k in range(shards):
        name = f"model-{k + 1:05d}-of-{shards:05d}.safetensors"
        tensors = []
        for layer in range(layers * k // shards, layers * (k + 1) // shards):
            tensors += layer_tensors(layer, hidden)
        if k == 0:
            tensors.insert(0, ("model.embed_tokens.weight", [1000, hidden]))
        total += write_shard(os.path.join(out, name), tensors, noise)
        weight_map.update({t: name for t, _ in tensors})
    with open(os.path.join(out, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {"total_size": total},
                   "weight_map": weight_map}, f, indent=1)
    with open(os.path.join(out, "config.json"), "w") as f:
        json.dump({"hidden_size": hidden, "num_hidden_layers": layers,
                   "torch_dtype": "bfloat16"}, f, indent=1)
    with open(os.path.join(out, "tokenizer.json"), "w") as f:
        json.dump({"model": {"vocab": {f"t{i}": i for i in range(1000)}}}, f)
    open(os.path.join(out, "special_tokens_map.json"), "w").close()


main()
