"""llama.cpp's own HTTP server, in process (package xllamacpp): MODEL PORT. One thread, four slots of 2,048 tokens."""

import sys
import time

from xllamacpp import CommonParams, Server

params = CommonParams()
params.model.path = sys.argv[1]
params.model_alias = {"smollm2"}
params.hostnames = ["127.0.0.1"]
params.port = int(sys.argv[2])
params.n_parallel = 4
params.n_ctx = 8192
params.endpoint_metrics = True
params.endpoint_slots = True
# One thread: with more, barriers between threads spin against whatever else runs on a small machine.
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
server = Server(params)
while True:
    time.sleep(1)
