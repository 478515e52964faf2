"""A model of evoq as a Ray Serve deployment: replicas over a cluster, each with its own copy of the
model, requests that wait together run together.

    pip install evoq 'ray[serve]'
    EVOQ_MODEL=/shared/mobilenetv2.etm serve run --working-dir examples/ray serve_model:app
    curl localhost:8000/ -d '{"inputs": {"input": [[...]]}}'

A request holds one sample of each input, without the batch axis; so does the answer of each output.
"""

import os

import numpy as np
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

import evoq


@serve.deployment(
    ray_actor_options={"num_cpus": 1},
    # One more replica for each two requests that wait in the mean of one, up to eight.
    autoscaling_config={"min_replicas": 1, "max_replicas": 8, "target_ongoing_requests": 2},
    max_ongoing_requests=64,
)
class Model:
    def __init__(self, path: str) -> None:
        self.model = evoq.load(path, threads=1)

    @serve.batch(max_batch_size=8, batch_wait_timeout_s=0.002)
    async def run(self, samples: list[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
        batch = {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}
        outputs = self.model.run(batch)
        return [{name: array[i] for name, array in outputs.items()} for i in range(len(samples))]

    async def __call__(self, request: Request) -> JSONResponse:
        try:
            given = (await request.json())["inputs"]
            sample = {
                value.name: np.asarray(given[value.name], dtype=value.dtype)
                for value in self.model.inputs
            }
            for value in self.model.inputs:
                sizes = [size for size in value.shape[1:] if isinstance(size, int)]
                if len(sizes) == len(value.shape) - 1 and list(sample[value.name].shape) != sizes:
                    raise ValueError(
                        f"{value.name}: {list(sample[value.name].shape)}, expected {sizes}"
                    )
        except (KeyError, TypeError, ValueError) as error:
            return JSONResponse({"error": f"inputs: {error}"}, status_code=400)
        outputs = await self.run(sample)
        return JSONResponse({"outputs": {name: a.tolist() for name, a in outputs.items()}})


app = Model.bind(os.environ.get("EVOQ_MODEL", "model.etm"))
