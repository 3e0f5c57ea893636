"""Runs the real LoadGen once: drive.py OUTDIR < CASE.json. One process a run, for LoadGen keeps its state.

The system under test answers at once, after a little while that the case draws.
"""
import array
import json
import random
import sys
import time

import mlperf_loadgen as lg

case = json.load(sys.stdin)
settings = lg.TestSettings()
for name, value in case["settings"].items():
    kinds = {"scenario": lg.TestScenario, "mode": lg.TestMode}
    setattr(settings, name, getattr(kinds[name], value) if name in kinds else value)
tokens = settings.use_token_latencies
draws = random.Random(case["seed"])


def wait():
    until = time.perf_counter() + draws.random() * case["wait_us"] / 1e6
    while time.perf_counter() < until:
        pass


def answers(samples, few):
    kept, out = [], []
    for sample in samples:
        count = case["tok_base"] + sample.index % case["tok_mod"]
        data = array.array("i", [1000 + sample.index + k for k in range(1 if few else count)])
        kept.append(data)
        at, length = data.buffer_info()
        size = length * data.itemsize
        full = tokens and not few
        out.append(lg.QuerySampleResponse(sample.id, at, size, *([count] if full else [])))
    return kept, out


def issue(samples):
    wait()
    if tokens and settings.scenario != lg.TestScenario.Offline:
        kept, out = answers(samples, True)
        lg.FirstTokenComplete(out)
        wait()
    for sample in samples:
        kept, out = answers([sample], False)
        lg.QuerySamplesComplete(out)


log = lg.LogSettings()
output = lg.LogOutputSettings()
output.outdir = sys.argv[1]
output.copy_summary_to_stdout = False
log.log_output = output
log.enable_trace = True
sut = lg.ConstructSUT(issue, lambda: None)
qsl = lg.ConstructQSL(case["qsl_total"], case["qsl_perf"], lambda _: None, lambda _: None)
lg.StartTestWithLogSettings(sut, qsl, settings, log, "/nonexistent-audit.config")
lg.DestroyQSL(qsl)
lg.DestroySUT(sut)
