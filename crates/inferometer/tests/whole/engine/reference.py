"""Perplexity of a llama model in GGUF worked out by numpy: MODEL, and token ids as JSON on stdin.

Prints the mean of -ln p over all tokens but the first. Nothing of llama.cpp is in it: the weights are read from the
file and multiplied in float32. What ggml rounds on its way (activations to eight bits where they meet quantised
weights, keys and values to float16) is rounded here, too; without that the result differs by 0.3 %.
"""

import json
import math
import struct
import sys

import numpy as np

data = memoryview(open(sys.argv[1], "rb").read())
at = 8  # after the magic and the version
SCALARS = dict(enumerate("BbHhIifB", 0)) | {10: "Q", 11: "q", 12: "d"}


def take(kind):
    global at
    (value,) = struct.unpack_from("<" + kind, data, at)
    at += struct.calcsize("<" + kind)
    return value


def string():
    global at
    length = take("Q")
    at += length
    return bytes(data[at - length : at]).decode()


def value(kind):
    if kind == 8:
        return string()
    if kind == 9:
        inner, count = take("I"), take("Q")
        return [value(inner) for _ in range(count)]
    return take(SCALARS[kind])


tensors, pairs = take("Q"), take("Q")
meta = {}
for _ in range(pairs):
    name = string()
    meta[name] = value(take("I"))
infos = {}
for _ in range(tensors):
    name = string()
    shape = [take("Q") for _ in range(take("I"))]
    infos[name] = (shape, take("I"), take("Q"))
align = meta.get("general.alignment", 32)
start = (at + align - 1) // align * align


def tensor(name):
    shape, kind, offset = infos[name]
    count = math.prod(shape)
    begin = start + offset
    if kind == 0:
        flat = np.frombuffer(data, "<f4", count, begin)
    elif kind == 3:  # Q4_1: scale, minimum, 32 values of four bits
        block = np.frombuffer(data, np.dtype([("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)]), count // 32, begin)
        q = np.concatenate([block["q"] & 15, block["q"] >> 4], axis=1).astype(np.float32)
        flat = q * block["d"].astype(np.float32)[:, None] + block["m"].astype(np.float32)[:, None]
    elif kind == 8:  # Q8_0: scale, 32 values of eight bits
        block = np.frombuffer(data, np.dtype([("d", "<f2"), ("q", "i1", 32)]), count // 32, begin)
        flat = block["q"].astype(np.float32) * block["d"].astype(np.float32)[:, None]
    else:
        sys.exit(f"{name}: type {kind} is not read here")
    return flat.reshape(shape[::-1])


def norm(x, name):
    mean = np.mean(x * x, axis=-1, keepdims=True)
    return x / np.sqrt(mean + meta["llama.attention.layer_norm_rms_epsilon"]) * tensor(name)


def eight(x):
    """As ggml rounds what meets quantised weights: blocks of 32, eight bits."""
    block = x.reshape(-1, 32)
    scale = np.abs(block).max(axis=-1, keepdims=True) / 127
    q = np.rint(block / np.where(scale == 0, 1, scale))
    return (q * scale.astype(np.float16).astype(np.float32)).reshape(x.shape)


def times(x, name):
    return eight(x) @ tensor(name).T


def half(x):
    return x.astype(np.float16).astype(np.float32)


heads, kv_heads = meta["llama.attention.head_count"], meta["llama.attention.head_count_kv"]
ids = json.load(sys.stdin)
embedding = tensor("token_embd.weight")
x = embedding[ids]
n, width = x.shape[0], x.shape[1] // heads
angle = np.arange(n)[:, None] * meta["llama.rope.freq_base"] ** (-np.arange(0, width, 2) / width)
cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]


def turned(x):
    even, odd = x[..., ::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)


future = np.triu(np.full((n, n), -np.inf), 1)
for layer in range(meta["llama.block_count"]):
    part = f"blk.{layer}."
    h = norm(x, part + "attn_norm.weight")
    q = turned(times(h, part + "attn_q.weight").reshape(n, heads, width))
    k = turned(times(h, part + "attn_k.weight").reshape(n, kv_heads, width))
    v = times(h, part + "attn_v.weight").reshape(n, kv_heads, width)
    k, v = (np.repeat(half(each), heads // kv_heads, axis=1) for each in (k, v))
    weight = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(width) + future
    weight = np.exp(weight - weight.max(axis=-1, keepdims=True))
    weight /= weight.sum(axis=-1, keepdims=True)
    mixed = np.einsum("hqk,khd->qhd", weight, v).reshape(n, -1)
    x = x + times(mixed, part + "attn_output.weight")
    h = norm(x, part + "ffn_norm.weight")
    gate = times(h, part + "ffn_gate.weight")
    up = times(h, part + "ffn_up.weight")
    x = x + times(gate / (1 + np.exp(-gate)) * up, part + "ffn_down.weight")
output = tensor("output.weight") if "output.weight" in infos else embedding
logits = (eight(norm(x, "output_norm.weight")) @ output.T).astype(np.float64)
top = logits.max(axis=-1)
logprobs = logits - (top + np.log(np.exp(logits - top[:, None]).sum(axis=-1)))[:, None]
print(-np.mean(logprobs[np.arange(n - 1), ids[1:]]))
